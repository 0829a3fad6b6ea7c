// Workers in this process.

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import http from "node:http";
import { test } from "node:test";
import { inspect } from "node:util";
import * as stint from "@stint-tasks/client";
import { Worker, textOf, type Handler, type WorkerOptions } from "@stint-tasks/client";
import { Event, Service, Wire, eventually } from "./services.js";

const quiet = { warn: () => {}, error: () => {} };

/** Runs a worker until the end of the test, at the latest. */
function start(s: Service, handler: Handler, options: WorkerOptions = {}) {
  const worker = new Worker(s.client, { grace: 5, logger: quiet, ...options });
  worker.handles(s.action, handler);
  const running = worker.run();
  running.catch(() => {});
  const end = () => {
    worker.stop();
    return running;
  };
  s.t.after(() => end().catch(() => {}));
  return { worker, end };
}

test("outcomes of handlers become those of tasks", async (t) => {
  const s = new Service(t);
  const outcomes: Record<string, Handler> = {
    none: () => {},
    bytes: () => Uint8Array.of(255),
    text: async () => "ä",
    abort: () => { throw new stint.Abort(new Error("why")); },
    retry: () => { throw new stint.Retry("later", { after: 3600 }); },
    fail: () => { throw new RangeError("what"); },
    wrong: () => 7 as never,
    odd: () => { throw Object.create(null); },
  };
  const names = Object.keys(outcomes);
  await s.client.insert(names.map((name) => s.task(name, name, { postResult: true })));
  start(s, (task) => outcomes[textOf(task.body)]!(task));
  const done = await s.client.wait(names.slice(0, 4).map((name) => s.name(name)));
  assert.deepEqual(done.map((info) => [info.state, info.result]), [
    ["completed", null], ["completed", Uint8Array.of(255)],
    ["completed", new TextEncoder().encode("ä")], ["aborted", null]]);
  assert.equal(done[3]!.status, "why");
  const status = (name: string) => eventually(async () => (await s.info(name)).status);
  assert.equal(await status("retry"), "later");
  const retried = await s.info("retry");
  assert.deepEqual([retried.state, retried.tries], ["scheduled", 1]);
  assert(retried.notBefore!.getTime() - retried.insertedAt!.getTime() > 3500_000);
  assert.match(await status("fail"), /^RangeError: what\n.*worker\.test/s);
  assert.match(await status("wrong"), /TypeError: a handler must return/);
  assert.match(await status("odd"), /without a text/);
});

test("a token is in no text of a task that a handler performs", async (t) => {
  const s = new Service(t);
  await s.client.insert(s.task("a", null, { postResult: true }));
  start(s, (task) => (inspect(task) + JSON.stringify(task)).includes(task.token) ? "told" : "kept");
  const [done] = await s.client.wait(s.name("a"));
  assert.equal(textOf(done!.result), "kept");
});

test("a task that failed is tried again, with what the predecessors returned", async (t) => {
  const s = new Service(t);
  await s.client.insert([
    s.task("a", "first"), s.task("b", null, { after: s.name("a"), postResult: true })]);
  start(s, async (task) => {
    if (task.try === 1) throw new stint.Retry("the first", { after: 0 });
    await task.setStatus("half", 0.5);
    const inputs = await task.inputs();
    return inputs.map((each) => textOf(each.result)).join() || textOf(task.body);
  });
  const [done] = await s.client.wait(s.name("b"));
  assert.deepEqual([textOf(done!.result), done!.tries], ["first", 2]);
});

test("no later try takes a recorded step again", async (t) => {
  const s = new Service(t);
  const calls: string[] = [];
  await s.insert(["a"], { postResult: true });
  start(s, async (task) => {
    let text = "";
    for (const name of ["a", "b", "c"]) {
      const value = await task.step(name, async () => {
        calls.push(name);
        if (calls.filter((each) => each === name).length === 1) {
          throw new stint.Retry("the first time", { after: 0 });
        }
        return { by: name };
      });
      text += value.by;
    }
    await assert.rejects(task.step("a", () => 1), stint.InvalidArgument); // twice in a try
    return text;
  });
  const [done] = await s.client.wait(s.name("a"));
  assert.equal(textOf(done!.result), "abc");
  assert.deepEqual(calls, [..."aabbcc"]);
});

