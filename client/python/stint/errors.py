"""The errors of calls. Each is known by the kind that the service sends, never by its text."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union


@dataclass(frozen=True)
class RefusedDependency:
    """A dependency that cannot be added. A state is empty if there is no such task."""

    predecessor: str
    dependent: str
    kind: str
    predecessor_state: str = ""
    dependent_state: str = ""


class StintError(Exception):
    """What the service says about a call that failed, or about a return that was not made."""

    kind = ""  # as in the messages: "task-exists"; empty if the service sent none
    code = ""  # of the Connect protocol: "already_exists"; empty for a verdict on a return

    #: The tasks concerned: as many as fit into an answer, of total.
    ids: Sequence[str] = ()
    total = 0
    #: Of an argument that was refused: which one, its place in the list of the call or -1, its
    #: task, and what is wrong with it.
    argument = ""
    index = -1
    id = ""
    problem = ""
    #: Of a cycle: its tasks, the last one is the first one again.
    path: Sequence[str] = ()
    #: Of dependencies that were refused: which, and why.
    refused: Sequence[RefusedDependency] = ()
    #: The schedules concerned: as many as fit into an answer, of total.
    schedules: Sequence[str] = ()


class TaskExists(StintError):
    """There is a task with this ID."""

    kind = "task-exists"


class TaskNotFound(StintError):
    """There is no task with this ID."""

    kind = "task-not-found"


class ScheduleNotFound(StintError):
    """There is no schedule with this name."""

    kind = "schedule-not-found"


class TaskInProgress(StintError):
    """The task is owned, and the verb is for tasks that are not."""

    kind = "task-in-progress"


class TaskStarted(StintError):
    """The task was fetched before, and the verb is for tasks that were not."""

    kind = "task-started"


class TaskFinished(StintError):
    """The task is completed, aborted or skipped, and the verb is for tasks that are not."""

    kind = "task-finished"


class TaskBlocked(StintError):
    """The task cannot be answered yet: it waits for others, or for its time."""

    kind = "task-blocked"


class Cycle(StintError):
    """The dependencies form a cycle, which path names."""

    kind = "cycle"


class PredecessorAborted(StintError):
    """The task would wait for one that was aborted."""

    kind = "predecessor-aborted"


class InvalidToken(StintError):
    """The caller does not own the task any more."""

    kind = "invalid-token"


class InvalidAnswerKey(StintError):
    """An answer came without the answer_key of its task, or with another one."""

    kind = "invalid-answer-key"


class AlreadyReturned(InvalidToken):
    """The task was returned before, under this token and with this outcome."""

    kind = "already-returned"


class NoPostResult(StintError):
    """The task was inserted without post_result, so nobody can wait for it."""

    kind = "no-post-result"


class EndsPruned(StintError):
    """Tasks have been pruned that ended behind the cursor."""

    kind = "ends-pruned"


class Busy(StintError):
    """The return would have had to wait, and was asked not to."""

    kind = "busy"


class InvalidArgument(StintError, ValueError):
    """The call makes no sense, wherever it is sent: argument and problem say why."""

    kind = "invalid-argument"


class TooLarge(InvalidArgument):
    """Something exceeds a limit: make the call with fewer tasks, or smaller ones."""

    kind = "too-large"


class ClaimSpent(StintError):
    """Nothing is fetched under this claim any more."""

    kind = "claim-spent"


class Copied(StintError):
    """The service's database is a copy, in which nothing is handed out: see stint adopt."""

    kind = "copy"


class SchemaVersion(StintError):
    """The tables of the service's database are of another release than the service."""

    kind = "schema-version"


class Refused(StintError):
    """The service does not let the caller do this."""


class Unauthenticated(Refused):
    """The service does not know the caller: the token is missing, wrong or out of date."""


class Limited(StintError):
    """The caller has made more calls than it may; this attempt took no effect."""

    kind = "limited"
    #: Whether an attempt before may have taken effect.
    ambiguous = False
    #: After how many seconds the service wants to be asked again, or None.
    retry_after: Optional[float] = None


class Unavailable(StintError):
    """The service, or its database, did not answer at any attempt."""

    kind = "closed"
    #: Whether an attempt may have taken effect.
    ambiguous = True
    #: After how many seconds the service wants to be asked again, or None.
    retry_after: Optional[float] = None


def _kinds(base: Type[StintError]) -> Dict[str, Type[StintError]]:
    found = {base.kind: base} if base.kind else {}
    for each in base.__subclasses__():
        found.update(_kinds(each))
    return found


_BY_KIND = _kinds(StintError)

# Errors that no verb has seen have no detail, but a code.
_BY_CODE: Dict[str, Type[StintError]] = {
    "invalid_argument": InvalidArgument,
    "permission_denied": Refused,
    "unauthenticated": Unauthenticated,
    "unavailable": Unavailable,
    "deadline_exceeded": Unavailable,  # of the attempt, noticed there
    "canceled": Unavailable,
    "resource_exhausted": TooLarge,  # what the service reads of a message is limited
}


