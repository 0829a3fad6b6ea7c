"""Client and worker of Stint's service, which keeps tasks in PostgreSQL.

    from stint import Client, Task, Worker

    client = Client("http://localhost:7330")
    client.insert(Task("mail", "hello"))

The package needs the standard library only. It speaks JSON over HTTP/1.1, so a worker's tasks are
handed on when their leases expire: there is no stream that shows that the worker lives.
"""

from .client import Client
from .errors import (
    AlreadyReturned,
    Busy,
    ClaimSpent,
    Cycle,
    InvalidArgument,
    InvalidToken,
    Limited,
    NoPostResult,
    PredecessorAborted,
    Refused,
    RefusedDependency,
    SchemaVersion,
    StintError,
    TaskExists,
    TaskBlocked,
    TaskFinished,
    TaskInProgress,
    TaskNotFound,
    TaskStarted,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from .tasks import (
    ActionStats,
    ActorInfo,
    Affected,
    Answer,
    Dependency,
    Explanation,
    Graph,
    Input,
    OwnedTask,
    Problems,
    Return,
    Stats,
    Task,
    TaskInfo,
    Transacted,
)
from .worker import Abort, HeldTask, Retry, Worker

__all__ = [
    "Abort",
    "ActionStats",
    "ActorInfo",
    "Affected",
    "AlreadyReturned",
    "Answer",
    "Busy",
    "ClaimSpent",
    "Client",
    "Cycle",
    "Dependency",
    "Explanation",
    "Graph",
    "HeldTask",
    "Input",
    "InvalidArgument",
    "InvalidToken",
    "Limited",
    "NoPostResult",
    "OwnedTask",
    "PredecessorAborted",
    "Problems",
    "Refused",
    "RefusedDependency",
    "Retry",
    "Return",
    "SchemaVersion",
    "Stats",
    "StintError",
    "Task",
    "TaskExists",
    "TaskBlocked",
    "TaskFinished",
    "TaskInProgress",
    "TaskInfo",
    "TaskNotFound",
    "TaskStarted",
    "TooLarge",
    "Transacted",
    "Unauthenticated",
    "Unavailable",
    "Worker",
]