test("a step that cannot be recorded is not taken, or aborts the task", async (t) => {
  const s = new Service(t);
  const calls: string[] = [];
  await s.client.insert(["name", "large", "function"].map(
    (each) => s.task(each, each, { postResult: true })));
  start(s, async (task) => {
    const what = textOf(task.body);
    for (const name of what === "name" ? ["", "x".repeat(256), "a\0b", "\ud800"] : []) {
      const take = () => task.step(name, () => calls.push(name));
      await assert.rejects(take(), stint.InvalidArgument);
      await assert.rejects(task.sleep(name, 1), stint.InvalidArgument);
    }
    if (what === "large") await task.step("value", () => "x".repeat(1 << 20));
    if (what === "function") await task.step("value", () => () => 7);
  });
  const done = await s.client.wait(["name", "large", "function"].map((each) => s.name(each)));
  assert.deepEqual(done.map((each) => each.state), ["completed", "aborted", "aborted"]);
  for (const each of done.slice(1)) assert.match(each.status, /"value" cannot be recorded/);
  assert.deepEqual(calls, []);
});

test("a task sleeps without a worker", async (t) => {
  const s = new Service(t);
  let slept = 0;
  await s.insert(["a"], { postResult: true });
  start(s, async (task) => {
    await assert.rejects(task.sleep("never", 0), stint.InvalidArgument);
    try {
      await task.sleep("nap", 0.05);
    } catch (error) {
      assert(error instanceof stint.Snooze);
      slept++;
      throw error;
    }
    await task.step("one", () => 7);
    return String(task.try);
  });
  const [done] = await s.client.wait(s.name("a"));
  assert.equal(textOf(done!.result), "1");
  assert(slept >= 1);
});

test("a step is recorded after a service that is away", async (t) => {
  const s = new Service(t);
  const calls: number[] = [];
  let refused = 2;
  s.client.recordStep = async (...given) => {
    if (refused-- > 0) throw new stint.Unavailable("away");
    return stint.Client.prototype.recordStep.apply(s.client, given);
  };
  await s.insert(["a"], { postResult: true });
  start(s, (task) => task.step("one", () => { calls.push(1); }).then(() => undefined));
  const [done] = await s.client.wait(s.name("a"));
  assert.deepEqual([done!.state, done!.tries, calls], ["completed", 1, [1]]);
});

test("what the call of a step throws does not abort the task", async (t) => {
  const s = new Service(t);
  await s.insert(["a"], { postResult: true });
  start(s, async (task) => {
    await assert.rejects(
      task.step("one", () => { throw new stint.TooLarge("many"); }), stint.TooLarge);
  });
  const [done] = await s.client.wait(s.name("a"));
  assert.equal(done!.state, "completed");
});

test("pauses and costs beyond what is stored are the nearest ones", async (t) => {
  const s = new Service(t);
  const spent: Record<string, number> = { negative: -1, half: 12.5, much: 1e12 };
  const names = ["early", ...Object.keys(spent)];
  await s.insert([...names, "late"], { postResult: true });
  let tried = false;
  start(s, (task) => {
    const short = task.id.split("/").at(-1)!;
    if (short === "late") throw new stint.Retry("much later", { after: 1e12 });
    if (short !== "early") {
      task.spent = spent[short]!;
    } else if (!tried) {
      tried = true;
      throw new stint.Snooze(-1);
    }
  });
  const done = await s.client.wait(names.map((name) => s.name(name)));
  assert.deepEqual(done.map((info) => [info.state, info.tries]),
    names.map(() => ["completed", 1]));
  await eventually(async () => (await s.state("late")) === "scheduled");
});

test("a result that is too large aborts the task", async (t) => {
  const s = new Service(t);
  s.client.returnTasks = async (returns) => {
    if ([...returns as Iterable<stint.Return>].some((each) => each.result)) {
      throw new stint.TooLarge("the result");
    }
    return stint.Client.prototype.returnTasks.call(s.client, returns);
  };
  await s.insert(["a"], { postResult: true });
  start(s, () => "large");
  const [done] = await s.client.wait(s.name("a"));
  assert.deepEqual([done!.state, done!.tries], ["aborted", 1]);
  assert.match(done!.status, /could not be returned/);
});

test("a step and a sleep are told apart", async (t) => {
  const s = new Service(t);
  await s.insert(["a"], { postResult: true });
  start(s, async (task) => {
    const step = (name: string) => task.step(name, () => 7);
    const sleep = (name: string) => task.sleep(name, 0.001);
    if (task.try === 1) {
      await step("one");
      await sleep("two").catch((error) => assert(error instanceof stint.Snooze));
      throw new stint.Retry("again", { after: 0 });
    }
    await assert.rejects(sleep("one"), /one.* is recorded as a step/);
    await assert.rejects(step("two"), /two.* is recorded as a sleep/);
  });
  const [done] = await s.client.wait(s.name("a"));
  assert.deepEqual([done!.state, done!.tries, done!.status], ["completed", 2, ""]);
});

