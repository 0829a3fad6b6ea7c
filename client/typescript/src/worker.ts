// A worker: it owns tasks, performs each by its handler, and returns it.

import type { Client } from "./client.ts";
import {
  AlreadyReturned, InvalidArgument, InvalidToken, Limited, Refused, SchemaVersion, StintError,
  TooLarge, Unavailable,
} from "./errors.ts";
import type { Content, Duration } from "./fields.ts";
import {
  Abort, Lost, Retry, Snooze, hold, type EndedAs, type Held, type HeldTask,
} from "./held.ts";
import { Failures, cut, say, toConsole, type Logger } from "./log.ts";
import { Performances, addressOf, serve, type MetricsServer } from "./metrics.ts";
import { builtin, monotonic, nodeProcess, pause, randomBits } from "./platform.ts";
import type { Presence, Watcher } from "./presence.ts";
import { returnOf } from "./return.ts";
import type { Outcome, Return } from "./tasks.ts";

// For how many seconds a call waits for tasks.
const poll = 20;
// A heartbeat begins after this part of a lease, may take that part, and is repeated after another
// one if it fails.
const beatPart = 3;
const attemptPart = 6;
const againPart = 20;
// The pause after the first try of a task, and the longest one: see pauseAfter.
const pauseBase = 1;
const pauseMost = 12 * 3600;
// The pauses of a worker whose service does not answer.
const reconnectFirst = 0.1;
const reconnectMost = 5;
// For how many seconds a worker that stops waits for the answers to its last calls.
const lastCalls = 5;
// How many lines of an error's stack a status holds.
const statusLines = 20;

/** Performs a task. What it returns is the result. */
export type Handler = (task: HeldTask) => Result | Promise<Result>;
export type Result = Content | null | undefined | void;

/** How a worker works. Durations are in seconds. */
export interface WorkerOptions {
  /** Names the worker for people. Default: the host, the process and a random number. */
  actor?: string;
  /** How many tasks are performed at once, at most. Default: 4. */
  concurrency?: number;
  /**
   * How long tasks stay with a worker that has died. A third of it later, and so on, one call
   * extends the leases of all tasks. Default: 30.
   */
  lease?: Duration;
  /** How long handlers may continue when the worker stops. Default: 20. */
  grace?: Duration;
  /**
   * Where run serves /metrics to Prometheus: a port of this machine, or "host:port" for others,
   * too: nobody is asked who he is. Default: nowhere.
   */
  metrics?: number | string;
  /** Default: warnings and errors to the console. */
  logger?: Logger;
}

/**
 * Owns tasks of the actions that it has handlers for, and performs them at the same time.
 *
 * A handler returns nothing, or the result as a string or bytes: the task is completed. It throws
 * Retry or Abort; after any other error the task is tried again after a pause that grows, and its
 * status has the beginning of the error's stack. A task may be performed again if its worker dies,
 * or does not reach the service, for longer than the lease.
 */
export class Worker {
  readonly #client: Client;
  readonly #concurrency: number;
  readonly #lease: number;
  readonly #grace: number;
  readonly #logger: Logger;
  readonly #failures: Failures;
  readonly #metricsAt: { host: string; port: number } | null;
  readonly #performances = new Performances();
  readonly #handlers = new Map<string, Handler>();
  readonly #held = new Map<string, Held>(); // by token
  readonly #stopping = new AbortController(); // of polls
  readonly #ended = new AbortController(); // nobody extends leases any more
  #actor: string;
  #metrics: MetricsServer | null = null; // as long as it runs
  #presence: Presence | null = null; // the same
  #began = false;
  #waiting: (() => void)[] = []; // who wants to know that fewer tasks are held

