// The verbs, on a service.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import * as stint from "@stint-tasks/client";
import { returnOf, textOf } from "@stint-tasks/client";
import { Service, eventually } from "./services.js";

const bytes = (text: string) => new TextEncoder().encode(text);
const all = async (infos: AsyncIterable<stint.TaskInfo>) => {
  const found = [];
  for await (const info of infos) found.push(info);
  return found;
};
const ids = (infos: { id: string }[]) => infos.map((info) => info.id);

test("a task comes back as it was inserted", async (t) => {
  const s = new Service(t);
  const at = new Date("2126-01-02T02:04:05.006Z");
  await s.client.insert([
    s.task("a", Uint8Array.of(0, 255), { priority: -7, maxTries: 3, postResult: true, key: "k" }),
    s.task("b", "ä\n", {
      deadline: at, onAbort: "run-anyway", maxTries: -1, after: [s.name("a")],
    }),
    s.task("c", "", { notBefore: at }),
  ]);
  const [a, b, c] = await s.client.get(["a", "b", "c"].map((short) => s.name(short)));
  assert.deepEqual(
    [a!.body, a!.priority, a!.maxTries, a!.postResult, a!.state, a!.key, a!.finishedAt, a!.result],
    [Uint8Array.of(0, 255), -7, 3, true, "ready", "k", null, null]);
  assert.deepEqual([b!.body, b!.deadline, b!.onAbort, b!.maxTries, b!.state, b!.key],
    [bytes("ä\n"), at, "run-anyway", -1, "blocked", ""]);
  assert.deepEqual([c!.body, c!.notBefore, c!.state, c!.statusCode],
    [new Uint8Array(), at, "scheduled", "pending"]);
  assert(Math.abs(a!.insertedAt!.getTime() - Date.now()) < 3600_000);
  const listed = await all(s.client.list({ actions: s.action, key: "k" }));
  assert.deepEqual(ids(listed), [a!.id]);
});

test("a body of every byte comes back, and JSON does", async (t) => {
  const s = new Service(t);
  const every = Uint8Array.from({ length: 100_000 }, (_, n) => (n * 7) % 256);
  await s.client.insert([s.task("a", every), s.task("b", JSON.stringify({ to: "ann" }))]);
  assert.deepEqual((await s.info("a")).body, every);
  assert.deepEqual(stint.jsonOf<{ to: string }>((await s.info("b")).body)?.to, "ann");
  const listed = await all(s.client.list({ actions: s.action, body: '$.to == "ann"' }));
  assert.deepEqual(ids(listed), [s.name("b")]);
});

test("statuses say which tasks to list", async (t) => {
  const s = new Service(t);
  await s.insert(["a", "b"]);
  const [owned] = await s.own();
  await s.client.setStatus(owned!, "100% \ud800 Gone");
  for (const status of ["\ud800 gone", "0% ", "GONE"]) {
    assert.deepEqual(ids(await all(s.client.list({ actions: s.action, status }))), [s.name("a")]);
  }
  await assert.rejects(all(s.client.list({ status: "x".repeat(513) })), stint.InvalidArgument);
});

test("headers come to the owner, and say which tasks to list", async (t) => {
  const s = new Service(t);
  const headers = { traceparent: "00-1", "tenant-id": "ä" };
  await s.client.insert([s.task("a", "", { headers }), s.task("b", "")]);
  assert.deepEqual([(await s.info("a")).headers, (await s.info("b")).headers], [headers, {}]);
  const listed = await all(s.client.list({ actions: s.action, headers: { "tenant-id": "ä" } }));
  assert.deepEqual(listed.map((info) => [info.id, info.headers]), [[s.name("a"), headers]]);
  const owned = await s.client.own("actor", [s.action], { maxTasks: 2 });
  assert.deepEqual(owned.map((task) => task.headers), [headers, {}]);
  assert.deepEqual(owned[0]!.insertedAt, (await s.info("a")).insertedAt);
  await assert.rejects(s.client.insert(s.task("c", "", { headers: { Tenant: "a" } })),
    stint.InvalidArgument);
  await assert.rejects(
    s.client.insert(s.task("c", "", { headers: { tenant: 7 } as unknown as typeof headers })),
    stint.InvalidArgument);
});