test("a handler says what a try has cost", async (t) => {
  const s = new Service(t);
  const rate = { tasks: 100, per: 3600, burst: 100 };
  await s.client.setLimits(s.action, { rate, byCost: true });
  await s.insert(["a"], { postResult: true, cost: 30 });
  start(s, (task) => {
    task.spent = task.try === 1 ? 10 : 80;
    if (task.try === 1) throw new stint.Retry("again", { after: 0 });
  });
  await s.client.wait(s.name("a"));
  await eventually(async () => {
    const [limited] = await s.client.listLimits([s.action]);
    return Math.abs(limited!.tokens - 10) < 2;
  });
  assert.equal((await s.client.get(s.name("a")))[0]!.cost, 30);
});

test("the history tells of each try with its log", async (t) => {
  const s = new Service(t);
  await s.insert(["a"], { postResult: true });
  start(s, (task) => {
    task.logger.info(`try ${task.try}`);
    task.logger.debug("not kept");
    if (task.try === 1) throw new stint.Retry("the first time", { after: 0 });
  });
  await s.client.wait(s.name("a"));
  const { tries } = await s.client.history(s.name("a"));
  assert.deepEqual(tries.map((each) => [each.number, each.outcome, each.status]),
    [[1, "returned", "the first time"], [2, "completed", ""]]);
  for (const each of tries) {
    assert.match(each.log, new RegExp(`^[-0-9T:.]+Z INFO try ${each.number}\n$`));
  }
});

test("so many tasks are performed at once, and no more", async (t) => {
  const s = new Service(t);
  let running = 0;
  let most = 0;
  const together = new Event();
  await s.insert([..."abcdef"], { postResult: true });
  start(s, async () => {
    most = Math.max(most, ++running);
    if (running === 3) together.happen();
    await together.happened;
    running--;
  }, { concurrency: 3 });
  await s.client.wait([..."abcdef"].map((short) => s.name(short)));
  assert.equal(most, 3);
});

test("leases are extended for as long as a handler works", async (t) => {
  const s = new Service(t);
  await s.insert(["a"], { postResult: true });
  start(s, async (task) => {
    const first = (await s.info("a")).leaseUntil!;
    await eventually(async () => (await s.info("a")).leaseUntil! > first);
    return String(task.signal.aborted);
  }, { lease: 10 });
  const [done] = await s.client.wait(s.name("a"));
  assert.deepEqual([textOf(done!.result), done!.tries], ["false", 1]);
});

test("a lease that is longer than a timer extends no leases all the time", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  await s.insert(["a"], { postResult: true });
  const { end } = start(s, () => new Promise((resolve) => setTimeout(resolve, 100)),
    { lease: 365 * 24 * 3600 });
  await s.client.wait(s.name("a"));
  await end();
  assert(!proxy.calls.includes("ExtendTasksOwnership"));
});

test("a task that is aborted is lost and not returned", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  const [began, lost] = [new Event(), new Event<unknown>()];
  await s.insert(["a"]);
  const { end } = start(s, async (task) => {
    began.happen();
    await once(task.signal, "abort");
    lost.happen(task.signal.reason);
    return "too late";
  }, { lease: 10 });
  await began.happened;
  await s.client.abort(s.name("a"), "not needed");
  assert((await lost.happened) instanceof stint.Lost);
  await end();
  assert.equal((await s.info("a")).status, "not needed");
  assert(!proxy.calls.includes("ReturnTasks"));
});

test("a worker shows that it lives until it ends, and learns what it has lost", async (t) => {
  const s = new Service(t);
  const [began, lost] = [new Event(), new Event<unknown>()];
  await s.insert(["a"]);
  const { end } = start(s, async (task) => {
    began.happen();
    await once(task.signal, "abort");
    lost.happen(task.signal.reason);
  }, { lease: 3600 });
  await Promise.all([began.happened, s.sees()]);
  await s.client.abort(s.name("a"));
  assert((await lost.happened) instanceof stint.Lost);
  await end();
  await s.sees(false);
});

