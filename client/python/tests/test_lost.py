"""Answers that are lost, refusals and limits: whatever happens on the way, a call is made once."""

import gc
import json
import os
import socket
import ssl
import tempfile
import threading
import time
import unittest
import weakref
from unittest import mock

import stint
from stint import Return
from stint.connection import Cancel, Cancelled

from .services import PATIENCE, Invented, Proxy, Server, ServiceTest


class LostTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.proxy = Proxy(self.server)
        self.addCleanup(self.proxy.close)
        self.direct = self.client
        self.client = stint.Client(self.proxy.url)
        self.addCleanup(self.client.close)

    def takes_effect_once(self, kind):
        def lost(call):
            setattr(self.proxy, kind, 2)
            result = call()
            self.assertEqual(getattr(self.proxy, kind), 0)
            return result

        client = self.client
        lost(lambda: client.insert([
            self.task("a", post_result=True), self.task("b"), self.task("c"), self.task("d")]))
        first, second = lost(lambda: self.own(2))
        self.assertEqual((first.id, second.id, first.try_), (self.name("a"), self.name("b"), 1))
        lost(lambda: client.set_status(first, "half", 0.5))
        self.assertEqual(lost(lambda: client.extend("actor", (t for t in (first, second)))),
                         [True, True])
        self.assertEqual(lost(lambda: client.return_tasks(Return.of(first))), [None])
        lost(lambda: client.wait(first.id))
        self.assertEqual(lost(lambda: client.delete([first.id])).tasks, (first.id,))
        lost(lambda: client.abort(second.id))
        done = lost(lambda: client.transact(insert=self.task("e")))
        self.assertEqual(done, stint.Transacted([self.name("e")]))
        [third] = self.own()
        self.assertEqual((third.id, third.try_), (self.name("c"), 1))
        done = lost(lambda: client.transact(abort=self.name("d"), returns=[Return.of(third)]))
        self.assertEqual(done.aborted.tasks, (self.name("d"),))
        self.assertEqual([self.info(short).state for short in "cde"],
                         ["completed", "aborted", "ready"])

    def test_calls_that_may_change_many_tasks_have_time(self):
        service = Invented(*[(200, {"Content-Type": "application/json"}, {})] * 8)
        self.addCleanup(service.close)
        client = stint.Client(service.url)
        self.addCleanup(client.close)
        for call in (client.abort, client.retry, client.delete):
            call("a")
        client.change("a", priority=1)
        client.add_dependencies(stint.Dependency("a", "b"))
        client.transact(abort="a")
        client.transact(must_exist="a")
        client.insert(self.task("a"))
        allowed = [int(headers["Connect-Timeout-Ms"]) for headers, _ in service.calls]
        self.assertGreaterEqual(min(allowed[:6]), 3_600_000)
        self.assertLess(max(allowed[6:]), 60_000)

    def test_lost_requests_are_repeated(self):
        self.takes_effect_once("lose_requests")

    def test_lost_answers_are_asked_for_again(self):
        self.takes_effect_once("lose_answers")

    def test_an_insert_that_exists_in_part_fails_after_a_lost_answer_too(self):
        self.insert("a")
        self.proxy.lose_answers = 1
        with self.assertRaises(stint.TaskExists):
            self.insert("a", "b")

    def test_what_a_lost_answer_was_about_was_not_there_before(self):
        self.insert("a")
        for kind in ("lose_requests", "lose_answers"):
            setattr(self.proxy, kind, 1)
            done = self.client.ensure([self.task("a"), self.task("b")])
            self.assertEqual(done.existing, [self.name("a")])
            self.client.delete(self.name("b"))

    def test_a_transaction_whose_tasks_exist_fails_unless_its_returns_were_made(self):
        self.insert("a")
        [task] = self.own()
        self.insert("b")
        for kind in ("lose_requests", "lose_answers"):
            setattr(self.proxy, kind, 1)
            with self.assertRaises(stint.TaskExists):
                self.client.transact(insert=self.task("b"), returns=[Return.of(task)])
            self.assertEqual(self.info("a").state, "in-progress")
            self.assertEqual(getattr(self.proxy, kind), 0)

    def test_a_delete_of_what_is_missing_in_part_fails_after_a_lost_answer_too(self):
        self.insert("a")
        self.proxy.lose_answers = 1
        with self.assertRaises(stint.TaskNotFound):
            self.client.delete([self.name("a"), self.name("b")])

    def test_replace_is_not_repeated(self):
        for kind in ("lose_requests", "lose_answers"):
            setattr(self.proxy, kind, 1)
            self.proxy.calls.clear()
            with self.assertRaises(stint.Unavailable) as caught:
                self.client.replace(self.task("a"))
            self.assertTrue(caught.exception.ambiguous)
            self.assertEqual(self.proxy.calls, ["ReplaceTasks"])
        self.insert("b")
        self.proxy.lose_answers = 1
        self.proxy.calls.clear()
        with self.assertRaises(stint.Unavailable):
            self.client.transact(delete=self.name("b"))
        self.assertEqual(self.proxy.calls, ["Transact"])

    def test_a_caller_that_is_cancelled_has_been_given_nothing(self):
        self.insert("a")
        cancel = Cancel()
        self.proxy.lose_answers = 1
        self.proxy.on_lost = cancel.cancel
        with self.assertRaises(Cancelled):
            self.client._own("actor", self.action, 1, 3600, 0, cancel)
        [task] = self.direct.own("other", self.action, wait=120)
        self.assertEqual(task.try_, 1)

    def test_a_poll_ends_when_it_is_cancelled(self):
        self.poll_and_cancel(self.direct)

    def test_a_service_is_reached_by_tls(self):
        trusting = ssl.create_default_context(cafile=os.environ["STINT_TLS_CERTIFICATE"])
        client = stint.Client(os.environ["STINT_TLS_SERVER"], ssl_context=trusting)
        self.addCleanup(client.close)
        sockets = set()
        for body in ("first", "second"):
            client.replace(self.task("a", body))
            sockets.add(client._connection._local.held.connection.sock)
        self.assertEqual(len(sockets), 1)  # also if the server has sent something for TLS itself
        [task] = client.own("actor", self.action)
        self.assertEqual(task.body, b"second")
        self.poll_and_cancel(client)
        with self.assertRaisesRegex(stint.Unavailable, "(?i)certificate"):
            stint.Client(os.environ["STINT_TLS_SERVER"]).replace(self.task("a"))

    def test_a_connection_that_was_closed_by_tls_meanwhile_is_not_used(self):
        trusting = ssl.create_default_context(cafile=os.environ["STINT_TLS_CERTIFICATE"])
        with stint.Client(os.environ["STINT_TLS_IDLE_SERVER"], ssl_context=trusting) as client:
            for body in ("first", "second", "third"):
                client.replace(self.task("a", body))  # which is not repeated
                sock = client._connection._local.held.connection.sock
                sock.settimeout(PATIENCE)
                # Below TLS, to leave it to the client to notice the end.
                self.assertNotEqual(socket.socket.recv(sock, 1, socket.MSG_PEEK), b"")

    def poll_and_cancel(self, client):
        cancel = Cancel()

        def poll():
            try:
                client._own("actor", self.action, 1, 3600, 20, cancel)
            except Cancelled:
                ended.append(time.monotonic())

        ended = []
        polling = threading.Thread(target=poll)
        polling.start()
        self.eventually(lambda: cancel._socket)
        cancel.cancel()
        cancelled = time.monotonic()
        polling.join()
        self.assertLess(ended[0] - cancelled, 10)

    def test_a_connection_that_was_closed_meanwhile_is_not_used(self):
        self.proxy.hang_up = True
        for body in ("first", "second", "third"):
            self.client.replace(self.task("a", body))  # which is not repeated
            sock = self.client._connection._local.held.connection.sock
            self.assertEqual(sock.recv(1, socket.MSG_PEEK), b"")  # its end has come
        self.assertEqual(self.proxy.calls, ["ReplaceTasks"] * 3)

    def test_a_service_that_is_not_there_is_unavailable_and_nothing_has_happened(self):
        client = stint.Client("http://127.0.0.1:1")
        began = time.monotonic()
        with self.assertRaises(stint.Unavailable) as caught:
            client.insert(self.task("a"))
        self.assertFalse(caught.exception.ambiguous)
        self.assertGreater(time.monotonic() - began, 5)  # it was repeated


