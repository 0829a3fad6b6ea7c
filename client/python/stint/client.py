"""The verbs of the service."""

from __future__ import annotations

import logging
import os
import secrets
import ssl
import threading
import time
from datetime import datetime
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Union

from . import fields as f
from . import tasks as t
from .connection import Cancel, Connection, repeat
from .errors import ClaimSpent, Copied, InvalidArgument, Limited, Refused
from .errors import SchemaVersion, StintError
from .errors import Unavailable, new_error
from .fields import Content, Duration, Message
from .tasks import Dependency, OwnedTask, Return, Task, TaskInfo

# How long a call waits at the service at most; proxies cut off what is silent for longer.
_POLL = 20.0
# How long a change may take: of limits, which waits for transactions that fetch tasks, and of
# tasks, of which one may bring many others with it.
_CHANGING = 3600.0
# How many tasks a page of a list has at most.
_PAGE = 1000
# For how long a claim is released if the service does not answer: for about as long as it bars it.
_RELEASE_FOR = 60.0
# How long close waits for claims to be released.
_CLOSE_FOR = 5.0

_log = logging.getLogger("stint")

IDs = Union[str, Iterable[str]]


class Client:
    """The verbs of a service, for any number of threads, and after a fork.

    A call whose answer is lost is repeated for ten seconds, so that it takes effect once; then it
    raises Unavailable. Verbs that are not repeated say so. The other errors are those of
    stint.errors.

    url: the address of the service, such as http://localhost:7330.
    token: a bearer token. token_file: a file that has it, which is read again when the service does
        not accept the token any more. With either, an http address must be localhost or an address
        of this machine such as 127.0.0.1 or [::1]: anybody on the way elsewhere could read it. The
        client follows no redirects, and uses no proxies, so nobody else is sent it.
    ssl_context: for https, with the certificate of the client for example. Default: what
        ssl.create_default_context() returns.
    timeout: for how many seconds the service may be silent in an attempt, besides what the call
        asks it to wait.
    author, reason: who has tasks or settings changed by this client, and why. With one of them the
        service notes each change, with the name of its caller ahead of the author.
    """

    def __init__(
        self, url: str, token: Optional[str] = None, token_file: Optional[str] = None,
        ssl_context: Optional[ssl.SSLContext] = None, timeout: float = 10.0,
        author: str = "", reason: str = "",
    ) -> None:
        self._connection = Connection(
            url, token, token_file, ssl_context, timeout, author, reason)
        self._numbered = (0, 0)
        # Each change of it is one step, so it needs no lock, which a fork might leave locked.
        self._releasing: Set[threading.Thread] = set()

    def __repr__(self) -> str:
        return f"Client({self._connection!r})"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Waits some seconds until claims whose answers were lost are released.

        It also closes the connection of this thread. The client can be used again.
        """
        until = time.monotonic() + _CLOSE_FOR
        for thread in self._releasing.copy():
            thread.join(max(0.0, until - time.monotonic()))
        self._connection.close()

    def _session(self) -> int:
        """Returns the number of this process: the leases of its actors carry it."""
        process, number = self._numbered
        if process != os.getpid():
            process, number = os.getpid(), secrets.randbelow(1 << 62) + 1
            self._numbered = process, number
        return number

    def _call(self, procedure: str, request: Message, **how: Any) -> Message:
        """Makes a call that may be repeated as it is."""
        return repeat(self._connection.attempts(procedure, request, **how))

    # The verbs of those who insert tasks, wait for them, look at them and control them.

    def insert(self, tasks: Union[Task, Iterable[Task]]) -> List[str]:
        """Inserts all tasks or none, and returns their IDs.

        The service keeps no response to a call with one task, unless it drops tasks that have
        ended: where the answer to an attempt was lost, a task of this ID with the same action, key
        and body that was inserted within the last minute is taken for that of the call.
        """
        request = {"tasks": _tasks(tasks)}
        self._call("TaskService/InsertTasks", request)
        return [task["id"] for task in request["tasks"]]

    def ensure(self, tasks: Union[Task, Iterable[Task]]) -> t.Ensured:
        """Inserts those of the tasks whose IDs are free, all or none, and says which were there.

        Those stay as they are.
        """
        request = {"tasks": _tasks(tasks)}
        answer = self._call("TaskService/EnsureTasks", request)
        return t.Ensured([task["id"] for task in request["tasks"]], answer.get("existing", []))

    def replace(self, tasks: Union[Task, Iterable[Task]]) -> None:
        """Inserts tasks in place of those with the same IDs that are not in progress.

        It is not repeated, since a repetition would replace the tasks once more.
        """
        self._connection.call("TaskService/ReplaceTasks", {"tasks": _tasks(tasks)})

    def debounce(self, task: Task, quiet: Duration, at_most: Duration) -> None:
        """Inserts a task that starts when the calls for its ID have been quiet for a while.

        The task of the latest call stands for those before it that have not started: it starts
        quiet after this call, but at most at_most after the first of them. If a task of the ID is
        in progress, it runs afterwards, under the ID with a "+" behind it.
        """
        self._call("TaskService/Debounce", t.from_debounced(t.Debounced(task, quiet, at_most)))

    def add_dependencies(self, dependencies: Iterable[Dependency]) -> None:
        """Makes stored tasks wait for others, all or none."""
        self._call("TaskService/AddDependencies",
                   {"dependencies": _dependencies(dependencies)}, wait=_CHANGING)

    def abort(self, ids: IDs, status: str = "", dry_run: bool = False) -> t.Affected:
        """Aborts tasks and what depends on them; status says why, for people.

        dry_run: only say what the call would do, here and below. The service does the work in a
        transaction, and undoes it.
        """
        answer = self._call("TaskService/AbortTasks", f.message(
            ids=f.names(ids), status=f.told(status), dry_run=dry_run), wait=_CHANGING)
        return t.to_affected(answer.get("aborted", {}))

    def answer(
        self, actor: str, answers: Union[t.Answer, Iterable[t.Answer]],
    ) -> List[Optional[StintError]]:
        """Ends external tasks, each for itself, and says of each why it was not, or None.

        The tasks have the action "stint.External". The actor is who answers, for people.
        """
        answer = self._call("TaskService/AnswerTasks", f.message(
            actor=actor, answers=f.several(t.from_answer, answers, t.Answer)))
        return [_verdict(each) for each in answer.get("verdicts", ())]

    def retry(self, ids: IDs, dry_run: bool = False) -> t.Affected:
        """Opens finished tasks again, with what was aborted because of them."""
        answer = self._call("TaskService/RetryTasks", f.message(
            ids=f.names(ids), dry_run=dry_run), wait=_CHANGING)
        return t.to_affected(answer.get("retried", {}))

    def change(
        self, ids: IDs, not_before: Optional[datetime] = None,
        start_after: Optional[Duration] = None, start_now: bool = False,
        priority: Optional[int] = None, key: Optional[str] = None, max_tries: int = 0,
        dry_run: bool = False,
    ) -> t.Affected:
        """Changes when tasks that wait start, their priority, key, or limit of tries.

        What is left out stays as it is; their dependencies stay in any case. A task that is in
        progress or has finished is refused with TaskStarted, and nothing is changed. An empty key
        is none. max_tries counts the tries that a task has had; -1: no limit. The result has the
        tasks that were not so already.
        """
        to = f.message(
            not_before=f.from_time(not_before), start_after=f.from_duration(start_after),
            start_now=start_now, max_tries=max_tries)
        if priority is not None:
            to["priority"] = priority
        if key is not None:
            to["key"] = key
        answer = self._call("TaskService/ChangeTasks", f.message(
            ids=f.names(ids), to=to, dry_run=dry_run), wait=_CHANGING)
        return t.to_affected(answer.get("changed", {}))

    def delete(self, ids: IDs, dry_run: bool = False) -> t.Affected:
        """Deletes tasks, and dependents that waited for nothing else."""
        answer = self._call("TaskService/DeleteTasks", f.message(
            ids=f.names(ids), dry_run=dry_run), wait=_CHANGING)
        return t.to_affected(answer.get("deleted", {}))

    def transact(
        self, hold: Iterable[OwnedTask] = (), must_exist: IDs = (),
        insert: Union[Task, Iterable[Task]] = (), replace: Union[Task, Iterable[Task]] = (),
        depend: Iterable[Dependency] = (), retry: IDs = (), abort: IDs = (),
        abort_status: str = "", delete: IDs = (), returns: Iterable[Return] = (),
        debounce: Iterable[t.Debounced] = (),
    ) -> t.Transacted:
        """Does all of this in one commit, in this order, or nothing.

        hold: the caller must still own these tasks. must_exist: these must be in the store.
        returns: one that is refused undoes the whole. debounce: 1,000 calls at most, which come
        after replace.

        A transaction that inserts or returns a task is repeated after a lost answer, others are
        not.
        """
        request = f.message(
            hold=[f.from_performance(task) for task in hold], must_exist=f.names(must_exist),
            insert=_tasks(insert), replace=_tasks(replace),
            depend=_dependencies(depend), retry=f.names(retry), abort=f.names(abort),
            abort_status=f.told(abort_status), delete=f.names(delete),
            debounce=[t.from_debounced(call) for call in debounce])
        request["return"] = [t.from_return(given) for given in returns]
        ids = [task["id"] for task in request.get("insert", ())]

        # Others are with it, and a frozen network is noticed sooner.
        wait = _CHANGING if depend or retry or abort or delete else 0.0
        attempt = self._connection.attempts("TaskService/Transact", request, wait=wait)
        alone = not ids and not request["return"]
        answer = attempt(False) if alone else repeat(attempt)
        return t.Transacted(ids, *(
            t.to_affected(answer.get(name, {})) for name in ("retried", "aborted", "deleted")))

    def get(self, ids: IDs) -> List[TaskInfo]:
        """Returns what the store knows about tasks, in the order of the IDs."""
        answer = self._call("TaskService/GetTasks", {"ids": f.names(ids)})
        return [t.to_task_info(each) for each in answer.get("tasks", ())]

    def list(
        self, actions: IDs = (), states: IDs = (), id_prefix: str = "", actor: str = "",
        min_age: Optional[Duration] = None, max_age: Optional[Duration] = None,
        newest_first: bool = False, limit: Optional[int] = None, key: str = "",
        headers: Optional[Mapping[str, str]] = None, body: str = "", status: str = "",
    ) -> Iterator[TaskInfo]:
        """Yields the tasks that pass, at most limit, without bodies and results.

        body is a path or a condition for bodies of JSON, such as ``$.customer.id == 7``; status is
        a part of the status, in any letter case.
        It asks for a page at a time, so tasks that change meanwhile may be yielded or not.
        """
        if limit is not None and limit < 0:
            raise InvalidArgument("limit must not be negative")
        request = f.message(
            actions=f.names(actions), states=f.names(states), id_prefix=id_prefix, actor=actor,
            min_age=f.from_duration(min_age), max_age=f.from_duration(max_age),
            newest_first=newest_first, key=key, headers=dict(headers or {}), body=body,
            status=f.told(status))
        return self._pages(request, limit)

    def _pages(self, request: Message, left: Optional[int]) -> Iterator[TaskInfo]:
        while left is None or left > 0:
            request["limit"] = _PAGE if left is None else min(_PAGE, left)
            answer = self._call("TaskService/ListTasks", request)
            page = answer.get("tasks", ())
            for info in page:
                yield t.to_task_info(info)
            request["after"] = answer.get("next")
            if not request["after"]:
                return
            if left is not None:
                left -= len(page)

    def explain(self, id: str) -> t.Explanation:
        """Says why a task does not run, or because of which others it was aborted or skipped."""
        return t.to_explanation(self._call("TaskService/ExplainTask", {"id": id}))

    def history(self, id: str) -> t.History:
        """Returns the ended tries of a task that the service keeps, and its recorded steps."""
        return t.to_history(self._call("TaskService/GetHistory", {"id": id}))

    def graph(self, id: str) -> t.Graph:
        """Returns the network around a task."""
        return t.to_graph(self._call("TaskService/GetGraph", {"id": id}))

    def stats(self) -> t.Stats:
        """Counts tasks by action and state."""
        return t.to_stats(self._call("TaskService/GetStats", {}))

    def minutes(self, action: str = "") -> Sequence[t.Minute]:
        """Returns what has happened in each minute of the last day, the oldest first.

        That is with the tasks of an action, by default of all actions together. It is refused to
        callers who may not see all of these tasks.
        """
        answer = self._call("TaskService/GetMinutes", {"action": action})
        return [t.to_minute(each) for each in answer.get("minutes", ())]

    def problems(self, limit: int = 100) -> t.Problems:
        """Names the slowest tasks, those that fail, and those that failed: at most limit each.

        errors are the latter two by what their last owners said, the largest group first.
        """
        return t.to_problems(self._call("TaskService/ListProblems", {"limit": limit}))

    def actors(self) -> Sequence[t.ActorInfo]:
        """Returns the live actors that show themselves by a stream, which workers here do not."""
        answer = self._call("TaskService/ListActors", {})
        return [t.to_actor_info(each) for each in answer.get("actors", ())]

    # The verbs that limit and pause actions. Each may be repeated.

    def set_limits(self, action: str, limits: Optional[t.Limits] = None) -> None:
        """Sets the limits of an action, in the place of those that it has. Default: none.

        It may wait for long, until tasks that were fetched before count.
        """
        self._call("TaskService/SetLimits", f.message(
            action=action, limits=t.from_limits(limits or t.Limits())), wait=_CHANGING)

    def list_limits(self, actions: IDs = ()) -> Sequence[t.ActionLimits]:
        """Returns the limits, pauses and weights of actions. Default: of all that have some."""
        answer = self._call("TaskService/ListLimits", f.message(actions=f.names(actions)))
        return [t.to_action_limits(each) for each in answer.get("limits", ())]

    def pause(self, actions: IDs) -> None:
        """Stops the fetches of tasks with these actions; their owners go on."""
        self._call("TaskService/Pause", f.message(actions=f.names(actions)))

    def resume(self, actions: IDs) -> None:
        """Ends the pauses of actions."""
        self._call("TaskService/Resume", f.message(actions=f.names(actions)))

    def pause_keys(self, action: str, keys: IDs) -> None:
        """Stops the fetches of tasks with these keys of an action."""
        self._call("TaskService/PauseKeys", f.message(action=action, keys=f.names(keys)))

    def resume_keys(self, action: str, keys: IDs) -> None:
        """Ends the pauses of keys of an action."""
        self._call("TaskService/ResumeKeys", f.message(action=action, keys=f.names(keys)))

    def set_weights(self, action: str, weights: Mapping[str, int]) -> None:
        """Sets by which weights the keys of an action take turns, where they do."""
        self._call("TaskService/SetWeights", f.message(action=action, weights=[
            {"key": key, "weight": weight} for key, weight in weights.items()]))

    # The verbs for schedules. Each may be repeated, but for trigger_schedule.

    def put_schedules(self, schedules: Union[t.Schedule, Iterable[t.Schedule]]) -> None:
        """Adds schedules, or changes those with the same names, all or none.

        One that keeps its times keeps its next occurrence, too, and one that is paused stays so.
        """
        self._call("TaskService/PutSchedules", {"schedules": _schedules(schedules)})

    def ensure_schedules(self, schedules: Union[t.Schedule, Iterable[t.Schedule]]) -> None:
        """Adds those of the schedules whose names no schedule has; the others stay as they are."""
        self._call("TaskService/EnsureSchedules", {"schedules": _schedules(schedules)})

    def list_schedules(self, names: IDs = ()) -> Sequence[t.ScheduleInfo]:
        """Returns schedules in the order of their names. Default: all."""
        answer = self._call("TaskService/ListSchedules", f.message(names=f.names(names)))
        return [t.to_schedule_info(each) for each in answer.get("schedules", ())]

    def pause_schedules(self, names: IDs) -> None:
        """Keeps schedules from occurring, all or none."""
        self._call("TaskService/PauseSchedules", f.message(names=f.names(names)))

    def resume_schedules(self, names: IDs) -> None:
        """Ends pauses. What schedules would have been due for meanwhile is left out."""
        self._call("TaskService/ResumeSchedules", f.message(names=f.names(names)))

    def delete_schedules(self, names: IDs) -> None:
        """Deletes schedules, all or none. Tasks that were inserted stay."""
        self._call("TaskService/DeleteSchedules", f.message(names=f.names(names)))

    def trigger_schedule(self, name: str) -> str:
        """Inserts the tasks of a schedule now, also if it is paused.

        It returns what their IDs begin with; a task without an ID has that as its own. It is not
        repeated, since a repetition would insert the tasks once more.
        """
        answer: str = self._connection.call(
            "TaskService/TriggerSchedule", {"name": name}).get("id", "")
        return answer

    def wait(self, ids: IDs, timeout: Optional[Duration] = None) -> Sequence[TaskInfo]:
        """Waits until all tasks have finished, and returns them in the order of the IDs.

        It raises TimeoutError if they have not within timeout; with 0 it looks once. Default: it
        waits for ever. The tasks must have been inserted with post_result.
        """
        ids = f.names(ids)  # an iterator yields them once
        until = None if timeout is None else time.monotonic() + f.to_wait("timeout", timeout)
        while True:
            left = _POLL if until is None else until - time.monotonic()
            wait = max(0.0, min(left, _POLL))
            answer = self._call("TaskService/WaitForTasks", {
                "ids": ids, "wait": f.from_duration(wait) or "0s"}, wait=wait)
            if answer.get("finished"):
                return [t.to_task_info(each) for each in answer.get("tasks", ())]
            if wait == 0.0:  # so the last look was not before the end
                raise TimeoutError("the tasks have not finished")

    def ends(
        self, actions: IDs = (), after: str = "", timeout: Optional[Duration] = None,
    ) -> Iterator[t.EndPage]:
        """Yields pages of the tasks that have ended since a cursor, in the order of their ends.

        Keep the next of a page when you have done with it, and pass it as after the next time: so
        you get each end at least once. The default is before all ends that are still in the store,
        "now" behind them. If nothing ends, a page without tasks comes every twenty seconds, with a
        newer cursor; after timeout without any the last one. Default: it goes on for ever. If
        tasks have been pruned that ended behind the cursor, it raises EndsPruned: begin anew.
        """
        actions = f.names(actions)
        until = None if timeout is None else time.monotonic() + f.to_wait("timeout", timeout)
        while True:
            left = _POLL if until is None else until - time.monotonic()
            wait = max(0.0, min(left, _POLL))
            page = t.to_end_page(self._call("TaskService/GetEnds", {
                "actions": actions, "from": after, "wait": f.from_duration(wait) or "0s",
            }, wait=wait))
            after = page.next
            yield page
            if wait == 0.0 and not page.tasks:
                return

    # The verbs of those who perform tasks.

    def own(
        self, actor: str, actions: IDs, max_tasks: int = 1, lease: Duration = 30.0,
        wait: Duration = 0.0,
    ) -> List[OwnedTask]:
        """Owns tasks that are ready, and waits for some for at most wait if there are none.

        With a wait of 0, the default, it looks once.

        A repetition after a lost answer asks for the same fetch, so the caller learns of every
        task that it was given. If the call fails all the same, the client goes on in the
        background, for a minute, to give back what may have been fetched: until then, or until
        the lease expires, the tasks are nobody's.
        """
        actions = f.names(actions)
        until = time.monotonic() + f.to_wait("wait", wait)
        while True:
            left = min(_POLL, until - time.monotonic())
            owned = self._own(actor, actions, max_tasks, lease, max(0.0, left), None)
            if owned or time.monotonic() >= until:
                return owned

    def _own(
        self, actor: str, actions: IDs, max_tasks: int, lease: Duration, wait: float,
        cancel: Optional[Cancel],
    ) -> List[OwnedTask]:
        """Asks for one fetch, until it is known what was fetched."""
        request = f.message(
            actor=actor, session=str(self._session()), max_tasks=max_tasks,
            actions=f.names(actions), lease=f.from_duration(lease), wait=f.from_duration(wait))
        unseen = False  # an answer that may have had tasks

        def attempt(again: bool) -> Message:
            nonlocal unseen
            if again:
                request["repeated"] = True
            try:
                return self._connection.call(
                    "WorkerService/OwnTasks", request, wait=wait, cancel=cancel)
            except Unavailable as error:
                unseen = unseen or error.ambiguous
                raise
            except (
                ClaimSpent, Copied, InvalidArgument, Limited, Refused, SchemaVersion,
            ):
                raise  # nothing was fetched
            except BaseException:  # also cancelled, or an exception of a signal handler
                unseen = True
                raise

        while True:
            request.pop("repeated", None)
            request["claim"] = str(secrets.randbelow((1 << 64) - 1) + 1)
            owned: List[OwnedTask] = []
            try:
                answer = repeat(attempt, cancel)
                owned = [t.to_owned_task(each) for each in answer.get("tasks", ())]
                return owned
            except ClaimSpent:  # what was fetched was given back
                unseen = False
            finally:
                if unseen and not owned:  # an attempt that was given up may still fetch
                    self._release_later(actor, request["claim"])

    def _release_later(self, actor: str, claim: str) -> None:
        """Gives back in the background what was or will be fetched under a claim."""
        def release() -> None:
            try:
                repeat(lambda _: self._release(actor, claim), repeat_for=_RELEASE_FOR)
            except StintError as error:
                _log.warning("could not give back tasks that may have been fetched; "
                             "their leases expire: %s", error)
            finally:
                self._connection.close()

        thread = threading.Thread(target=release, name="stint-release", daemon=True)
        thread.start()
        self._releasing.add(thread)  # after the start, since close joins what is here
        for each in self._releasing.copy():
            if not each.is_alive():
                self._releasing.discard(each)

    def _release(self, actor: str, claim: str) -> None:
        self._connection.call("WorkerService/ReleaseClaim", {"actor": actor, "claim": claim})

    def release_claim(self, actor: str, claim: int) -> None:
        """Gives back, with their tries refunded, the tasks that were fetched under a claim.

        It is for callers that make the claims of OwnTasks themselves; own has released its own.
        """
        repeat(lambda _: self._release(actor, str(claim)))

    def extend(
        self, actor: str, tasks: Iterable[OwnedTask], lease: Duration = 30.0,
    ) -> List[bool]:
        """Extends leases, and says which of the tasks the actor still owns."""
        tasks = tuple(tasks)
        return repeat(lambda _: self._extend(actor, tasks, lease, None))

    def _extend(
        self, actor: str, tasks: Iterable[OwnedTask], lease: Duration, timeout: Optional[float],
    ) -> List[bool]:
        request = f.message(actor=actor, tasks=[f.from_performance(task) for task in tasks],
                            lease=f.from_duration(lease), session=str(self._session()))
        answer = self._connection.call(
            "WorkerService/ExtendTasksOwnership", request, timeout=timeout)
        return answer.get("kept", [])

    def return_tasks(
        self, returns: Union[Return, Iterable[Return]], promptly: bool = False,
    ) -> List[Optional[StintError]]:
        """Returns tasks, each for itself, and says of each why it was not returned, or None.

        promptly: returns that would have to wait for others are refused with Busy.
        """
        answer = self._call("WorkerService/ReturnTasks", f.message(
            returns=f.several(t.from_return, returns, Return), promptly=promptly))
        return [_verdict(each) for each in answer.get("verdicts", ())]

    def set_status(self, task: OwnedTask, status: str, progress: float = 0.0) -> None:
        """Records a text for people, and the progress of a task, from 0 to 1.

        What cannot be stored of the text is replaced or cut.
        """
        self._call("WorkerService/SetStatus", f.message(
            id=task.id, token=task.token, status=f.told(status), progress=progress))

    def fence(self, task: OwnedTask) -> int:
        """Draws a number for an owned task that is greater than those of its earlier fetches.

        Other systems can refuse by it what a late owner writes.
        """
        answer = self._call("WorkerService/DrawFence", f.message(id=task.id, token=task.token))
        return int(answer["fence"])

    def inputs(self, task: OwnedTask) -> List[t.Input]:
        """Returns how the predecessors of an owned task ended."""
        found: List[t.Input] = []
        after = ""
        while True:  # a page after the other, however large they are
            answer = self._call("WorkerService/GetInputs", f.message(
                id=task.id, token=task.token, paged=True, after=after))
            found += [t.to_input(each) for each in answer.get("inputs", ())]
            after = answer.get("next", "")
            if not after:
                return found

    def record_step(self, task: OwnedTask, name: str, result: Content) -> bytes:
        """Records what a step of an owned task returned, and returns what is recorded then.

        If a step with the name is recorded already, that stays as it is.
        """
        return f.to_step_result(self._call("WorkerService/RecordStep", f.message(
            id=task.id, token=task.token, name=name,
        ) | f.from_content(result, "result", "result_text")))

    def steps(self, task: OwnedTask) -> Dict[str, bytes]:
        """Returns what the recorded steps of an owned task returned, by their names."""
        return {name: f.to_step_result(step) for name, step in self._steps(task).items()}

    def _steps(self, task: OwnedTask) -> Dict[str, Message]:
        answer = self._call("WorkerService/ListSteps", f.message(id=task.id, token=task.token))
        return {each["name"]: each for each in answer.get("steps", ())}


def _tasks(given: Union[Task, Iterable[Task]]) -> List[Message]:
    return f.several(t.from_task, given, Task)


def _dependencies(given: Iterable[Dependency]) -> List[Message]:
    return f.several(t.from_dependency, given, Dependency)


def _schedules(given: Union[t.Schedule, Iterable[t.Schedule]]) -> List[Message]:
    return f.several(t.from_schedule, given, t.Schedule)


def _verdict(message: Dict[str, Any]) -> Optional[StintError]:
    if "error" not in message:
        return None
    return new_error("", message.get("message", ""), message["error"])
