"""Requests to the service: one connection for each thread, and repetition of what was lost."""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
import uuid
from typing import Any, Callable, Dict, Mapping, Optional, Tuple, TypeVar

from .errors import InvalidArgument, Limited, Refused, SchemaVersion, StintError
from .errors import Unauthenticated, Unavailable, error_of_answer, is_error, new_error
from .fields import Message

# For how long a call is repeated after its first failure: longer than a service takes to be
# replaced.
REPEAT_FOR = 10.0

_PAUSE_FIRST = 0.05
_PAUSE_MAX = 2.0

# How much of a request arrives in a second, and in how many seconds the whole, on a slow network.
_SENT_PER_SECOND = 64 << 10
_SEND_MAX = 60.0

# For how many seconds an attempt may take: more than ten digits of milliseconds are no deadline.
_DEADLINE_MAX = 9_999_999.0

# How an answer is understood that is not of the Connect protocol, but of a proxy, for example. With
# every other status the call may have taken effect.
_CODES = {
    400: "internal", 401: "unauthenticated", 403: "permission_denied", 404: "unimplemented",
    413: "resource_exhausted",
}

Answer = TypeVar("Answer")


class Cancelled(Exception):
    """The call was ended by Cancel.cancel."""


class Cancel:
    """Ends the calls of another thread, at once and for good."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._socket: Optional[socket.socket] = None

    def cancel(self) -> None:
        self._ended.set()
        _shut_down(self._socket)

    def check(self) -> None:
        if self._ended.is_set():
            raise Cancelled

    def watch(self, sock: Optional[socket.socket]) -> None:
        """Notes the socket that the call waits on, or that it does not wait any more."""
        self._socket = sock
        if sock is not None:
            self.check()  # after the note: either this or cancel sees the other

    def pause(self, seconds: float) -> None:
        self._ended.wait(seconds)


def _shut_down(sock: Optional[socket.socket]) -> None:
    """Makes whoever reads from a socket see its end; closing it would not."""
    if sock is None:
        return
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)  # also below TLS
    except OSError:
        pass  # it is closed already


class _Held:
    """The connection of a thread, which is closed when the thread ends."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self.connection = connection
        self.process = os.getpid()

    def is_usable(self) -> bool:
        """Whether the connection is this process's, and the other end has not closed it."""
        sock = self.connection.sock
        if self.process != os.getpid():
            return False  # the parent goes on using it
        if sock is None:
            return True  # it is opened by the next request
        try:
            sock.settimeout(0)
            sock.recv(1)  # not below TLS, where its farewell looks like an answer
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        return False  # its end, or what nobody has asked for

    def __del__(self) -> None:
        self.connection.close()