class RefusedTest(unittest.TestCase):
    def invented(self, *answers):
        service = Invented(*answers)
        self.addCleanup(service.close)
        return service

    def test_each_poll_asks_for_all_that_an_iterator_yields(self):
        for verb, name in ((lambda c, names: c.wait(names), "ids"),
                           (lambda c, names: c.own("actor", names, wait=3600), "actions")):
            end = {"finished": True, "tasks": [{"id": "a", "token": "t", "action": "act"}]}
            service = self.invented((200, {}, {}), (200, {}, {}), (200, {}, end))
            with stint.Client(service.url) as client:
                verb(client, (each for each in "ab"))
            self.assertEqual([body[name] for _, body in service.calls], [["a", "b"]] * 3)

    def test_a_call_over_a_limit_is_made_again_when_the_service_says_so(self):
        detail = [{"type": "stint.v1.ErrorDetail", "value": "CgdsaW1pdGVk"}]
        limited = {"code": "resource_exhausted", "message": "too many", "details": detail}
        service = self.invented((429, {"Retry-After": "1"}, limited), (200, {}, {}),
                                (429, {"Retry-After": "60"}, limited))
        client = stint.Client(service.url)
        began = time.monotonic()
        client.stats()
        self.assertGreaterEqual(time.monotonic() - began, 1)
        with self.assertRaises(stint.Limited) as caught:
            client.stats()
        self.assertEqual((caught.exception.retry_after, caught.exception.ambiguous), (60, False))
        service.answers = [(503, {}, b"lost"), (429, {"Retry-After": "60"}, limited)]
        with self.assertRaises(stint.Limited) as caught:
            client.stats()
        self.assertTrue(caught.exception.ambiguous)

    def test_a_refusal_is_not_repeated(self):
        for code, status, known in (("permission_denied", 403, stint.Refused),
                                    ("unauthenticated", 401, stint.Unauthenticated)):
            service = self.invented((status, {}, {"code": code}))
            with self.assertRaises(known):
                stint.Client(service.url, token="t").stats()
            self.assertEqual(service.calls[0][0]["Authorization"], "Bearer t")

    def test_a_refusal_after_a_lost_answer_says_that_the_call_may_have_taken_effect(self):
        version = [{"type": "stint.v1.ErrorDetail", "value": "Cg5zY2hlbWEtdmVyc2lvbg"}]
        for code, status, details, known in (
            ("permission_denied", 403, [], stint.Refused),
            ("unauthenticated", 401, [], stint.Unauthenticated),
            ("unimplemented", 501, version, stint.SchemaVersion),
        ):
            text = json.dumps({"code": code, "details": details}).encode()
            answers = [None, (status, {}, text)]  # without one it hangs up
            service = Server(lambda *_, answers=answers: answers.pop(0))
            self.addCleanup(service.close)
            with self.assertRaises(stint.Unavailable) as caught:
                stint.Client(service.url).insert(stint.Task("act"))
            self.assertTrue(caught.exception.ambiguous)
            self.assertIsInstance(caught.exception.__cause__, known)
            self.assertEqual(answers, [])

    def test_the_file_of_a_token_is_read_again_once(self):
        refused = (401, {}, {"code": "unauthenticated", "message": "who"})
        service = self.invented(refused, (200, {}, {}), refused, refused, refused, refused)
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "token")

            def write(token):
                with open(path, "w", encoding="ascii") as file:
                    file.write(token + "\n")

            write("old")
            client = stint.Client(service.url, token_file=path)
            write("new")
            client.stats()
            with self.assertRaises(stint.Unauthenticated):
                client.stats()  # the file has not changed
            write("newer")
            with self.assertRaises(stint.Unauthenticated):
                client.stats()
            os.remove(path)
            with self.assertRaises(stint.Unauthenticated):
                client.stats()
        self.assertEqual([headers["Authorization"] for headers, _ in service.calls],
                         ["Bearer old", "Bearer new", "Bearer new", "Bearer new", "Bearer newer",
                          "Bearer newer"])

    def test_the_service_is_told_for_how_long_somebody_waits(self):
        end = {"finished": True, "next": "c", "tasks": []}
        calls = (
            (lambda c: list(c.list()), 3_000, 3_100),
            (lambda c: c.stats(), 3_000, 3_100),
            (lambda c: c.wait([], timeout=7), 9_900, 10_100),
            (lambda c: c.insert(stint.Task("act", b"b" * (3 << 18))), 19_000, 19_100),
            (lambda c: c.insert(stint.Task("act", b"b" * (6 << 20))), 63_000, 63_000),
        )
        for call, least, most in calls:
            service = self.invented((200, {}, end), (200, {}, {}))
            call(stint.Client(service.url, timeout=3))
            told = int(service.calls[0][0]["Connect-Timeout-Ms"])
            self.assertTrue(least <= told <= most, (told, least, most))
        service = self.invented((200, {}, {}))
        stint.Client(service.url, timeout=1e7).stats()
        self.assertEqual(service.calls[0][0]["Connect-Timeout-Ms"], "9999999000")

    def test_a_token_is_in_no_text(self):
        for token in ("se cret", "secret\nX: y", "sécret"):
            with self.assertRaises(stint.InvalidArgument) as caught:
                stint.Client("http://localhost", token=token)
            self.assertNotIn("cret", str(caught.exception))
        self.assertNotIn("secret", repr(stint.Client("http://localhost", token="secret")))

    def test_a_token_leaves_this_machine_over_tls_alone(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "token")
            with open(path, "w", encoding="ascii") as file:
                file.write("secret")
            for given in ({"token": "secret"}, {"token_file": path}):
                for url in (
                    "http://host", "http://tasks.example:7330", "http://localhost.example",
                    "http://localhost.", "http://127.0.0.1.example", "http://127.1",
                    "http://2130706433", "http://0.0.0.0", "http://[::]", "http://10.0.0.1",
                    "http://[::2]", "http://[::ffff:10.0.0.1]", "http://[::1%25lo]",
                    "http://localhost%2eexample", "http://localhost%00.example", "HTTP://HOST",
                    "http://ⓛocalhost", "http://host/localhost", "http://-localhost",
                ):
                    with self.subTest(url=url):
                        with self.assertRaises(stint.InvalidArgument) as caught:
                            stint.Client(url, **given)
                        self.assertNotIn("secret", str(caught.exception))
                        stint.Client(url)  # without one it may go there
                for url in (
                    "http://localhost", "http://LOCALHOST:7330/s", "http://127.0.0.1",
                    "http://127.9.9.9:1", "http://[::1]:7330", "http://[::ffff:127.0.0.1]",
                    "https://host", "https://10.0.0.1", "https://[2001:db8::1]:7330/s",
                ):
                    stint.Client(url, **given)

    def test_a_token_goes_to_nobody_else(self):
        other = self.invented((200, {}, {}))
        location = {"Location": other.url + "/stint.v1.TaskService/ReplaceTasks"}
        for status in (301, 302, 303, 307, 308):
            service = self.invented((status, location, b""))
            with self.assertRaises(stint.StintError):
                stint.Client(service.url, token="secret").replace([])
        proxies = {name: other.url for name in (
            "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")}
        with mock.patch.dict(os.environ, proxies):
            service = self.invented((200, {}, {}))
            stint.Client(service.url, token="secret").replace([])
            with self.assertRaises(stint.Unavailable):
                stint.Client("https://127.0.0.1:1", token="secret").replace([])
        self.assertEqual(other.calls, [])

    def test_answers_of_others_are_understood_by_their_status(self):
        page = b"<html>a proxy</html>"
        for status, known in ((502, stint.Unavailable), (200, stint.Unavailable),
                              (403, stint.Refused), (404, stint.StintError)):
            service = self.invented((status, {}, page))
            with self.assertRaises(known):
                stint.Client(service.url).replace([])
        service = self.invented((503, {}, page), (200, {}, b"{"), (200, {}, {}))
        stint.Client(service.url).stats()
        self.assertEqual(len(service.calls), 3)

    def test_what_only_a_proxy_would_answer_is_repeated(self):
        page = b"<html>a proxy</html>"
        for answer in (
            (500, {}, page), (408, {}, page), (520, {}, page), (302, {"Location": "/"}, page),
            (503, {}, {"code": 503, "message": "no healthy upstream"}),
            (500, {}, {"code": "InternalError"}), (500, {}, {"code": ["internal"]}),
            (503, {}, {"code": "unavailable", "details": "none"}),
            (503, {}, {"code": "unavailable", "details": ["none"]}),
            (504, {}, {"code": "deadline_exceeded"}), (499, {}, {"code": "canceled"}),
        ):
            with self.subTest(answer=answer):
                service = self.invented(answer, (200, {}, {}))
                stint.Client(service.url).stats()
                self.assertEqual(len(service.calls), 2)
        service = self.invented((413, {}, page))
        with self.assertRaises(stint.TooLarge):
            stint.Client(service.url).stats()

    def test_what_may_have_been_handed_out_is_given_back_after_every_error(self):
        for answer in ((500, {}, {"code": "internal"}), (404, {}, b"a proxy")):
            service = self.invented(answer, (200, {}, {}))
            client = stint.Client(service.url)
            with self.assertRaises(stint.StintError):
                client.own("actor", "act")
            for releasing in client._releasing.copy():  # none, if it has ended
                releasing.join()
            [(_, owned), (_, released)] = service.calls
            self.assertEqual(released, {"actor": "actor", "claim": owned["claim"]})
        for code in ("invalid_argument", "permission_denied", "unauthenticated"):
            service = self.invented((400, {}, {"code": code}))
            client = stint.Client(service.url)
            with self.assertRaises(stint.StintError):
                client.own("actor", "act")
            self.assertEqual(len(client._releasing), 0)

    def test_a_call_that_failed_leaves_nothing_to_the_garbage_collector(self):
        failed, lost, done = (500, {}, {"code": "internal"}), (503, {}, b""), (200, {}, {})
        service = self.invented(lost, done, failed)
        client = stint.Client(service.url)
        client.stats()
        try:
            client.stats()
        except stint.StintError:
            pass
        connection = weakref.ref(client._connection)
        gc.disable()
        try:
            del client
            self.assertIsNone(connection())
        finally:
            gc.enable()

    def test_an_address_without_a_port_has_that_of_its_scheme(self):
        def connect(address, *_, **__):
            asked.append(address)
            raise ConnectionRefusedError

        asked = []
        for url, address, known in (
            ("http://[::1]", ("::1", 80), "http://[::1]:80"),
            ("https://[2001:db8::7330]/s/", ("2001:db8::7330", 443),
             "https://[2001:db8::7330]:443/s"),
            ("http://h", ("h", 80), "http://h:80"),
            ("http://[::1]:7330", ("::1", 7330), "http://[::1]:7330"),
        ):
            client = stint.Client(url)
            self.assertEqual(repr(client), f"Client({known})")
            with mock.patch("socket.create_connection", connect):
                with self.assertRaises(stint.Unavailable):
                    client.replace([])
            self.assertEqual(asked.pop(), address)

    def test_close_waits_for_every_claim_that_threads_release(self):
        service = self.invented((200, {}, {}), (200, {}, {}))
        client = stint.Client(service.url)
        start, late = threading.Thread.start, []

        def start_late(thread):
            """Makes another release, and closes the client, before the first one is started."""
            if thread.name == "stint-release" and not late:
                late.append(thread)
                client._release_later("actor", "2")
                client.close()
            start(thread)

        with mock.patch("stint.client._CLOSE_FOR", PATIENCE):
            with mock.patch("threading.Thread.start", start_late):
                client._release_later("actor", "1")
            client.close()
        self.assertEqual([body["claim"] for _, body in service.calls], ["2", "1"])

    def test_what_is_no_address_is_refused(self):
        for url in ("", "localhost:7330", "postgres://localhost", "http://", "http://h:x",
                    "http://user:password@host", "http://:password@host", "http://user@host",
                    "http://@host", "http://localhost:7330@host", "http://localhost\\@host",
                    "http://h?q", "http://h#f", "http://h#@localhost", "ftp://localhost"):
            with self.assertRaises(stint.InvalidArgument):
                stint.Client(url)