test("no text for people keeps a task from being told of or returned", async (t) => {
  const s = new Service(t);
  await s.insert(["a", "b", "c"]);
  const whatever = "\ud800 a\0 \udc00" + "x".repeat(1 << 17);
  for (const [code, task] of [["completed", "a"], ["aborted", "b"], ["pending", "c"]] as const) {
    const [owned] = await s.own();
    await s.client.setStatus(owned!, whatever);
    assert((await s.info(task)).status.startsWith("\ufffd a\ufffd \ufffdxxx"));
    const given = returnOf(owned!, {
      code, status: whatever, log: whatever, ...(code === "pending" ? { retryAfter: 3600 } : {}),
    });
    assert.deepEqual(await s.client.returnTasks(given), [null]);
    assert((await s.info(task)).status.startsWith("\ufffd a"));
  }
  assert.deepEqual((await s.client.abort(s.name("c"), "\ud800")).tasks, [s.name("c")]);
});

test("ends are told from a cursor on", async (t) => {
  const s = new Service(t);
  let after = (await s.client.ends([], { after: "now" }).next()).value!.next;
  await s.insert(["a", "b"]);
  await s.client.abort(s.name("a"), "off");
  const told: [string, string][] = [];
  for await (const page of s.client.ends([], { after, timeout: 0 })) {
    const mine = page.tasks.filter((task) => task.id === s.name("a"));
    told.push(...mine.map((task): [string, string] => [task.state, task.status]));
    after = page.next;
  }
  assert.deepEqual(told, [["aborted", "off"]]);
  await assert.rejects(s.client.ends([], { after: "x" }).next(), stint.InvalidArgument);
});

test("a task is owned, extended and returned", async (t) => {
  const s = new Service(t);
  await s.client.insert([
    s.task("a", "in", { postResult: true }), s.task("b", null, { after: s.name("a") })]);
  const [task] = await s.own();
  assert.deepEqual([task!.id, textOf(task!.body), task!.action, task!.try, task!.maxTries],
    [s.name("a"), "in", s.action, 1, 25]);
  assert(task!.leaseUntil!.getTime() > Date.now() + 1800_000);
  await s.client.setStatus(task!, "half", 0.5);
  const info = await s.info("a");
  assert.deepEqual([info.state, info.actor, info.status, info.progress],
    ["in-progress", "actor", "half", 0.5]);
  assert.deepEqual(await s.client.extend("actor", task!, { lease: 7200 }), [true]);
  const given = returnOf(task!, { result: Uint8Array.of(255), status: "done" });
  assert.deepEqual(await s.client.returnTasks(given), [null]);
  const [again] = await s.client.returnTasks([given]);
  assert(again instanceof stint.AlreadyReturned && again instanceof stint.InvalidToken);
  assert.deepEqual(again.ids, [task!.id]);
  assert.deepEqual(await s.client.extend("actor", [task!]), [false]);
  const [done] = await s.client.wait(task!.id);
  assert.deepEqual([done!.statusCode, done!.result, done!.status],
    ["completed", Uint8Array.of(255), "done"]);
  const [second] = await s.own();
  assert.equal(second!.completed, 1);
  const [input] = await s.client.inputs(second!);
  assert.deepEqual([input!.id, input!.statusCode, input!.result],
    [task!.id, "completed", Uint8Array.of(255)]);
});

test("a token is in no text of a task", async (t) => {
  const s = new Service(t);
  await s.insert(["a"]);
  const [task] = await s.own();
  assert.match(task!.token, /.{8}/);
  for (const each of [task!, returnOf(task!)]) {
    assert(!(inspect(each) + JSON.stringify(each)).includes(task!.token));
  }
});

test("a task waits after it was returned to be tried again", async (t) => {
  const s = new Service(t);
  await s.insert(["a"]);
  const [task] = await s.own();
  await s.client.returnTasks(returnOf(task!, { code: "pending", retryAfter: 3600 }));
  const info = await s.info("a");
  assert.deepEqual([info.state, info.tries], ["scheduled", 1]);
  assert(info.notBefore!.getTime() > info.insertedAt!.getTime() + 59 * 60_000);
});

