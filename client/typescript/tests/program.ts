// A worker as a process: node build/program.js URL ACTION LEASE GRACE
//
// It prints a line when a handler begins, when it is told to stop, and when run returns. A handler
// does what the body says.

import { once } from "node:events";
import { createInterface } from "node:readline";
import { Client, Worker, textOf } from "@stint-tasks/client";
import { pause } from "./services.js";

const [url, action, lease, grace] = process.argv.slice(2);
const say = (text: string) => process.stdout.write(`${text}\n`);

class Told extends Worker {
  #told = false;

  override stop(): void {
    super.stop();
    if (!this.#told) say("stopping");
    this.#told = true;
  }
}

const client = new Client(url!);
const worker = new Told(client, {
  actor: "program", lease: Number(lease), grace: Number(grace),
});
worker.handles(action!, async (task) => {
  say(`began ${task.id}`);
  switch (textOf(task.body)) {
    case "until told":
      await once(createInterface(process.stdin), "line");
      break;
    case "until lost":
      await once(task.signal, "abort");
      say("lost");
      break;
    case "busy": { // for longer than the service waits for a sign of life
      const seen = async () => (await client.actors()).some(
        (each) => each.actions.includes(action!));
      while (!(await seen())) await pause(10);
      const until = Date.now() + 4000;
      while (Date.now() < until);
      say("looks up");
      break;
    }
    case "for ever":
      await new Promise((resolve) => setTimeout(resolve, 2 ** 31 - 1));
  }
  return "done";
});
say("runs");
await worker.run();
say("ended");
process.exit(); // although a handler may go on
