// Refusals, limits and answers of others: on services that are made up.

import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { inspect } from "node:util";
import * as stint from "@stint-tasks/client";
import { Client } from "@stint-tasks/client";
import { Invented, type Answered } from "./services.js";

const page = "<html>a proxy</html>";

/** Returns a field in protobuf. */
function field(number: number, value: number | string | Buffer): Buffer {
  const varint = (n: bigint): number[] =>
    n > 0x7fn ? [Number(n & 0x7fn) | 0x80, ...varint(n >> 7n)] : [Number(n)];
  if (typeof value === "number") {
    const wrapped = BigInt.asUintN(64, BigInt(value));
    return Buffer.from([...varint(BigInt(number << 3)), ...varint(wrapped)]);
  }
  const bytes = Buffer.from(value);
  return Buffer.concat([
    Buffer.from([...varint(BigInt((number << 3) | 2)), ...varint(BigInt(bytes.length))]), bytes]);
}

function detail(...fields: Buffer[]) {
  const value = Buffer.concat(fields).toString("base64").replace(/=+$/, "");
  return [{ type: "google.rpc.RetryInfo", value: "CgA" }, { type: "stint.v1.ErrorDetail", value }];
}

async function errorOf(call: Promise<unknown>): Promise<any> {
  const failed = await call.then(() => null, (error) => error);
  assert(failed instanceof Error, "the call does not fail");
  return failed;
}

test("each poll asks for all that an iterator yields", async (t) => {
  const end = { finished: true, tasks: [{ id: "a", token: "t", action: "act" }] };
  for (const [verb, name] of [
    [(client: Client, names: Iterable<string>) => client.wait(names), "ids"],
    [(client: Client, names: Iterable<string>) => client.own("a", names, { wait: 3600 }),
      "actions"],
  ] as const) {
    const service = await Invented.answering(t, [200, {}, {}], [200, {}, {}], [200, {}, end]);
    await verb(new Client(service.url), ["a", "b"].values());
    assert.deepEqual(service.calls.map((call) => call.body[name]), Array(3).fill(["a", "b"]));
  }
});

test("64 bits and what a later release adds come through", async (t) => {
  const service = await Invented.answering(t,
    [200, {}, { tasks: [{ id: "a", token: "t", later: 7 }] }],
    [200, {}, { aborted: { tasks: ["a"], others: "9007199254740991" } }], [200, {}, {}]);
  const client = new Client(service.url);
  await client.own("actor", "act");
  assert.deepEqual(await client.abort("a"),
    { tasks: ["a"], others: Number.MAX_SAFE_INTEGER, inProgress: 0,
      started: 0, skipped: 0, later: 0 });
  const { session, claim } = service.calls[0]!.body;
  assert(BigInt(session) > 0n && BigInt(session) < 1n << 63n);
  assert(BigInt(claim) > 0n && BigInt(claim) < 1n << 64n);
  await client.releaseClaim("actor", (1n << 64n) - 1n);
  assert.equal(service.calls[2]!.body.claim, "18446744073709551615");
});

test("a call over a limit is made again when the service says so", async (t) => {
  const limited = {
    code: "resource_exhausted", message: "too many", details: detail(field(1, "limited")) };
  const service = await Invented.answering(t,
    [429, { "Retry-After": "1" }, limited], [200, {}, {}],
    [429, { "Retry-After": "60" }, limited]);
  const client = new Client(service.url);
  const began = Date.now();
  await client.stats();
  assert(Date.now() - began >= 1000);
  let error = await errorOf(client.stats());
  assert(error instanceof stint.Limited);
  assert.deepEqual([error.retryAfter, error.ambiguous], [60, false]);
  service.answers = [[503, {}, "lost"], [429, { "Retry-After": "60" }, limited]];
  error = await errorOf(client.stats());
  assert(error instanceof stint.Limited && error.ambiguous);
});

test("a refusal is not repeated", async (t) => {
  for (const [code, status, known] of [
    ["permission_denied", 403, stint.Refused], ["unauthenticated", 401, stint.Unauthenticated],
  ] as const) {
    const service = await Invented.answering(t, [status, {}, { code }]);
    assert((await errorOf(new Client(service.url, { token: "t" }).stats())) instanceof known);
    assert.equal(service.calls[0]!.headers.authorization, "Bearer t");
  }
});