test("external tasks are answered", async (t) => {
  const s = new Service(t);
  const [ask, then, none] = [s.name("ask"), s.name("then"), s.name("none")];
  const action = "stint.External";
  await s.client.insert([{ action, id: ask }, { action, id: then, after: [ask] }]);
  const verdicts = await s.client.answer("ann", [
    { id: then }, { id: ask, status: "fine", result: "yes" }, { id: none }]);
  assert.deepEqual(verdicts.map((each) => each?.name), ["TaskBlocked", undefined, "TaskNotFound"]);
  const info = await s.info("ask");
  assert.deepEqual([info.state, info.actor, info.status, textOf(info.result)],
    ["completed", "ann", "fine", "yes"]);
  const [again] = await s.client.answer("ann", { id: ask });
  assert(again instanceof stint.TaskFinished);
});

test("an answer key is asked for", async (t) => {
  const s = new Service(t);
  const key = "0123456789abcdef";
  const id = s.name("keyed");
  await s.client.insert({ action: "stint.External", id, answerKey: key });
  for (const [given, verdict] of [
    ["", "InvalidAnswerKey"], [key + "x", "InvalidAnswerKey"], [key, undefined],
  ]) {
    const [got] = await s.client.answer("ann", { id, key: given! });
    assert.equal(got?.name, verdict);
  }
});

test("a wait of no time looks once", async (t) => {
  const s = new Service(t);
  await s.insert(["a"], { postResult: true });
  const brief = [0, 1e-9, 1e-6, 0.001];
  for (const timeout of brief) {
    await assert.rejects(s.client.wait(s.name("a"), { timeout }), stint.TimeoutError);
  }
  const [task] = await s.own(1, { wait: 0 });
  for (const wait of brief) {
    assert.deepEqual(await s.client.own("actor", [s.action], { wait }), []);
  }
  await s.client.returnTasks(returnOf(task!));
  for (const timeout of [...brief, undefined, 3600, Infinity]) {
    const [done] = await s.client.wait(s.name("a"), { timeout });
    assert.equal(done!.state, "completed");
  }
  for (const bad of [-1e-9, -1, NaN, -Infinity, "soon" as never]) {
    await assert.rejects(s.client.wait(s.name("a"), { timeout: bad }), stint.InvalidArgument);
    await assert.rejects(s.client.own("actor", s.action, { wait: bad }), stint.InvalidArgument);
  }
});

test("schedules are put, changed and deleted", async (t) => {
  const s = new Service(t);
  const names = [s.name("nightly"), s.name("ticks")] as const;
  const nightly: stint.Schedule = {
    name: names[0], spec: "0 3 * * *", zone: "Europe/Berlin", catchUp: "all", window: 3600,
    overlap: "wait", jitter: 60, expire: true, from: new Date("2026-01-01T00:00:00Z"),
    tasks: [s.task("a"), s.task("b", null, { after: [s.name("a")] })],
  };
  const ticks: stint.Schedule = {
    name: names[1], spec: "every 90s", tasks: { action: "tick", body: "b" } };
  await s.client.putSchedules([nightly, ticks]);
  await s.client.ensureSchedules({ ...ticks, spec: "@daily" });
  await s.client.pauseSchedules(names);
  await s.client.resumeSchedules(names[0]);
  const [first, second] = await s.client.listSchedules(names);
  const { schedule } = first!;
  assert.deepEqual([schedule.spec, schedule.zone, schedule.overlap, schedule.window,
    schedule.from, schedule.to, schedule.tasks.length, first!.pausedSince],
  ["0 3 * * *", "Europe/Berlin", "wait", 3600, nightly.from, null, 2, null]);
  assert.deepEqual([second!.schedule.spec, second!.schedule.tasks[0]!.body],
    ["every 90s", bytes("b")]);
  assert(second!.pausedSince);
  const triggered = await s.client.triggerSchedule(names[1]);
  assert.equal((await s.client.get(triggered))[0]!.action, "tick");
  await s.client.deleteSchedules(names);
  assert.deepEqual(await s.client.listSchedules(names), []);
  await assert.rejects(s.client.deleteSchedules(names), (error) => {
    assert(error instanceof stint.ScheduleNotFound);
    assert.deepEqual(error.schedules, [...names].sort());
    return true;
  });
});

