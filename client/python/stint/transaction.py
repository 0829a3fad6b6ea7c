"""Ends tasks in a transaction of the caller's, by the SQL function finish_task."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Dict, Optional, Type, Union

from .errors import AlreadyReturned, InvalidArgument, InvalidToken, SchemaVersion, StintError
from .errors import TooLarge
from .fields import Content, Duration
from .tasks import OwnedTask

_ERRORS: Dict[str, Type[StintError]] = {
    "STI02": InvalidArgument, "STI03": TooLarge, "STI04": SchemaVersion,
    "STI05": InvalidToken, "STI06": AlreadyReturned,
}


def finish_task(
    cursor: Any, task: OwnedTask, code: str = "completed", status: str = "",
    result: Optional[Content] = None, retry_after: Optional[Duration] = None,
    notify: bool = True, schema: str = "stint", spent: Optional[int] = None,
) -> None:
    """Ends an owned task in the transaction of a cursor of psycopg or psycopg2.

    The caller commits, and with its rows the end of the task: both or neither. It needs the SQL
    function finish_task in the database, and the right to call it.

    code: "completed", "aborted" or "pending", which is for another try after retry_after.
    notify: whether the commit wakes those who wait. Two-phase commit needs False.
    schema: that of the tables.
    spent: What the try has really cost: Return.spent.

    It raises InvalidToken if another owner has the task, or it has ended otherwise, and
    AlreadyReturned if an earlier transaction of the same try has ended it like this;
    InvalidArgument, TooLarge and SchemaVersion; and what the driver raises. After each the
    transaction has failed: roll it back. Nobody need return the task after the commit.
    """
    if retry_after is not None and not isinstance(retry_after, timedelta):
        retry_after = timedelta(seconds=retry_after)
    content: Union[bytes, None] = result.encode() if isinstance(result, str) else result
    function = '"%s".finish_task' % schema.replace('"', '""').replace("%", "%%")
    try:
        cursor.execute(
            f"SELECT {function}(%s, %s::uuid, code => %s, status => %s, "
            "result_bytes => %s::bytea, retry_after => %s::interval, notify => %s, spent => %s)",
            (task.id, task.token, code, status, content, retry_after, notify, spent))
    except Exception as error:
        # psycopg names the state of SQL in one way, psycopg2 in another.
        state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
        known = _ERRORS.get(state or "")
        if known is None:
            raise
        refused = known(str(error).strip())
        refused.kind = known.kind
        refused.ids, refused.total = (task.id,), 1
        raise refused from error
