"""A worker of the service in Python, which inserts tasks, too, and writes a journal."""

import json
import os
import sys
import threading
import time
import zlib

from stint import Client, Return, StintError, Task, Unavailable

JOB = json.loads(os.environ["STINT_CHAOS_JOB"])
ACTION = "plain"
# The kinds of errors as in other journals.
KINDS = {
    "already-returned": "ErrAlreadyReturned", "invalid-token": "ErrInvalidToken",
    "task-exists": "ErrTaskExists",
}


class Journal:
    """A journal of which each line is one write."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.lock = threading.Lock()
        self.number = 0

    def write(self, verb, begin, outcome, kind="", items=()):
        with self.lock:
            self.number += 1
            line = {
                "p": "%s.%d" % (JOB["Name"], JOB["Number"]), "n": self.number, "v": verb,
                "b": begin, "e": time.monotonic_ns(), "o": outcome, "x": kind, "i": list(items),
            }
            os.write(self.file, json.dumps(line).encode() + b"\n")


def judge(error):
    """Returns what is known by an error, and of which kind it is."""
    if error is None:
        return "ok", ""
    kind = getattr(error, "kind", "")
    if kind == "already-returned":
        return "ok", KINDS[kind]
    if isinstance(error, Unavailable) or not isinstance(error, StintError) or not kind:
        return "unknown", "unavailable"
    return "refused", KINDS.get(kind, kind)


class Process:
    """The process: it follows orders, performs tasks, and inserts some."""

    def __init__(self):
        self.journal = Journal(JOB["Journal"])
        self.client = Client("http://" + JOB["Address"])
        self.pace = -1
        self.done = 0
        self.ended = threading.Event()

    def follow(self):
        for line in sys.stdin:
            if line.startswith("pace "):
                self.pace = int(line[len("pace "):])
        self.ended.set()

    def say(self):
        while not self.ended.wait(0.25):
            done, self.done = self.done, 0
            print("done", done, flush=True)

    def call(self, verb, items, do):
        begin = time.monotonic_ns()
        try:
            answer = do()
        except Exception as error:  # whatever it is, the next call is made
            outcome, kind = judge(error)
            self.journal.write(verb, begin, outcome, kind, items)
            return None
        if items:
            self.journal.write(verb, begin, "ok", "", items)
        return answer

    def insert(self):
        number = 0
        while not self.ended.wait(0.1):
            if self.pace < 0:
                continue
            number += 1
            prefix = "%d/%s.%d/%d" % (JOB["Round"], JOB["Name"], JOB["Number"], number)
            first = Task(ACTION, id=prefix + "/0", max_tries=3)
            second = Task(ACTION, id=prefix + "/1", max_tries=3, after=[first.id])
            self.call("InsertTasks", [{"id": first.id}, {"id": second.id, "s": "waits"}],
                      lambda: self.client.insert([first, second]))

    def perform(self):
        actor = "%s.%d" % (JOB["Name"], JOB["Number"])
        while not self.ended.is_set():
            begin = time.monotonic_ns()
            owned = self.call("OwnTasks", [], lambda: self.client.own(
                actor, ACTION, max_tasks=8, lease=2.0, wait=1.0))
            if owned is None:
                self.ended.wait(0.1)
            if not owned:
                continue
            self.journal.write("OwnTasks", begin, "ok", "", [
                {"id": each.id, "t": each.token, "y": each.try_} for each in owned])
            self.give([self.end(each) for each in owned])

    def end(self, task):
        """Returns how a task ends, which its ID and the try say."""
        chance = zlib.crc32(("%s %d %d" % (task.id, task.try_, JOB["Seed"])).encode()) % 20
        if chance == 0:
            return Return.of(task, "pending", retry_after=0.1)
        if chance == 1:
            return Return.of(task, "aborted", status="as it shall")
        return Return.of(task, "completed", result="from Python" if chance < 8 else None)

    def give(self, returns):
        items = [{"id": each.id, "t": each.token, "s": each.code} for each in returns]
        begin = time.monotonic_ns()
        try:
            verdicts = self.client.return_tasks(returns)
        except Exception as error:  # the leases end
            outcome, kind = judge(error)
            self.journal.write("ReturnTasks", begin, outcome, kind, items)
            return
        for item, verdict in zip(items, verdicts):
            item["o"], item["x"] = judge(verdict)
            self.done += item["s"] == "completed" and verdict is None
        self.journal.write("ReturnTasks", begin, "ok", "", items)

    def run(self):
        self.journal.write("born", time.monotonic_ns(), "ok")
        parts = [threading.Thread(target=part, daemon=True)
                 for part in (self.follow, self.say, self.insert, self.perform)]
        for part in parts:
            part.start()
        self.ended.wait()
        for part in parts[1:]:
            part.join(timeout=5)
        self.journal.write("gone", time.monotonic_ns(), "ok")
        self.client.close()


Process().run()