test("a change is noted with its author and reason", async (t) => {
  const s = new Service(t);
  await s.client.insert([s.task("a"), s.task("b")]);
  const noting = new stint.Client(s.client.url, { author: "Änn", reason: "sent\ntwice" });
  t.after(() => noting.close());
  await noting.abort(s.name("a"));
  await s.client.abort(s.name("b"));
  const changes = [];
  for (const id of [s.name("a"), s.name("b")]) {
    const response = await fetch(`${s.client.url}/stint.v1.TaskService/ListChanges`, {
      method: "POST", headers: { "content-type": "application/json" },
      body: JSON.stringify({ id }),
    });
    const answer = await response.json() as { changes?: { by: string; reason: string }[] };
    changes.push((answer.changes ?? []).map(({ by, reason }) => [by, reason]));
  }
  assert.deepEqual(changes, [[["Änn", "sent\ntwice"]], []]);
});

test("tasks are aborted, retried and deleted", async (t) => {
  const s = new Service(t);
  const [a, b] = [s.name("a"), s.name("b")];
  await s.client.insert([s.task("a"), s.task("b", null, { after: [a] })]);
  const both = { tasks: [a], others: 1, inProgress: 0, started: 0, skipped: 0, later: 0 };
  for (let times = 0; times < 2; times++) {
    assert.deepEqual(await s.client.abort(a, "", { dryRun: true }), both);
    assert.deepEqual(await s.client.delete(a, { dryRun: true }), both);
    assert.deepEqual((await s.client.retry(a, { dryRun: true })).tasks, []);
  }
  await s.own();
  assert.deepEqual(await s.client.abort(a, "why"), { ...both, inProgress: 1 });
  assert.deepEqual([await s.state("b"), (await s.info("a")).status], ["aborted", "why"]);
  assert.equal((await s.client.explain(b)).becauseOf[0]!.id, a);
  assert.deepEqual(await s.client.retry([a]), both);
  assert.deepEqual(await s.client.delete(a), both);
  await assert.rejects(s.client.get([a, b]), (error) => {
    assert(error instanceof stint.TaskNotFound);
    assert.deepEqual([error.ids, error.total], [[a, b], 2]);
    return true;
  });
});

test("tasks that wait are changed", async (t) => {
  const s = new Service(t);
  const [a, b] = [s.name("a"), s.name("b")];
  const [at, later] = [new Date("2099-12-24T18:00:00Z"), new Date("2099-12-25T18:00:00Z")];
  await s.client.insert([s.task("a", null, { notBefore: at }), s.task("b", null, { after: [a] })]);
  const to = { notBefore: later, priority: 5, key: "k", maxTries: -1 };
  const none = { others: 0, inProgress: 0, started: 0, skipped: 0, later: 0 };
  assert.deepEqual(await s.client.change(a, to, { dryRun: true }), { tasks: [a], ...none });
  for (const tasks of [[a, b], []]) {
    assert.deepEqual(await s.client.change([a, b], to), { tasks, ...none });
  }
  let info = await s.info("a");
  assert.deepEqual([info.notBefore, info.priority, info.key, info.maxTries, info.state],
    [later, 5, "k", -1, "scheduled"]);
  await s.client.change(a, { startAfter: 3600, priority: 0, key: "", maxTries: 3 });
  info = await s.info("a");
  assert.deepEqual([info.priority, info.key, info.maxTries], [0, "", 3]);
  await s.client.change(a, { startNow: true });
  await s.own();
  await assert.rejects(s.client.change([a, b], { startNow: true }), (error) => {
    assert(error instanceof stint.TaskStarted);
    assert.deepEqual(error.ids, [a]);
    return true;
  });
  await assert.rejects(s.client.change(b, {}), stint.InvalidArgument);
});

