"""The tasks that calls take and return, and the form that they have in JSON."""

from __future__ import annotations

import base64
import re
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from .errors import InvalidArgument

#: Seconds, or a timedelta.
Duration = Union[timedelta, float, int]
#: A str is sent as text; in the store both are bytes.
Content = Union[bytes, str]
Message = Dict[str, Any]


@dataclass
class Condition:
    """A task that another waits for, and how it must end for the other one to start.

    states: "completed", the default, "aborted", "skipped".
    results: those of which a completed task must have one, byte by byte: at most 32 of 255 bytes
        each. Default: any result. Conditions that come from the service have them as bytes.
    """

    after: str
    states: Union[str, Sequence[str]] = ()
    results: Union[Content, Sequence[Content]] = ()


@dataclass
class Task:
    """A task to insert. A naive time is refused: say which zone is meant.

    id: 1 to 512 bytes of UTF-8. Default: a random one, made here.
    body: the parameters of the action, at most 64 MiB, which nobody interprets.
    max_tries: how often the task is fetched at most. 0 is the default, 25; -1 is no limit.
    post_result: makes it possible to wait for the task.
    on_abort: "abort-too", the default, or "run-anyway".
    after, to_signal_after: the tasks that this one waits for, and those that wait for this one.
    when: further tasks that this one waits for, and how each must end: the task starts when all
        conditions are met, and is skipped as soon as one cannot be met any more.
    when_any: tasks of which the first that ends as its condition says starts this one. Such a task
        has neither after nor when.
    key: groups tasks of an action, such as by customer: limits per key and fair shares count by it.
    answer_key: what must come with the answer to a task whose action is "stint.External": 16 bytes
        or more that cannot be guessed, such as secrets.token_urlsafe().
    fail_fast: has what only this task needs aborted when this one is.
    headers: what is said of the task that is no parameter of the action, such as of which trace it
        is a part: up to 16 names with values, of 2 KiB together. Names are of the characters a-z,
        0-9 and -.
    """

    action: str
    body: Optional[Content] = None
    id: str = ""
    priority: int = 0
    max_tries: int = 0
    not_before: Optional[datetime] = None
    deadline: Optional[datetime] = None
    post_result: bool = False
    on_abort: str = ""
    after: Sequence[str] = ()
    to_signal_after: Sequence[str] = ()
    key: str = ""
    answer_key: str = field(default="", repr=False)
    fail_fast: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    when: Union[Condition, Sequence[Condition]] = ()
    when_any: Union[Condition, Sequence[Condition]] = ()

    def __post_init__(self) -> None:
        self.id = self.id or str(uuid.uuid4())


@dataclass
class TaskInfo:
    """What the store knows about a task at one instant.

    max_tries: -1 is no limit.
    status_code: "pending", "in-progress", "completed", "aborted" or "skipped".
    state: the same, more finely: "blocked", "scheduled" and "ready" are pending.
    body, result: None in a list, and if there is none.
    hidden: The service has left out both, whether there are any or not: the caller may not read
        them.
    """

    id: str
    action: str
    body: Optional[bytes] = None
    priority: int = 0
    max_tries: int = 0
    deadline: Optional[datetime] = None
    post_result: bool = False
    on_abort: str = ""
    status_code: str = ""
    state: str = ""
    abort_cause: str = ""
    inserted_at: Optional[datetime] = None
    not_before: Optional[datetime] = None
    finished_at: Optional[datetime] = None
    tries: int = 0
    actor: str = ""
    owned_at: Optional[datetime] = None
    lease_until: Optional[datetime] = None
    status: str = ""
    progress: float = 0.0
    result: Optional[bytes] = None
    key: str = ""
    headers: Dict[str, str] = field(default_factory=dict)
    hidden: bool = False