  constructor(client: Client, options: WorkerOptions = {}) {
    const { actor = "", concurrency = 4, lease = 30, grace = 20, logger = toConsole } = options;
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw new InvalidArgument("concurrency must be at least 1");
    }
    if (!(lease > 0 && lease < Infinity) || !(grace >= 0)) {
      throw new InvalidArgument("lease must be positive, and grace not negative");
    }
    this.#client = client;
    this.#actor = actor;
    this.#concurrency = concurrency;
    this.#lease = lease;
    this.#grace = grace;
    this.#logger = logger;
    this.#failures = new Failures(logger);
    this.#metricsAt = options.metrics === undefined ? null : addressOf(options.metrics);
  }

  /** Makes a function the handler of an action. */
  handles(action: string, handler: Handler): this {
    if (!action || this.#handlers.has(action)) {
      throw new InvalidArgument(`there is a handler of "${action}" already, or it is empty`);
    }
    this.#handlers.set(action, handler);
    this.#performances.know(action);
    return this;
  }

  /** The port of the metrics while they are served. */
  get metricsPort(): number | undefined {
    return this.#metrics?.port;
  }

  /** Makes run take no more tasks, and return when those under way are returned. */
  stop(): void {
    this.#stopping.abort();
  }

  /**
   * Performs tasks until stop, once in the life of a worker.
   *
   * In Node and Deno, SIGTERM and SIGINT stop the worker too; the second signal does what it did
   * before. What is under way has the grace to finish, then it is given back, without having used
   * up a try. A service that does not answer is asked again, for ever; if it refuses the worker,
   * run stops and throws the error.
   */
  async run(): Promise<void> {
    if (this.#began) throw new InvalidArgument("a worker runs once");
    this.#began = true;
    if (this.#handlers.size === 0) throw new InvalidArgument("the worker has no handlers");
    this.#actor ||= await anActor();
    const restore = onSignals(() => this.stop());
    let beating: Promise<void> | undefined;
    try {
      if (this.#metricsAt) this.#metrics = await serve(this.#performances, this.#metricsAt);
      this.#presence = await this.#client.attend(
        this.#actor, [...this.#handlers.keys()], this.#watcher());
      beating = this.#beat();
      await this.#ask();
    } finally {
      this.stop();
      await this.#finish();
      this.#ended.abort();
      await beating;
      await this.#presence?.leave();
      this.#failures.tell(Infinity);
      this.#metrics?.close();
      this.#metrics = null;
      restore();
    }
  }

  /** What becomes of the stream that shows that this worker lives. */
  #watcher(): Watcher {
    let said: "nothing" | "why not" | "it stood" = "nothing";
    return {
      stood: () => { said = "it stood"; },
      lost: (token) => {
        const held = this.#held.get(token);
        if (held) this.#lose(held);
      },
      failed: (why) => {
        const text = `the service does not see that this worker lives: ${why}`;
        if (said === "it stood") return this.#failures.failed("presence", text);
        // It may never do so, behind a proxy that does not speak HTTP/2.
        say(this.#logger, said === "nothing" ? "warn" : "debug",
          `${text}; if it dies, its tasks are handed on when their leases expire`);
        said = "why not";
      },
    };
  }

  get #stopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Owns tasks for as many handlers as are free, until the worker stops. */
  async #ask(): Promise<void> {
    let between = 0;
    for (;;) {
      await this.#fewerThan(this.#concurrency);
      if (this.#stopped) return;
      const maxTasks = this.#concurrency - this.#held.size;
      try {
        const owned = await this.#client.own(this.#actor, this.#handlers.keys(), {
          maxTasks, lease: this.#lease, wait: poll, signal: this.#stopping.signal,
          fetch: this.#presence?.fetch,
        });
        between = 0;
        // The leases began a little earlier. If it was more than a little, a heartbeat tells.
        const until = monotonic() + this.#lease;
        const all = owned.map((task) => hold(task, this.#client, this.#logger, until));
        for (const held of all) this.#held.set(held.task.token, held);
        if (all.length > 0) this.#presence?.hold(owned);
        if (this.#stopped) return; // finish gives them back
        for (const held of all) void this.#work(held);
      } catch (error) {
        if (this.#stopped) return;
        if (!isTransient(error)) throw error;
        this.#failures.failed("own", `could not own tasks: ${error}`);
        between = Math.min(Math.max(2 * between, reconnectFirst), reconnectMost);
        await pause(between * (0.5 + Math.random() / 2), this.#stopping.signal)
          .catch(() => undefined);
      }
    }
  }

  /** Waits until so many tasks, or more, are not held any more, or seconds have passed, or stop. */
  async #fewerThan(number: number, seconds?: number): Promise<void> {
    const over = new AbortController();
    const late = seconds === undefined ? null
      : pause(seconds, over.signal).catch(() => undefined);
    const stop = seconds === undefined ? aborted(this.#stopping.signal, over.signal) : null;
    let isLate = false;
    void late?.then(() => { isLate = true; });
    while (this.#held.size >= number && !isLate && !(stop && this.#stopped)) {
      const fewer = new Promise<void>((resolve) => this.#waiting.push(resolve));
      await Promise.race([fewer, late ?? fewer, stop ?? fewer]);
    }
    over.abort();
  }

  #drop(held: Held): void {
    if (!this.#held.delete(held.task.token)) return;
    this.#presence?.done(held.task);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const wake of waiting) wake();
  }

  /** Waits for what is under way, and gives back what is left after the grace. */
  async #finish(): Promise<void> {
    const unbegun = [...this.#held.values()].filter((held) => !held.begun);
    await this.#takeBack(unbegun);
    await this.#fewerThan(1, this.#grace);
    await this.#takeBack([...this.#held.values()]);
    await this.#fewerThan(1, lastCalls); // being returned
    for (const held of this.#held.values()) held.losing.abort(new Lost("the worker has stopped"));
    await this.#client.close();
  }

  /** Ends what is under way, and gives it back. */
  async #takeBack(all: Held[]): Promise<void> {
    const left = all.filter((held) => !held.returning);
    for (const held of left) {
      held.returning = true;
      held.losing.abort(new Lost("the worker stops"));
    }
    await this.#giveBack(left);
    for (const held of left) this.#drop(held);
  }

  /** Performs a task, and returns it. */
  async #work(held: Held): Promise<void> {
    const { task } = held;
    held.begun = true;
    const begun = this.#performances.begin(task.action);
    try {
      const given = await this.#outcome(held);
      if (held.returning || held.handedOn) return; // somebody else does what is to be done
      if (given && held.expired) return; // the handler may have given up halfway, for that
      held.returning = true;
      if (given) {
        await this.#return(held, given);
      } else {
        held.endedAs = finishedAs(held);
      }
    } catch (error) { // a defect must not end the process
      say(this.#logger, "error", `task ${task.id} stays until its lease expires: ${error}`);
    } finally {
      this.#performances.end(task.action, held.endedAs, begun);
      this.#drop(held);
    }
  }

  async #return(held: Held, given: Return): Promise<void> {
    const { task } = held;
    held.endedAs = endedAs(task, given);
    try {
      await this.#give([given], [held]);
    } catch (error) { // the outcome cannot be stored, a result too large for example
      say(this.#logger, "warn", `task ${task.id} could not be returned: ${error}`);
      const why = `could not be returned: ${error}`;
      const other = error instanceof TooLarge // as after each try
        ? this.#aborted(held, why) : this.#again(held, why, null);
      held.endedAs = endedAs(task, other);
      try {
        await this.#give([other], [held]);
      } catch (problem) {
        held.endedAs = "lost";
        say(this.#logger, "error", `task ${task.id} stays until its lease expires: ${problem}`);
      }
    }
  }

  /** Calls the handler, and returns what becomes of the task; null if the handler ended it. */
  async #outcome(held: Held): Promise<Return | null> {
    const { task } = held;
    try {
      const result = await this.#handlers.get(task.action)!(task);
      const good = result === undefined || result === null || typeof result === "string" ||
        result instanceof Uint8Array;
      if (!good) {
        throw new TypeError(
          `a handler must return nothing, a string or bytes, not ${typeof result}`);
      }
      if (held.finished) return null;
      return returnOf(task, {
        result: result as Content | null, log: cut(held.lines.text), spent: task.spent,
      });
    } catch (error) {
      if (error instanceof Retry) {
        const again = this.#again(held, error.status, error.after);
        again.release = error instanceof Snooze;
        return again;
      }
      if (error instanceof Abort) return this.#aborted(held, error.status);
      const text = stackOf(error);
      if (!held.returning && !held.handedOn) {
        this.#failures.failed(
          `action ${task.action}`, `task ${task.id} failed, try ${task.try}:\n${cut(text)}`);
      }
      return this.#again(held, text, null);
    }
  }

  #aborted(held: Held, status: string): Return {
    return returnOf(held.task, {
      code: "aborted", status: cut(status), log: cut(held.lines.text), spent: held.task.spent,
    });
  }

  #again(held: Held, status: string, after: Duration | null): Return {
    return returnOf(held.task, {
      code: "pending", status: cut(status), log: cut(held.lines.text),
      retryAfter: after ?? pauseAfter(held.task.try), spent: held.task.spent,
    });
  }

  /** Returns tasks to be tried again, with their tries refunded. */
  async #giveBack(left: Held[]): Promise<void> {
    if (left.length === 0) return;
    for (const held of left) held.endedAs = "stopped";
    const outcome: Outcome = { code: "pending", release: true };
    try {
      await this.#give(
        left.map((held) => returnOf(held.task, { ...outcome, spent: held.task.spent })), left);
    } catch (error) {
      say(this.#logger, "warn", `could not give tasks back; their leases expire: ${error}`);
    }
  }

  /** Returns tasks, and does not give up before their leases expire, but when the worker ends. */
  async #give(returns: Return[], held: Held[]): Promise<void> {
    let ambiguous = false;
    let verdicts: (StintError | null)[];
    for (let wait = 0.1; ; wait = Math.min(2 * wait, 5)) {
      try {
        verdicts = await this.#client.returnTasks(returns);
        break;
      } catch (error) {
        if (!(error instanceof Unavailable || error instanceof Limited)) throw error;
        ambiguous ||= error.ambiguous;
        this.#failures.failed("return", `could not return tasks: ${error}`);
        await pause(wait, this.#ended.signal).catch(() => undefined);
        if (this.#ended.signal.aborted || held.every((each) => each.losing.signal.aborted)) {
          for (const each of held) each.endedAs = "lost";
          return;
        }
      }
    }
    verdicts.forEach((verdict, at) => {
      const each = held[at]!;
      if (!verdict || (ambiguous && verdict instanceof AlreadyReturned)) return; // by a call before
      if (each.finished && verdict instanceof InvalidToken) {
        each.endedAs = finishedAs(each); // the commit of the handler has gone through after all
        return;
      }
      if (verdict instanceof InvalidArgument) throw verdict; // the outcome cannot be stored
      if (verdict instanceof InvalidToken) each.losing.abort(new Lost("the task is lost"));
      each.endedAs = "lost";
      say(this.#logger, "warn", `task ${each.task.id} was not returned: ${verdict}`);
    });
  }

  /** Extends the leases of all tasks, until the worker has ended. */
  async #beat(): Promise<void> {
    let wait = this.#lease / beatPart;
    for (;;) {
      await pause(wait * (0.8 + 0.2 * Math.random()), this.#ended.signal).catch(() => undefined);
      if (this.#ended.signal.aborted) return;
      const failed = await this.#extend();
      this.#failures.tell(monotonic());
      wait = this.#lease / (failed ? againPart : beatPart);
      const until = this.#kept().map((held) => held.until);
      const left = Math.min(...until) - monotonic();
      if (failed && left < wait) wait = Math.max(left, 0.001); // to notice the end in time
    }
  }

  /** The tasks that are not lost. */
  #kept(): Held[] {
    return [...this.#held.values()].filter((held) => !held.losing.signal.aborted);
  }

  /** Makes one attempt to extend the leases, and reports whether it failed. */
  async #extend(): Promise<boolean> {
    const sent = monotonic();
    for (const held of this.#kept()) {
      if (held.until <= sent) {
        say(this.#logger, "warn", `task ${held.task.id}: the lease has expired`);
        held.expired = true;
        held.losing.abort(new Lost("the lease has expired"));
      }
    }
    const all = this.#kept();
    if (all.length === 0) return false;
    // A beat that takes longer would keep the end of a lease from being noticed.
    const left = Math.min(...all.map((held) => held.until)) - sent;
    let kept: boolean[];
    try {
      kept = await this.#client.extendOnce(this.#actor, all.map((held) => held.task), {
        lease: this.#lease, timeout: Math.max(0.01, Math.min(this.#lease / attemptPart, left)),
      });
    } catch (error) {
      this.#failures.failed("extend", `could not extend the leases: ${error}`);
      return true;
    }
    all.forEach((held, at) => {
      if (kept[at]) {
        held.until = sent + this.#lease;
      } else {
        this.#lose(held);
      }
    });
    return false;
  }

  /** Notes that the service has said that somebody else has a task, or nobody. */
  #lose(held: Held): void {
    if (held.returning || held.handedOn || !this.#held.has(held.task.token)) return;
    if (held.finished) return; // perhaps: the handler knows
    say(this.#logger, "warn", `task ${held.task.id} is lost`);
    held.handedOn = true;
    held.losing.abort(new Lost("the task is lost"));
  }
}

/** Whether a worker goes on after an error of a call for tasks. */
function isTransient(error: unknown): boolean {
  const isFinal = error instanceof Refused || error instanceof InvalidArgument ||
    error instanceof SchemaVersion;
  return error instanceof StintError && !isFinal;
}

/** Waits until a signal is aborted, or it is over. */
function aborted(signal: AbortSignal, over: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true, signal: over });
  });
}

