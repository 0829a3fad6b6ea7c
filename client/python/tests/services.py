"""A service at STINT_SERVER, a proxy that loses requests or answers, and a service made up."""

import http.client
import http.server
import json
import os
import threading
import time
import unittest
import urllib.parse
import uuid

import stint

PATIENCE = 120.0


class ServiceTest(unittest.TestCase):
    """A test with a client of the service, and names that no other test uses."""

    def setUp(self):
        self.server = os.environ["STINT_SERVER"]
        self.client = stint.Client(self.server)
        self.addCleanup(self.client.close)
        self.action = f"act-{uuid.uuid4()}"

    def name(self, short):
        return f"{self.action}/{short}"

    def task(self, short, *args, **other):
        return stint.Task(self.action, *args, id=self.name(short), **other)

    def insert(self, *shorts, **other):
        return self.client.insert([self.task(short, **other) for short in shorts])

    def own(self, max_tasks=1, **other):
        owned = self.client.own("actor", [self.action], max_tasks=max_tasks, lease=3600, **other)
        self.assertEqual(len(owned), max_tasks)
        return owned

    def info(self, short):
        return self.client.get(self.name(short))[0]

    def eventually(self, condition):
        """Waits until a condition holds, and returns its value."""
        until = time.monotonic() + PATIENCE
        while True:
            value = condition()
            if value:
                return value
            self.assertLess(time.monotonic(), until, "it does not become so")
            time.sleep(0.01)


class Server:
    """A server of HTTP on a port of its own, until close."""

    hang_up = False  # whether it closes each connection after an answer, without saying so

    def __init__(self, answer):
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                try:
                    body = self.rfile.read(int(self.headers["Content-Length"]))
                except OSError:
                    return
                answered = answer(self.path, dict(self.headers), body)
                if answered is None:
                    self.close_connection = True
                    return
                status, headers, text = answered
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                try:
                    self.end_headers()
                    self.wfile.write(text)
                    self.close_connection = owner.hang_up
                except OSError:  # the client is gone
                    self.close_connection = True

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.url = "http://127.0.0.1:%d" % self._server.server_address[1]

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Proxy(Server):
    """A proxy before a service that loses so many requests, or so many answers."""

    def __init__(self, target):
        self.lose_requests = 0
        self.lose_answers = 0
        self.on_lost = lambda: None
        self.calls = []
        self._target = urllib.parse.urlsplit(target).netloc
        self._lock = threading.Lock()
        super().__init__(self._pass)

    def _pass(self, path, headers, body):
        with self._lock:
            self.calls.append(path.rpartition("/")[2])
            if self.lose_requests > 0:
                self.lose_requests -= 1
                return None
        connection = http.client.HTTPConnection(self._target, timeout=PATIENCE)
        try:
            connection.request("POST", path, body, {
                name: value for name, value in headers.items()
                if name.lower() not in ("host", "content-length")})
            response = connection.getresponse()
            answer = response.status, {"Content-Type": "application/json"}, response.read()
        except OSError:
            return None
        finally:
            connection.close()
        with self._lock:
            if self.lose_answers > 0:
                self.lose_answers -= 1
                self.on_lost()
                return None
        return answer


class Invented(Server):
    """A service whose answers are a list: each has a status, headers and a message."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.calls = []  # the headers and the body of each
        super().__init__(self._answer)

    def _answer(self, path, headers, body):
        self.calls.append((headers, json.loads(body)))
        status, fields, message = self.answers.pop(0)
        text = message if isinstance(message, bytes) else json.dumps(message).encode()
        return status, fields, text