test("a claim whose answer was lost is released if the next one has no tasks", async (t) => {
  const service = await Invented.answering(t, [503, {}, page], [200, {}, {}], [200, {}, {}]);
  const client = new Client(service.url);
  assert.deepEqual(await client.own("actor", "act"), []);
  await client.close();
  const [lost, repeated, released] = service.calls;
  assert.equal(repeated!.body.repeated, true);
  assert.equal(released?.path, "/stint.v1.WorkerService/ReleaseClaim");
  assert.deepEqual(released.body, { actor: "actor", claim: lost!.body.claim });
});

test("a refusal after a lost answer says that the call may have taken effect", async (t) => {
  const service = await Invented.answering(t,
    [503, {}, page], [401, {}, { code: "unauthenticated" }]);
  const error = await errorOf(new Client(service.url).insert({ action: "act" }));
  assert(error instanceof stint.Unavailable && error.ambiguous);
  assert(error.cause instanceof stint.Unauthenticated);
});

test("a token is read again once", async (t) => {
  const refused: Answered = [401, {}, { code: "unauthenticated", message: "who" }];
  const service = await Invented.answering(
    t, [200, {}, {}], refused, [200, {}, {}]);
  const directory = await mkdtemp(join(tmpdir(), "stint-"));
  t.after(() => rm(directory, { recursive: true }));
  const tokenFile = join(directory, "token");
  const write = (token: string) => writeFile(tokenFile, `${token}\n`);
  const client = new Client(service.url, { tokenFile });
  const isRefused = async () =>
    assert((await errorOf(client.stats())) instanceof stint.Unauthenticated);
  await write("old");
  await client.stats();
  await write("new");
  await client.stats();
  service.answers = [refused, refused, refused, refused];
  const before = service.calls.length;
  await isRefused(); // the file has not changed
  await write("newer");
  await isRefused();
  await rm(tokenFile);
  await isRefused();
  const used = service.calls.slice(before).map((call) => call.headers.authorization);
  assert.deepEqual(used, ["Bearer new", "Bearer new", "Bearer newer", "Bearer newer"]);
});

test("a token may be a function", async (t) => {
  const tokens = ["first", "second"];
  const service = await Invented.answering(
    t, [401, {}, { code: "unauthenticated" }], [200, {}, {}], [200, {}, {}]);
  const client = new Client(service.url, { token: async () => tokens.shift()! });
  await client.stats();
  await client.stats();
  assert.deepEqual(service.calls.map((call) => call.headers.authorization),
    ["Bearer first", "Bearer second", "Bearer second"]);
});

test("a token is in no text", () => {
  for (const token of ["se cret", "secret\nX: y", "sécret"]) {
    assert.throws(() => new Client("http://localhost", { token }), (error) => {
      assert(error instanceof stint.InvalidArgument && !error.message.includes("cret"));
      return true;
    });
  }
  const client = new Client("http://localhost", { token: "secret" });
  assert(!(inspect(client, { depth: 9, showHidden: true }) + JSON.stringify(client))
    .includes("secret"));
});

test("a token leaves this machine over TLS alone", () => {
  for (const given of [{ token: "secret" }, { tokenFile: "/none" }]) {
    for (const url of [
      "http://host", "http://tasks.example:7330", "http://localhost.example",
      "http://localhost.", "http://127.0.0.1.example", "http://0.0.0.0", "http://[::]",
      "http://10.0.0.1", "http://[::2]", "http://[::ffff:10.0.0.1]",
      "http://localhost%2eexample", "HTTP://HOST", "http://host/localhost", "http://-localhost",
    ]) {
      assert.throws(() => new Client(url, given), stint.InvalidArgument, url);
      new Client(url); // without one it may go there
    }
    for (const url of [
      "http://localhost", "http://LOCALHOST:7330/s", "http://127.0.0.1", "http://127.9.9.9:1",
      "http://[::1]:7330", "http://[::ffff:127.0.0.1]", "https://host", "https://10.0.0.1",
      "https://[2001:db8::1]:7330/s",
    ]) {
      new Client(url, given);
    }
  }
});

test("a token goes to nobody else", async (t) => {
  const other = await Invented.answering(t, [200, {}, {}]);
  const location = `${other.url}/stint.v1.TaskService/ReplaceTasks`;
  for (const status of [301, 302, 303, 307, 308]) {
    const service = await Invented.answering(t, [status, { Location: location }, ""]);
    const client = new Client(service.url, { token: "secret" });
    assert((await errorOf(client.replace([]))) instanceof stint.StintError);
  }
  assert.deepEqual(other.calls, []);
});

