"""The form that the fields of tasks have in JSON, and what is special about some of them."""

from __future__ import annotations

import base64
import re
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Type
from typing import TypeVar, Union

from .errors import InvalidArgument

#: Seconds, or a timedelta.
Duration = Union[timedelta, float, int]
#: A str is sent as text; in the store both are bytes.
Content = Union[bytes, str]
Message = Dict[str, Any]
_T = TypeVar("_T")


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


def to_span(text: Optional[str]) -> Optional[timedelta]:
    """Undoes from_duration, where none is None."""
    return None if text is None else to_duration(text)


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


def from_optional(number: Optional[int]) -> Optional[str]:
    """Returns a number that may be missing: as a text, so that message() does not leave out 0."""
    return None if number is None else str(number)


def names(ids: Union[str, Iterable[str]]) -> List[str]:
    """Returns IDs as a list; a str is one ID, not its letters."""
    return [ids] if isinstance(ids, str) else list(ids)


_SURROGATES = re.compile("[\ud800-\udfff]")


def told(text: str) -> str:
    """Returns a text for people as it can be sent. What is no Unicode in it is replaced: no status
    keeps a task from being returned."""
    return _SURROGATES.sub("\ufffd", text)


def several(
    convert: Callable[[_T], Message], given: Union[_T, Iterable[_T]], one: Type[_T],
) -> List[Message]:
    """Returns the messages of what is given: one, or several."""
    return [convert(each) for each in ([given] if isinstance(given, one) else given)]


def from_content(content: Optional[Content], for_bytes: str, for_text: str) -> Message:
    """Returns a message with content, which may be empty; without a field if there is none."""
    if content is None:
        return {}
    if isinstance(content, str):
        return {for_text: content}
    if isinstance(content, (bytes, bytearray, memoryview)):
        return {for_bytes: base64.b64encode(content).decode("ascii")}
    raise InvalidArgument(
        f"a body or a result must be bytes or str, not {type(content).__name__}")


def to_content(of: Message, for_bytes: str, for_text: str) -> Optional[bytes]:
    """Undoes from_content."""
    if for_bytes in of:
        return base64.b64decode(of[for_bytes])
    return of[for_text].encode("utf-8") if for_text in of else None


def to_step_result(m: Message) -> bytes:
    """Returns the result of a step, which has one."""
    return to_content(m, "result", "result_text") or b""


def from_results(given: Union[Content, Sequence[Content]]) -> Message:
    """Returns the results of a condition: one, or several."""
    one = isinstance(given, (str, bytes, bytearray, memoryview))
    found: Message = {}
    for result in [given] if one else given:
        for name, value in from_content(result, "result_bytes", "results").items():
            found.setdefault(name, []).append(value)
    return found


def to_results(m: Message) -> List[bytes]:
    """Undoes from_results."""
    return [text.encode("utf-8") for text in m.get("results", ())] + [
        base64.b64decode(each) for each in m.get("result_bytes", ())]


def from_performance(task: Any) -> Message:
    """Returns the ID and the token of whatever has both."""
    return {"id": task.id, "token": task.token}


class RandomID(str):
    """An ID that nobody has asked for."""


def to_be_named(tasks: List[Message]) -> List[Message]:
    """Returns the tasks of a schedule. One that is alone needs no ID."""
    if len(tasks) == 1 and isinstance(tasks[0].get("id"), RandomID):
        del tasks[0]["id"]
    return tasks


def to_paused_keys(m: Message) -> Mapping[str, datetime]:
    """Returns since when the keys of an action are paused that are."""
    paused = {key.get("key", ""): to_time(key.get("paused_since")) for key in m.get("keys", ())}
    return {key: since for key, since in paused.items() if since is not None}


def to_weights(m: Message) -> Mapping[str, int]:
    """Returns the weights other than 1 that the keys of an action have."""
    weights = {key.get("key", ""): int(key.get("weight", 0)) for key in m.get("keys", ())}
    return {key: weight for key, weight in weights.items() if weight > 1}