test("a task starts as its conditions say, or is skipped", async (t) => {
  const s = new Service(t);
  const [a, b, c] = [s.name("a"), s.name("b"), s.name("c")];
  await s.client.insert([
    s.task("a"), s.task("b", null, { when: { after: a, results: ["heads", Uint8Array.of(255)] } }),
    s.task("c", null, { when: [{ after: a, states: "aborted" }] }),
    s.task("d", null, { after: c }),
    s.task("e", null, { whenAny: [{ after: b, states: ["completed", "aborted"] }, { after: c }] }),
  ]);
  const { conditions } = await s.client.graph(a);
  assert.deepEqual(conditions.find((each) => each.dependent === b), {
    dependent: b, any: false, hidden: false, condition: {
      after: a, states: ["completed"], results: [bytes("heads"), Uint8Array.of(255)],
    },
  });
  assert.deepEqual(conditions.filter((each) => each.any).length, 2);
  assert.equal(conditions.length, 4);
  assert.equal((await s.client.explain(s.name("e"))).anyOf, true);
  const [task] = await s.own();
  await s.client.returnTasks(returnOf(task!, { result: Uint8Array.of(255) }));
  assert.deepEqual(await Promise.all(["a", "b", "c", "d", "e"].map((short) => s.state(short))),
    ["completed", "ready", "skipped", "skipped", "blocked"]);
  assert.equal((await s.info("d")).statusCode, "skipped");
  const stats = (await s.client.stats()).actions.find((each) => each.action === s.action);
  assert.deepEqual([stats!.skipped, stats!.aborted], [2, 0]);
  const listed = await all(s.client.list({ actions: s.action, states: "skipped" }));
  assert.deepEqual(ids(listed).sort(), [c, s.name("d")]);
  await assert.rejects(s.client.insert(
    s.task("f", null, { when: { after: a, states: "ready" as stint.Ended } })),
  stint.InvalidArgument);
});

test("schedules keep conditions", async (t) => {
  const s = new Service(t);
  const [name, after] = [s.name("coin"), s.name("a")];
  await s.client.putSchedules({ name, spec: "@daily", tasks: [
    s.task("a"), s.task("b", null, { whenAny: { after, states: "aborted" } }),
    s.task("c", null, { when: { after, results: "heads" } }),
  ] });
  const [found] = await s.client.listSchedules(name);
  const [, b, c] = found!.schedule.tasks as stint.Task[];
  assert.deepEqual([b!.whenAny, c!.when], [
    [{ after, states: ["aborted"], results: [] }],
    [{ after, states: [], results: [bytes("heads")] }],
  ]);
  await s.client.deleteSchedules(name);
});

test("tasks are replaced and made to wait", async (t) => {
  const s = new Service(t);
  const [a, b] = [s.name("a"), s.name("b")];
  await s.insert(["a", "b"]);
  await s.client.replace(s.task("a", "new"));
  await s.client.addDependencies({ predecessor: a, dependent: b });
  assert.deepEqual([textOf((await s.info("a")).body), await s.state("b")], ["new", "blocked"]);
  const graph = await s.client.graph(b);
  assert.deepEqual(graph.dependencies, [{ predecessor: a, dependent: b }]);
  assert.deepEqual([graph.tasks.length, graph.cut], [2, false]);
  await assert.rejects(
    s.client.addDependencies([{ predecessor: b, dependent: a }]),
    (error) => error instanceof stint.Cycle && error.path.length === 3);
});

test("the task of the last call stands for those before", async (t) => {
  const s = new Service(t);
  for (const body of ["1", "2"]) await s.client.debounce(s.task("a", body), 3600, 7200);
  const info = await s.info("a");
  assert.deepEqual([textOf(info.body), info.state], ["2", "scheduled"]);
  await assert.rejects(s.client.debounce(s.task("a"), 2, 1), stint.InvalidArgument);
});

test("what is there is left out", async (t) => {
  const s = new Service(t);
  await s.insert(["a"]);
  const done = await s.client.ensure([
    s.task("a", "other"), s.task("b", null, { after: [s.name("a")] }), s.task("b")]);
  assert.deepEqual(done, {
    ids: [s.name("a"), s.name("b"), s.name("b")], existing: [s.name("a"), s.name("b")],
  });
  assert.deepEqual([(await s.info("a")).body, await s.state("b")], [null, "blocked"]);
  const missing = [s.task("c"), s.task("d", null, { after: ["none"] })];
  await assert.rejects(s.client.ensure(missing), stint.TaskNotFound);
  await assert.rejects(s.info("c"), stint.TaskNotFound);
});

