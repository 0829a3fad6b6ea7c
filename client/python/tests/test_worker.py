"""Workers, in this process and as processes of their own that are killed."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import urllib.error
import urllib.request
from datetime import timedelta
from unittest import mock

import stint
from stint import Worker

from .services import PATIENCE, Proxy, ServiceTest


class WorkerTest(ServiceTest):
    def run_worker(self, worker):
        """Runs a worker in a thread until the end of the test, at the latest."""
        failures = []

        def run():
            try:
                worker.run()
            except Exception as error:
                failures.append(error)

        thread = threading.Thread(target=run)
        thread.start()

        def end():
            worker.stop()
            thread.join(PATIENCE)
            self.assertFalse(thread.is_alive())
            return failures

        self.addCleanup(end)
        return end

    def worker(self, handler, **options):
        options.setdefault("grace", 5)
        worker = Worker(self.client, **options)
        worker.handles(self.action)(handler)
        return worker

    def state(self, short):
        return self.info(short).state

    def test_outcomes_of_handlers_become_those_of_tasks(self):
        def handle(task):
            return {
                b"none": lambda: None, b"bytes": lambda: b"\xff", b"text": lambda: "ä",
                b"abort": lambda: raised(stint.Abort("why")),
                b"retry": lambda: raised(stint.Retry("later", after=3600)),
                b"fail": lambda: raised(KeyError("what")), b"wrong": lambda: 7,
            }[task.body]()

        def raised(error):
            raise error

        bodies = ["none", "bytes", "text", "abort", "retry", "fail", "wrong"]
        self.client.insert([self.task(body, body, post_result=True) for body in bodies])
        self.run_worker(self.worker(handle))
        done = self.client.wait([self.name(body) for body in bodies[:4]], timeout=PATIENCE)
        self.assertEqual([(info.state, info.result) for info in done], [
            ("completed", None), ("completed", b"\xff"), ("completed", "ä".encode()),
            ("aborted", None)])
        self.assertEqual(done[3].status, "why")
        retried = self.eventually(
            lambda: self.info("retry") if self.state("retry") == "scheduled" else None)
        self.assertEqual((retried.status, retried.tries), ("later", 1))
        self.assertGreater((retried.not_before - retried.inserted_at).total_seconds(), 3500)
        failed = self.eventually(lambda: self.info("fail") if self.info("fail").status else None)
        self.assertIn("KeyError: 'what'", failed.status)
        self.assertIn("in handle", failed.status)
        self.eventually(lambda: "TypeError" in self.info("wrong").status)

    def test_metrics_are_those_that_alerts_ask_for(self):
        def handle(task):
            if task.body != b"completed":
                raise {b"aborted": stint.Abort("no"), b"retried": stint.Retry("no", after=3600),
                       b"snoozed": stint.Snooze(3600)}[task.body]

        bodies = ["completed", "aborted", "retried", "snoozed"]
        self.client.insert([self.task(body, body) for body in bodies])
        self.client.insert([self.task("last", "retried", max_tries=1)])
        worker = self.worker(handle, metrics=0)
        end = self.run_worker(worker)
        port = self.eventually(lambda: worker._metrics and worker._metrics.port)

        def get(path="/metrics", **headers):
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            try:
                with opener.open(request, timeout=PATIENCE) as response:
                    return response.status, response.read().decode()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, ""

        def counted():
            text = get()[1]
            wanted = {"completed": 1, "aborted": 2, "retried": 1, "snoozed": 1, "stopped": 0,
                      "lost": 0}
            return all(
                f'stint_worker_performances_total{{action="{self.action}",outcome="{outcome}"}} {n}'
                in text for outcome, n in wanted.items()) and text

        text = self.eventually(counted)
        self.assertIn(f'stint_worker_running{{action="{self.action}"}} 0', text)
        self.assertIn(f'stint_worker_duration_seconds_count{{action="{self.action}"}} 5', text)
        documents = os.path.join(os.path.dirname(__file__), "../../../docs/operations")
        for document in ("alerts.yml", "grafana.json"):
            with open(os.path.join(documents, document), encoding="utf-8") as file:
                for name in re.findall(r"stint_worker_[a-z_]+", file.read()):
                    self.assertIn(name, text)
        self.assertEqual(get("/")[0], 404)
        self.assertEqual(get(Host="evil.example")[0], 403)
        self.assertEqual(end(), [])
        with self.assertRaises(OSError):
            get()

    def test_metrics_need_an_address(self):
        for wrong in (-1, 65536, "", ":", ":80", "host", "host:x", True):
            with self.assertRaises(stint.InvalidArgument, msg=wrong):
                Worker(self.client, metrics=wrong)

    def test_failures_of_an_action_are_counted_behind_the_first(self):
        def handle(task):
            raise stint_error

        stint_error = ValueError("what")
        names = [f"f{n}" for n in range(20)]
        self.client.insert([self.task(name, max_tries=1, post_result=True) for name in names])
        with self.assertLogs("stint", "WARNING") as logs:
            end = self.run_worker(self.worker(handle))
            self.client.wait([self.name(name) for name in names], timeout=PATIENCE)
            self.assertEqual(end(), [])
        self.assertEqual(len(logs.output), 2, logs.output)
        self.assertIn("ValueError: what", logs.output[0])
        self.assertIn("(19 failures like this one", logs.output[1])

    def test_a_large_error_is_logged_and_stored_by_its_end(self):
        def handle(task):
            raise ValueError("what" + "x" * (20 << 20))

        self.client.insert(self.task("a", max_tries=1, post_result=True))
        with self.assertLogs("stint", "WARNING") as logs:
            end = self.run_worker(self.worker(handle))
            [ended] = self.client.wait(self.name("a"), timeout=PATIENCE)
            self.assertEqual(end(), [])
        self.assertLess(len(logs.output[0]), 1 << 17)
        self.assertLess(len(ended.status), 1 << 17)

    def test_an_exception_as_a_status_is_its_text(self):
        def handle(task):
            error = ValueError(task.id)
            raise stint.Abort(error) if task.body == b"abort" else stint.Retry(error, after=3600)

        self.client.insert([self.task(body, body) for body in ("abort", "retry")])
        self.run_worker(self.worker(handle))
        for short, state in (("abort", "aborted"), ("retry", "scheduled")):
            self.eventually(lambda: self.state(short) not in ("ready", "in-progress"))
            info = self.info(short)
            self.assertEqual((info.state, info.status), (state, self.name(short)))

    def test_a_task_that_failed_is_tried_again(self):
        def handle(task):
            if task.try_ == 1:
                raise RuntimeError("the first")
            return str(task.try_)

        self.insert("a", post_result=True)
        self.run_worker(self.worker(handle))
        [done] = self.client.wait(self.name("a"), timeout=PATIENCE)
        self.assertEqual((done.result, done.tries), (b"2", 2))

    def test_a_handler_says_what_a_try_has_cost(self):
        def handle(task):
            if task.try_ == 1:
                task.spent = 10
                raise stint.Retry("again", after=0)
            task.spent = 80

        rate = stint.Rate(100, timedelta(hours=1), 100)
        self.client.set_limits(self.action, stint.Limits(rate=rate, by_cost=True))
        self.insert("a", cost=30, post_result=True)
        self.run_worker(self.worker(handle))
        self.client.wait(self.name("a"), timeout=PATIENCE)
        self.eventually(
            lambda: abs(self.client.list_limits([self.action])[0].tokens - 10) < 2)
        self.assertEqual(self.info("a").cost, 30)

    def test_a_fence_rises_from_owner_to_owner(self):
        fences = []

        def handle(task):
            fences.append(task.fence())
            if task.try_ < 3:
                raise stint.Retry("again", after=0)

        self.insert("a", post_result=True)
        [first] = self.own()
        fences.append(self.client.fence(first))
        self.client.return_tasks(
            [stint.Return(first.id, first.token, "pending", release=True)])
        self.run_worker(self.worker(handle))
        self.client.wait(self.name("a"), timeout=PATIENCE)
        self.assertEqual(len(fences), 4)
        self.assertEqual(fences, sorted(set(fences)))
        with self.assertRaises(stint.InvalidToken) as raised:
            self.client.fence(first)
        self.assertEqual(list(raised.exception.ids), [first.id])

    def test_a_handler_sets_the_status_and_reads_inputs(self):
        def handle(task):
            task.set_status("half", 0.5)
            inputs = [i.result for i in task.inputs()]
            return b",".join(inputs) or self.info("a").status

        self.client.insert([self.task("a"), self.task("b", post_result=True,
                                                      after=[self.name("a")])])
        self.run_worker(self.worker(handle))
        self.assertEqual(self.client.wait(self.name("b"), timeout=PATIENCE)[0].result, b"half")

    def test_no_later_try_takes_a_recorded_step_again(self):
        calls = []

        def handle(task):
            def call(name):
                calls.append(name)
                if calls.count(name) == 1:
                    raise stint.Retry("the first time", after=0)
                return {"by": name}

            with self.assertRaises(stint.InvalidArgument):
                task.step("constant", lambda: 1)
                task.step("constant", lambda: 1)
            return "".join(task.step(name, lambda: call(name))["by"] for name in "abc")

        self.insert("a", post_result=True)
        self.run_worker(self.worker(handle))
        [done] = self.client.wait(self.name("a"), timeout=PATIENCE)
        self.assertEqual((done.result, calls), (b"abc", list("aabbcc")))

    def test_a_task_sleeps_without_a_worker(self):
        slept = []

        def handle(task):
            with self.assertRaises(stint.InvalidArgument):
                task.sleep("never", 0)
            try:
                task.sleep("nap", 0.05)
            except stint.Snooze as snooze:
                slept.append(snooze.after)
                raise
            return str(task.try_)

        self.insert("a", post_result=True)
        self.run_worker(self.worker(handle))
        [done] = self.client.wait(self.name("a"), timeout=PATIENCE)
        self.assertEqual(done.result, b"1")
        self.assertGreaterEqual(len(slept), 1)

    def test_a_step_that_cannot_be_recorded_is_not_taken(self):
        calls = []

        def handle(task):
            for name in ("", "x" * 256, "a\0b", "\ud800"):
                for take in (lambda n: task.step(n, lambda: calls.append(n)),
                             lambda n: task.sleep(n, 1)):
                    with self.assertRaises(stint.InvalidArgument):
                        take(name)

        self.insert("a", post_result=True)
        self.run_worker(self.worker(handle))
        self.client.wait(self.name("a"), timeout=PATIENCE)
        self.assertEqual(calls, [])

    def test_a_value_that_cannot_be_recorded_aborts_the_task(self):
        calls = []

        def handle(task):
            def call():
                calls.append(task.id)
                return "x" * (1 << 20) if task.id == self.name("a") else object()
            task.step("large", call)

        self.insert("a", "b", post_result=True)
        self.run_worker(self.worker(handle))
        for name in "ab":
            [done] = self.client.wait(self.name(name), timeout=PATIENCE)
            self.assertEqual((done.state, calls.count(done.id)), ("aborted", 1))
            self.assertIn("the value of the step 'large' cannot be recorded", done.status)

    def test_a_step_is_recorded_after_a_service_that_is_away(self):
        class Away(stint.Client):
            refused = 2

            def record_step(self, *args):
                if self.refused > 0:
                    self.refused -= 1
                    raise stint.Unavailable("away")
                return super().record_step(*args)

        calls = []
        self.client = Away(self.server)
        self.addCleanup(self.client.close)
        self.insert("a", post_result=True)
        self.run_worker(self.worker(lambda task: task.step("one", lambda: calls.append(1))))
        [done] = self.client.wait(self.name("a"), timeout=PATIENCE)
        self.assertEqual((done.state, done.tries, calls), ("completed", 1, [1]))

    def test_pauses_and_costs_beyond_what_is_stored_are_the_nearest_ones(self):
        def handle(task):
            if task.id == self.name("early"):
                if not tried.get(task.id):
                    tried[task.id] = True
                    raise stint.Snooze(timedelta(seconds=-1))
                self.assertEqual(task.try_, 1)
            if task.id == self.name("late"):
                raise stint.Retry("much later", after=1e12)
            task.spent = spent.get(task.id)
            task.logger.info("%d items", "x")  # a slip

        tried = {}
        spent = {self.name("negative"): -1, self.name("half"): 12.5, self.name("much"): 1e12}
        names = ["early", "negative", "half", "much"]
        self.insert(*names, "late", post_result=True)
        with mock.patch("logging.raiseExceptions", False):
            self.run_worker(self.worker(handle))
            done = self.client.wait([self.name(name) for name in names], timeout=PATIENCE)
        self.assertEqual([(info.state, info.tries) for info in done], [("completed", 1)] * 4)
        self.eventually(lambda: self.state("late") == "scheduled")

    def test_a_result_that_is_too_large_aborts_the_task(self):
        class Small(stint.Client):
            def return_tasks(self, returns):
                if returns[0].result:
                    raise stint.TooLarge("the result")
                return super().return_tasks(returns)

        self.client = Small(self.server)
        self.addCleanup(self.client.close)
        self.insert("a", post_result=True)
        self.run_worker(self.worker(lambda _: "large"))
        [done] = self.client.wait(self.name("a"), timeout=PATIENCE)
        self.assertEqual((done.state, done.tries), ("aborted", 1))
        self.assertIn("could not be returned", done.status)

    def test_a_step_and_a_sleep_are_told_apart(self):
        def handle(task):
            step = lambda name: task.step(name, lambda: 7)
            sleep = lambda name: task.sleep(name, 0.001)
            takes = (step, sleep) if task.try_ == 1 else (sleep, step)
            for take, name in zip(takes, ("one", "two")):
                if task.try_ == 1:
                    try:
                        take(name)
                    except stint.Snooze:
                        raise stint.Retry(after=0)
                else:
                    with self.assertRaisesRegex(stint.InvalidArgument, f"{name}.* is recorded as"):
                        take(name)

        self.insert("a", post_result=True)
        self.run_worker(self.worker(handle))
        [done] = self.client.wait(self.name("a"), timeout=PATIENCE)
        self.assertEqual((done.state, done.tries), ("completed", 2))

    def test_the_history_tells_of_each_try_with_its_log(self):
        def handle(task):
            task.logger.info("try %d", task.try_)
            task.logger.debug("not kept")
            task.step("one", lambda: 1)
            if task.try_ == 1:
                raise stint.Retry("the first time", after=0)

        self.insert("a", post_result=True)
        self.run_worker(self.worker(handle))
        self.client.wait([self.name("a")], timeout=PATIENCE)
        history = self.client.history(self.name("a"))
        self.assertEqual([(each.number, each.outcome, each.status) for each in history.tries],
                         [(1, "returned", "the first time"), (2, "completed", "")])
        for each in history.tries:
            self.assertRegex(each.log, rf"^[-0-9:, ]+ INFO try {each.number}\n$")
            self.assertLessEqual(each.owned_at, each.ended_at)
        self.assertEqual([(each.name, each.bytes) for each in history.steps], [("one", 1)])
        self.assertEqual(self.client.explain(self.name("a")).steps, history.steps)

    def test_so_many_tasks_are_performed_at_once(self):
        together = threading.Barrier(3)
        self.insert(*"abcdef", post_result=True)
        self.run_worker(self.worker(lambda _: str(together.wait(PATIENCE)), concurrency=3))
        self.client.wait([self.name(short) for short in "abcdef"], timeout=PATIENCE)

    def test_leases_are_extended_for_as_long_as_a_handler_works(self):
        until = []

        def handle(task):
            first, noted = self.info("a").lease_until, task._until
            self.eventually(lambda: self.info("a").lease_until > first)
            self.eventually(lambda: task._until > noted)
            until.append(task.lost.is_set())

        self.insert("a", post_result=True)
        self.run_worker(self.worker(handle, lease=10))
        [done] = self.client.wait(self.name("a"), timeout=PATIENCE)
        self.assertEqual((done.state, done.tries, until), ("completed", 1, [False]))

    def test_a_task_that_is_aborted_is_lost_and_not_returned(self):
        began, lost = threading.Event(), threading.Event()

        def handle(task):
            began.set()
            if task.lost.wait(PATIENCE):
                lost.set()
            return "too late"

        proxy = Proxy(self.server)
        self.addCleanup(proxy.close)
        self.client = stint.Client(proxy.url)
        self.addCleanup(self.client.close)
        self.insert("a")
        end = self.run_worker(self.worker(handle, lease=10))
        self.assertTrue(began.wait(PATIENCE))
        self.client.abort(self.name("a"), "not needed")
        self.assertTrue(lost.wait(PATIENCE))
        self.assertEqual(end(), [])
        self.assertEqual(self.info("a").status, "not needed")
        self.assertNotIn("ReturnTasks", proxy.calls)

    def test_a_task_is_lost_when_its_lease_expires_unheard(self):
        began, lost = threading.Event(), threading.Event()

        def handle(task):
            began.set()
            if task.lost.wait(PATIENCE):
                lost.set()

        proxy = Proxy(self.server)
        self.addCleanup(proxy.close)
        self.client = stint.Client(proxy.url)
        self.addCleanup(self.client.close)
        self.insert("a")
        end = self.run_worker(self.worker(handle, lease=1))
        self.assertTrue(began.wait(PATIENCE))
        proxy.lose_requests = 1 << 30
        self.assertTrue(lost.wait(PATIENCE))
        proxy.lose_requests = 0
        self.assertEqual(end(), [])
        self.assertNotEqual(self.state("a"), "completed")  # the handler has given up

    def test_a_service_that_is_away_is_asked_again(self):
        proxy = Proxy(self.server)
        self.addCleanup(proxy.close)
        self.client = stint.Client(proxy.url)
        self.addCleanup(self.client.close)
        self.insert("a", post_result=True)
        proxy.lose_requests = 3
        proxy.lose_answers = 3
        self.run_worker(self.worker(lambda _: "done"))
        [done] = self.client.wait(self.name("a"), timeout=PATIENCE)
        self.assertEqual((done.result, done.tries), (b"done", 1))

    def test_a_task_that_a_call_without_an_answer_has_returned_is_not_lost(self):
        class Losing(stint.Client):
            calls = 0

            def return_tasks(self, *args, **other):
                self.calls += 1
                verdicts = super().return_tasks(*args, **other)
                if self.calls == 1:
                    raise stint.Unavailable("for longer than a call is repeated")
                return verdicts

        performed = []
        self.client = Losing(self.server)
        self.addCleanup(self.client.close)
        self.insert("a")
        with self.assertLogs("stint") as logs:
            end = self.run_worker(self.worker(performed.append, grace=PATIENCE))
            self.eventually(lambda: self.client.calls == 2)
            self.assertEqual(end(), [])
        self.assertEqual([line for line in logs.output if "was not returned" in line], [])
        self.assertFalse(performed[0].lost.is_set())
        self.assertEqual(self.state("a"), "completed")

    def test_run_raises_what_no_repetition_mends(self):
        worker = Worker(self.client, actor="x" * 1000)
        worker.handles(self.action)(print)
        with self.assertRaises(stint.InvalidArgument):
            worker.run()
        with self.assertRaises(stint.InvalidArgument):
            Worker(self.client).run()  # without handlers
        with self.assertRaises(stint.InvalidArgument):
            worker.run()  # twice

    def test_a_result_that_the_store_refuses_is_a_failure(self):
        results = bytes(65 << 20), "x" * ((64 << 20) + 1)  # by the service, and by the store
        self.insert("a", "b")
        self.run_worker(self.worker(lambda task: results[task.id == self.name("b")]))
        for short in "ab":
            self.eventually(lambda: "could not be returned" in self.info(short).status)


@unittest.skipUnless(os.name == "posix", "signals are those of POSIX")
class ProcessTest(ServiceTest):
    def start(self, lease, grace):
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        program = subprocess.Popen(
            [sys.executable, "-m", "tests.program", self.server, self.action, str(lease),
             str(grace)], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(program.__exit__, None, None, None)
        self.addCleanup(program.kill)
        self.says(program, "runs")
        return program

    def says(self, program, *lines):
        for line in lines:
            self.assertEqual(program.stdout.readline(), line + "\n")

    def test_tasks_of_a_worker_that_is_killed_are_handed_on(self):
        self.client.insert(self.task("a", "for ever"))
        program = self.start(lease=1, grace=1)
        self.says(program, f"began {self.name('a')}")
        program.kill()
        [task] = self.client.own("other", self.action, wait=PATIENCE)
        self.assertEqual(task.id, self.name("a"))
        self.assertGreaterEqual(task.try_, 2)  # more if the lease expired before

    def test_a_worker_that_is_told_to_stop_finishes_what_it_does(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=number):
                name = number.name
                self.client.insert(self.task(name, "until told", post_result=True))
                program = self.start(lease=3600, grace=3600)
                self.says(program, f"began {self.name(name)}")
                program.send_signal(number)
                self.says(program, "stopping")
                self.insert(name + "-next")  # which it does not take
                program.stdin.write("go on\n")
                program.stdin.flush()
                self.says(program, "ended")
                self.assertEqual(program.wait(PATIENCE), 0)
                self.assertEqual(self.info(name).result, b"done")
                [next] = self.own()
                self.assertEqual((next.id, next.try_), (self.name(name + "-next"), 1))
                self.client.return_tasks(stint.Return.of(next))

    def test_a_signal_to_a_child_of_a_handler_is_for_the_child(self):
        self.client.insert(self.task("a", "end children", post_result=True))
        program = self.start(lease=3600, grace=3600)
        self.says(program, f"began {self.name('a')}")
        for number in (signal.SIGTERM, signal.SIGINT):
            self.says(program, f"child died of {int(number)}")
        self.client.wait(self.name("a"), timeout=PATIENCE)
        self.client.insert(self.task("b", post_result=True))
        self.client.wait(self.name("b"), timeout=PATIENCE)  # the worker goes on
        self.says(program, f"began {self.name('b')}")

    def test_a_worker_gives_back_what_does_not_finish_within_the_grace(self):
        self.client.insert([self.task("a", "for ever"), self.task("b", "until lost")])
        program = self.start(lease=3600, grace=0.5)
        began = {program.stdout.readline(), program.stdout.readline()}
        self.assertEqual(began, {f"began {self.name(short)}\n" for short in "ab"})
        program.send_signal(signal.SIGTERM)
        self.assertEqual({program.stdout.readline(), program.stdout.readline()},
                         {"stopping\n", "lost\n"})
        self.says(program, "ended")
        self.assertEqual(program.wait(PATIENCE), 0)
        self.assertEqual([task.try_ for task in self.own(2)], [1, 1])

    def test_no_thread_of_a_worker_is_left_after_the_second_signal(self):
        self.client.insert(self.task("a", "until lost"))
        program = self.start(lease=3600, grace=3600)
        self.says(program, f"began {self.name('a')}")
        program.send_signal(signal.SIGINT)
        self.says(program, "stopping")
        program.send_signal(signal.SIGINT)
        said = [program.stdout.readline() for _ in range(2)]
        self.assertEqual(sorted(said), ["interrupted\n", "lost\n"])
        self.says(program, "ended")

    def test_the_second_signal_ends_a_worker_that_asks_for_tasks(self):
        class Interrupted(stint.Client):
            def _own(self, *args):
                owned = super()._own(*args)
                if not owned:
                    signal.raise_signal(signal.SIGINT)
                    signal.raise_signal(signal.SIGINT)
                return owned

        def handle(task):
            task.lost.wait()

        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        self.insert("a")
        with mock.patch("stint.worker._POLL", 0.1), Interrupted(self.server) as client:
            worker = Worker(client, lease=3600, grace=0)
            worker.handles(self.action)(handle)
            with self.assertRaises(KeyboardInterrupt):
                worker.run()
        # What is given back when the grace is over would be ready.
        self.eventually(lambda: self.info("a").state != "in-progress")
        self.assertEqual(self.info("a").state, "completed")

    def test_a_worker_that_waits_for_tasks_stops_at_once(self):
        self.insert("first", post_result=True)
        program = self.start(lease=3600, grace=3600)
        self.client.wait(self.name("first"))
        program.send_signal(signal.SIGTERM)
        self.says(program, f"began {self.name('first')}")
        began = time.monotonic()
        self.says(program, "stopping", "ended")
        self.assertLess(time.monotonic() - began, 15)  # a poll lasts 20 s
        self.insert("a")
        self.assertEqual(self.own()[0].try_, 1)