# The codes of the Connect protocol. Proxies have others, numbers for example.
_CODES = frozenset((
    "aborted", "already_exists", "canceled", "data_loss", "deadline_exceeded",
    "failed_precondition", "internal", "invalid_argument", "not_found", "out_of_range",
    "permission_denied", "resource_exhausted", "unauthenticated", "unavailable", "unimplemented",
    "unknown",
))


def new_error(code: str, message: str, detail: Mapping[str, Any]) -> StintError:
    """Returns the error of an answer with this detail, which is empty if it had none."""
    kind = detail.get("kind", "")
    error = (_BY_KIND.get(kind) or _BY_CODE.get(code) or StintError)(message)
    error.code = code
    error.kind = kind
    error.ids = list(detail.get("ids", ()))
    error.total = int(detail.get("total", 0))  # in JSON a string
    error.argument = detail.get("argument", "")
    error.index = detail.get("index", 0) if error.argument else -1
    error.id = detail.get("id", "")
    error.problem = detail.get("problem", "")
    error.path = list(detail.get("path", ()))
    error.refused = [RefusedDependency(
        predecessor=each.get("predecessor", ""),
        dependent=each.get("dependent", ""),
        kind=each.get("kind", ""),
        predecessor_state=each.get("predecessor_state", ""),
        dependent_state=each.get("dependent_state", ""),
    ) for each in detail.get("refused", ())]
    error.schedules = list(detail.get("schedules", ()))
    return error


def is_error(answer: Mapping[str, Any]) -> bool:
    """Whether an answer is an error of the Connect protocol."""
    code = answer.get("code")
    return isinstance(code, str) and code in _CODES


def error_of_answer(answer: Mapping[str, Any]) -> StintError:
    """Returns the error that an answer of the Connect protocol reports."""
    detail: Dict[str, Any] = {}
    details = answer.get("details")
    for each in details if isinstance(details, list) else ():
        if isinstance(each, dict) and each.get("type") == "stint.v1.ErrorDetail":
            value = each.get("value", "")
            try:
                packed = base64.b64decode(value + "=" * (-len(value) % 4))
                detail = decode_detail(packed)
            except (TypeError, ValueError):
                pass  # the code says enough
    code = answer.get("code", "unknown")
    return new_error(code, answer.get("message") or code, detail)


# The numbers of the fields in api/proto/stint/v1/task.proto, with their names and what they hold.
_REFUSED_FIELDS = {
    1: ("predecessor", str), 2: ("dependent", str), 3: ("kind", str),
    4: ("predecessor_state", str), 5: ("dependent_state", str),
}
_DETAIL_FIELDS = {
    1: ("kind", str), 2: ("ids", [str]), 3: ("total", int), 4: ("argument", str),
    5: ("index", int), 6: ("id", str), 7: ("problem", str), 8: ("path", [str]),
    9: ("refused", [_REFUSED_FIELDS]), 11: ("schedules", [str]),
}


def decode_detail(packed: bytes) -> Dict[str, Any]:
    """Returns the fields of an ErrorDetail in protobuf. Raises ValueError if it is none."""
    return _decode(packed, _DETAIL_FIELDS)


def _decode(packed: bytes, fields: Mapping[int, Tuple[str, Any]]) -> Dict[str, Any]:
    message: Dict[str, Any] = {}
    for number, value in _wire_fields(packed):
        if number not in fields:
            continue  # of a later release
        name, form = fields[number]
        repeated = isinstance(form, list)
        if repeated:
            form = form[0]
        if isinstance(value, int) != (form is int):
            raise ValueError("a field has another type")
        if form is int:
            value -= (value >> 63) << 64  # two's complement
        elif form is str:
            value = value.decode("utf-8")
        else:
            value = _decode(value, form)
        if repeated:
            message.setdefault(name, []).append(value)
        else:
            message[name] = value
    return message


def _wire_fields(packed: bytes) -> List[Tuple[int, Union[int, bytes]]]:
    """Returns the numbers and values of the fields of a message, except those of fixed size."""
    found: List[Tuple[int, Union[int, bytes]]] = []
    at = 0
    while at < len(packed):
        key, at = _varint(packed, at)
        number, form = key >> 3, key & 7
        if form == 0:
            value, at = _varint(packed, at)
            found.append((number, value))
        elif form == 2:
            size, at = _varint(packed, at)
            if at + size > len(packed):
                raise ValueError("a field ends after the message")
            found.append((number, packed[at:at + size]))
            at += size
        elif form in (1, 5):
            at += 8 if form == 1 else 4
        else:
            raise ValueError("a field has an unknown type")
    return found


def _varint(packed: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(packed) or shift > 63:
            raise ValueError("a number does not end")
        byte = packed[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