for (const [how, said] of [["isCut", "cut"], ["isFrozen", "silent"]] as const) {
  test(`a worker whose network is ${said} loses its tasks, and comes back`, async (t) => {
    const s = new Service(t);
    const wire = await Wire.before(t, s.server);
    const [began, lost] = [new Event(), new Event<unknown>()];
    await s.insert(["a"]);
    const near = s.client;
    s.client = s.connect(wire.url);
    const { end } = start(s, async (task) => {
      if (task.id !== s.name("a")) return "after that";
      began.happen();
      await once(task.signal, "abort");
      lost.happen(task.signal.reason);
    }, { lease: 3600 });
    s.client = near;
    await Promise.all([began.happened, s.sees()]);
    wire[how] = true;
    if (how === "isCut") wire.cut();
    const [task] = await s.client.own("other", s.action, { wait: 120 });
    assert.deepEqual([task!.id, task!.try], [s.name("a"), 2]);
    wire[how] = false;
    wire.cut();
    assert((await lost.happened) instanceof stint.Lost);
    await s.insert(["b"], { postResult: true });
    const [done] = await s.client.wait(s.name("b"));
    assert.equal(textOf(done!.result), "after that");
    await end(); // while the service can be reached
  });
}

test("a worker whose stream breaks opens another one, and keeps its tasks", async (t) => {
  const s = new Service(t);
  const wire = await Wire.before(t, s.server);
  const [began, go] = [new Event(), new Event()];
  await s.insert(["a"], { postResult: true });
  const near = s.client;
  s.client = s.connect(wire.url);
  const { end } = start(s, async (task) => {
    began.happen();
    await go.happened;
    return String(task.signal.aborted);
  }, { lease: 3600 });
  s.client = near;
  await Promise.all([began.happened, s.sees()]);
  for (let times = 0; times < 3; times++) {
    const before = wire.connections;
    wire.cut();
    await eventually(() => wire.connections > before);
  }
  // What was handed on would have another try by now: it is handed on in 0.75 s.
  const until = Date.now() + 1500;
  await eventually(async () => Date.now() > until && (await s.state("a")) === "in-progress");
  await s.sees();
  go.happen();
  const [done] = await s.client.wait(s.name("a"));
  assert.deepEqual([textOf(done!.result), done!.tries], ["false", 1]);
  await end();
});

test("a worker with a fetch of its own has no stream", async (t) => {
  const s = new Service(t);
  s.client = new stint.Client(s.server, { fetch: (input, init) => fetch(input, init) });
  await s.insert(["a"], { postResult: true });
  start(s, () => {});
  await s.client.wait(s.name("a"));
  assert(!(await s.client.actors()).some((each) => each.actions.includes(s.action)));
});

test("a task is lost when its lease expires unheard", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  const [began, lost] = [new Event(), new Event()];
  await s.insert(["a"]);
  const { end } = start(s, async (task) => {
    began.happen();
    await once(task.signal, "abort");
    lost.happen();
  }, { lease: 1 });
  await began.happened;
  proxy.loseRequests = Infinity;
  await lost.happened;
  proxy.loseRequests = 0;
  await end();
  assert.notEqual(await s.state("a"), "completed"); // the handler has given up
});

test("a service that is away is asked again", async (t) => {
  const s = new Service(t);
  const proxy = await s.proxy();
  await s.insert(["a"], { postResult: true });
  proxy.loseRequests = 3;
  proxy.loseAnswers = 3;
  const { end } = start(s, () => "done");
  const [done] = await s.client.wait(s.name("a"));
  assert.deepEqual([textOf(done!.result), done!.tries], ["done", 1]);
  await end();
});

test("a task that a call without an answer has returned is not lost", async (t) => {
  const s = new Service(t);
  let calls = 0;
  class Losing extends stint.Client {
    override async returnTasks(...given: Parameters<stint.Client["returnTasks"]>) {
      const verdicts = await super.returnTasks(...given);
      if (++calls === 1) throw new stint.Unavailable("for longer than a call is repeated");
      return verdicts;
    }
  }
  const warnings: string[] = [];
  const logger = { warn: (text: string) => warnings.push(text), error: () => {} };
  s.client = new Losing(s.server);
  await s.insert(["a"]);
  let signal: AbortSignal | undefined;
  const { end } = start(s, (task) => { signal = task.signal; }, { logger, grace: 120 });
  await eventually(() => calls === 2);
  await end();
  assert(!warnings.some((text) => text.includes("was not returned")), warnings.join("\n"));
  assert.equal(signal!.aborted, false);
  assert.equal(await s.state("a"), "completed");
});