test("answers of others are understood by their status", async (t) => {
  for (const [status, known] of [
    [502, stint.Unavailable], [200, stint.Unavailable], [403, stint.Refused],
    [404, stint.StintError],
  ] as const) {
    const service = await Invented.answering(t, [status, {}, page]);
    assert((await errorOf(new Client(service.url).replace([]))) instanceof known);
  }
});

test("what only a proxy would answer is repeated", async (t) => {
  for (const answer of [
    [500, {}, page], [408, {}, page], [520, {}, page], [302, { Location: "/" }, page],
    [200, {}, "{"], [200, {}, "[]"], [200, {}, "null"],
    [503, {}, { code: 503, message: "no healthy upstream" }], [500, {}, { code: "InternalError" }],
    [500, {}, { code: ["internal"] }], [503, {}, { code: "unavailable", details: "none" }],
    [503, {}, { code: "unavailable", details: ["none"] }],
    [503, {}, { code: "unavailable", details: [null] }],
    [504, {}, { code: "deadline_exceeded" }], [499, {}, { code: "canceled" }],
  ] as Answered[]) {
    const service = await Invented.answering(t, answer, [200, {}, {}]);
    await new Client(service.url).stats();
    assert.equal(service.calls.length, 2, inspect(answer));
  }
  const service = await Invented.answering(t, [413, {}, page]);
  assert((await errorOf(new Client(service.url).stats())) instanceof stint.TooLarge);
});

test("what may have been fetched is given back after every error", async (t) => {
  for (const answer of [[500, {}, { code: "internal" }], [404, {}, "a proxy"]] as Answered[]) {
    const service = await Invented.answering(t, answer, [200, {}, {}]);
    const client = new Client(service.url);
    await errorOf(client.own("actor", "act"));
    await client.close();
    const [owned, released] = service.calls;
    assert.deepEqual(released!.body, { actor: "actor", claim: owned!.body.claim });
  }
  for (const code of ["invalid_argument", "permission_denied", "unauthenticated"]) {
    const service = await Invented.answering(t, [400, {}, { code }]);
    const client = new Client(service.url);
    await errorOf(client.own("actor", "act"));
    await client.close();
    assert.equal(service.calls.length, 1);
  }
});

test("a fetch that was released is asked for under another claim", async (t) => {
  const spent = { code: "aborted", details: detail(field(1, "claim-spent")) };
  const service = await Invented.answering(
    t, [503, {}, page], [409, {}, spent], [200, {}, { tasks: [{ id: "a", token: "t" }] }]);
  const [task] = await new Client(service.url).own("actor", "act");
  assert.equal(task!.id, "a");
  const [first, second, third] = service.calls.map((call) => call.body);
  assert.deepEqual([first.repeated, second.repeated, third.repeated], [undefined, true, undefined]);
  assert(first.claim === second.claim && third.claim !== first.claim);
});

test("a service that is silent is asked again", async (t) => {
  const service = await Invented.answering(t, [200, {}, {}], [200, {}, {}]);
  let silent = true;
  const client = new Client(service.url, {
    timeout: 1,
    fetch: (input, init) => {
      if (!silent) return fetch(input, init);
      silent = false;
      return new Promise((_, reject) => {
        init!.signal!.addEventListener("abort", () => reject(init!.signal!.reason));
      });
    },
  });
  await client.stats();
  assert.equal(silent, false);
  assert(service.calls.length >= 1); // more, where an answer takes longer
});

test("the service is told for how long somebody waits", async (t) => {
  const end = { finished: true, tasks: [] };
  for (const [call, least, most] of [
    [(client: Client) => client.list().next(), 3000, 3000],
    [(client: Client) => client.stats(), 3000, 3000],
    [(client: Client) => client.wait([], { timeout: 7 }), 9900, 10_000],
    [(client: Client) => client.insert({ action: "act", body: "b".repeat(5 << 20) }), 8000, 8000],
  ] as const) {
    const service = await Invented.answering(t, [200, {}, end]);
    await call(new Client(service.url, { timeout: 3 }));
    const told = Number(service.calls[0]!.headers["connect-timeout-ms"]);
    assert(least <= told && told <= most, `${told}`);
  }
});