function stackOf(error: unknown): string {
  let text: string;
  try {
    text = error instanceof Error ? (error.stack ?? String(error)) : `thrown: ${String(error)}`;
  } catch { // by an object that has no text
    text = "thrown: something without a text";
  }
  return text.split("\n").slice(0, statusLines).join("\n");
}

/** Returns the outcome of a performance whose task the handler has finished. */
function finishedAs(held: Held): EndedAs {
  return endedAs(held.task, returnOf(held.task, { code: held.finished ?? "completed" }));
}

/** Returns the outcome of a performance whose task is returned like this. */
function endedAs(task: HeldTask, given: Return): EndedAs {
  if (given.code !== "pending") return given.code ?? "completed";
  if (given.release) return "snoozed";
  return task.maxTries > 0 && task.maxTries <= task.try ? "aborted" : "retried";
}

/**
 * Returns how long a task waits after a try: at random, between half of the most and the most. So
 * tasks that failed together are spread, and no try follows at once.
 */
function pauseAfter(number: number): number {
  const most = Math.min(pauseBase * 2 ** Math.max(number - 1, 0), pauseMost);
  return most * (0.5 + Math.random() / 2);
}

/** Returns a name for this worker. */
async function anActor(): Promise<string> {
  const number = randomBits(32).toString(16);
  const process = nodeProcess();
  if (!process) return `page-${number}`;
  let host = "deno";
  try {
    host = (await builtin<typeof import("node:os")>("node:os")).hostname();
  } catch {
    // Deno keeps it from programs without --allow-sys.
  }
  return `${host}-${process.pid}-${number}`;
}

/**
 * Calls stop at the first SIGTERM or SIGINT. The second one does what it did before, and so does
 * the first one after the returned function was called.
 */
function onSignals(stop: () => void): () => void {
  const process = nodeProcess();
  const restore = () => {
    process?.removeListener("SIGTERM", handle);
    process?.removeListener("SIGINT", handle);
  };
  const handle = () => {
    restore();
    stop();
  };
  process?.on("SIGTERM", handle);
  process?.on("SIGINT", handle);
  return restore;
}
