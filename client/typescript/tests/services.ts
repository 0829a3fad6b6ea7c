// A service at STINT_SERVER, a proxy that loses requests or answers, and a service made up.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { Client, type OwnOptions, type Task, type TaskInfo } from "@stint-tasks/client";

export const patience = 120_000; // milliseconds

/** A client of the service, and names that no other test uses. */
export class Service {
  readonly t: TestContext;
  readonly server: string;
  readonly action = `act-${randomUUID()}`;
  client: Client;

  constructor(t: TestContext) {
    assert(process.env.STINT_SERVER, "STINT_SERVER must be the address of a service");
    this.t = t;
    this.server = process.env.STINT_SERVER;
    this.client = this.connect(this.server);
  }

  connect(url: string): Client {
    const client = new Client(url);
    this.t.after(() => client.close());
    return client;
  }

  name(short: string): string {
    return `${this.action}/${short}`;
  }

  task(short: string, body: Task["body"] = null, other: Partial<Task> = {}): Task {
    return { action: this.action, body, id: this.name(short), ...other };
  }

  insert(shorts: string[], other: Partial<Task> = {}): Promise<string[]> {
    return this.client.insert(shorts.map((short) => this.task(short, null, other)));
  }

  async own(maxTasks = 1, other: OwnOptions = {}) {
    const owned = await this.client.own("actor", this.action, { maxTasks, lease: 3600, ...other });
    assert.equal(owned.length, maxTasks);
    return owned;
  }

  async info(short: string): Promise<TaskInfo> {
    return (await this.client.get(this.name(short)))[0]!;
  }

  async state(short: string): Promise<string> {
    return (await this.info(short)).state;
  }

  /** Waits until the service sees, or does not see, that an actor with the action lives. */
  async sees(lives = true): Promise<void> {
    const seen = async () => (await this.client.actors()).some(
      (each) => each.actions.includes(this.action));
    await eventually(async () => (await seen()) === lives);
  }

  /** Puts a proxy before the service, and makes it what the client calls. */
  async proxy(): Promise<Proxy> {
    const proxy = await Proxy.before(this.t, this.server);
    this.client = this.connect(proxy.url);
    return proxy;
  }
}

/** Waits until a condition holds, and returns its value. */
export async function eventually<T>(condition: () => T | Promise<T>): Promise<NonNullable<T>> {
  const until = Date.now() + patience;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert(Date.now() < until, "it does not become so");
    await pause(10);
  }
}

export const pause = (milliseconds: number) =>
  new Promise<void>((resolve) => setTimeout(resolve, milliseconds));

/** A value that a test waits for. */
export class Event<T = void> {
  happen!: (value: T) => void;
  readonly happened: Promise<T> = new Promise((resolve) => (this.happen = resolve));
}

export type Answered = [status: number, headers: Record<string, string>, body: unknown];

/** A server of HTTP on a port of its own, until the test ends. Without an answer it hangs up. */
export class Server {
  url = "";
  hangUp = false; // whether it closes each connection after an answer, without saying so
  readonly sockets = new Set<object>();

  async listen(
    t: TestContext,
    answer: (path: string, headers: http.IncomingHttpHeaders, body: string) =>
      Promise<Answered | null>,
  ): Promise<this> {
    const server = http.createServer(async (request, response) => {
      const parts: Buffer[] = [];
      try {
        for await (const part of request) parts.push(part);
      } catch {
        return; // the client is gone
      }
      const answered = await answer(
        request.url ?? "", request.headers, Buffer.concat(parts).toString());
      if (!answered) return void request.socket.destroy();
      const [status, headers, body] = answered;
      const text = typeof body === "string" ? body : JSON.stringify(body);
      response.writeHead(status, { "Content-Length": Buffer.byteLength(text), ...headers });
      response.end(text, () => {
        if (this.hangUp) request.socket.end();
      });
    });
    server.keepAliveTimeout = patience;
    server.on("connection", (socket) => this.sockets.add(socket));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    t.after(() => {
      server.close();
      server.closeAllConnections();
    });
    return this;
  }
}

/** Passes on bytes of connections to a service, whatever they mean, until it is cut. */
export class Wire {
  url = "";
  isCut = false;
  isFrozen = false;
  connections = 0; // that were accepted
  readonly #sockets = new Set<net.Socket>();

  static async before(t: TestContext, target: string): Promise<Wire> {
    const wire = new Wire();
    const server = net.createServer((near) => {
      if (wire.isCut) return near.destroy();

      wire.connections++;
      const far = net.connect(Number(new URL(target).port), "127.0.0.1");
      for (const [one, other] of [[near, far], [far, near]] as const) {
        wire.#sockets.add(one);
        one.on("data", (part) => { if (!wire.isFrozen) other.write(part); });
        one.on("error", () => {});
        one.on("close", () => other.destroy());
      }
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    wire.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    t.after(() => {
      server.close();
      wire.cut();
    });
    return wire;
  }

  /** Breaks all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
  }
}

/** A proxy before a service that loses so many requests, or so many answers. */
export class Proxy extends Server {
  loseRequests = 0;
  loseAnswers = 0;
  onLost = () => {};
  calls: string[] = [];

  static before(t: TestContext, target: string): Promise<Proxy> {
    const proxy = new Proxy();
    return proxy.listen(t, async (path, headers, body) => {
      proxy.calls.push(path.split("/").at(-1)!);
      if (proxy.loseRequests > 0) {
        proxy.loseRequests--;
        return null;
      }
      const isPassed = /^(content-type|connect-|authorization|idempotency-|stint-)/;
      const passed = Object.fromEntries(
        Object.entries(headers).filter(([name]) => isPassed.test(name)));
      let answer: Answered;
      try {
        const response = await fetch(target + path, {
          method: "POST", body, headers: passed as Record<string, string>,
        });
        answer = [response.status, { "Content-Type": "application/json" }, await response.text()];
      } catch {
        return null;
      }
      if (proxy.loseAnswers > 0) {
        proxy.loseAnswers--;
        proxy.onLost();
        return null;
      }
      return answer;
    });
  }
}

/** A service whose answers are a list. */
export class Invented extends Server {
  answers: Answered[] = [];
  calls: { path: string; headers: http.IncomingHttpHeaders; body: any }[] = [];

  static answering(t: TestContext, ...answers: Answered[]): Promise<Invented> {
    const service = new Invented();
    service.answers = answers;
    return service.listen(t, async (path, headers, body) => {
      service.calls.push({ path, headers, body: JSON.parse(body) });
      return service.answers.shift() ?? null;
    });
  }
}
