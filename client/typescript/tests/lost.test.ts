// Answers that are lost, on a service: whatever happens on the way, a call is made once.

import assert from "node:assert/strict";
import net from "node:net";
import { test, type TestContext } from "node:test";
import * as stint from "@stint-tasks/client";
import { returnOf } from "@stint-tasks/client";
import { Invented, Service, eventually, type Answered } from "./services.js";

type Kind = "loseRequests" | "loseAnswers";

async function takesEffectOnce(t: TestContext, kind: Kind) {
  const s = new Service(t);
  const proxy = await s.proxy();
  const { client } = s;
  const lost = async <T>(call: () => Promise<T>): Promise<T> => {
    proxy[kind] = 2;
    const result = await call();
    assert.equal(proxy[kind], 0);
    return result;
  };
  await lost(() => client.insert([
    s.task("a", null, { postResult: true }), s.task("b"), s.task("c"), s.task("d")]));
  const [first, second] = await lost(() => s.own(2));
  assert.deepEqual([first!.id, second!.id, first!.try], [s.name("a"), s.name("b"), 1]);
  await lost(() => client.setStatus(first!, "half", 0.5));
  const tasks = [first!, second!].values(); // which yields them once
  assert.deepEqual(await lost(() => client.extend("actor", tasks)), [true, true]);
  assert.deepEqual(await lost(() => client.returnTasks(returnOf(first!))), [null]);
  await lost(() => client.wait(first!.id));
  assert.deepEqual((await lost(() => client.delete([first!.id]))).tasks, [first!.id]);
  await lost(() => client.abort(second!.id));
  const added = await lost(() => client.transact({ insert: s.task("e") }));
  assert.deepEqual(added.ids, [s.name("e")]);
  const [third] = await s.own();
  assert.deepEqual([third!.id, third!.try], [s.name("c"), 1]);
  const done = await lost(() => client.transact({
    abort: s.name("d"), return: returnOf(third!) }));
  assert.deepEqual(done.aborted.tasks, [s.name("d")]);
  const states = await Promise.all(["c", "d", "e"].map((short) => s.state(short)));
  assert.deepEqual(states, ["completed", "aborted", "ready"]);
}

test("calls that may change many tasks have time", async (t) => {
  const answers = Array.from({ length: 8 }, (): Answered =>
    [200, { "Content-Type": "application/json" }, {}]);
  const service = await Invented.answering(t, ...answers);
  const client = new stint.Client(service.url);
  t.after(() => client.close());
  await client.abort("a");
  await client.retry("a");
  await client.delete("a");
  await client.change("a", { priority: 1 });
  await client.addDependencies({ predecessor: "a", dependent: "b" });
  await client.transact({ abort: "a" });
  await client.transact({ mustExist: "a" });
  await client.insert({ action: "a" });
  const allowed = service.calls.map(({ headers }) => Number(headers["connect-timeout-ms"]));
  assert(Math.min(...allowed.slice(0, 6)) >= 3_600_000, allowed.join());
  assert(Math.max(...allowed.slice(6)) < 60_000, allowed.join());
});

test("lost requests are repeated", (t) => takesEffectOnce(t, "loseRequests"));
test("lost answers are asked for again", (t) => takesEffectOnce(t, "loseAnswers"));

test("an insert that exists in part fails after a lost answer, too", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  await s.insert(["a"]);
  proxy.loseAnswers = 1;
  await assert.rejects(s.insert(["a", "b"]), stint.TaskExists);
});

test("what a lost answer was about was not there before", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  await s.insert(["a"]);
  for (const kind of ["loseRequests", "loseAnswers"] as const) {
    proxy[kind] = 1;
    const done = await s.client.ensure([s.task("a"), s.task("b")]);
    assert.deepEqual(done.existing, [s.name("a")]);
    await s.client.delete(s.name("b"));
  }
});

test("a transaction whose tasks exist fails unless its returns were made", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  await s.insert(["a"]);
  const [task] = await s.own();
  await s.insert(["b"]);
  for (const kind of ["loseRequests", "loseAnswers"] as const) {
    proxy[kind] = 1;
    await assert.rejects(
      s.client.transact({ insert: s.task("b"), return: returnOf(task!) }), stint.TaskExists);
    assert.equal(await s.state("a"), "in-progress");
    assert.equal(proxy[kind], 0);
  }
});

