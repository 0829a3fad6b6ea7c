"""A worker: it owns tasks, performs each by its handler, and returns it."""

from __future__ import annotations

import json
import logging
import os
import queue
import random
import secrets
import signal
import socket
import threading
import time
import traceback
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, TypeVar

from . import fields as f
from . import tasks as t
from .client import Client
from .connection import Cancel, Cancelled
from .errors import AlreadyReturned, InvalidArgument, InvalidToken, Limited, Refused
from .errors import SchemaVersion, StintError, TooLarge, Unavailable
from .metrics import Address, Performances, Server, address_of
from .fields import Content, Duration
from .tasks import OwnedTask, Return
from .transaction import finish_task

# How long a call waits for tasks.
_POLL = 20.0
# A heartbeat begins after this part of a lease, may take that part, and is repeated after another
# one if it fails.
_BEAT_PART = 3
_ATTEMPT_PART = 6
_AGAIN_PART = 20
# The pause after the first try of a task, and the longest one: see _pause_after.
_PAUSE_BASE = 1.0
_PAUSE_MAX = 12 * 3600.0
# The longest pause, and the greatest cost, that the store accepts.
_PAUSE_MOST = 10 * 365 * 24 * 3600.0
_SPENT_MOST = 1_000_000_000
# The pauses of a worker whose service does not answer.
_RECONNECT_FIRST = 0.1
_RECONNECT_MAX = 5.0
# How long a worker that stops waits for the answers to its last calls.
_LAST_CALLS = 5.0
# How long a wait of the main thread may keep a signal from being seen.
_SIGNALS_SEEN = 1.0
# How long failures of a kind are counted before they are logged again.
_QUIET = 60.0
# How much of a traceback a status holds.
_STATUS_LINES = 20
_STATUS_BYTES = 16 << 10

# How many steps a task may have, and how long their names and their values may be.
_STEPS_MAX = 1000
_STEPS_BYTES_MAX = 16 << 20
_STEP_NAME_MAX = 255
# Ahead of the nanoseconds of a sleep, which makes it no value of a step.
_SLEEP = b"sleep "

_log = logging.getLogger("stint")

Handler = TypeVar("Handler", bound=Callable[["HeldTask"], Optional[Content]])


class Retry(Exception):
    """Raised by a handler: the task is tried again, after a pause.

    after: how long the pause is, 0 to ten years; another value counts as the nearest of these.
        Default: as after any other exception.
    status: a text for people, or an exception that has it.
    """

    def __init__(self, status: object = "", after: Optional[Duration] = None) -> None:
        super().__init__(status)
        self.status, self.after = str(status), after
        if after is not None:
            seconds = after.total_seconds() if isinstance(after, timedelta) else after
            self.after = min(max(seconds, 0.0), _PAUSE_MOST)


class Snooze(Retry):
    """Raised by a handler: the task is tried again after a pause, and this try does not count."""

    def __init__(self, after: Duration, status: object = "") -> None:
        super().__init__(status, after)


class Abort(Exception):
    """Raised by a handler: the task is aborted, and with it what depends on it.

    status: a text for people, or an exception that has it.
    """

    def __init__(self, status: object = "") -> None:
        super().__init__(status)
        self.status = str(status)


class _Lines(logging.Handler):
    """Keeps the last lines that were logged."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self.text = (self.text + self.format(record) + "\n")[-_STATUS_BYTES:]
        except Exception:  # the format does not fit the values, for example
            self.handleError(record)


class _Failures:
    """Logs failures: the first of a kind at once, those of the next minute together at its end.

    Each of them by itself is logged at the level DEBUG.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By kind: until when it is quiet, how many were not logged, and the last of them.
        self._kinds: Dict[str, Tuple[float, int, str]] = {}

    def failed(self, kind: str, text: str) -> None:
        now = time.monotonic()
        with self._lock:
            until, number, _ = self._kinds.get(kind, (0.0, 0, ""))
            quiet = now < until
            if quiet:
                self._kinds[kind] = (until, number + 1, text)
            else:
                self._kinds[kind] = (now + _QUIET, 0, "")
        if not quiet:
            self._tell(text, number + 1)
        elif _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s", text)

    def tell(self, now: float) -> None:
        """Logs what was counted until now and may be logged by then."""
        with self._lock:
            due = [(kind, number, text) for kind, (until, number, text) in self._kinds.items()
                   if number and until <= now]
            for kind, _, _ in due:
                self._kinds[kind] = (time.monotonic() + _QUIET, 0, "")
        for _, number, text in due:
            self._tell(text, number)

    @staticmethod
    def _tell(text: str, number: int) -> None:
        if number > 1:
            text = f"{text}\n({number} failures like this one since the last warning)"
        _log.warning("%s", text)


