"""A worker as a process: python3 -m tests.program URL ACTION LEASE GRACE

It prints a line when a handler begins, when it is told to stop, and when run returns. A handler
does what the body says.
"""

import os
import select
import signal
import sys
import threading
import time

from stint import Client, Worker

from .services import PATIENCE


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


def end_child(number):
    """Forks a child, sends it a signal, and returns the one that it died of."""
    ready, tell = os.pipe()
    lives, parent = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(parent)
            os.write(tell, b"s")  # a signal before that would be dropped
            # Until the signal comes, or the parent has died. A signal that comes just before such a
            # call does not end it, so there are many. In a child that a thread has forked, Python
            # 3.13 does not see such a signal by itself: the other call makes it look.
            while not select.select([lives], [], [], 0.1)[0]:
                signal.pthread_sigmask(signal.SIG_BLOCK, ())
        except KeyboardInterrupt:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        finally:
            os._exit(1)
    os.read(ready, 1)
    os.kill(child, number)
    died_of = os.WTERMSIG(os.waitpid(child, 0)[1])
    for each in (ready, tell, lives, parent):
        os.close(each)
    return died_of


def main():
    url, action, lease, grace = sys.argv[1:]
    worker = Told(Client(url), actor="program", lease=float(lease), grace=float(grace))
    losing = []

    @worker.handles(action)
    def handle(task):
        say(f"began {task.id}")
        if task.body == b"until told":
            sys.stdin.readline()
        elif task.body == b"until lost":
            said = threading.Event()
            losing.append(said)
            task.lost.wait()
            say("lost")
            said.set()
        elif task.body == b"end children":
            for number in (signal.SIGTERM, signal.SIGINT):
                say(f"child died of {end_child(number)}")
        elif task.body == b"for ever":
            while True:
                time.sleep(1)
        return "done"

    signal.signal(signal.SIGINT, signal.default_int_handler)  # it is not if this is in background
    say("runs")
    try:
        worker.run()
    except KeyboardInterrupt:
        say("interrupted")
        for thread in threading.enumerate():
            if thread is not threading.main_thread():
                thread.join(PATIENCE)
                if thread.is_alive():
                    return say(f"{thread.name} is left")
    for said in losing:
        said.wait(PATIENCE)
    say("ended")


main()