@dataclass
class OwnedTask:
    """A task that an actor owns. Whoever has the token controls the task: keep it out of logs.

    try_: the number of this try, from 1.
    max_tries: -1 is no limit.
    completed, aborted: how many of the tasks that this one waited for ended so.
    lease_until: when the lease expires on the database's clock; None if it does not.
    inserted_at: when the task was inserted, on the database's clock.
    """

    id: str
    token: str = field(repr=False)
    action: str = ""
    body: Optional[bytes] = field(default=None, repr=False)
    try_: int = 0
    max_tries: int = 0
    completed: int = 0
    aborted: int = 0
    lease_until: Optional[datetime] = None
    key: str = ""
    headers: Dict[str, str] = field(default_factory=dict)
    inserted_at: Optional[datetime] = None


@dataclass
class Debounced:
    """A call of debounce: the task starts quiet after it, but at most at_most after the first."""

    task: Task
    quiet: Duration
    at_most: Duration


@dataclass
class Return:
    """The end of a performance.

    code: "completed", "aborted", or "pending" for another try.
    status: a text for people.
    retry_after: how long a task that is returned as pending waits.
    release: refunds the try of a task that is returned as pending.
    log: the last lines that were logged of the performance, for its history.
    """

    id: str
    token: str = field(repr=False)
    code: str = "completed"
    status: str = ""
    result: Optional[Content] = field(default=None, repr=False)
    retry_after: Optional[Duration] = None
    release: bool = False
    log: str = field(default="", repr=False)

    @classmethod
    def of(cls, task: OwnedTask, code: str = "completed", **other: Any) -> Return:
        """Returns the return of an owned task."""
        return cls(task.id, task.token, code, **other)


@dataclass
class Answer:
    """The end of an external task.

    code: "completed", "aborted" or "skipped".
    status: a text for people.
    key: the answer_key of the task, if it has one.
    """

    id: str
    code: str = "completed"
    status: str = ""
    result: Optional[Content] = field(default=None, repr=False)
    key: str = field(default="", repr=False)


@dataclass(frozen=True)
class Dependency:
    """Says that one task waits for another."""

    predecessor: str
    dependent: str


@dataclass(frozen=True)
class Affected:
    """Which tasks a call changed: those that it named, and how many with them.

    in_progress: how many of tasks were in progress when they were aborted.
    started, skipped, later: only with dry_run, how many others then wait for no tasks any more and
    begin; how many end skipped; and how many more are aborted within about a second.
    """

    tasks: Sequence[str] = ()
    others: int = 0
    in_progress: int = 0
    started: int = 0
    skipped: int = 0
    later: int = 0


@dataclass
class Ensured:
    """The IDs of the tasks of a call, and of those that were there before."""

    ids: Sequence[str] = ()
    existing: Sequence[str] = ()


@dataclass
class Transacted:
    """What a transaction did: the IDs that it inserted, and what else it changed."""

    ids: Sequence[str] = ()
    retried: Affected = Affected()
    aborted: Affected = Affected()
    deleted: Affected = Affected()


@dataclass
class Input:
    """How a predecessor of a task ended."""

    id: str
    action: str = ""
    status_code: str = ""
    abort_cause: str = ""
    status: str = ""
    result: Optional[bytes] = None


@dataclass
class Explanation:
    """Why a task does not run, or because of which others it was aborted or skipped.

    missing: how many tasks it waits for.
    any_of: whether the first of these to meet its condition starts it.
    tries_left: -1 is no limit.
    asked_at: when somebody last asked for tasks of its action, which is now as long as somebody
        waits for some; None if nobody has for a week.
    actors: how many are registered for its action.
    presence: "lives" or "gone", of the process of its owner; empty if nothing is known.
    now: the time on the database's clock.
    limits: how limits and pauses hold a ready task up; None where there are none.
    steps: its recorded steps.
    """

    task: TaskInfo
    missing: int = 0
    waits_for: Sequence[TaskInfo] = ()
    because_of: Sequence[TaskInfo] = ()
    tries_left: int = 0
    asked_at: Optional[datetime] = None
    now: Optional[datetime] = None
    limits: "Optional[TaskLimits]" = None
    steps: "Sequence[StepInfo]" = ()
    any_of: bool = False
    actors: int = 0
    presence: str = ""


@dataclass(frozen=True)
class StepInfo:
    """A recorded step of a task, and how many bytes its result has."""

    name: str
    recorded_at: Optional[datetime] = None
    bytes: int = 0