class HeldTask(OwnedTask):
    """A task that a handler performs.

    lost: is set when the task is handed on, or may be: because somebody aborted it, its lease
        expired while the service could not be reached, or the worker stops and its grace is over.
        A handler that works for long looks at it.
    spent: What the try has really cost, if the handler sets it: where the limits of the action are
        by_cost, the next fetch settles it. It counts however the try ends. It is a whole number, 0
        to 10⁹; another value counts as the nearest of these.
    """

    def __init__(self, owned: OwnedTask, client: Client, until: float) -> None:
        super().__init__(**vars(owned))
        self.lost = threading.Event()
        self._spent: Optional[int] = None
        self._client = client
        self._until = until  # by this process's clock, when the lease expires
        self._handed_on = False  # the service has said so
        self._expired = False  # the lease, unheard
        self._stepping = threading.Lock()  # guards the next two
        self._recorded: Optional[Dict[str, f.Message]] = None  # once they have been asked for
        self._asked = 0.0  # when that was, by this process's clock
        self._taken: Set[str] = set()
        self._kept = 0  # bytes of the values that are recorded
        self._log = _Lines()
        self._logger: Optional[logging.Logger] = None
        self._returning = False  # who sets it, with the lock of the worker, returns the task
        self._ended_as = "lost"  # for the metrics: how the performance has ended
        self._finished: Optional[str] = None  # the code, once finish was called

    @property
    def spent(self) -> Optional[int]:
        return self._spent

    @spent.setter
    def spent(self, cost: Optional[float]) -> None:
        self._spent = None if cost is None else round(min(max(cost, 0), _SPENT_MOST))

    def set_status(self, status: str, progress: float = 0.0) -> None:
        """Records a text for people, and the progress of the task, from 0 to 1."""
        self._client.set_status(self, status, progress)

    def fence(self) -> int:
        """Draws a number by which other systems can refuse what a late owner of the task writes.

        It is greater than those that earlier owners have drawn.
        """
        return self._client.fence(self)

    def inputs(self) -> List[t.Input]:
        """Returns how the predecessors of the task ended."""
        return self._client.inputs(self)

    def step(self, name: str, call: Callable[[], Any]) -> Any:
        """Returns what call returned, now or in an earlier try: no later try calls it again.

        The record is made once; the call is made again if the process dies, or the task is lost,
        before the record. A name serves one step in a try. The value is kept as JSON, at most 1 MiB.
        If call raises an exception, nothing is recorded. A name that is no good, and a task that
        has too many steps, are refused before the call. If the value cannot be kept, it raises
        Abort, since every try would make the call again.
        """
        recorded = self._recorded_step(name)
        if recorded is None:
            result = self._record_step(name, lambda: _to_json(name, call()))
        else:
            result = f.to_step_result(recorded)
        if result.startswith(_SLEEP):
            raise InvalidArgument(f"the step {name!r} is recorded as a sleep: name it otherwise")
        return json.loads(result)

    def sleep(self, name: str, pause: Duration) -> None:
        """Is a step that takes a time, for which it holds no worker.

        Until the time has passed since the first call, in whatever try that was, it raises Snooze,
        which the handler lets pass: the task is put off. Afterwards it returns. The time is that of
        the first call, on the clock of the database.
        """
        recorded = self._recorded_step(name)
        if recorded is None:
            if not isinstance(pause, timedelta):
                pause = timedelta(seconds=pause)
            nanoseconds = pause // timedelta(microseconds=1) * 1000
            if nanoseconds <= 0:
                with self._stepping:
                    self._taken.discard(name)
                raise InvalidArgument("the pause must be more than 0")
            result, ago = self._record_step(name, lambda: _SLEEP + b"%d" % nanoseconds), 0.0
        else:
            result = f.to_step_result(recorded)
            ago = f.to_duration(recorded.get("ago")).total_seconds()
            ago += time.monotonic() - self._asked
        if not result.startswith(_SLEEP):
            raise InvalidArgument(f"the sleep {name!r} is recorded as a step: name it otherwise")
        left = int(result[len(_SLEEP):]) / 1e9 - ago
        if left > 0:
            raise Snooze(left)

    def _recorded_step(self, name: str) -> Optional[f.Message]:
        """Notes that a step is taken, and returns it if it is recorded."""
        _check_step(name)
        with self._stepping:
            if self._recorded is None:
                self._asked = time.monotonic()
                self._recorded = self._client._steps(self)
                self._kept = sum(len(f.to_step_result(step)) for step in self._recorded.values())
            if name in self._taken:
                raise InvalidArgument(f"the step {name!r} was taken in this try: "
                                      "add the index of a loop, for example")
            if name not in self._recorded:
                count = len(self._taken.union(self._recorded))
                if count >= _STEPS_MAX or self._kept >= _STEPS_BYTES_MAX:
                    raise TooLarge(f"the step {name!r} has no room: a task may have {_STEPS_MAX} "
                                   f"steps, with values of {_STEPS_BYTES_MAX} bytes together")
            self._taken.add(name)
            return self._recorded.get(name)

    def _record_step(self, name: str, call: Callable[[], bytes]) -> bytes:
        try:
            kept = self._keep_step(name, call())
        except BaseException:
            with self._stepping:
                self._taken.discard(name)
            raise
        with self._stepping:
            self._kept += len(kept)
        return kept

    def _keep_step(self, name: str, value: bytes) -> bytes:
        """Records a value, and does not give up as long as the task is not lost."""
        pause = 0.1
        while True:
            try:
                return self._client.record_step(self, name, value)
            except TooLarge as error:
                raise Abort(f"the value of the step {name!r} cannot be recorded: {error}") \
                    from error
            except (Unavailable, Limited):
                if self.lost.wait(pause):
                    raise
                pause = min(2 * pause, 5)

    def finish(
        self, cursor: Any, code: str = "completed", status: str = "",
        result: Optional[Content] = None, retry_after: Optional[Duration] = None,
        notify: bool = True, schema: str = "stint",
    ) -> None:
        """Ends the task in a transaction of the handler's, as stint.finish_task does.

        The handler commits, and returns: the worker does nothing else for the task. If the handler
        raises an exception, such as that of a failed commit, the worker returns the task as after
        any other, unless the commit has gone through after all. From here on lost is not set when
        the task is handed on, since only the transaction can tell.
        """
        try:
            finish_task(
                cursor, self, code, status, result, retry_after, notify, schema, self.spent)
        except AlreadyReturned:
            raise
        except InvalidToken:
            self._finished = None  # no earlier commit has gone through
            raise
        self._finished = code

    @property
    def logger(self) -> logging.Logger:
        """A logger for the handler, as a child of the logger "stint".

        What it logs, from the level INFO on, also goes into the history of the task, its last
        16 KiB, if the service keeps that.
        """
        if self._logger is None:
            logger = logging.Logger("stint.task", logging.INFO)
            logger.parent = _log
            logger.addHandler(self._log)
            self._logger = logger
        return self._logger