test("an error has all that its detail has", async (t) => {
  const refused = Buffer.concat([
    field(1, "a"), field(2, "b"), field(3, "task-started"), field(5, "ready")]);
  const service = await Invented.answering(t, [400, {}, {
    code: "failed_precondition", message: "why",
    details: detail(
      field(1, "cycle"), field(2, "ä"), field(2, "b"), field(3, 300), field(4, "Task.ID"),
      field(5, -1), field(6, "x"), field(7, "what"), field(8, "p"), field(8, "q"),
      field(9, refused), field(11, "s"), field(20, "later"), field(21, 7),
      Buffer.from([0xb1, 1, ...Array(8).fill(0), 0xb5, 1, ...Array(4).fill(0)])),
  }]);
  const error = await errorOf(new Client(service.url).replace([]));
  assert(error instanceof stint.Cycle);
  assert.deepEqual(
    [error.message, error.kind, error.code, error.ids, error.total, error.argument, error.index,
      error.id, error.problem, error.path, error.schedules],
    ["why", "cycle", "failed_precondition", ["ä", "b"], 300, "Task.ID", -1, "x", "what",
      ["p", "q"], ["s"]]);
  assert.deepEqual(error.refused, [{
    predecessor: "a", dependent: "b", kind: "task-started", predecessorState: "",
    dependentState: "ready",
  }]);
});

test("an error is known by its kind and never by its text", async (t) => {
  for (const [kind, known] of Object.entries({
    "task-exists": stint.TaskExists, "task-not-found": stint.TaskNotFound,
    "task-in-progress": stint.TaskInProgress, "task-started": stint.TaskStarted,
    "task-finished": stint.TaskFinished, "task-blocked": stint.TaskBlocked, cycle: stint.Cycle,
    "predecessor-aborted": stint.PredecessorAborted, "invalid-token": stint.InvalidToken,
    "already-returned": stint.AlreadyReturned, "no-post-result": stint.NoPostResult,
    busy: stint.Busy, "invalid-argument": stint.InvalidArgument, "too-large": stint.TooLarge,
    "ends-pruned": stint.EndsPruned, "claim-spent": stint.ClaimSpent, copy: stint.Copied,
    "schema-version": stint.SchemaVersion,
    limited: stint.Limited, closed: stint.Unavailable, "schedule-not-found": stint.ScheduleNotFound,
    "invalid-answer-key": stint.InvalidAnswerKey, "of-a-later-release": stint.StintError,
    constructor: stint.StintError,
  })) {
    const service = await Invented.answering(t, [409, {}, {
      code: "aborted", message: "task not found",
      details: detail(field(1, kind), field(2, "a"), field(3, 9)),
    }]);
    const error = await errorOf(new Client(service.url).replace([]));
    assert.equal(error.constructor, known, kind);
    assert.deepEqual([error.name, error.kind, error.ids, error.total, error.message],
      [known.name, kind, ["a"], 9, "task not found"]);
  }
});

test("an error without a detail that can be read is known by its code", async (t) => {
  const whole = Buffer.concat([field(1, "task-exists"), field(2, "a"), field(9, field(1, "a"))]);
  const values = ["%%%", 7, ...[
    Buffer.from([0x0a]), Buffer.from([0x0a, 5, 97, 98]), Buffer.alloc(11, 0xff),
    Buffer.from([0x0b]), Buffer.from([0x0a, 1, 0xff]), Buffer.from([8, 1]), field(3, "text"),
    Buffer.from([0x18, 0x80]), whole.subarray(0, whole.length - 1),
  ].map((each) => each.toString("base64"))];
  for (const value of values) {
    const service = await Invented.answering(t, [400, {}, {
      code: "invalid_argument", details: [{ type: "stint.v1.ErrorDetail", value }] }]);
    const error = await errorOf(new Client(service.url).replace([]));
    assert.deepEqual([error.name, error.code, error.kind, error.index],
      ["InvalidArgument", "invalid_argument", "", -1], String(value));
  }
});

test("what is no address is refused", () => {
  for (const url of [
    "", "localhost:7330", "postgres://localhost", "http://", "http://h:x", "/tasks",
    "http://user:password@host", "http://:password@host", "http://user@host", "http://@host",
    "http://localhost:7330@host", "http://localhost\\@host", "http://h?q", "http://h#f",
    "http://h#@localhost", "ftp://localhost",
  ]) {
    assert.throws(() => new Client(url), stint.InvalidArgument, url);
  }
  assert.equal(new Client("https://[2001:db8::7330]/s/").url, "https://[2001:db8::7330]/s");
  assert.throws(() => new Client("http://h", { timeout: 0 }), stint.InvalidArgument);
  assert.throws(() => new Client("http://localhost", { token: "a", tokenFile: "b" }),
    stint.InvalidArgument);
});