test("a transaction does all or nothing", async (t) => {
  const s = new Service(t);
  await s.insert(["a", "c"]);
  const [task, other] = await s.own(2);
  const done = await s.client.transact({
    hold: [task!], mustExist: other!.id, insert: s.task("b"), abort: [other!.id],
    abortStatus: "why", return: returnOf(task!),
  });
  const nothing = { tasks: [], others: 0, inProgress: 0, started: 0, skipped: 0, later: 0 };
  assert.deepEqual(done, {
    ids: [s.name("b")], retried: nothing,
    aborted: { ...nothing, tasks: [other!.id], inProgress: 1 },
    deleted: nothing,
  });
  const states = await Promise.all(["a", "b", "c"].map((short) => s.state(short)));
  assert.deepEqual(states, ["completed", "ready", "aborted"]);
  const again = { task: s.task("e"), quiet: 3600, atMost: 7200 };
  await assert.rejects(s.client.transact({
    insert: s.task("d"), return: [returnOf(other!)], debounce: [again],
  }), stint.InvalidToken);
  for (const short of ["d", "e"]) await assert.rejects(s.info(short), stint.TaskNotFound);
  await s.client.transact({ debounce: again });
  assert.equal(await s.state("e"), "scheduled");
});

test("a list has all pages", async (t) => {
  const s = new Service(t);
  await s.insert(Array.from({ length: 1001 }, (_, n) => String(n)));
  const count = async (filter: stint.Filter) =>
    new Set(ids(await all(s.client.list(filter)))).size;
  assert.equal(await count({ actions: [s.action], states: "ready" }), 1001);
  assert.equal(await count({ idPrefix: s.action, limit: 7 }), 7);
  assert.equal(await count({ actions: [s.action], states: ["aborted"] }), 0);
  assert.equal(await count({ actions: [s.action], limit: 0 }), 0);
});

test("what is asked about all tasks has this one", async (t) => {
  const s = new Service(t);
  await s.insert(["a"]);
  await s.own();
  const stats = (await s.client.stats()).actions.find((each) => each.action === s.action)!;
  assert.deepEqual([stats.inProgress, stats.blocked, stats.ready], [1, 0, 0]);
  assert(ids((await s.client.problems(10_000)).slow).includes(s.name("a")));
  assert(Array.isArray(await s.client.actors()));
  assert(Array.isArray(await s.client.minutes()));
  assert.deepEqual(await s.client.minutes(`${s.action} of nobody`), []);
});

test("actions are limited and paused", async (t) => {
  const s = new Service(t);
  const { action } = s;
  const limits: stint.Limits = {
    concurrency: 40, concurrencyPerKey: 2, rate: { tasks: 5, per: 60, burst: 3 },
    ratePerKey: null, fair: true, fairGroup: `${action}-group`, ordered: false, byCost: true,
  };
  await s.client.setLimits(action, limits);
  await s.client.pause(action);
  await s.client.pauseKeys(action, ["a", "b"]);
  await s.client.setWeights(action, { a: 3, c: 1 });
  const [got] = await s.client.listLimits([action]);
  assert.deepEqual([got!.action, got!.limits], [action, limits]);
  assert.deepEqual([[...got!.pausedKeys.keys()].sort(), got!.weights],
    [["a", "b"], new Map([["a", 3]])]);
  assert(got!.pausedSince);
  await s.client.resume([action]);
  await s.client.resumeKeys(action, ["a", "b"]);
  await s.client.setWeights(action, new Map([["a", 1]]));
  await s.client.setLimits(action);
  assert.deepEqual(await s.client.listLimits([action]), []);
  await assert.rejects(s.client.setLimits(action, { concurrency: -1 }), stint.InvalidArgument);
  await s.client.setLimits(action, { ordered: true });
  const [inOrder] = await s.client.listLimits([action]);
  assert.deepEqual([inOrder!.limits.ordered, inOrder!.limits.concurrencyPerKey], [true, 1]);
});

test("a task says which limits hold it up", async (t) => {
  const s = new Service(t);
  await s.insert(["a", "b"], { key: "k" });
  assert.equal((await s.client.explain(s.name("b"))).limits, null);
  const limits = { concurrency: 5, concurrencyPerKey: 1 };
  await s.client.setLimits(s.action, limits);
  const [owned] = await s.client.own("actor", [s.action], { maxTasks: 2 });
  await s.client.pause([s.action]);
  const why = (await s.client.explain(s.name("b"))).limits!;
  assert.deepEqual(
    [why.limits.concurrency, why.limits.concurrencyPerKey, why.inProgress, why.keyInProgress],
    [5, 1, 1, 1]);
  assert.deepEqual([ids(why.owned), ids(why.keyOwned)], [[owned!.id], [owned!.id]]);
  assert.deepEqual([why.keyWaiting, why.waitsForTurn], [1, false]);
  assert(why.pausedSince);
  const stats = (await s.client.stats()).actions.find((each) => each.action === s.action)!;
  assert.deepEqual([stats.parked, stats.limited, stats.concurrency, stats.paused],
    [1, true, 5, true]);
  await s.client.resume([s.action]);
  await s.client.setLimits(s.action);
});