def _check_step(name: str) -> None:
    """Refuses a name with which no step can be recorded."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"the name of a step must be text: {error}") from error
    if size > _STEP_NAME_MAX:
        raise TooLarge(f"the name of a step has {size} bytes, and may have {_STEP_NAME_MAX}")
    if size == 0 or "\0" in name:
        raise InvalidArgument("the name of a step must not be empty, or contain a NUL")


def _to_json(name: str, value: Any) -> bytes:
    """Returns a value as it is recorded. If it cannot be, no try can record it."""
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise Abort(f"the value of the step {name!r} cannot be recorded: {error}") from error


class Worker:
    """Owns tasks of the actions that it has handlers for, and performs them in threads.

        worker = Worker(client)

        @worker.handles("mail")
        def mail(task):
            send(task.body)

        worker.run()

    A handler returns None, or the result as bytes or str: the task is completed. It raises Retry or
    Abort; after any other exception the task is tried again after a pause that grows, and its
    status has the last lines of the traceback. A task may be performed again if its worker dies, or
    does not reach the service, for longer than the lease.

    actor: names the worker for people. Default: the host, the process and a random number.
    concurrency: how many tasks are performed at once, at most.
    lease: how long tasks stay with a worker that has died. A third of it later, and so on, one call
        extends the leases of all tasks.
    grace: how long handlers may continue when the worker stops.
    metrics: where run serves /metrics to Prometheus: a port of this machine, or "host:port" for
        others, too: nobody is asked who he is. Default: nowhere.
    """

    def __init__(
        self, client: Client, actor: Optional[str] = None, concurrency: int = 4,
        lease: Duration = 30.0, grace: Duration = 20.0, metrics: Optional[Address] = None,
    ) -> None:
        if concurrency < 1:
            raise InvalidArgument("concurrency must be at least 1")
        if f.seconds(lease) <= 0 or f.seconds(grace) < 0:
            raise InvalidArgument("lease must be positive, and grace not negative")
        self._client = client
        self._actor = actor
        self._concurrency = concurrency
        self._lease = f.seconds(lease)
        self._grace = f.seconds(grace)
        self._metrics_at = None if metrics is None else address_of(metrics)
        self._metrics: Optional[Server] = None  # as long as it runs
        self._performances = Performances()
        self._failures = _Failures()
        self._handlers: Dict[str, Callable[[HeldTask], Optional[Content]]] = {}
        self._queue: queue.SimpleQueue = queue.SimpleQueue()
        self._polling = Cancel()
        self._ended = threading.Event()  # no task is left
        self._changed = threading.Condition()  # guards the fields below
        self._held: Dict[str, HeldTask] = {}  # by token
        self._stopping = False
        self._began = False

    def handles(self, action: str) -> Callable[[Handler], Handler]:
        """Returns a decorator that makes a function the handler of an action."""
        if not action or action in self._handlers:
            raise InvalidArgument(f"there is a handler of {action!r} already, or it is empty")

        def decorate(handler: Handler) -> Handler:
            self._handlers[action] = handler
            self._performances.know(action)
            return handler

        return decorate

    def stop(self) -> None:
        """Makes run take no more tasks, and return when those under way are returned."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._polling.cancel()

    def run(self) -> None:
        """Performs tasks until stop, once in the life of a worker.

        In the main thread, SIGTERM and SIGINT stop the worker too; the second signal does what it
        did before. If that raises an exception, run ends at once, and the leases of what is under
        way expire. Otherwise that has the grace to finish, then it is given back, without having
        used up a try. A service that does not answer is asked again, for ever; if it refuses the
        worker, run stops and raises the error.
        """
        with self._changed:
            if self._began:
                raise InvalidArgument("a worker runs once")
            self._began = True
        if not self._handlers:
            raise InvalidArgument("the worker has no handlers")
        if self._actor is None:
            self._actor = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        threads = [threading.Thread(target=self._beat, name="stint-lease", daemon=True)]
        for _ in range(self._concurrency):
            threads.append(threading.Thread(target=self._work, name="stint-task", daemon=True))
        if self._metrics_at:
            self._metrics = Server(self._performances, self._metrics_at)
        signals = _Signals(self.stop)
        waits = True
        try:
            try:
                for thread in threads:
                    thread.start()
                self._ask()
            except StintError:
                raise
            except BaseException:
                waits = not signals.came  # after one, this is the exception of another one
                raise
            finally:
                if waits:
                    self.stop()
                    self._finish()
        finally:
            try:
                self._end()
                self._failures.tell(float("inf"))
                if self._metrics:
                    self._metrics.close()
            finally:
                signals.restore()

    def _ask(self) -> None:
        """Owns tasks for as many threads as are free, until the worker stops."""
        pause = 0.0
        while True:
            with self._changed:
                self._await(lambda: self._stopping or len(self._held) < self._concurrency)
                if self._stopping:
                    return
                free = self._concurrency - len(self._held)
            try:
                owned = self._client._own(
                    self._actor, self._handlers, free, self._lease, _POLL, self._polling)
                pause = 0.0
            except Cancelled:
                return
            except (Refused, InvalidArgument, SchemaVersion):
                raise
            except StintError as error:
                self._failures.failed("own", f"could not own tasks: {error}")
                pause = min(max(2 * pause, _RECONNECT_FIRST), _RECONNECT_MAX)
                self._polling.pause(random.uniform(pause / 2, pause))
                continue
            # The leases began a little earlier. If it was more than a little, a heartbeat tells.
            until = time.monotonic() + self._lease
            held = [HeldTask(task, self._client, until) for task in owned]
            with self._changed:
                self._held.update((task.token, task) for task in held)
            for task in held:
                self._queue.put(task)

    def _await(self, is_so: Callable[[], bool], timeout: float = float("inf")) -> None:
        """Waits until something is so. The caller has the lock.

        It waits in pieces: Python runs the handler of a signal that comes just before such a wait
        only when the wait is over.
        """
        end = time.monotonic() + timeout
        while not is_so():
            left = end - time.monotonic()
            if left <= 0:
                return
            self._changed.wait(min(left, _SIGNALS_SEEN))

    def _finish(self) -> None:
        """Waits for what is under way, and gives back what is left after the grace."""
        with self._changed:
            self._await(lambda: not self._held, self._grace)
            left = [task for task in self._held.values() if not task._returning]
            for task in left:
                task._returning = True
        for task in left:
            task.lost.set()
        self._give_back(left)
        with self._changed:
            for task in left:
                self._held.pop(task.token, None)
            self._await(lambda: not self._held, _LAST_CALLS)  # being returned
        self._client.close()

    def _end(self) -> None:
        """Ends the threads, and leaves what is under way all the same to its handlers."""
        self._ended.set()  # nobody extends leases any more
        self.stop()
        for _ in range(self._concurrency):
            self._queue.put(None)
        with self._changed:
            for task in self._held.values():
                task.lost.set()

    def _work(self) -> None:
        """Performs one task after the other."""
        while True:
            task = self._queue.get()
            if task is None:
                return
            begun = self._performances.begin(task.action)
            try:
                if not self._stopped_before(task):
                    self._perform(task)
            except Exception:  # a defect must not end the thread
                _log.exception("task %s stays until its lease expires", task.id)
            finally:
                self._performances.end(task.action, task._ended_as, begun)
                with self._changed:
                    if self._held.pop(task.token, None):
                        self._changed.notify_all()

    def _stopped_before(self, task: HeldTask) -> bool:
        """Gives back a task that nobody has begun when the worker stops."""
        with self._changed:
            if not self._stopping or task._returning:
                return task._returning
            task._returning = True
        self._give_back([task])
        return True

    def _perform(self, task: HeldTask) -> None:
        given = self._outcome(task)
        with self._changed:
            if task._returning or task._handed_on:
                return  # somebody else does what is to be done
            if given is not None and task._expired:
                return  # the handler may have given up halfway, for that
            task._returning = True
            task._ended_as = _outcome_of(task, given)
        if given is None:
            return
        try:
            self._give([given], [task])
        except StintError as error:  # the outcome cannot be stored, a result too large for example
            _log.warning("task %s could not be returned: %s", task.id, error)
            given = _instead(task, error)
            task._ended_as = _outcome_of(task, given)
            try:
                self._give([given], [task])
            except StintError as error:
                task._ended_as = "lost"
                _log.error("task %s stays until its lease expires: %s", task.id, error)

    def _outcome(self, task: HeldTask) -> Optional[Return]:
        """Calls the handler, and returns what becomes of the task; None if the handler ended it."""
        try:
            result = self._handlers[task.action](task)
            if result is not None and not isinstance(result, (bytes, str)):
                raise TypeError(f"a handler must return None, bytes or str, not {type(result)}")
            if task._finished:
                return None
            return Return.of(task, "completed", result=result, log=_cut(task._log.text),
                             spent=task.spent)
        except Retry as retry:
            again = _again(task, retry.status, retry.after)
            again.release = isinstance(retry, Snooze)
            return again
        except Abort as abort:
            return Return.of(task, "aborted", status=_cut(abort.status), log=_cut(task._log.text),
                             spent=task.spent)
        except BaseException:  # also SystemExit: it would end this thread only
            text = traceback.format_exc()
            self._failures.failed(
                f"action {task.action}", f"task {task.id} failed, try {task.try_}:\n{_cut(text)}")
            return _again(task, "\n".join(text.splitlines()[-_STATUS_LINES:]), None)

    def _give_back(self, held: List[HeldTask]) -> None:
        """Returns tasks to be tried again, with their tries refunded."""
        if not held:
            return
        for task in held:
            task._ended_as = "stopped"
        try:
            self._give([Return.of(task, "pending", release=True, spent=task.spent)
                        for task in held], held)
        except StintError as error:
            _log.warning("could not give tasks back; their leases expire: %s", error)

    def _give(self, returns: List[Return], held: List[HeldTask]) -> None:
        """Returns tasks, and does not give up before their leases expire."""
        pause = 0.1
        ambiguous = False
        while True:
            try:
                verdicts = self._client.return_tasks(returns)
                break
            except (Unavailable, Limited) as error:
                ambiguous = ambiguous or error.ambiguous
                self._failures.failed("return", f"could not return tasks: {error}")
                if self._ended.wait(pause) or all(task.lost.is_set() for task in held):
                    for task in held:
                        task._ended_as = "lost"
                    return
                pause = min(2 * pause, 5)
        for task, verdict in zip(held, verdicts):
            if ambiguous and isinstance(verdict, AlreadyReturned):
                continue  # by the call before
            if task._finished and isinstance(verdict, InvalidToken):
                task._ended_as = _outcome_of(task, None)
                continue  # by the handler, whose commit has gone through after all
            if isinstance(verdict, InvalidArgument):
                raise verdict  # the outcome cannot be stored
            if isinstance(verdict, InvalidToken):
                task.lost.set()
            if verdict is not None:
                task._ended_as = "lost"
                _log.warning("task %s was not returned: %s", task.id, verdict)

    def _beat(self) -> None:
        """Extends the leases of all tasks, until the worker has ended."""
        pause = self._lease / _BEAT_PART
        while not self._ended.wait(pause * random.uniform(0.8, 1)):
            failed = self._extend()
            self._failures.tell(time.monotonic())
            with self._changed:
                until = [task._until for task in self._held.values() if not task.lost.is_set()]
            pause = self._lease / (_AGAIN_PART if failed else _BEAT_PART)
            left = min(until, default=float("inf")) - time.monotonic()
            if failed and left < pause:
                pause = max(left, 0.001)  # to notice the end in time

    def _extend(self) -> bool:
        """Makes one attempt to extend the leases, and reports whether it failed."""
        sent = time.monotonic()
        with self._changed:
            held = [task for task in self._held.values() if not task.lost.is_set()]
            for task in held:
                if task._until <= sent:
                    _log.warning("task %s: the lease has expired", task.id)
                    task._expired = True
                    task.lost.set()
        held = [task for task in held if not task.lost.is_set()]
        if not held:
            return False
        # A beat that takes longer would keep the end of a lease from being noticed.
        left = min(task._until for task in held) - sent
        try:
            kept = self._client._extend(
                self._actor, held, self._lease, max(0.01, min(self._lease / _ATTEMPT_PART, left)))
        except StintError as error:
            self._failures.failed("extend", f"could not extend the leases: {error}")
            return True
        except Exception:  # a defect must not end the beat
            _log.exception("could not extend the leases")
            return True
        with self._changed:
            for task, is_kept in zip(held, kept):
                if is_kept:
                    task._until = sent + self._lease
                elif task._finished:
                    continue  # perhaps: the handler knows
                elif not task._returning and task.token in self._held:
                    _log.warning("task %s is lost", task.id)
                    task._handed_on = True
                    task.lost.set()
        return False