@dataclass(frozen=True)
class Try:
    """A fetch of a task that has ended.

    number: of the fetch, since the task was inserted or retried.
    outcome: "completed", "aborted", "returned" for another try, "released" if it did not count,
        "expired", "cancelled" or "overdue".
    owned_at: None where only the end is known.
    """

    number: int
    outcome: str
    actor: str
    owned_at: Optional[datetime] = None
    ended_at: Optional[datetime] = None
    status: str = ""
    log: str = ""


@dataclass(frozen=True)
class History:
    """The ended tries of a task, the latest last, and its recorded steps."""

    tries: Sequence[Try] = ()
    steps: Sequence[StepInfo] = ()


@dataclass
class EdgeCondition:
    """The condition of a dependency. any: it is one of the dependent's when_any."""

    dependent: str
    condition: Condition
    any: bool = False


@dataclass
class Graph:
    """The network around a task. cut: it is larger than an answer may be.

    conditions: those of the dependencies that have one.
    """

    tasks: Sequence[TaskInfo] = ()
    dependencies: Sequence[Dependency] = ()
    cut: bool = False
    conditions: Sequence[EdgeCondition] = ()


@dataclass
class ActionStats:
    """How many tasks of an action are in each state, and how often they were tried.

    parked: how many of the ready tasks wait for their key, below a limit, a pause or for its turn.
    limited, paused: whether there are limits, and whether the whole action is paused.
    concurrency: how many tasks its limits let be in progress at once; 0 is any number.
    """

    action: str
    blocked: int = 0
    scheduled: int = 0
    ready: int = 0
    in_progress: int = 0
    completed: int = 0
    aborted: int = 0
    oldest_ready: timedelta = timedelta()
    tries: int = 0
    retries: int = 0
    parked: int = 0
    limited: bool = False
    concurrency: int = 0
    paused: bool = False
    skipped: int = 0


@dataclass
class Stats:
    """Counts of all tasks. estimated: the states whose counts are estimates, made at estimated_at."""

    actions: Sequence[ActionStats] = ()
    estimated: Sequence[str] = ()
    estimated_at: Optional[datetime] = None
    pruning_behind: timedelta = timedelta()


@dataclass
class Problems:
    """The slowest tasks, those that fail, and those that failed.

    unwatched: in progress, of owners whose process nobody watches, the last to expire first.
    """

    slow: Sequence[TaskInfo] = ()
    failing: Sequence[TaskInfo] = ()
    failed: Sequence[TaskInfo] = ()
    errors: "Sequence[ErrorGroup]" = ()
    unwatched: Sequence[TaskInfo] = ()


@dataclass(frozen=True)
class ErrorGroup:
    """Tasks of an action that failed alike: how many, the error of the latest one, and its ID."""

    action: str
    tasks: int
    error: str
    example: str


@dataclass
class ActorInfo:
    """A live actor: what it performs, and how many tasks it owns."""

    actor: str
    actions: Sequence[str] = ()
    tasks: int = 0
    since: Optional[datetime] = None


@dataclass(frozen=True)
class Rate:
    """So many tasks in a time. If fewer were fetched for a while, burst may be at once.

    burst: Default: what comes in a second, at least 1.
    """

    tasks: int
    per: Duration
    burst: int = 0


@dataclass
class Limits:
    """How tasks with one action are fetched. 0, None and False are no limit.

    concurrency, concurrency_per_key: how many may be in progress at once.
    fair: keys take turns, by weight, within a priority.
    fair_group: fair actions of a group share the turns of their keys.
    ordered: tasks of each key one at a time, in order, through all tries; concurrency_per_key is 1.
    """

    concurrency: int = 0
    concurrency_per_key: int = 0
    rate: Optional[Rate] = None
    rate_per_key: Optional[Rate] = None
    fair: bool = False
    fair_group: str = ""
    ordered: bool = False


