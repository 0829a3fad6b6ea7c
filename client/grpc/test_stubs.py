"""Tests of calls by gRPC: STINT_SERVER is host:port, STINT_DESCRIPTORS names a file."""

import os
import queue
import random
import unittest

import grpc
from stubs import Stint

PATIENCE = 120


class GRPCTest(unittest.TestCase):
    def setUp(self):
        channel = grpc.insecure_channel(os.environ["STINT_SERVER"])
        self.addCleanup(channel.close)
        with open(os.environ["STINT_DESCRIPTORS"], "rb") as file:
            self.stint = Stint(channel, file.read())
        self.action = self.id().rpartition(".")[2]

    def insert(self, *ids):
        stint = self.stint
        return stint.InsertTasks(stint.InsertTasksRequest(tasks=[
            stint.Task(id=id, action=self.action, body=b"\x00\xff", post_result=True)
            for id in ids]), timeout=PATIENCE)

    def own(self, actor, session, wait=0):
        request = self.stint.OwnTasksRequest(
            actor=actor, session=session, claim=random.getrandbits(64) | 1, max_tasks=10,
            actions=[self.action])
        request.lease.seconds = 3600
        request.wait.seconds = wait
        return self.stint.OwnTasks(request, timeout=PATIENCE).tasks

    def test_a_task_is_inserted_owned_and_returned(self):
        stint = self.stint
        self.assertEqual(self.insert("a").ids, ["a"])
        [task] = self.own("actor", 7)
        self.assertEqual((task.id, task.body, getattr(task, "try")), ("a", b"\x00\xff", 1))
        given = stint.Return(id="a", token=task.token, code="completed", result=b"\xff")
        request = stint.ReturnTasksRequest(returns=[given])
        [verdict] = stint.ReturnTasks(request, timeout=PATIENCE).verdicts
        self.assertFalse(verdict.HasField("error"), verdict)
        [verdict] = stint.ReturnTasks(request, timeout=PATIENCE).verdicts
        self.assertEqual(verdict.error.kind, "already-returned")
        done = stint.WaitForTasks(stint.WaitForTasksRequest(ids=["a"]), timeout=PATIENCE)
        self.assertEqual((done.finished, done.tasks[0].result), (True, b"\xff"))

    def test_errors_have_details_in_the_trailer(self):
        ids = [f"many/{n:03}/{'ä' * 100}" for n in range(200)]
        self.insert(*ids)
        with self.assertRaises(grpc.RpcError) as caught:
            self.insert(*ids)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.ALREADY_EXISTS)
        detail = self.stint.detail(caught.exception)
        self.assertEqual((detail.kind, detail.total), ("task-exists", 200))
        self.assertLessEqual(set(detail.ids), set(ids))
        self.assertTrue(detail.ids)

    def test_a_stream_tells_losses_and_its_end_hands_tasks_on(self):
        stint = self.stint
        self.insert("b", "c")
        requests = queue.SimpleQueue()
        hello = stint.AttendRequest(hello=stint.AttendHello(
            actor="streaming", session=11, epoch=1, actions=[self.action]))
        requests.put(hello)
        stream = stint.Attend(iter(requests.get, None))
        self.assertTrue(next(stream).welcome)
        tokens = {task.id: task.token for task in self.own("streaming", 11)}
        self.assertEqual(set(tokens), {"b", "c"})
        requests.put(stint.AttendRequest(held=[
            stint.Performance(id=id, token=token) for id, token in tokens.items()]))
        actors = stint.ListActors(stint.ListActorsRequest(), timeout=PATIENCE).actors
        self.assertIn("streaming", [actor.actor for actor in actors])
        stint.AbortTasks(stint.AbortTasksRequest(ids=["b"]), timeout=PATIENCE)
        self.assertEqual(next(stream).lost, [tokens["b"]])
        stream.cancel()
        requests.put(None)
        [task] = self.own("other", 12, wait=25)  # the lease lasts for an hour
        self.assertEqual((task.id, getattr(task, "try")), ("c", 2))


if __name__ == "__main__":
    unittest.main()