def _again(task: HeldTask, status: str, after: Optional[Duration]) -> Return:
    pause = _pause_after(task.try_) if after is None else after
    return Return.of(task, "pending", status=_cut(status), retry_after=pause,
                     log=_cut(task._log.text), spent=task.spent)


def _instead(task: HeldTask, error: StintError) -> Return:
    """Returns what becomes of a task whose outcome cannot be stored, because of this error.

    A result is too large after each try.
    """
    status = f"could not be returned: {error}"
    if not isinstance(error, TooLarge):
        return _again(task, status, None)
    return Return.of(task, "aborted", status=_cut(status), log=_cut(task._log.text),
                     spent=task.spent)


def _outcome_of(task: HeldTask, given: Optional[Return]) -> str:
    """Returns the outcome of a performance whose task is returned like this, or was finished."""
    if given is None:
        given = Return.of(task, task._finished or "completed")
    if given.code != "pending":
        return given.code
    if given.release:
        return "snoozed"
    return "aborted" if 0 < task.max_tries <= task.try_ else "retried"


def _pause_after(try_: int) -> float:
    """Returns how long a task waits after a try: at random, between half of the most and the most.

    So tasks that failed together are spread, and no try follows at once.
    """
    most = min(_PAUSE_BASE * 2.0 ** min(max(try_ - 1, 0), 40), _PAUSE_MAX)
    return random.uniform(most / 2, most)