@dataclass
class TaskLimits:
    """How limits and pauses hold up a ready task.

    limits: those of its action.
    paused_since, key_paused_since: None if the action and the task's key are not paused.
    in_progress, key_in_progress: counted where concurrency and concurrency_per_key are set.
    owned, key_owned: up to 100 of these tasks each; of an ordered action key_owned is the task that
        holds the key, in progress or not.
    next_at, key_next_at: when the next tokens come; None if there is one.
    key_waiting: how many tasks with the key are parked, 10,000 if key_waiting_or_more.
    waits_for_turn: it waits for the turn of its key, and turns_ahead of others come first.
    parked: it is not in the queue, but waits until its key has capacity, is resumed, or its turn.
    hidden: some of this is left out, since the caller may not read all tasks of the action.
    """

    limits: Limits = field(default_factory=Limits)
    paused_since: Optional[datetime] = None
    key_paused_since: Optional[datetime] = None
    in_progress: int = 0
    owned: Sequence[TaskInfo] = ()
    key_in_progress: int = 0
    key_owned: Sequence[TaskInfo] = ()
    next_at: Optional[datetime] = None
    key_next_at: Optional[datetime] = None
    key_waiting: int = 0
    key_waiting_or_more: bool = False
    waits_for_turn: bool = False
    turns_ahead: int = 0
    parked: bool = False
    hidden: bool = False


@dataclass
class ActionLimits:
    """How an action is limited and paused.

    paused_since: None if the whole action is not paused.
    in_progress: counted where concurrency or concurrency_per_key is set.
    parked: how many ready tasks wait for capacity of their key, for the end of its pause, or for its
        turn; 100,000 if parked_or_more.
    tokens: what there is of the rate; next_at is when the next one comes, None if there is one.
    paused_keys, weights: not all if keys_or_more.
    """

    action: str
    limits: Limits = field(default_factory=Limits)
    set_at: Optional[datetime] = None
    paused_since: Optional[datetime] = None
    in_progress: int = 0
    parked: int = 0
    parked_or_more: bool = False
    tokens: float = 0.0
    next_at: Optional[datetime] = None
    paused_keys: Mapping[str, datetime] = field(default_factory=dict)
    weights: Mapping[str, int] = field(default_factory=dict)
    keys_or_more: bool = False


@dataclass
class Schedule:
    """Inserts tasks again and again, at times that a calendar says.

    name: the IDs of its tasks begin with it: 1 to 200 bytes of UTF-8.
    spec: the five fields of cron, one of @yearly, @monthly, @weekly, @daily and @hourly, or "every"
        and a time, such as "every 90s".
    tasks: what is inserted. Their IDs become name/2026-11-22T08:00:00Z/id; of a task that is alone
        the ID is left out. after and to_signal_after name tasks of the same schedule; not_before
        and deadline must be None.
    zone: the zone of the fields, such as "Europe/Berlin". Default: UTC.
    catch_up: what becomes of occurrences that were missed: "last", the default, "skip" or "all".
    window: how long ago those are at most that are caught up with. Default: 24 hours.
    overlap: what becomes of an occurrence while tasks of the one before have not finished: "allow",
        the default, "skip", "wait" or "abort".
    jitter: tasks start up to that much later.
    from_, to: the first and the last moment at which it may occur.
    expire: the next occurrence is the deadline of the tasks.
    """

    name: str
    spec: str
    tasks: Sequence[Task]
    zone: str = ""
    catch_up: str = ""
    window: Optional[Duration] = None
    overlap: str = ""
    jitter: Optional[Duration] = None
    from_: Optional[datetime] = None
    to: Optional[datetime] = None
    expire: bool = False


@dataclass
class ScheduleInfo:
    """A schedule and how far it has come.

    next_at: the next occurrence; None if there is none, or the schedule is paused.
    last_at, last_ids: the last occurrence of which tasks were inserted, and their IDs.
    missed, skipped: how many were left out because of catch_up, and because of overlap.
    paused_since: None if it is not paused.
    hidden: the service has left out bodies of its tasks: the caller may not read them.
    """

    schedule: Schedule
    next_at: Optional[datetime] = None
    last_at: Optional[datetime] = None
    last_ids: Sequence[str] = ()
    missed: int = 0
    skipped: int = 0
    paused_since: Optional[datetime] = None
    changed_at: Optional[datetime] = None
    hidden: bool = False


