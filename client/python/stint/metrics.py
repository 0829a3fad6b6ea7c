"""Metrics of workers, for Prometheus."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from typing import Dict, List, Tuple, Union

from .errors import InvalidArgument

# How a performance ends.
OUTCOMES = ("completed", "retried", "snoozed", "aborted", "stopped", "lost")
# The bounds of the histogram, in seconds, from a millisecond to ten minutes.
_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
           1, 2.5, 5, 10, 30, 60, 120, 300, 600)
_HERE = ("localhost", "127.0.0.1", "[::1]")
# How long a request may take to come.
_REQUEST_MAX = 10.0

Address = Union[int, str]


class Performances:
    """Counts and times the performances of a worker. The names are those of package stintprom."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended: Dict[str, Dict[str, int]] = {}
        self._running: Dict[str, int] = {}
        self._took: Dict[str, Tuple[List[int], List[float]]] = {}  # by bucket, and the sum

    def know(self, action: str) -> None:
        """Makes the series of an action, so that its first failure is seen to increase one."""
        with self._lock:
            self._ended.setdefault(action, dict.fromkeys(OUTCOMES, 0))
            self._running.setdefault(action, 0)
            self._took.setdefault(action, ([0] * (len(_BOUNDS) + 1), [0.0]))

    def begin(self, action: str) -> float:
        """Notes that a performance begins, and returns when."""
        with self._lock:
            self._running[action] += 1
        return time.monotonic()

    def end(self, action: str, outcome: str, begun: float) -> None:
        took = time.monotonic() - begun
        with self._lock:
            self._running[action] -= 1
            self._ended[action][outcome] += 1
            buckets, total = self._took[action]
            buckets[next((i for i, bound in enumerate(_BOUNDS) if took <= bound), -1)] += 1
            total[0] += took

    def text(self) -> str:
        """Returns the metrics in the text format of Prometheus."""
        lines: List[str] = []

        def family(name: str, kind: str, about: str) -> None:
            lines.append(f"# HELP {name} {about}")
            lines.append(f"# TYPE {name} {kind}")

        with self._lock:
            name = "stint_worker_performances_total"
            family(name, "counter", "Performances that have ended.")
            for action, ended in self._ended.items():
                for outcome, number in ended.items():
                    lines.append(f'{name}{{action="{_quoted(action)}",outcome="{outcome}"}} {number}')
            name = "stint_worker_duration_seconds"
            family(name, "histogram", "How long performances took until the task was returned.")
            for action, (buckets, total) in self._took.items():
                label, number = f'action="{_quoted(action)}"', 0
                for bound, more in zip([*map(str, _BOUNDS), "+Inf"], buckets):
                    number += more
                    lines.append(f'{name}_bucket{{{label},le="{bound}"}} {number}')
                lines.append(f"{name}_sum{{{label}}} {total[0]}")
                lines.append(f"{name}_count{{{label}}} {number}")
            name = "stint_worker_running"
            family(name, "gauge", "Performances under way.")
            for action, number in self._running.items():
                lines.append(f'{name}{{action="{_quoted(action)}"}} {number}')
        return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def address_of(metrics: Address) -> Tuple[str, int]:
    """Returns the host and the port of an address: a port alone is one of this machine."""
    if isinstance(metrics, int) and not isinstance(metrics, bool):
        host, port = "127.0.0.1", str(metrics)
    else:
        host, _, port = str(metrics).rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise InvalidArgument(f"metrics {metrics!r} must be a port, or have the form host:port")
    return host, int(port)


class Server:
    """Answers GET /metrics in threads of its own, until close."""

    def __init__(self, performances: Performances, address: Tuple[str, int]) -> None:
        host = address[0]

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = _REQUEST_MAX

            def do_GET(self) -> None:
                asked = self.headers.get("Host", "")
                if host in _HERE and asked.rpartition(":")[0] not in _HERE and asked not in _HERE:
                    # A page in a browser may have the name of its host resolved to this machine.
                    self._answer(403, "only requests for localhost, 127.0.0.1 or [::1]\n")
                elif self.path.partition("?")[0] != "/metrics":
                    self._answer(404, "the metrics are at /metrics\n")
                else:
                    self._answer(200, performances.text())

            def _answer(self, status: int, text: str) -> None:
                body = text.encode()
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

            def handle_error(self, *_: object) -> None:
                pass  # whoever asked has gone

        self._server = Listener((host.strip("[]"), address[1]), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.1,), name="stint-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