test("a delete of what is missing in part fails after a lost answer, too", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  await s.insert(["a"]);
  proxy.loseAnswers = 1;
  await assert.rejects(s.client.delete([s.name("a"), s.name("b")]), stint.TaskNotFound);
});

test("schedules that a lost answer was about are deleted", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  const name = s.name("ticks");
  await s.client.putSchedules({ name, spec: "@daily", tasks: { action: s.action } });
  proxy.loseAnswers = 1;
  await s.client.deleteSchedules([name, name]);
  assert.deepEqual(await s.client.listSchedules(name), []);
});

test("what a repetition would do once more is not repeated", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  for (const kind of ["loseRequests", "loseAnswers"] as const) {
    proxy[kind] = 1;
    proxy.calls = [];
    await assert.rejects(s.client.replace(s.task("a")),
      (error) => error instanceof stint.Unavailable && error.ambiguous);
    assert.deepEqual(proxy.calls, ["ReplaceTasks"]);
  }
  await s.insert(["b"]);
  for (const [call, verb] of [
    [() => s.client.transact({ delete: s.name("b") }), "Transact"],
    [() => s.client.triggerSchedule(s.name("none")), "TriggerSchedule"],
  ] as const) {
    proxy.loseAnswers = 1;
    proxy.calls = [];
    await assert.rejects(call(), stint.Unavailable);
    assert.deepEqual(proxy.calls, [verb]);
  }
});

test("a caller that is aborted has been given nothing", async (t) => {
  const s = new Service(t);
  const direct = s.client;
  const proxy = await s.proxy();
  await s.insert(["a"]);
  const ending = new AbortController();
  const reason = new Error("enough");
  proxy.loseAnswers = 1;
  proxy.onLost = () => ending.abort(reason);
  await assert.rejects(
    s.client.own("actor", s.action, { lease: 3600, signal: ending.signal }), reason);
  const [task] = await direct.own("other", s.action, { wait: 120 });
  assert.equal(task!.try, 1);
});

test("a poll ends when it is aborted, and fetches nothing", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  const ending = new AbortController();
  const polling = s.client.own("actor", s.action, { wait: 20, signal: ending.signal });
  await eventually(() => proxy.calls.includes("OwnTasks"));
  const began = Date.now();
  ending.abort(new Error("enough"));
  await assert.rejects(polling, /enough/);
  assert(Date.now() - began < 10_000);
  await s.insert(["a"]);
  const [task] = await s.client.own("other", s.action, { wait: 120 });
  assert.equal(task!.try, 1);
});

test("a service is reached by TLS, if its certificate is trusted", async (t) => {
  const s = new Service(t);
  const client = s.connect(process.env.STINT_TLS_SERVER!);
  await client.replace(s.task("a", "by TLS"));
  const [task] = await client.own("actor", s.action);
  assert.equal(stint.textOf(task!.body), "by TLS");
  const other = new URL(process.env.STINT_TLS_SERVER!);
  other.hostname = "localhost"; // which the certificate does not name
  await assert.rejects(s.connect(other.origin).replace(s.task("b")), (error) => {
    assert(error instanceof stint.Unavailable);
    assert.equal(error.ambiguous, false);
    assert.match(error.message, /altnames/);
    return true;
  });
});

test("a worker shows by TLS that it lives", async (t) => {
  const s = new Service(t);
  const client = s.connect(process.env.STINT_TLS_SERVER!);
  const worker = new stint.Worker(client, { logger: { warn: () => {}, error: () => {} } });
  worker.handles(s.action, () => {});
  const running = worker.run();
  await s.sees();
  worker.stop();
  await running;
  await s.sees(false);
});

test("a connection that was closed meanwhile is not used", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  proxy.hangUp = true;
  for (const body of ["first", "second", "third"]) {
    await s.client.replace(s.task("a", body)); // which is not repeated
    await eventually(() => [...proxy.sockets].every((socket) => (socket as never)["destroyed"]));
  }
  assert.deepEqual(proxy.calls, ["ReplaceTasks", "ReplaceTasks", "ReplaceTasks"]);
});

/** A port on which nobody listens. */
async function aFreePort(): Promise<number> {
  const server = net.createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as net.AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

test("a service that is not there is unavailable, and nothing has happened", async (t) => {
  const s = new Service(t);
  const began = Date.now();
  await assert.rejects(s.connect(`http://127.0.0.1:${await aFreePort()}`).insert(s.task("a")),
    (error) => error instanceof stint.Unavailable && !error.ambiguous);
  assert(Date.now() - began > 5000); // it was repeated
});