test("waiting ends when its time is over, and when the task does", async (t) => {
  const s = new Service(t);
  await s.insert(["a"], { postResult: true });
  await assert.rejects(s.client.wait([s.name("a")], { timeout: 0.1 }), stint.TimeoutError);
  assert.deepEqual(await s.client.own("actor", ["none"], { wait: 0.1 }), []);
  const waiting = s.client.wait(s.name("a"));
  const [task] = await s.own();
  await s.client.returnTasks(returnOf(task!, { result: "out" }));
  assert.equal(textOf((await waiting)[0]!.result), "out");
});

test("every call ends with the reason of its signal", async (t) => {
  const s = new Service(t);
  await s.insert(["a"], { postResult: true });
  const reason = new Error("enough");
  const over = AbortSignal.abort(reason);
  await assert.rejects(s.client.stats({ signal: over }), reason);
  await assert.rejects(s.client.replace(s.task("a"), { signal: over }), reason);
  const ending = new AbortController();
  const waiting = s.client.wait(s.name("a"), { signal: ending.signal });
  setTimeout(() => ending.abort(reason), 50);
  await assert.rejects(waiting, reason);
});

test("errors name what is wrong", async (t) => {
  const s = new Service(t);
  await s.insert(["a"]);
  await assert.rejects(s.insert(["a", "b"]), (error) => {
    assert(error instanceof stint.TaskExists);
    assert.deepEqual([error.name, error.kind, error.ids, error.total, error.code],
      ["TaskExists", "task-exists", [s.name("a")], 1, "already_exists"]);
    return true;
  });
  await assert.rejects(s.client.insert([s.task("b"), { action: "" }]), (error) => {
    assert(error instanceof stint.InvalidArgument);
    assert.deepEqual([error.argument, error.index], ["Task.Action", 1]);
    return true;
  });
  await assert.rejects(s.client.wait(s.name("a")), stint.NoPostResult);
  for (const wrong of [
    { body: "\ud800" }, { body: 7 }, { priority: "7" }, { notBefore: new Date(NaN) },
    { maxTrys: 7 }, { key: "\udc00" }, { after: [7] }, { notBefore: "2026-01-01T00:00:00Z" },
  ]) {
    await assert.rejects(
      s.client.insert({ ...s.task("b"), ...(wrong as object) }), stint.InvalidArgument);
  }
});

test("a call that is too large is refused at once", async (t) => {
  const s = new Service(t);
  const began = Date.now();
  await assert.rejects(s.client.insert(s.task("a", new Uint8Array(50 << 20))), stint.TooLarge);
  await assert.rejects(s.client.insert(s.task("a", "x".repeat((64 << 20) + 1))), (error) => {
    assert(error instanceof stint.TooLarge);
    assert.equal(error.argument, "Task.Body bytes");
    return true;
  });
  assert(Date.now() - began < 60_000);
});

test("nothing is fetched under a claim that is released", async (t) => {
  const s = new Service(t);
  await s.client.releaseClaim("actor", 12345n);
});

test("steps are recorded once", async (t) => {
  const s = new Service(t);
  await s.insert(["a"]);
  const [task] = await s.own();
  const fence = await s.client.fence(task!);
  assert.ok(Number.isSafeInteger(fence) && await s.client.fence(task!) > fence);
  assert.equal(textOf(await s.client.recordStep(task!, "one", "1")), "1");
  assert.equal(textOf(await s.client.recordStep(task!, "one", "2")), "1");
  assert.deepEqual([...(await s.client.steps(task!))], [["one", bytes("1")]]);
  const history = await s.client.history(task!.id);
  assert.deepEqual(history.steps.map((each) => [each.name, each.bytes]), [["one", 1]]);
  await eventually(async () => (await s.info("a")).state === "in-progress");
});