class Connection:
    """Sends requests to a service. Safe for threads, and in the child after a fork."""

    def __init__(
        self, url: str, token: Optional[str], token_file: Optional[str],
        ssl_context: Optional[ssl.SSLContext], timeout: float,
        author: str = "", reason: str = "",
    ) -> None:
        try:
            at = urllib.parse.urlsplit(url)
            self._host, scheme = at.hostname, at.scheme
            extra = "@" in at.netloc or at.query or at.fragment
            # Without one, http.client would look for a port in an IPv6 address.
            self._port = at.port or (443 if scheme == "https" else 80)
        except ValueError:
            scheme = ""
        if scheme not in ("http", "https") or not self._host or extra:
            raise InvalidArgument("url must have the form http://host:port or https://host:port, "
                                  "without a user, a query and a fragment")
        if token is not None and token_file is not None:
            raise InvalidArgument("give token or token_file, not both")
        has_token = token is not None or token_file is not None
        if has_token and scheme == "http" and not _is_loopback(self._host):
            raise InvalidArgument(
                "a token is sent to https:// addresses, and to http:// on this machine alone, "
                "since anybody on the way could read it")
        if ssl_context is not None and scheme == "http":
            raise InvalidArgument("ssl_context is for https, but url is http")
        if timeout <= 0:
            raise InvalidArgument("timeout must be positive")
        self._path = at.path.rstrip("/")
        self._context = ssl_context
        if scheme == "https" and ssl_context is None:
            self._context = ssl.create_default_context()
        self._timeout = timeout
        # A header has no other characters than those of ASCII.
        self._noted = {
            name: urllib.parse.quote(value, safe="")
            for name, value in (("Stint-Author", author), ("Stint-Reason", reason)) if value
        }
        self._token_file = token_file
        self._token = None if token is None else _checked_token(token)
        if token_file is not None:
            self._token = _read_token(token_file)
        self._local = threading.local()

    def __repr__(self) -> str:
        scheme = "https" if self._context else "http"
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{scheme}://{host}:{self._port}{self._path}"

    def close(self) -> None:
        """Closes the connection of this thread."""
        self._local.held = None

    def call(
        self, procedure: str, request: Message, wait: float = 0.0,
        timeout: Optional[float] = None, cancel: Optional[Cancel] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Message:
        """Makes one attempt. The service may wait for so many seconds before it answers."""
        body = _encode(request)
        timeout = wait + (timeout or self._timeout)
        token = self._token
        try:
            return self._answer(procedure, body, token, timeout, cancel, headers)
        except Unauthenticated as error:
            if self._token_file is None:
                raise
            try:
                self._token = _read_token(self._token_file)  # another one may be in its place
            except (OSError, InvalidArgument) as problem:
                raise error from problem
            if self._token == token:
                raise
        return self._answer(procedure, body, self._token, timeout, cancel, headers)

    def attempts(
        self, procedure: str, request: Message, **how: Any,
    ) -> Callable[[bool], Message]:
        """Returns what makes attempts of one call, by whose key the service knows it again."""
        key = str(uuid.uuid4())

        def attempt(ambiguous: bool) -> Message:
            return self.call(procedure, request, headers={
                "Idempotency-Key": key, "Stint-Repeated": "true" if ambiguous else "false",
            }, **how)

        return attempt

    def _answer(
        self, procedure: str, body: bytes, token: Optional[str], timeout: float,
        cancel: Optional[Cancel], more: Optional[Mapping[str, str]],
    ) -> Message:
        headers = {
            "Content-Type": "application/json", "Connect-Protocol-Version": "1",
            "Connect-Timeout-Ms": str(_milliseconds(timeout, len(body))),
            "User-Agent": "stint-python", **self._noted, **(more or {}),
        }
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        status, fields, data = self._send(
            f"{self._path}/stint.v1.{procedure}", body, headers, timeout, cancel)
        try:
            answer = json.loads(data)
            understood = isinstance(answer, dict) and (status == 200 or is_error(answer))
        except ValueError:
            understood = False
        if understood and status == 200:
            return answer
        # The error holds this frame. In a variable here it would hold itself, and the connection.
        raise _failure(status, fields, answer if understood else None)

    def _send(
        self, path: str, body: bytes, headers: Dict[str, str], timeout: float,
        cancel: Optional[Cancel],
    ) -> Tuple[int, http.client.HTTPMessage, bytes]:
        connection = self._open(timeout, cancel)
        try:
            if cancel:
                cancel.watch(connection.sock)
            try:
                connection.request("POST", path, body, headers)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the service may have answered before it has read all
            response = connection.getresponse()
            answer = response.status, response.headers, response.read()
        except (OSError, http.client.HTTPException) as error:
            self.close()
            if cancel:
                cancel.check()
            raise _unavailable(f"no answer: {error or type(error).__name__}", True) from error
        except BaseException:  # an exception of a signal handler, for example
            self.close()
            raise
        finally:
            if cancel:
                cancel.watch(None)
        return answer

    def _open(self, timeout: float, cancel: Optional[Cancel]) -> http.client.HTTPConnection:
        if cancel:
            cancel.check()
        held = getattr(self._local, "held", None)
        if held is None or not held.is_usable():
            if self._context:
                connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                    self._host, self._port, context=self._context)
            else:
                connection = http.client.HTTPConnection(self._host, self._port)
            held = self._local.held = _Held(connection)
        connection = held.connection
        try:
            if connection.sock is None:
                connection.timeout = min(timeout, self._timeout)
                connection.connect()
                _keep_alive(connection.sock)
            connection.sock.settimeout(timeout)
        except OSError as error:
            self.close()
            raise _unavailable(f"no connection: {error}", False) from error
        except BaseException:
            self.close()
            raise
        return connection