def seconds(duration: Duration) -> float:
    """Returns a duration in seconds."""
    return duration.total_seconds() if isinstance(duration, timedelta) else float(duration)


def to_wait(name: str, wait: Duration) -> float:
    """Returns for how many seconds to wait."""
    try:
        given = seconds(wait)
    except (OverflowError, TypeError, ValueError):
        given = -1.0
    if not given >= 0:  # nor if it is not a number
        raise InvalidArgument(f"{name} must be a timedelta, or seconds, and not negative")
    return given


def from_debounced(call: Debounced) -> Dict[str, Any]:
    """Returns the message of a call of debounce."""
    return message(
        task=from_task(call.task), quiet=from_duration(call.quiet),
        at_most=from_duration(call.at_most))


def from_duration(duration: Optional[Duration]) -> Optional[str]:
    """Returns a duration as JSON has it, None for none."""
    if duration is None:
        return None
    try:
        if not isinstance(duration, timedelta):
            duration = timedelta(seconds=duration)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidArgument(f"a duration must be a timedelta, or seconds: {error}") from None
    microseconds = duration // timedelta(microseconds=1)
    if not microseconds:
        return None
    whole, part = divmod(abs(microseconds), 1_000_000)
    return f"{'-' if microseconds < 0 else ''}{whole}.{part:06d}s"


def to_duration(text: Optional[str]) -> timedelta:
    """Undoes from_duration. What is shorter than a microsecond is cut off."""
    if not text:
        return timedelta()
    whole, _, part = text.rstrip("s").lstrip("-").partition(".")
    duration = timedelta(seconds=int(whole), microseconds=int((part + "000000")[:6]))
    return -duration if text.startswith("-") else duration


def from_time(time: Optional[datetime]) -> Optional[str]:
    """Returns a time as JSON has it, None for none."""
    if time is None:
        return None
    if not isinstance(time, datetime) or time.utcoffset() is None:
        raise InvalidArgument("a time must be a datetime with a zone")
    try:
        there = time.astimezone(timezone.utc)
    except OverflowError:  # such as datetime.max with a zone west of Greenwich
        raise InvalidArgument("a time must be in the years 1 to 9999, in UTC") from None
    return there.replace(tzinfo=None).isoformat() + "Z"


_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?Z")


def to_time(text: Optional[str]) -> Optional[datetime]:
    """Undoes from_time. What is shorter than a microsecond is cut off."""
    if not text:
        return None
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f"{text} is no time")
    part = int(((found[2] or "") + "000000")[:6])
    whole = datetime.strptime(found[1], "%Y-%m-%dT%H:%M:%S")
    return whole.replace(microsecond=part, tzinfo=timezone.utc)


def message(**fields: Any) -> Message:
    """Returns a message without the fields that have their defaults."""
    return {name: value for name, value in fields.items() if value}


def names(ids: Union[str, Iterable[str]]) -> List[str]:
    """Returns IDs as a list; a str is one ID, not its letters."""
    return [ids] if isinstance(ids, str) else list(ids)


_SURROGATES = re.compile("[\ud800-\udfff]")


def told(text: str) -> str:
    """Returns a text for people as it can be sent. What is no Unicode in it is replaced: no status
    keeps a task from being returned."""
    return _SURROGATES.sub("\ufffd", text)


def _put(into: Message, content: Optional[Content], for_bytes: str, for_text: str) -> Message:
    """Adds content, which may be empty, but not if there is none."""
    if isinstance(content, str):
        into[for_text] = content
    elif isinstance(content, (bytes, bytearray, memoryview)):
        into[for_bytes] = base64.b64encode(content).decode("ascii")
    elif content is not None:
        raise InvalidArgument(
            f"a body or a result must be bytes or str, not {type(content).__name__}")
    return into


def _content(of: Message, for_bytes: str, for_text: str) -> Optional[bytes]:
    if for_bytes in of:
        return base64.b64decode(of[for_bytes])
    return of[for_text].encode("utf-8") if for_text in of else None


