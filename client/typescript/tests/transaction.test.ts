// Tasks that end in a transaction of the handler's.

import assert from "node:assert/strict";
import { test } from "node:test";
import * as stint from "@stint-tasks/client";
import { Worker, type HeldTask } from "@stint-tasks/client";
import pg from "pg";
import { Service } from "./services.js";

const database = process.env.STINT_DATABASE;
const needs = { skip: database ? false : "STINT_DATABASE must be the URL of a database" };

/** A connection to the database of the service, with a table for rows. */
async function connect(s: Service): Promise<pg.Client> {
  const client = new pg.Client(database);
  await client.connect();
  s.t.after(() => client.end());
  await client.query("SELECT pg_advisory_lock(1)");
  await client.query("CREATE TABLE IF NOT EXISTS made (task text)");
  await client.query("SELECT pg_advisory_unlock(1)");
  return client;
}

/** Adds a row and ends a task, in one commit. */
async function make(
  client: pg.Client, task: stint.OwnedTask | HeldTask, finish: stint.Finish = {},
): Promise<void> {
  await client.query("BEGIN");
  try {
    await client.query("INSERT INTO made VALUES ($1)", [task.id]);
    await ("finish" in task ? task.finish(client, finish)
      : stint.finishTask(client, task, finish));
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  }
}

async function made(client: pg.Client, id: string): Promise<number> {
  const { rows } = await client.query("SELECT count(*)::int AS n FROM made WHERE task = $1", [id]);
  return rows[0].n;
}

test("rows and the end of a task are one commit", needs, async (t) => {
  const s = new Service(t);
  const client = await connect(s);
  await s.insert(["a", "b", "c"]);
  const [a, b, c] = await s.own(3);
  await make(client, a!, { result: Uint8Array.of(0, 255), status: "s" });
  await assert.rejects(make(client, a!), stint.AlreadyReturned);
  const info = await s.info("a");
  assert.deepEqual([info.state, info.result, info.status],
    ["completed", Uint8Array.of(0, 255), "s"]);
  await s.client.abort([b!.id], "enough");
  await assert.rejects(make(client, b!), (error: stint.StintError) =>
    error instanceof stint.InvalidToken && error.ids[0] === b!.id);
  await assert.rejects(make(client, c!, { retryAfter: 1 }), stint.InvalidArgument);
  await make(client, c!, { code: "pending", retryAfter: 3600 });
  assert.equal((await s.info("c")).state, "scheduled");
  assert.deepEqual([await made(client, a!.id), await made(client, b!.id)], [1, 0]);
});

test("a worker does nothing else for a task that was finished", needs, async (t) => {
  const s = new Service(t);
  const client = await connect(s);
  const bodies = ["plain", "aborts", "fails", "unsure"];
  await s.client.insert(bodies.map((body) => s.task(body, body, { postResult: true })));
  const worker = new Worker(s.client, { concurrency: 1, logger: { warn() {}, error() {} } });
  worker.handles(s.action, async (task) => {
    const body = stint.textOf(task.body);
    if (body === "fails" && task.try === 1) {
      await client.query("BEGIN");
      await task.finish(client);
      await client.query("ROLLBACK");
      throw new stint.Retry("the commit failed", { after: 0.01 });
    }
    await make(client, task, { code: body === "aborts" ? "aborted" : "completed" });
    if (body === "unsure") throw new Error("the commit has gone through");
  });
  const running = worker.run();
  const done = await s.client.wait(bodies.map((body) => s.name(body)));
  worker.stop();
  await running;
  assert.deepEqual(done.map((info) => [info.state, info.tries]),
    [["completed", 1], ["aborted", 1], ["completed", 2], ["completed", 1]]);
  for (const body of bodies) assert.equal(await made(client, s.name(body)), 1);
});