test("metrics are those that alerts ask for", async (t) => {
  const s = new Service(t);
  const outcomes: Record<string, Error> = {
    aborted: new stint.Abort("no"), retried: new stint.Retry("no", { after: 3600 }),
    snoozed: new stint.Snooze(3600),
  };
  const names = ["completed", ...Object.keys(outcomes)];
  await s.client.insert([
    ...names.map((name) => s.task(name, name)), s.task("last", "retried", { maxTries: 1 })]);
  const { worker, end } = start(s, (task) => {
    const error = outcomes[textOf(task.body)];
    if (error) throw error;
  }, { metrics: 0 });
  const port = await eventually(() => worker.metricsPort);
  const get = (path = "/metrics", headers = {}): Promise<[number, string]> =>
    new Promise((resolve, reject) => {
      http.get({ port, host: "127.0.0.1", path, headers, agent: false }, async (response) => {
        let text = "";
        for await (const part of response) text += part;
        resolve([response.statusCode!, text]);
      }).on("error", reject);
    });
  const wanted = { completed: 1, aborted: 2, retried: 1, snoozed: 1, stopped: 0, lost: 0 };
  const text = await eventually(async () => {
    const [, found] = await get();
    return Object.entries(wanted).every(([outcome, number]) => found.includes(
      `stint_worker_performances_total{action="${s.action}",outcome="${outcome}"} ${number}\n`,
    )) ? found : null;
  });
  assert(text.includes(`stint_worker_running{action="${s.action}"} 0\n`));
  assert(text.includes(`stint_worker_duration_seconds_count{action="${s.action}"} 5\n`));
  for (const file of ["alerts.yml", "grafana.json"]) {
    const path = new URL(`../../../docs/operations/${file}`, import.meta.url);
    for (const [name] of (await readFile(path, "utf8")).matchAll(/stint_worker_[a-z_]+/g)) {
      assert(text.includes(name), name);
    }
  }
  assert.equal((await get("/"))[0], 404);
  assert.equal((await get("/metrics", { Host: "evil.example" }))[0], 403);
  await end();
  await assert.rejects(get());
});

test("a large error is logged and stored by its end", async (t) => {
  const s = new Service(t);
  const warnings: string[] = [];
  const logger = { warn: (text: string) => warnings.push(text), error: () => {} };
  await s.client.insert(s.task("a", null, { maxTries: 1, postResult: true }));
  const { end } = start(s, () => { throw new RangeError("x".repeat(20 << 20)); }, { logger });
  const [ended] = await s.client.wait(s.name("a"));
  await end();
  assert(warnings[0]!.length < 1 << 17);
  assert(ended!.status.length < 1 << 17);
});

test("failures of an action are counted behind the first", async (t) => {
  const s = new Service(t);
  const warnings: string[] = [];
  const logger = { warn: (text: string) => warnings.push(text), error: () => {} };
  const names = Array.from({ length: 20 }, (_, n) => `f${n}`);
  await s.insert(names, { maxTries: 1, postResult: true });
  const { end } = start(s, () => { throw new RangeError("what"); }, { logger });
  await s.client.wait(names.map((name) => s.name(name)));
  await end();
  assert.equal(warnings.length, 2, warnings.join("\n"));
  assert.match(warnings[0]!, /RangeError: what/);
  assert.match(warnings[1]!, /\(19 failures like this one/);
});

test("run throws what no repetition mends", async (t) => {
  const s = new Service(t);
  const worker = new Worker(s.client, { actor: "x".repeat(1000) });
  worker.handles(s.action, () => {});
  await assert.rejects(worker.run(), stint.InvalidArgument);
  await assert.rejects(worker.run(), /runs once/);
  await assert.rejects(new Worker(s.client).run(), /no handlers/);
  for (const metrics of [-1, 65536, 1.5, "", ":", ":80", "host", "host:x"]) {
    assert.throws(() => new Worker(s.client, { metrics }), stint.InvalidArgument);
  }
  for (const options of [{ concurrency: 0 }, { lease: 0 }, { grace: -1 }, { lease: NaN }]) {
    assert.throws(() => new Worker(s.client, options), stint.InvalidArgument);
  }
});

test("a result that the store refuses is a failure", async (t) => {
  const s = new Service(t);
  const results = new Map<string, string | Uint8Array>([
    ["service", new Uint8Array(65 << 20)], ["store", "x".repeat((64 << 20) + 1)]]);
  await s.insert([...results.keys()]);
  start(s, (task) => results.get(task.id.split("/")[1]!));
  for (const by of results.keys()) { // of what it could not pass on
    await eventually(async () => (await s.info(by)).status.includes("could not be returned"));
  }
});
