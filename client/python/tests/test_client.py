"""The verbs, on a service."""

import os
import threading
import time
import unittest
from datetime import datetime, timedelta, timezone

import stint
from stint import Dependency, Return, Task

from .services import ServiceTest


class VerbsTest(ServiceTest):
    def test_a_task_comes_back_as_it_was_inserted(self):
        at = datetime(2126, 1, 2, 3, 4, 5, 6, timezone(timedelta(hours=1)))
        self.client.insert([
            self.task("a", b"\x00\xff", priority=-7, max_tries=3, post_result=True, key="k"),
            self.task("b", "ä\n", deadline=at, on_abort="run-anyway", max_tries=-1,
                      after=[self.name("a")]),
            self.task("c", b"", not_before=at)])
        a, b, c = self.client.get([self.name(short) for short in "abc"])
        self.assertEqual((a.body, a.priority, a.max_tries, a.post_result, a.state, a.key),
                         (b"\x00\xff", -7, 3, True, "ready", "k"))
        self.assertEqual((b.body, b.deadline, b.on_abort, b.max_tries, b.state),
                         ("ä\n".encode(), at, "run-anyway", -1, "blocked"))
        self.assertEqual((c.body, c.not_before, c.state, c.status_code),
                         (b"", at, "scheduled", "pending"))
        self.assertEqual(b.key, "")
        self.assertEqual([info.id for info in self.client.list([self.action], key="k")], [a.id])
        self.assertEqual(a.inserted_at.tzinfo, timezone.utc)
        self.assertIsNone(a.finished_at)
        self.assertIsNone(a.result)

    def test_bodies_say_which_tasks_to_list(self):
        self.client.insert([self.task("a", body='{"n": 7}'), self.task("b", body="n 7")])
        listed = self.client.list([self.action], body="$.n == 7")
        self.assertEqual([info.id for info in listed], [self.name("a")])
        with self.assertRaises(stint.InvalidArgument):
            list(self.client.list(body="n == 7"))

    def test_statuses_say_which_tasks_to_list(self):
        self.insert("a", "b")
        self.client.set_status(self.own(1)[0], "100% \ud800 Gone")
        for part in ("\ud800 gone", "0% ", "GONE"):
            listed = self.client.list([self.action], status=part)
            self.assertEqual([info.id for info in listed], [self.name("a")])
        with self.assertRaises(stint.InvalidArgument):
            list(self.client.list(status="x" * 513))

    def test_headers_come_to_the_owner_and_say_which_tasks_to_list(self):
        headers = {"traceparent": "00-1", "tenant-id": "ä"}
        self.client.insert([self.task("a", headers=headers), self.task("b")])
        self.assertEqual([self.info("a").headers, self.info("b").headers], [headers, {}])
        listed = self.client.list([self.action], headers={"tenant-id": "ä"})
        self.assertEqual([(info.id, info.headers) for info in listed],
                         [(self.name("a"), headers)])
        owned = self.own(2)
        self.assertEqual([task.headers for task in owned], [headers, {}])
        self.assertEqual([task.inserted_at for task in owned],
                         [self.info("a").inserted_at, self.info("b").inserted_at])
        with self.assertRaises(stint.InvalidArgument):
            self.client.insert(self.task("c", headers={"Tenant": "a"}))

    def test_no_text_for_people_keeps_a_task_from_being_told_of_or_returned(self):
        self.insert("a", "b", "c")
        whatever = "\ud800 a\0 \udc00" + "x" * (1 << 17)
        for code, name in (("completed", "a"), ("aborted", "b"), ("pending", "c")):
            [task] = self.own()
            self.client.set_status(task, whatever)
            self.assertTrue(self.info(name).status.startswith("\ufffd a\ufffd \ufffdxxx"))
            given = Return.of(task, code, status=whatever, log=whatever,
                              retry_after=3600 if code == "pending" else None)
            self.assertEqual(self.client.return_tasks(given), [None])
            self.assertTrue(self.info(name).status.startswith("\ufffd a"))
        self.assertEqual(self.client.abort(self.name("c"), "\ud800").tasks, (self.name("c"),))

    def test_a_task_is_owned_extended_and_returned(self):
        self.client.insert([self.task("a", "in", post_result=True),
                            self.task("b", after=[self.name("a")])])
        [task] = self.own()
        self.assertEqual((task.id, task.body, task.action, task.try_, task.max_tries),
                         (self.name("a"), b"in", self.action, 1, 25))
        self.assertGreater(task.lease_until, datetime.now(timezone.utc) + timedelta(minutes=30))
        self.client.set_status(task, "half", 0.5)
        info = self.info("a")
        self.assertEqual((info.state, info.actor, info.status, info.progress),
                         ("in-progress", "actor", "half", 0.5))
        self.assertEqual(self.client.extend("actor", [task], 7200), [True])
        given = Return.of(task, result=b"\xff", status="done")
        self.assertEqual(self.client.return_tasks(given), [None])
        [again] = self.client.return_tasks([given])
        self.assertIsInstance(again, stint.AlreadyReturned)
        self.assertEqual(again.ids, [task.id])
        self.assertEqual(self.client.extend("actor", [task]), [False])
        [done] = self.client.wait(task.id)
        self.assertEqual((done.status_code, done.result, done.status),
                         ("completed", b"\xff", "done"))
        [second] = self.own()
        self.assertEqual(second.completed, 1)
        [input] = self.client.inputs(second)
        self.assertEqual((input.id, input.status_code, input.result),
                         (task.id, "completed", b"\xff"))

    def test_a_task_waits_after_it_was_returned_to_be_tried_again(self):
        self.insert("a")
        [task] = self.own()
        self.client.return_tasks(Return.of(task, "pending", retry_after=timedelta(hours=1)))
        info = self.info("a")
        self.assertEqual((info.state, info.tries), ("scheduled", 1))
        self.assertGreater(info.not_before, info.inserted_at + timedelta(minutes=59))

    def test_external_tasks_are_answered(self):
        ask, then = self.name("ask"), self.name("then")
        self.client.insert([
            stint.Task(action="stint.External", id=ask),
            stint.Task(action="stint.External", id=then, after=[ask])])
        verdicts = self.client.answer("ann", [
            stint.Answer(then), stint.Answer(ask, "completed", "fine", result=b"yes"),
            stint.Answer(self.name("none"))])
        self.assertEqual([type(verdict) for verdict in verdicts],
                         [stint.TaskBlocked, type(None), stint.TaskNotFound])
        info = self.info("ask")
        self.assertEqual((info.state, info.actor, info.status, info.result),
                         ("completed", "ann", "fine", b"yes"))
        self.assertIsInstance(self.client.answer("ann", stint.Answer(ask))[0], stint.TaskFinished)

    def test_a_wait_of_no_time_looks_once(self):
        self.insert("a", post_result=True)
        brief = (0, 0.0, timedelta(0), 1e-9, timedelta(microseconds=1), 0.001)
        for timeout in brief:
            with self.assertRaises(TimeoutError):
                self.client.wait(self.name("a"), timeout=timeout)
        [task] = self.own(wait=0)
        for wait in brief:
            self.assertEqual(self.client.own("actor", [self.action], wait=wait), [])
        self.client.return_tasks(Return.of(task))
        for timeout in (*brief, None, 3600, float("inf")):
            [done] = self.client.wait(self.name("a"), timeout=timeout)
            self.assertEqual(done.state, "completed")
        for bad in (-1e-9, -1, timedelta(microseconds=-1), float("nan"), "soon", -float("inf")):
            with self.assertRaises(stint.InvalidArgument):
                self.client.wait(self.name("a"), timeout=bad)
            with self.assertRaises(stint.InvalidArgument):
                self.client.own("actor", [self.action], wait=bad)

    def test_schedules_are_put_changed_and_deleted(self):
        names = [self.name("nightly"), self.name("ticks")]
        nightly = stint.Schedule(
            names[0], "0 3 * * *", zone="Europe/Berlin", catch_up="all",
            window=timedelta(hours=1), overlap="wait", jitter=timedelta(minutes=1), expire=True,
            tasks=[self.task("a"), self.task("b", after=[self.name("a")])])
        ticks = stint.Schedule(names[1], "every 90s", [stint.Task("tick", body=b"b")])
        self.client.put_schedules([nightly, ticks])
        self.client.ensure_schedules(stint.Schedule(names[1], "@daily", ticks.tasks))
        self.client.pause_schedules(names)
        self.client.resume_schedules(names[0])
        first, second = self.client.list_schedules(names)
        self.assertEqual(
            (first.schedule.spec, first.schedule.zone, first.schedule.overlap,
             first.schedule.window, len(first.schedule.tasks), first.paused_since),
            ("0 3 * * *", "Europe/Berlin", "wait", timedelta(hours=1), 2, None))
        self.assertEqual((second.schedule.spec, second.schedule.tasks[0].body), ("every 90s", b"b"))
        self.assertIsNotNone(second.paused_since)
        self.client.put_schedules([found.schedule for found in (first, second)])
        triggered = self.client.trigger_schedule(names[1])
        self.assertEqual(self.client.get(triggered)[0].action, "tick")
        self.client.put_schedules(stint.Schedule(names[1], "@daily", [stint.Task("tick", id="me")]))
        triggered = self.client.trigger_schedule(names[1])
        self.assertEqual(self.client.get(triggered + "/me")[0].action, "tick")
        self.client.delete_schedules(names)
        self.assertEqual(self.client.list_schedules(names), [])
        with self.assertRaises(stint.ScheduleNotFound) as caught:
            self.client.delete_schedules(names)
        self.assertEqual(caught.exception.schedules, sorted(names))

    def test_an_answer_key_is_asked_for(self):
        key = "0123456789abcdef"
        task = stint.Task(action="stint.External", id=self.name("keyed"), answer_key=key)
        self.client.insert(task)
        self.assertNotIn(key, repr(task))
        for wrong, verdict in (("", stint.InvalidAnswerKey), (key + "x", stint.InvalidAnswerKey),
                               (key, type(None))):
            [got] = self.client.answer("ann", stint.Answer(task.id, key=wrong))
            self.assertIs(type(got), verdict)

    def test_a_change_is_noted_with_its_author_and_reason(self):
        self.client.insert([self.task("a"), self.task("b")])
        with stint.Client(self.server, author="Änn", reason="sent\ntwice") as noting:
            noting.abort(self.name("a"))
        self.client.abort(self.name("b"))
        changes = [self.client._connection.call(
            "TaskService/ListChanges", {"id": self.name(short)}).get("changes", [])
            for short in "ab"]
        self.assertEqual([[(c["by"], c["reason"]) for c in of] for of in changes],
                         [[("Änn", "sent\ntwice")], []])

    def test_tasks_are_aborted_retried_and_deleted(self):
        self.client.insert([self.task("a"), self.task("b", after=[self.name("a")])])
        a = self.name("a")
        for _ in range(2):
            self.assertEqual(self.client.abort(a, dry_run=True), stint.Affected((a,), 1))
            self.assertEqual(self.client.delete(a, dry_run=True), stint.Affected((a,), 1))
            self.assertEqual(self.client.retry(a, dry_run=True), stint.Affected())
        self.own()
        self.assertEqual(self.client.abort(a, "why"), stint.Affected((a,), 1, in_progress=1))
        self.assertEqual((self.info("b").state, self.info("a").status), ("aborted", "why"))
        self.assertEqual(self.client.explain(self.name("b")).because_of[0].id, a)
        self.assertEqual(self.client.retry([a]), stint.Affected((a,), 1))
        self.assertEqual(self.client.delete([a]), stint.Affected((a,), 1))
        with self.assertRaises(stint.TaskNotFound) as caught:
            self.client.get([a, self.name("b")])
        self.assertEqual((caught.exception.ids, caught.exception.total), ([a, self.name("b")], 2))

    def test_tasks_that_wait_are_changed(self):
        at = datetime(2099, 12, 24, 18, tzinfo=timezone.utc)
        self.client.insert([self.task("a", not_before=at), self.task("b", after=[self.name("a")])])
        a, b = self.name("a"), self.name("b")
        later = at + timedelta(days=1)
        self.assertEqual(self.client.change(a, not_before=later, dry_run=True),
                         stint.Affected((a,)))
        for changed in ((a, b), ()):
            self.assertEqual(self.client.change([a, b], not_before=later, priority=5, key="k",
                                                max_tries=-1), stint.Affected(changed))
        info = self.info("a")
        self.assertEqual((info.not_before, info.priority, info.key, info.max_tries, info.state),
                         (later, 5, "k", -1, "scheduled"))
        self.client.change(a, start_after=3600, priority=0, key="", max_tries=3)
        info = self.info("a")
        self.assertEqual((info.priority, info.key, info.max_tries), (0, "", 3))
        self.client.change(a, start_now=True)
        self.own()
        with self.assertRaises(stint.TaskStarted) as caught:
            self.client.change([a, b], start_now=True)
        self.assertEqual(caught.exception.ids, [a])
        with self.assertRaises(stint.InvalidArgument):
            self.client.change(b)

    def test_tasks_are_replaced_and_made_to_wait(self):
        self.insert("a", "b")
        self.client.replace(self.task("a", "new"))
        self.client.add_dependencies([Dependency(self.name("a"), self.name("b"))])
        self.assertEqual((self.info("a").body, self.info("b").state), (b"new", "blocked"))
        graph = self.client.graph(self.name("b"))
        self.assertEqual(graph.dependencies, [Dependency(self.name("a"), self.name("b"))])
        self.assertEqual((len(graph.tasks), graph.cut), (2, False))
        with self.assertRaises(stint.Cycle) as caught:
            self.client.add_dependencies([Dependency(self.name("b"), self.name("a"))])
        self.assertEqual(len(caught.exception.path), 3)

    def test_a_task_starts_as_its_conditions_say_or_is_skipped(self):
        a, b = self.name("a"), self.name("b")
        heads = stint.Condition(a, results=["heads", b"\xff"])
        failed = stint.Condition(a, "aborted")
        self.client.insert([
            self.task("a"), self.task("b", when=heads), self.task("c", when=[failed]),
            self.task("d", after=[self.name("c")]),
            self.task("e", when_any=[stint.Condition(b, ["completed", "aborted"]),
                                     stint.Condition(self.name("c"))])])
        conditions = {(each.condition.after, each.dependent): each
                      for each in self.client.graph(a).conditions}
        self.assertEqual(conditions[a, b], stint.EdgeCondition(
            b, stint.Condition(a, ["completed"], [b"heads", b"\xff"])))
        self.assertEqual(conditions[b, self.name("e")].any, True)
        self.assertEqual(len(conditions), 4)
        self.assertEqual([self.client.explain(self.name(short)).any_of for short in "be"],
                         [False, True])
        [task] = self.own()
        self.client.return_tasks(Return.of(task, result=b"\xff"))
        self.assertEqual([self.info(short).state for short in "abcde"],
                         ["completed", "ready", "skipped", "skipped", "blocked"])
        self.assertEqual(self.info("d").status_code, "skipped")
        [stats] = [s for s in self.client.stats().actions if s.action == self.action]
        self.assertEqual((stats.skipped, stats.aborted), (2, 0))
        listed = self.client.list(actions=[self.action], states="skipped")
        self.assertEqual({info.id for info in listed}, {self.name("c"), self.name("d")})
        with self.assertRaises(stint.InvalidArgument):
            self.client.insert(self.task("f", when=stint.Condition(a, "ready")))

    def test_schedules_keep_conditions(self):
        name = self.name("coin")
        self.client.put_schedules(stint.Schedule(name, "@daily", [
            self.task("a", headers={"of": "a"}),
            self.task("b", when_any=[stint.Condition(self.name("a"), "aborted")]),
            self.task("c", when=[stint.Condition(self.name("a"), results="heads")])]))
        [found] = self.client.list_schedules(name)
        a, b, c = found.schedule.tasks
        self.assertEqual((a.headers, b.when_any, c.when), (
            {"of": "a"}, [stint.Condition(self.name("a"), ["aborted"], [])],
            [stint.Condition(self.name("a"), [], [b"heads"])]))
        self.client.delete_schedules(name)

    def test_the_task_of_the_last_call_stands_for_those_before(self):
        for body in ("1", "2"):
            self.client.debounce(self.task("a", body), quiet=3600, at_most=7200)
        self.assertEqual((self.info("a").body, self.info("a").state), (b"2", "scheduled"))
        with self.assertRaises(stint.InvalidArgument):
            self.client.debounce(self.task("a"), quiet=2, at_most=1)

    def test_what_is_there_is_left_out(self):
        self.insert("a")
        done = self.client.ensure([
            self.task("a", "other"), self.task("b", after=[self.name("a")]), self.task("b")])
        self.assertEqual(done, stint.Ensured(
            [self.name("a"), self.name("b"), self.name("b")], [self.name("a"), self.name("b")]))
        self.assertEqual((self.info("a").body, self.info("b").state), (None, "blocked"))
        [random] = self.client.ensure(Task(self.action)).ids
        self.assertEqual(self.client.get(random)[0].state, "ready")
        with self.assertRaises(stint.TaskNotFound):
            self.client.ensure([self.task("c"), self.task("d", after=["none"])])
        with self.assertRaises(stint.TaskNotFound):
            self.info("c")

    def test_a_transaction_does_all_or_nothing(self):
        self.insert("a", "c")
        task, other = self.own(2)
        done = self.client.transact(
            hold=[task], must_exist=other.id, insert=self.task("b"), abort=[other.id],
            abort_status="why", returns=[Return.of(task)])
        self.assertEqual(done, stint.Transacted(
            [self.name("b")], aborted=stint.Affected((other.id,), 0, in_progress=1)))
        self.assertEqual([self.info(short).state for short in "abc"],
                         ["completed", "ready", "aborted"])
        again = stint.Debounced(self.task("e"), quiet=3600, at_most=7200)
        with self.assertRaises(stint.InvalidToken):
            self.client.transact(
                insert=self.task("d"), returns=[Return.of(other)], debounce=[again])
        for short in "de":
            with self.assertRaises(stint.TaskNotFound):
                self.info(short)
        self.client.transact(debounce=[again])
        self.assertEqual(self.info("e").state, "scheduled")

    def test_a_list_has_all_pages(self):
        self.insert(*(f"{n:04}" for n in range(1001)))
        listed = list(self.client.list(actions=[self.action], states="ready"))
        self.assertEqual(len({info.id for info in listed}), 1001)
        self.assertEqual(len(list(self.client.list(id_prefix=self.action, limit=7))), 7)
        self.assertEqual(list(self.client.list(actions=[self.action], states=["aborted"])), [])

    def test_what_is_asked_about_all_tasks_has_this_one(self):
        self.insert("a")
        self.own()
        [stats] = [s for s in self.client.stats().actions if s.action == self.action]
        self.assertEqual((stats.in_progress, stats.blocked, stats.ready), (1, 0, 0))
        self.assertIn(self.name("a"), [info.id for info in self.client.problems(10000).slow])
        self.assertIsInstance(self.client.actors(), list)
        self.assertIsInstance(self.client.minutes(), list)
        self.assertEqual(self.client.minutes(self.action + " of nobody"), [])

    def test_actions_are_limited_and_paused(self):
        action = self.action
        limits = stint.Limits(
            concurrency=40, concurrency_per_key=2, rate=stint.Rate(5, timedelta(minutes=1), 3),
            fair=True, fair_group=action + "-group")
        self.client.set_limits(action, limits)
        self.client.pause([action])
        self.client.pause_keys(action, ["a", "b"])
        self.client.set_weights(action, {"a": 3, "c": 1})
        [got] = self.client.list_limits([action])
        self.assertEqual((got.action, got.limits), (action, limits))
        self.assertEqual((sorted(got.paused_keys), got.weights), (["a", "b"], {"a": 3}))
        self.assertIsNotNone(got.paused_since)
        self.client.resume([action])
        self.client.resume_keys(action, ["a", "b"])
        self.client.set_weights(action, {"a": 1})
        self.client.set_limits(action)
        self.assertEqual(self.client.list_limits([action]), [])
        with self.assertRaises(stint.InvalidArgument):
            self.client.set_limits(action, stint.Limits(concurrency=-1))
        limits = stint.Limits(
            concurrency_per_key=1, ordered=True, rate=stint.Rate(5, timedelta(minutes=1), 3),
            by_cost=True)
        self.client.set_limits(action, limits)
        [got] = self.client.list_limits([action])
        self.assertEqual(got.limits, limits)

    def test_a_task_says_which_limits_hold_it_up(self):
        self.insert("a", key="k")
        self.insert("b", key="k")
        self.assertIsNone(self.client.explain(self.name("b")).limits)
        limits = stint.Limits(concurrency=5, concurrency_per_key=1)
        self.client.set_limits(self.action, limits)
        [owned] = self.client.own("actor", [self.action], max_tasks=2)
        self.client.pause([self.action])
        why = self.client.explain(self.name("b")).limits
        self.assertEqual((why.limits, why.in_progress, why.key_in_progress), (limits, 1, 1))
        self.assertEqual([info.id for info in why.owned], [owned.id])
        self.assertEqual([info.id for info in why.key_owned], [owned.id])
        self.assertEqual((why.key_waiting, why.waits_for_turn), (1, False))
        self.assertIsNotNone(why.paused_since)
        [stats] = [s for s in self.client.stats().actions if s.action == self.action]
        self.assertEqual((stats.parked, stats.limited, stats.concurrency, stats.paused),
                         (1, True, 5, True))
        self.client.resume([self.action])
        self.client.set_limits(self.action)

    def test_waiting_ends_when_its_time_is_over(self):
        self.insert("a", post_result=True)
        with self.assertRaises(TimeoutError):
            self.client.wait([self.name("a")], timeout=0.1)
        self.assertEqual(self.client.own("actor", ["none"], wait=0.1), [])

    def test_waiting_ends_when_the_task_does(self):
        self.insert("a", post_result=True)
        waiter = threading.Thread(target=lambda: waited.append(self.client.wait(self.name("a"))))
        waited = []
        waiter.start()
        [task] = self.own()
        self.client.return_tasks(Return.of(task, result="out"))
        waiter.join()
        self.assertEqual(waited[0][0].result, b"out")

    def test_errors_name_what_is_wrong(self):
        self.insert("a")
        with self.assertRaises(stint.TaskExists) as caught:
            self.insert("a", "b")
        error = caught.exception
        self.assertEqual((error.ids, error.total, error.code),
                         ([self.name("a")], 1, "already_exists"))
        with self.assertRaises(stint.InvalidArgument) as caught:
            self.client.insert([self.task("b"), Task("")])
        self.assertEqual((caught.exception.argument, caught.exception.index), ("Task.Action", 1))
        with self.assertRaises(stint.NoPostResult):
            self.client.wait(self.name("a"))
        with self.assertRaises(stint.InvalidArgument):
            self.client.insert(self.task("b", "\ud800"))
        with self.assertRaises(stint.InvalidArgument):
            self.client.insert(self.task("b", 7))

    def test_ends_are_told_from_a_cursor_on(self):
        begin = next(self.client.ends(after="now")).next
        self.insert("a", "b")
        self.client.abort(self.name("a"), "off")
        pages = list(self.client.ends(after=begin, timeout=0))
        told = [task for page in pages for task in page.tasks if task.id == self.name("a")]
        self.assertEqual([(task.state, task.status) for task in told], [("aborted", "off")])
        again = list(self.client.ends(after=pages[-1].next, timeout=0))
        self.assertNotIn(self.name("a"), [task.id for page in again for task in page.tasks])
        with self.assertRaises(stint.InvalidArgument):
            next(self.client.ends(after="x"))

    def test_a_call_that_is_too_large_is_refused_at_once(self):
        began = time.monotonic()
        with self.assertRaises(stint.TooLarge):
            self.client.insert([self.task("a", bytes(50 << 20))])
        with self.assertRaises(stint.TooLarge) as caught:
            self.client.insert(self.task("a", "x" * (64 << 20 | 1)))
        self.assertEqual(caught.exception.argument, "Task.Body bytes")
        self.assertLess(time.monotonic() - began, 60)

    def test_nothing_is_handed_out_under_a_claim_that_is_released(self):
        self.client.release_claim("actor", 12345)


class ProcessTest(ServiceTest):
    def test_threads_share_a_client(self):
        def work(number):
            ids = self.client.insert([self.task(f"{number}/{n}") for n in range(10)])
            self.assertEqual(len(self.client.get(ids)), 10)
            done.append(number)

        done = []
        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(done), list(range(16)))

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_a_client_is_used_on_both_sides_of_a_fork(self):
        def own_identity():
            sock = self.client._connection._local.held.connection.sock
            return self.client._session(), sock.getsockname()

        self.insert("a", "b")
        [before] = self.own()
        parent = own_identity()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                [task] = self.own()
                good = self.client.return_tasks(Return.of(task)) == [None]
                different = [a != b for a, b in zip(own_identity(), parent)]
                code = 0 if good and all(different) else 1
            finally:
                os._exit(code)
        self.assertEqual(self.client.return_tasks(Return.of(before)), [None])  # at the same time
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(own_identity(), parent)
        self.assertEqual({self.info("a").state, self.info("b").state}, {"completed"})
        self.assertEqual(self.client.own("actor", [self.action]), [])