def _milliseconds(timeout: float, size: int) -> int:
    """Returns for how long the service is to work on an attempt, after which nobody waits.

    It counts from the header on, but the timeout of a socket from the last byte: so there is time
    to send the body, for a minute at most, as the service has it.
    """
    seconds = timeout + min(size / _SENT_PER_SECOND, _SEND_MAX)
    return max(1, int(min(seconds, _DEADLINE_MAX) * 1000))


def _keep_alive(sock: socket.socket) -> None:
    """Has a network that is frozen noticed while the service is silent, where the system can."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _is_loopback(host: str) -> bool:
    """Whether a host is this machine by its name: what a name resolves to may change."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    inner = getattr(address, "ipv4_mapped", None)
    return "%" not in host and (inner or address).is_loopback


def _unavailable(text: str, ambiguous: bool) -> Unavailable:
    error = Unavailable(text)
    error.kind, error.code = "", "unavailable"
    error.ambiguous = ambiguous
    return error


def _failure(
    status: int, fields: http.client.HTTPMessage, answer: Optional[Message],
) -> StintError:
    """Returns the error of a call with this answer, None if it is not that of a service."""
    if answer is not None:
        error = error_of_answer(answer)
    elif status == 200:
        error = _unavailable("the answer is not that of a service of Stint", True)
    else:
        error = new_error(_CODES.get(status, "unavailable"),
                          f"HTTP status {status}, not from a service of Stint", {})
    if isinstance(error, (Unavailable, Limited)):
        error.retry_after = _retry_after(fields)
    return error


def _encode(request: Message) -> bytes:
    try:
        text = json.dumps(request, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8")
    except (TypeError, ValueError) as error:
        # The error of the codec holds the whole text.
        problem = "a text is not Unicode" if isinstance(error, UnicodeError) else str(error)
        raise InvalidArgument(f"the call cannot be sent: {problem}") from None


def _read_token(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return _checked_token(file.read())


def _checked_token(token: str) -> str:
    token = token.strip()
    if not token or not all("!" <= c <= "~" for c in token):
        raise InvalidArgument("the token must be visible ASCII characters")  # and stays unsaid
    return token


def _retry_after(fields: http.client.HTTPMessage) -> Optional[float]:
    text = (fields.get("Retry-After") or "").strip()
    return float(text) if text.isascii() and text.isdigit() else None


def repeat(
    attempt: Callable[[bool], Answer], cancel: Optional[Cancel] = None,
    repeat_for: float = REPEAT_FOR,
) -> Answer:
    """Makes a call until the service has answered it, or repeat_for has passed since it failed.

    The attempt is told whether one before may have taken effect.
    """
    ambiguous = False
    give_up: Optional[float] = None
    pause_most = _PAUSE_FIRST
    while True:
        try:
            return attempt(ambiguous)
        except (Unavailable, Limited) as error:
            pause = random.uniform(0, pause_most)  # spreads load
            if error.retry_after is not None:
                pause += error.retry_after
            error.ambiguous = ambiguous = ambiguous or error.ambiguous
            now = time.monotonic()
            if give_up is None:
                give_up = now + repeat_for
            if now + pause > give_up:
                raise
        except (Refused, SchemaVersion) as error:
            # It was turned away before the service looked at it. If an attempt before that may have
            # taken effect, that is what the caller must know.
            if not ambiguous:
                raise
            raise _unavailable("an attempt that may have taken effect got no answer, and the next "
                               f"one failed: {error}", True) from error
        pause_most = min(2 * pause_most, _PAUSE_MAX)
        if cancel:
            cancel.pause(pause)
            cancel.check()
        else:
            time.sleep(pause)
