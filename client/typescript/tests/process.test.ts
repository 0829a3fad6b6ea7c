// Workers as processes of their own that are killed, and told to stop.

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Service } from "./services.js";

class Program {
  readonly process: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  private constructor(s: Service, lease: number, grace: number, url: string) {
    const file = fileURLToPath(new URL("program.js", import.meta.url));
    const options = [file, url, s.action, `${lease}`, `${grace}`];
    this.process = spawn(process.execPath, options, {
      stdio: ["pipe", "pipe", "inherit"] });
    s.t.after(() => this.process.kill("SIGKILL"));
    this.#lines = createInterface(this.process.stdout!)[Symbol.asyncIterator]();
  }

  static async start(
    s: Service, lease: number, grace: number, { url } = { url: s.server },
  ): Promise<Program> {
    const program = new Program(s, lease, grace, url);
    await program.says("runs");
    return program;
  }

  async line(): Promise<string | undefined> {
    return (await this.#lines.next()).value;
  }

  async says(...lines: string[]): Promise<void> {
    for (const line of lines) assert.equal(await this.line(), line);
  }

  async exits(): Promise<number | null> {
    if (this.process.exitCode === null) await once(this.process, "exit");
    return this.process.exitCode;
  }
}

test("tasks of a worker that is killed are handed on before their leases expire", async (t) => {
  const s = new Service(t);
  await s.client.insert(s.task("a", "for ever"));
  const program = await Program.start(s, 3600, 1);
  await program.says(`began ${s.name("a")}`);
  await s.sees();
  program.process.kill("SIGKILL");
  const [task] = await s.client.own("other", s.action, { wait: 120 });
  assert.deepEqual([task!.id, task!.try], [s.name("a"), 2]);
});

test("tasks of a worker without a stream are handed on when their leases expire", async (t) => {
  const s = new Service(t);
  await s.client.insert(s.task("a", "for ever"));
  const program = await Program.start(s, 1, 1, await s.proxy()); // which speaks HTTP/1.1
  await program.says(`began ${s.name("a")}`);
  program.process.kill("SIGKILL");
  const [task] = await s.client.own("other", s.action, { wait: 120 });
  assert.equal(task!.id, s.name("a"));
  assert(task!.try >= 2); // more if the lease expired before
});

test("a handler that keeps the event loop busy keeps its task", async (t) => {
  const s = new Service(t);
  await s.client.insert(s.task("a", "busy", { postResult: true }));
  const program = await Program.start(s, 3600, 1);
  await program.says(`began ${s.name("a")}`, "looks up");
  const [done] = await s.client.wait(s.name("a"));
  assert.deepEqual([done!.state, done!.tries], ["completed", 1]);
});

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`a worker that gets ${signal} finishes what it does`, async (t) => {
    const s = new Service(t);
    await s.client.insert(s.task("a", "until told", { postResult: true }));
    const program = await Program.start(s, 3600, 3600);
    await program.says(`began ${s.name("a")}`);
    program.process.kill(signal);
    await program.says("stopping");
    await s.insert(["next"]); // which it does not take
    program.process.stdin!.write("go on\n");
    await program.says("ended");
    assert.equal(await program.exits(), 0);
    assert.equal(await s.state("a"), "completed");
    const [next] = await s.own();
    assert.deepEqual([next!.id, next!.try], [s.name("next"), 1]);
  });
}

test("a worker gives back what does not finish within the grace", async (t) => {
  const s = new Service(t);
  await s.client.insert([s.task("a", "for ever"), s.task("b", "until lost")]);
  const program = await Program.start(s, 3600, 0.5);
  const began = [await program.line(), await program.line()].sort();
  assert.deepEqual(began, ["a", "b"].map((short) => `began ${s.name(short)}`));
  program.process.kill("SIGTERM");
  await program.says("stopping", "lost", "ended");
  assert.equal(await program.exits(), 0);
  assert.deepEqual((await s.own(2)).map((task) => task.try), [1, 1]);
});

test("the second signal ends a worker at once", async (t) => {
  const s = new Service(t);
  await s.client.insert(s.task("a", "for ever"));
  const program = await Program.start(s, 3600, 3600);
  await program.says(`began ${s.name("a")}`);
  program.process.kill("SIGINT");
  await program.says("stopping");
  program.process.kill("SIGINT");
  await program.exits();
  assert.equal(program.process.signalCode, "SIGINT");
});

test("a worker that waits for tasks stops at once", async (t) => {
  const s = new Service(t);
  await s.insert(["first"], { postResult: true });
  const program = await Program.start(s, 3600, 3600);
  await s.client.wait(s.name("first"));
  await program.says(`began ${s.name("first")}`);
  const began = Date.now();
  program.process.kill("SIGTERM");
  await program.says("stopping", "ended");
  assert(Date.now() - began < 15_000); // a poll lasts 20 s
  await s.insert(["a"]);
  assert.equal((await s.own())[0]!.try, 1);
});