def from_task(task: Task) -> Message:
    return _put(message(
        id=task.id, action=task.action, priority=task.priority, max_tries=task.max_tries,
        not_before=from_time(task.not_before), deadline=from_time(task.deadline),
        post_result=task.post_result, on_abort=task.on_abort, after=names(task.after),
        to_signal_after=names(task.to_signal_after), key=task.key, answer_key=task.answer_key,
        fail_fast=task.fail_fast, headers=dict(task.headers),
        when=_from_conditions(task.when), when_any=_from_conditions(task.when_any),
    ), task.body, "body", "text")


def _from_conditions(given: Union[Condition, Iterable[Condition]]) -> List[Message]:
    return [_from_condition(each)
            for each in ([given] if isinstance(given, Condition) else given)]


def _from_condition(condition: Condition) -> Message:
    one = isinstance(condition.results, (str, bytes, bytearray, memoryview))
    texts: List[Content] = []
    encoded: List[Content] = []
    for result in [condition.results] if one else condition.results:
        m = _put({}, result, "bytes", "text")  # type: ignore[arg-type]
        texts += [m["text"]] if "text" in m else []
        encoded += [m["bytes"]] if "bytes" in m else []
    return message(after=condition.after, states=names(condition.states), results=texts,
                   result_bytes=encoded)


def _to_conditions(messages: Iterable[Message]) -> List[Condition]:
    return [_to_condition(m) for m in messages]


def _to_condition(m: Message) -> Condition:
    results = [text.encode("utf-8") for text in m.get("results", ())]
    results += [base64.b64decode(each) for each in m.get("result_bytes", ())]
    return Condition(after=m.get("after", ""), states=m.get("states", []), results=results)


def to_edge_conditions(messages: Iterable[Message]) -> List[EdgeCondition]:
    return [EdgeCondition(dependent=m.get("dependent", ""), any=m.get("any", False),
                          condition=_to_condition(m.get("condition", {}))) for m in messages]


def from_tasks(tasks: Union[Task, Iterable[Task]]) -> List[Message]:
    return [from_task(task) for task in ([tasks] if isinstance(tasks, Task) else tasks)]


def from_performance(task: Any) -> Message:
    """Returns the ID and the token of whatever has both."""
    return {"id": task.id, "token": task.token}


def from_return(given: Return) -> Message:
    return _put(message(
        id=given.id, token=given.token, code=given.code, status=told(given.status),
        retry_after=from_duration(given.retry_after), release=given.release, log=told(given.log),
    ), given.result, "result", "result_text")


def from_answer(given: Answer) -> Message:
    return _put(message(id=given.id, code=given.code, status=told(given.status), key=given.key),
                given.result, "result", "result_text")


def from_step(task: Any, name: str, result: Content) -> Message:
    return _put(message(id=task.id, token=task.token, name=name), result, "result", "result_text")


def to_error_group(m: Message) -> ErrorGroup:
    return ErrorGroup(m.get("action", ""), m.get("tasks", 0), m.get("error", ""),
                      m.get("example", ""))


def to_step_infos(messages: Optional[Iterable[Message]]) -> List[StepInfo]:
    return [StepInfo(m.get("name", ""), to_time(m.get("recorded_at")), int(m.get("bytes", 0)))
            for m in messages or ()]


def to_try(m: Message) -> Try:
    return Try(
        number=m.get("number", 0), outcome=m.get("outcome", ""), actor=m.get("actor", ""),
        owned_at=to_time(m.get("owned_at")), ended_at=to_time(m.get("ended_at")),
        status=m.get("status", ""), log=m.get("log", ""))


def to_step_result(m: Message) -> bytes:
    return _content(m, "result", "result_text") or b""


def from_dependencies(dependencies: Iterable[Dependency]) -> List[Message]:
    return [{"predecessor": d.predecessor, "dependent": d.dependent} for d in dependencies]


def to_dependencies(messages: Iterable[Message]) -> List[Dependency]:
    return [Dependency(m.get("predecessor", ""), m.get("dependent", "")) for m in messages]


