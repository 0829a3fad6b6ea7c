"""Tasks that end in a transaction of the handler's."""

import os
import threading
import unittest

import stint

from .services import PATIENCE, ServiceTest

try:
    import psycopg2
except ImportError:
    psycopg2 = None
try:
    import psycopg
except ImportError:
    psycopg = None


class Failure(Exception):
    """An error of psycopg, or of psycopg2."""

    def __init__(self, **state):
        super().__init__("why")
        vars(self).update(state)


class Cursor:
    """Raises an error, if there is one, and keeps what it was given."""

    def __init__(self, error=None):
        self.error = error

    def execute(self, text, values):
        self.text, self.values = text, values
        if self.error:
            raise self.error


class FinishTest(unittest.TestCase):
    task = stint.OwnedTask(id="a", token="t")

    def test_arguments_are_those_of_the_function(self):
        cursor = Cursor()
        stint.finish_task(cursor, self.task, "pending", "s", "\u00e4", 1.5, False, 'a%"b')
        self.assertIn('"a%%""b".finish_task(', cursor.text)
        self.assertEqual(cursor.text.count("%s"), len(cursor.values))
        self.assertEqual(cursor.values[:5], ("a", "t", "pending", "s", "\u00e4".encode()))
        self.assertEqual(cursor.values[5].total_seconds(), 1.5)

    def test_refusals_are_errors_of_the_package(self):
        for state, error in {
            "STI02": stint.InvalidArgument, "STI03": stint.TooLarge, "STI04": stint.SchemaVersion,
            "STI05": stint.InvalidToken, "STI06": stint.AlreadyReturned, "40001": Failure,
        }.items():
            for name in "sqlstate", "pgcode":
                with self.assertRaises(error) as raised:
                    stint.finish_task(Cursor(Failure(**{name: state})), self.task)
                self.assertIs(type(raised.exception), error)


class TransactionTest(ServiceTest):
    """The driver is that of a class below. Where all tests have to run, it has to be there."""

    driver = None
    package = None

    def setUp(self):
        if type(self) is TransactionTest or "STINT_DATABASE" not in os.environ:
            self.skipTest("no driver, or no database")
        if not self.driver:
            if any(os.environ.get(name) for name in ("STINT_TEST_PROGRAMS", "STINT_TEST_LONG")):
                self.fail(f"there is no {self.package} here: apt-get install python3-{self.package}")
            self.skipTest(f"no {self.package}")
        super().setUp()
        self.connection = self.driver.connect(os.environ["STINT_DATABASE"])
        self.addCleanup(self.connection.close)
        with self.connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS made (task text)")
        self.connection.commit()

    def made(self, short):
        with self.connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM made WHERE task = %s", (self.name(short),))
            [count] = cursor.fetchone()
        self.connection.commit()
        return count

    def make(self, task, **other):
        """Adds a row and ends the task."""
        try:
            with self.connection.cursor() as cursor:
                cursor.execute("INSERT INTO made VALUES (%s)", (task.id,))
                if isinstance(task, stint.HeldTask):
                    task.finish(cursor, **other)
                else:
                    stint.finish_task(cursor, task, **other)
            self.connection.commit()
        except Exception:
            self.connection.rollback()
            raise

    def test_rows_and_the_end_are_one_commit(self):
        self.insert("a")
        [task] = self.own()
        self.make(task, result=b"\0", status="s")
        with self.assertRaises(stint.AlreadyReturned):
            self.make(task)
        info = self.info("a")
        self.assertEqual((info.state, info.result, info.status), ("completed", b"\0", "s"))
        self.assertEqual(self.made("a"), 1)

    def test_a_late_owner_leaves_no_row(self):
        self.insert("a")
        [task] = self.own()
        self.client.abort([task.id], "enough")
        with self.assertRaises(stint.InvalidToken) as raised:
            self.make(task)
        self.assertEqual(list(raised.exception.ids), [task.id])
        self.assertEqual(self.made("a"), 0)

    def test_a_worker_does_nothing_else_for_a_task_that_was_finished(self):
        def handle(task):
            if task.body == b"fails" and task.try_ == 1:
                with self.connection.cursor() as cursor:
                    task.finish(cursor)
                self.connection.rollback()
                raise stint.Retry("the commit failed", after=0.01)
            self.make(task, code="aborted" if task.body == b"aborts" else "completed")
            if task.body == b"unsure":
                raise RuntimeError("the commit has gone through")

        bodies = ["plain", "aborts", "fails", "unsure"]
        self.client.insert([self.task(body, body, post_result=True) for body in bodies])
        worker = stint.Worker(self.client, concurrency=1)
        worker.handles(self.action)(handle)
        thread = threading.Thread(target=worker.run)
        thread.start()
        done = self.client.wait([self.name(body) for body in bodies], timeout=PATIENCE)
        worker.stop()
        thread.join(PATIENCE)
        self.assertEqual([(info.state, info.tries) for info in done], [
            ("completed", 1), ("aborted", 1), ("completed", 2), ("completed", 1)])
        self.assertEqual([self.made(body) for body in bodies], [1] * 4)


class Psycopg2Test(TransactionTest):
    driver = psycopg2
    package = "psycopg2"


class PsycopgTest(TransactionTest):
    driver = psycopg
    package = "psycopg"
