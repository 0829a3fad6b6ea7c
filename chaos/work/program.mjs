// A worker of the service in TypeScript, as it is built, which writes a journal.

import { appendFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const job = JSON.parse(process.env.STINT_CHAOS_JOB);
const { Client } = await import(pathToFileURL(process.env.STINT_CHAOS_CLIENT).href);
const action = "plain";
const kinds = {
  "already-returned": "ErrAlreadyReturned", "invalid-token": "ErrInvalidToken",
  "task-exists": "ErrTaskExists",
};
const actor = `${job.Name}.${job.Number}`;
const now = () => Number(process.hrtime.bigint());
let number = 0;
let done = 0;
let ended = false;

// Each line is one write.
function write(verb, begin, outcome, kind = "", items = []) {
  const line = {
    p: actor, n: ++number, v: verb, b: begin, e: now(), o: outcome, x: kind, i: items,
  };
  appendFileSync(job.Journal, `${JSON.stringify(line)}\n`);
}

// What is known by an error, and of which kind it is.
function judge(error) {
  if (!error) return ["ok", ""];
  if (error.kind === "already-returned") return ["ok", kinds[error.kind]];
  if (!error.kind || error.ambiguous) return ["unknown", "unavailable"];
  return ["refused", kinds[error.kind] ?? error.kind];
}

// How a task ends, which its ID and the try say.
function end(task) {
  let hash = Number(job.Seed) + task.try;
  for (const c of task.id) hash = (hash * 31 + c.charCodeAt(0)) >>> 0;
  const code = hash % 20 === 0 ? "pending" : hash % 20 === 1 ? "aborted" : "completed";
  return { id: task.id, token: task.token, code, retryAfter: code === "pending" ? 0.1 : undefined };
}

const client = new Client(`http://${job.Address}`);
write("born", now(), "ok");
createInterface(process.stdin).on("close", () => { ended = true; });
const saying = setInterval(() => {
  process.stdout.write(`done ${done}\n`);
  done = 0;
}, 250);
while (!ended) {
  let begin = now();
  let owned = [];
  try {
    owned = await client.own(actor, action, { maxTasks: 8, lease: 2, wait: 1 });
  } catch (error) {
    write("OwnTasks", begin, ...judge(error));
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  if (owned.length === 0) continue;
  write("OwnTasks", begin, "ok", "", owned.map((each) => (
    { id: each.id, t: each.token, y: each.try })));
  const returns = owned.map(end);
  const items = returns.map((each) => ({ id: each.id, t: each.token, s: each.code }));
  begin = now();
  try {
    const verdicts = await client.returnTasks(returns);
    verdicts.forEach((verdict, i) => {
      [items[i].o, items[i].x] = judge(verdict);
      if (!verdict && items[i].s === "completed") done++;
    });
    write("ReturnTasks", begin, "ok", "", items);
  } catch (error) {
    write("ReturnTasks", begin, ...judge(error), items);
  }
}
write("gone", now(), "ok");
clearInterval(saying);
process.exit();