def to_affected(m: Optional[Mapping[str, Any]]) -> Affected:
    m = m or {}
    return Affected(tuple(m.get("tasks", ())), int(m.get("others", 0)),
                    int(m.get("in_progress", 0)), int(m.get("started", 0)),
                    int(m.get("skipped", 0)), int(m.get("later", 0)))


_TIMES = ("deadline", "inserted_at", "not_before", "finished_at", "owned_at", "lease_until")
_PLAIN = (
    "id", "action", "priority", "max_tries", "post_result", "on_abort", "status_code", "state",
    "abort_cause", "tries", "actor", "status", "key", "hidden",
)


def to_info(m: Message) -> TaskInfo:
    info = TaskInfo(
        id="", action="", body=_content(m, "body", "text"),
        result=_content(m, "result", "result_text"), progress=float(m.get("progress", 0)),
        headers=dict(m.get("headers", {})),
    )
    for name in _PLAIN:
        if name in m:
            setattr(info, name, m[name])
    for name in _TIMES:
        setattr(info, name, to_time(m.get(name)))
    return info


def to_infos(messages: Optional[Iterable[Message]]) -> List[TaskInfo]:
    return [to_info(m) for m in messages or ()]


def to_owned(m: Message) -> OwnedTask:
    return OwnedTask(
        id=m["id"], token=m["token"], action=m["action"], body=_content(m, "body", "text"),
        try_=m.get("try", 0), max_tries=m.get("max_tries", 0), completed=m.get("completed", 0),
        aborted=m.get("aborted", 0), lease_until=to_time(m.get("lease_until")),
        key=m.get("key", ""), headers=dict(m.get("headers", {})),
        inserted_at=to_time(m.get("inserted_at")),
    )


def to_input(m: Message) -> Input:
    return Input(
        id=m.get("id", ""), action=m.get("action", ""), status_code=m.get("status_code", ""),
        abort_cause=m.get("abort_cause", ""), status=m.get("status", ""),
        result=_content(m, "result", "result_text"),
    )


def to_action_stats(m: Message) -> ActionStats:
    counts = ("blocked", "scheduled", "ready", "in_progress", "completed", "aborted", "skipped",
              "tries", "retries", "parked", "concurrency")
    return ActionStats(
        action=m.get("action", ""), oldest_ready=to_duration(m.get("oldest_ready")),
        limited=m.get("limited", False), paused=m.get("paused", False),
        **{name: int(m.get(name, 0)) for name in counts},
    )


def to_actor(m: Message) -> ActorInfo:
    return ActorInfo(
        actor=m.get("actor", ""), actions=m.get("actions", []), tasks=int(m.get("tasks", 0)),
        since=to_time(m.get("since")),
    )


def from_limits(limits: Limits) -> Message:
    return message(
        concurrency=limits.concurrency, concurrency_per_key=limits.concurrency_per_key,
        rate=_from_rate(limits.rate), rate_per_key=_from_rate(limits.rate_per_key),
        fair=limits.fair, fair_group=limits.fair_group, ordered=limits.ordered)


def _from_rate(rate: Optional[Rate]) -> Optional[Message]:
    if rate is None:
        return None
    return message(tasks=rate.tasks, per=from_duration(rate.per), burst=rate.burst)


def _to_rate(m: Optional[Message]) -> Optional[Rate]:
    if m is None:
        return None
    return Rate(
        tasks=int(m.get("tasks", 0)), per=to_duration(m.get("per")), burst=int(m.get("burst", 0)))


def _to_limits(m: Message) -> Limits:
    return Limits(
        concurrency=int(m.get("concurrency", 0)),
        concurrency_per_key=int(m.get("concurrency_per_key", 0)),
        rate=_to_rate(m.get("rate")), rate_per_key=_to_rate(m.get("rate_per_key")),
        fair=m.get("fair", False), fair_group=m.get("fair_group", ""),
        ordered=m.get("ordered", False))