def _cut(status: str) -> str:
    """Returns the end of a status that is too long, without what PostgreSQL cannot store."""
    text = status.replace("\0", "\ufffd").encode("utf-8", "replace")
    return text[-_STATUS_BYTES:].decode("utf-8", "ignore")


class _Signals:
    """Calls stop at the first SIGTERM or SIGINT, if this is the main thread.

    A handler runs between any two steps of the main thread, which may hold a lock just then. So it
    only wakes a thread up that calls stop.

    A child that a handler has forked inherits none of this: what it is sent is for itself.
    """

    handling: Optional[_Signals] = None  # that of the main thread, while it is there

    def __init__(self, stop: Callable[[], None]) -> None:
        self.came = False
        self._before: Dict[int, Any] = {}
        if threading.current_thread() is not threading.main_thread():
            return
        self._process = os.getpid()
        self._read, self._write = socket.socketpair()
        threading.Thread(target=self._wait, args=(stop,), name="stint-signal", daemon=True).start()
        for number in (signal.SIGTERM, signal.SIGINT):
            # None stands for a handler that is not Python's.
            self._before[number] = signal.getsignal(number) or signal.SIG_DFL
        _Signals.handling = self
        for number in self._before:
            signal.signal(number, self._handle)

    @staticmethod
    def forked() -> None:
        """Does in a child what restore does in this process.

        A signal that came later might stay unseen there: in a child that another thread than the
        main one has forked, Python 3.13 runs handlers only where a system call was interrupted.
        """
        if _Signals.handling:
            _Signals.handling.restore()

    def _handle(self, number: int, _: Any) -> None:
        for each, before in self._before.items():
            signal.signal(each, before)
        if self._process == os.getpid():
            self.came = True
            self._write.send(b"s")
        else:
            os.kill(os.getpid(), number)

    def _wait(self, stop: Callable[[], None]) -> None:
        with self._read:
            if self._read.recv(1):
                stop()

    def restore(self) -> None:
        if not self._before:
            return
        for number, before in self._before.items():
            signal.signal(number, before)
        _Signals.handling = None
        self._write.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_Signals.forked)
