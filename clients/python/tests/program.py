"""A worker as a process: python3 -m tests.program URL ACTION LEASE GRACE

It prints a line when a handler begins, when it is told to stop, and when run returns. A handler
does what the body says.
"""

import sys
import time

from stint import Client, Worker


def say(text):
    sys.stdout.write(text + "\n")  # at once, unlike print
    sys.stdout.flush()


class Told(Worker):
    """A worker that says when it has been told to stop."""

    told = False

    def stop(self):
        super().stop()
        if not self.told:
            self.told = True
            say("stopping")


def main():
    url, action, lease, grace = sys.argv[1:]
    worker = Told(Client(url), actor="program", lease=float(lease), grace=float(grace))

    @worker.handles(action)
    def handle(task):
        say(f"began {task.id}")
        if task.body == b"until told":
            sys.stdin.readline()
        elif task.body == b"until lost":
            task.lost.wait()
            say("lost")
        elif task.body == b"for ever":
            while True:
                time.sleep(1)
        return "done"

    say("runs")
    worker.run()
    say("ended")


main()