def to_task_limits(m: Optional[Message]) -> Optional[TaskLimits]:
    if m is None:
        return None
    return TaskLimits(
        limits=_to_limits(m.get("limits", {})), paused_since=to_time(m.get("paused_since")),
        key_paused_since=to_time(m.get("key_paused_since")),
        in_progress=int(m.get("in_progress", 0)), owned=to_infos(m.get("owned")),
        key_in_progress=int(m.get("key_in_progress", 0)),
        key_owned=to_infos(m.get("key_owned")), next_at=to_time(m.get("next_at")),
        key_next_at=to_time(m.get("key_next_at")), key_waiting=int(m.get("key_waiting", 0)),
        key_waiting_or_more=m.get("key_waiting_or_more", False),
        waits_for_turn=m.get("waits_for_turn", False), turns_ahead=int(m.get("turns_ahead", 0)),
        parked=m.get("parked", False), hidden=m.get("hidden", False),
    )


def to_action_limits(m: Message) -> ActionLimits:
    keys = m.get("keys", ())
    paused = {key.get("key", ""): to_time(key.get("paused_since")) for key in keys}
    weights = {key.get("key", ""): int(key.get("weight", 0)) for key in keys}
    return ActionLimits(
        action=m.get("action", ""),
        limits=_to_limits(m.get("limits", {})),
        set_at=to_time(m.get("set_at")), paused_since=to_time(m.get("paused_since")),
        in_progress=int(m.get("in_progress", 0)), parked=int(m.get("parked", 0)),
        parked_or_more=m.get("parked_or_more", False), tokens=float(m.get("tokens", 0)),
        next_at=to_time(m.get("next_at")),
        paused_keys={key: since for key, since in paused.items() if since is not None},
        weights={key: weight for key, weight in weights.items() if weight > 1},
        keys_or_more=m.get("keys_or_more", False),
    )


def from_schedules(schedules: Union[Schedule, Iterable[Schedule]]) -> List[Message]:
    given = [schedules] if isinstance(schedules, Schedule) else schedules
    return [_from_schedule(each) for each in given]


def _from_schedule(schedule: Schedule) -> Message:
    tasks = from_tasks(schedule.tasks)
    if len(tasks) == 1:
        del tasks[0]["id"]  # it may have been made at random
    m = message(
        name=schedule.name, spec=schedule.spec, zone=schedule.zone, tasks=tasks,
        catch_up=schedule.catch_up, window=from_duration(schedule.window),
        overlap=schedule.overlap, jitter=from_duration(schedule.jitter),
        to=from_time(schedule.to), expire=schedule.expire)
    if schedule.from_ is not None:
        m["from"] = from_time(schedule.from_)
    return m


def to_schedule_info(m: Message) -> ScheduleInfo:
    of = m.get("schedule", {})
    return ScheduleInfo(
        schedule=Schedule(
            name=of.get("name", ""), spec=of.get("spec", ""),
            tasks=[_to_task(each) for each in of.get("tasks", ())], zone=of.get("zone", ""),
            catch_up=of.get("catch_up", ""), window=_to_span(of.get("window")),
            overlap=of.get("overlap", ""), jitter=_to_span(of.get("jitter")),
            from_=to_time(of.get("from")), to=to_time(of.get("to")),
            expire=of.get("expire", False)),
        next_at=to_time(m.get("next_at")), last_at=to_time(m.get("last_at")),
        last_ids=m.get("last_ids", []), missed=int(m.get("missed", 0)),
        skipped=int(m.get("skipped", 0)), paused_since=to_time(m.get("paused_since")),
        changed_at=to_time(m.get("changed_at")), hidden=m.get("hidden", False),
    )


def _to_span(text: Optional[str]) -> Optional[timedelta]:
    return None if text is None else to_duration(text)


def _to_task(m: Message) -> Task:
    task = Task(
        action=m.get("action", ""), body=_content(m, "body", "text"), key=m.get("key", ""),
        priority=m.get("priority", 0), max_tries=m.get("max_tries", 0),
        post_result=m.get("post_result", False), on_abort=m.get("on_abort", ""),
        after=m.get("after", []), to_signal_after=m.get("to_signal_after", []),
        fail_fast=m.get("fail_fast", False), headers=m.get("headers", {}),
        when=_to_conditions(m.get("when", ())), when_any=_to_conditions(m.get("when_any", ())))
    task.id = m.get("id", "")
    return task
