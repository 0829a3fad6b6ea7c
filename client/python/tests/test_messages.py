"""Messages and errors, without a service."""

import base64
import unittest
from datetime import datetime, timedelta, timezone

import stint
from stint import errors, tasks


def field(number, value):
    """Returns a field in protobuf."""
    def varint(n):
        n &= (1 << 64) - 1
        found = b""
        while n > 0x7F:
            found += bytes([n & 0x7F | 0x80])
            n >>= 7
        return found + bytes([n])

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


class DetailTest(unittest.TestCase):
    def test_a_detail_is_decoded_with_all_its_fields(self):
        refused = field(1, "a") + field(2, "b") + field(3, "task-started") + field(5, "ready")
        packed = (
            field(1, "cycle") + field(2, "ä") + field(2, "b") + field(3, 300) +
            field(4, "Task.ID") + field(5, -1) + field(6, "x") + field(7, "why") +
            field(8, "p") + field(8, "q") + field(9, refused) +
            field(20, "later") + field(21, 7) + b"\xb1\x01" + bytes(8) + b"\xb5\x01" + bytes(4))
        self.assertEqual(errors.decode_detail(packed), {
            "kind": "cycle", "ids": ["ä", "b"], "total": 300, "argument": "Task.ID", "index": -1,
            "id": "x", "problem": "why", "path": ["p", "q"], "refused": [{
                "predecessor": "a", "dependent": "b", "kind": "task-started",
                "dependent_state": "ready"}]})

    def test_what_is_no_detail_is_refused(self):
        for packed in (b"\x0a", b"\x0a\x05ab", b"\xff" * 11, b"\x0b", b"\x0a\x01\xff", b"\x08\x01",
                       field(3, "text"), b"\x18\x80"):
            with self.subTest(packed=packed), self.assertRaises(ValueError):
                errors.decode_detail(packed)

    def test_every_beginning_of_a_detail_is_decoded_or_refused(self):
        packed = field(1, "task-exists") + field(2, "a") + field(3, 1) + field(9, field(1, "a"))
        for size in range(len(packed)):
            try:
                errors.decode_detail(packed[:size])
            except ValueError:
                pass

    def test_an_error_is_known_by_its_kind_and_never_by_its_text(self):
        for kind, known in {
            "task-exists": stint.TaskExists, "task-not-found": stint.TaskNotFound,
            "task-in-progress": stint.TaskInProgress, "task-started": stint.TaskStarted,
            "task-finished": stint.TaskFinished, "task-blocked": stint.TaskBlocked,
            "cycle": stint.Cycle,
            "predecessor-aborted": stint.PredecessorAborted, "invalid-token": stint.InvalidToken,
            "already-returned": stint.AlreadyReturned, "no-post-result": stint.NoPostResult,
            "ends-pruned": stint.EndsPruned,
            "busy": stint.Busy, "invalid-argument": stint.InvalidArgument,
            "too-large": stint.TooLarge, "claim-spent": stint.ClaimSpent,
            "copy": stint.Copied,
            "closed": stint.Unavailable, "schema-version": stint.SchemaVersion,
            "limited": stint.Limited, "of-a-later-release": stint.StintError,
        }.items():
            packed = base64.b64encode(field(1, kind) + field(2, "a") + field(3, 9)).rstrip(b"=")
            error = errors.error_of_answer({
                "code": "aborted", "message": "task not found", "details": [
                    {"type": "google.rpc.RetryInfo", "value": "CgA"},
                    {"type": "stint.v1.ErrorDetail", "value": packed.decode()}]})
            self.assertIs(type(error), known)
            self.assertEqual((error.kind, error.ids, error.total, str(error)),
                             (kind, ["a"], 9, "task not found"))

    def test_an_error_without_a_detail_is_known_by_its_code(self):
        for code, known in {
            "permission_denied": stint.Refused, "unauthenticated": stint.Unauthenticated,
            "unavailable": stint.Unavailable, "resource_exhausted": stint.TooLarge,
            "invalid_argument": stint.InvalidArgument, "internal": stint.StintError,
        }.items():
            for details in (None, [{"type": "stint.v1.ErrorDetail", "value": "%%%"}]):
                error = errors.error_of_answer({"code": code, "details": details})
                self.assertIs(type(error), known)
                self.assertEqual(error.code, code)
        self.assertIsInstance(stint.Unauthenticated(), stint.Refused)


class FormTest(unittest.TestCase):
    def test_durations_go_to_json_and_back(self):
        for duration, text in {
            timedelta(seconds=1.5): "1.500000s", timedelta(microseconds=-1): "-0.000001s",
            timedelta(days=3650): "315360000.000000s",
        }.items():
            self.assertEqual(tasks.from_duration(duration), text)
            self.assertEqual(tasks.to_duration(text), duration)
        self.assertEqual(tasks.from_duration(0.25), "0.250000s")
        self.assertEqual(tasks.to_duration("3s"), timedelta(seconds=3))
        self.assertEqual(tasks.to_duration("0.123456789s"), timedelta(microseconds=123456))
        for wrong in ("1s", float("nan"), float("inf"), 1e300):
            with self.assertRaises(stint.InvalidArgument):
                tasks.from_duration(wrong)

    def test_times_go_to_json_and_back_and_have_a_zone(self):
        east = datetime(2026, 11, 23, 1, 2, 3, 45, timezone(timedelta(hours=2)))
        self.assertEqual(tasks.from_time(east), "2026-11-22T23:02:03.000045Z")
        back = tasks.to_time("2026-11-22T23:02:03.000045Z")
        self.assertEqual((back, back.tzinfo), (east, timezone.utc))
        self.assertEqual(tasks.to_time("2026-01-02T03:04:05.123456789Z").microsecond, 123456)
        self.assertEqual(tasks.to_time("2026-01-02T03:04:05.1Z").microsecond, 100000)
        west, east = timezone(timedelta(hours=-2)), timezone(timedelta(hours=2))
        self.assertEqual(tasks.from_time(datetime.max.replace(tzinfo=east)),
                         "9999-12-31T21:59:59.999999Z")
        for wrong in (datetime(2026, 11, 23), datetime.max.replace(tzinfo=west),
                      datetime.min.replace(tzinfo=east)):
            with self.assertRaises(stint.InvalidArgument):
                tasks.from_time(wrong)

    def test_tokens_are_in_no_text_of_a_task(self):
        owned = stint.OwnedTask("a", "secret")
        for each in (owned, stint.Return.of(owned)):
            self.assertNotIn("secret", repr(each) + str(each))

    def test_a_task_without_an_id_gets_one_of_its_own(self):
        self.assertNotEqual(stint.Task("act").id, stint.Task("act").id)
