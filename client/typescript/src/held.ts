// A task that a handler performs.

import type { Client } from "./client.ts";
import type { CallOptions } from "./connection.ts";
import { textOf } from "./content.ts";
import {
  AlreadyReturned, InvalidArgument, InvalidToken, Limited, TooLarge, Unavailable,
} from "./errors.ts";
import { withToken, type Duration } from "./fields.ts";
import { Lines, type Logger, type TaskLogger } from "./log.ts";
import type { Recorded } from "./messages.ts";
import { monotonic, pause } from "./platform.ts";
import type { Input, OwnedTask } from "./tasks.ts";
import { finishTask, type Code, type Finish, type Transaction } from "./transaction.ts";

// How many steps a task may have, and how long their names and their values may be.
const stepsMost = 1000;
const stepsBytesMost = 16 << 20;
const stepNameMost = 255;
// The longest pause, in seconds, and the greatest cost, that the store accepts.
const pauseMost = 10 * 365 * 24 * 3600;
const spentMost = 1_000_000_000;
// Ahead of the nanoseconds of a sleep, which makes it no value of a step.
const sleepMark = "sleep ";

/** Why a task is tried again or aborted: a text for people, or an error that has it. */
function statusOf(status: unknown): string {
  return status instanceof Error ? status.message : String(status);
}

/** Thrown by a handler: the task is tried again, after a pause. */
export class Retry extends Error {
  readonly status: string;
  /**
   * How long the pause is, in seconds, 0 to ten years; another value counts as the nearest of
   * these. null: as after any other error.
   */
  readonly after: Duration | null;

  /** status: a text for people, or an error that has it. */
  constructor(status: unknown = "", options: { after?: Duration } = {}) {
    super(statusOf(status));
    this.name = new.target.name;
    this.status = statusOf(status);
    this.after = options.after === undefined ? null
      : Math.min(Math.max(options.after, 0), pauseMost);
  }
}

/** Thrown by a handler: the task is tried again after a pause, and this try does not count. */
export class Snooze extends Retry {
  constructor(after: Duration, status: unknown = "") {
    super(status, { after });
  }
}

/** Thrown by a handler: the task is aborted, and with it what depends on it. */
export class Abort extends Error {
  readonly status: string;

  /** status: a text for people, or an error that has it. */
  constructor(status: unknown = "", options?: ErrorOptions) {
    super(statusOf(status), options);
    this.name = new.target.name;
    this.status = statusOf(status);
  }
}

/** The reason of the signal of a task that is lost, or may be. */
export class Lost extends Error {
  override name = "Lost";
}

/** How a performance has ended, for the metrics. */
export type EndedAs = "completed" | "retried" | "snoozed" | "aborted" | "stopped" | "lost";

/** What the worker knows of a task that it holds. */
export interface Held {
  readonly task: HeldTask;
  /** Ends the handler. */
  readonly losing: AbortController;
  readonly lines: Lines;
  /** By this process's clock, when the lease expires. */
  until: number;
  /** The handler was called. */
  begun: boolean;
  /** The service has said that somebody else has the task, or nobody. */
  handedOn: boolean;
  /** The lease has expired, unheard. */
  expired: boolean;
  /** Who sets it returns the task. */
  returning: boolean;
  /** The code with which the handler has finished the task, in a transaction of its own. */
  finished: Code | null;
  endedAs: EndedAs;
}

/** Returns what a worker knows of a task that it was given. */
export function hold(owned: OwnedTask, client: Client, logger: Logger, until: number): Held {
  const losing = new AbortController();
  const lines = new Lines(logger);
  const held: Held = {
    task: new HeldTask(owned, client, losing.signal, lines, (code) => { held.finished = code; }),
    losing, lines, until,
    begun: false, handedOn: false, expired: false, returning: false, finished: null,
    endedAs: "lost",
  };
  return held;
}

/** Has what an owned task has. */
export interface HeldTask extends Readonly<OwnedTask> {}

/** A task that a handler performs. */
export class HeldTask {
  /**
   * What the try has really cost, if the handler sets it: where the limits of the action are
   * byCost, the next fetch settles it. It counts however the try ends. It is a whole number, 0 to
   * 10⁹; another value counts as the nearest of these.
   */
  get spent(): number | null {
    return this.#spent;
  }

  set spent(cost: number | null) {
    this.#spent = cost === null ? null : Math.round(Math.min(Math.max(cost, 0), spentMost));
  }

  #spent: number | null = null;
  readonly #client: Client;
  readonly #lines: Lines;
  readonly #signal: AbortSignal;
  readonly #finished: (code: Code | null) => void;
  #recorded: Promise<Map<string, Recorded>> | null = null; // once they have been asked for
  #asked = 0; // when that was, by this process's clock
  readonly #taken = new Set<string>();
  #kept = 0; // bytes of the values that are recorded

  constructor(
    owned: OwnedTask, client: Client, signal: AbortSignal, lines: Lines,
    finished: (code: Code | null) => void,
  ) {
    withToken(Object.assign(this, owned), owned.token);
    this.#client = client;
    this.#signal = signal;
    this.#lines = lines;
    this.#finished = finished;
  }

  /**
   * Is aborted when the task is handed on, or may be: because somebody aborted it, its lease
   * expired while the service could not be reached, or the worker stops and its grace is over. Pass
   * it to what the handler waits for.
   */
  get signal(): AbortSignal {
    return this.#signal;
  }

  /**
   * What is logged here goes to the logger of the worker and, but for debug, into the history of
   * the task, its last 16 KiB, if the service keeps that.
   */
  get logger(): TaskLogger {
    return this.#lines;
  }

  /** Records a text for people, and the progress of the task, from 0 to 1. */
  setStatus(status: string, progress = 0, options: CallOptions = {}): Promise<void> {
    return this.#client.setStatus(this, status, progress, options);
  }

  /**
   * Draws a number by which other systems can refuse what a late owner of the task writes. It is
   * greater than those that earlier owners have drawn.
   */
  fence(options: CallOptions = {}): Promise<number> {
    return this.#client.fence(this, options);
  }

  /**
   * Ends the task in a transaction of the handler's, as finishTask does.
   *
   * The handler commits, and returns: the worker does nothing else for the task. If the handler
   * throws, such as the error of a failed commit, the worker returns the task as after any other
   * error, unless the commit has gone through after all. From here on the signal is not aborted
   * when the task is handed on, since only the transaction can tell.
   */
  async finish(transaction: Transaction, finish: Finish = {}): Promise<void> {
    try {
      await finishTask(transaction, this, { spent: this.spent, ...finish });
    } catch (error) {
      if (error instanceof InvalidToken && !(error instanceof AlreadyReturned)) {
        this.#finished(null); // no earlier commit has gone through
      }
      throw error;
    }
    this.#finished(finish.code ?? "completed");
  }

  /** Returns how the predecessors of the task ended. */
  inputs(options: CallOptions = {}): Promise<Input[]> {
    return this.#client.inputs(this, options);
  }

  /**
   * Returns what call returned, now or in an earlier try: no later try calls it again.
   *
   * The record is made once; the call is made again if the process dies, or the task is lost,
   * before the record. A name serves one step in a try. The value is kept as JSON, at most 1 MiB;
   * undefined becomes null. If call throws, nothing is recorded. A name that is no good, and a task
   * that has too many steps, are refused before the call. If the value cannot be kept, it throws
   * Abort, since every try would make the call again.
   */
  async step<T>(name: string, call: () => T | Promise<T>): Promise<T> {
    const recorded = await this.#take(name);
    const result = textOf(recorded
      ? (recorded.result ?? new Uint8Array())
      : await this.#record(name, async () => toJSON(name, await call())));
    if (result.startsWith(sleepMark)) {
      throw new InvalidArgument(`the step "${name}" is recorded as a sleep: name it otherwise`);
    }
    return JSON.parse(result) as T;
  }

  /**
   * Is a step that takes a time, in seconds, for which it holds no worker.
   *
   * Until the time has passed since the first call, in whatever try that was, it throws Snooze,
   * which the handler lets pass: the task is put off. Afterwards it returns. The time is that of
   * the first call, on the clock of the database.
   */
  async sleep(name: string, seconds: Duration): Promise<void> {
    const recorded = await this.#take(name);
    let ago = 0;
    let result: string;
    if (recorded) {
      result = textOf(recorded.result);
      ago = recorded.ago + monotonic() - this.#asked;
    } else {
      const microseconds = Math.floor(seconds * 1e6);
      if (!Number.isSafeInteger(microseconds) || microseconds <= 0) {
        this.#taken.delete(name);
        throw new InvalidArgument("the pause must be more than 0 seconds, and not for ever");
      }
      result = textOf(await this.#record(
        name, async () => `${sleepMark}${BigInt(microseconds) * 1000n}`));
    }
    if (!result.startsWith(sleepMark)) {
      throw new InvalidArgument(`the sleep "${name}" is recorded as a step: name it otherwise`);
    }
    const left = Number(result.slice(sleepMark.length)) / 1e9 - ago;
    if (left > 0) throw new Snooze(left);
  }

  /** Notes that a step is taken, and returns it if it is recorded. */
  async #take(name: string): Promise<Recorded | undefined> {
    checkStep(name);
    this.#recorded ??= this.#ask();
    const recorded = await this.#recorded;
    if (this.#taken.has(name)) {
      throw new InvalidArgument(`the step "${name}" was taken in this try: ` +
        "add the index of a loop, for example");
    }
    if (!recorded.has(name)) {
      const count = new Set([...this.#taken, ...recorded.keys()]).size;
      if (count >= stepsMost || this.#kept >= stepsBytesMost) {
        throw new TooLarge(`the step "${name}" has no room: a task may have ${stepsMost} steps, ` +
          `with values of ${stepsBytesMost} bytes together`);
      }
    }
    this.#taken.add(name);
    return recorded.get(name);
  }

  async #ask(): Promise<Map<string, Recorded>> {
    this.#asked = monotonic();
    try {
      const found = await this.#client.recordedSteps(this);
      for (const each of found) this.#kept += each.result?.length ?? 0;
      return new Map(found.map((each) => [each.name, each]));
    } catch (error) {
      this.#recorded = null; // a later step asks again
      throw error;
    }
  }

  async #record(name: string, call: () => Promise<string>): Promise<Uint8Array> {
    try {
      const kept = await this.#keep(name, await call());
      this.#kept += kept.length;
      return kept;
    } catch (error) {
      this.#taken.delete(name);
      throw error;
    }
  }

  /** Records a value, and does not give up as long as the task is not lost. */
  async #keep(name: string, value: string): Promise<Uint8Array> {
    for (let wait = 0.1; ; wait = Math.min(2 * wait, 5)) {
      try {
        return await this.#client.recordStep(this, name, value);
      } catch (error) {
        if (error instanceof TooLarge) {
          throw new Abort(`the value of the step "${name}" cannot be recorded: ${error.message}`,
            { cause: error });
        }
        if (!(error instanceof Unavailable || error instanceof Limited)) throw error;
        await pause(wait, this.#signal).catch(() => undefined);
        if (this.#signal.aborted) throw error;
      }
    }
  }
}

/** Refuses a name with which no step can be recorded. */
function checkStep(name: string): void {
  if (typeof name !== "string" || /\p{Surrogate}/u.test(name)) {
    throw new InvalidArgument("the name of a step must be text");
  }
  const size = new TextEncoder().encode(name).length;
  if (size > stepNameMost) {
    throw new TooLarge(`the name of a step has ${size} bytes, and may have ${stepNameMost}`);
  }
  if (size === 0 || name.includes("\0")) {
    throw new InvalidArgument("the name of a step must not be empty, or contain a NUL");
  }
}

/** Returns a value as it is recorded. If it cannot be, no try can record it. */
function toJSON(name: string, value: unknown): string {
  try {
    if (typeof value === "function" || typeof value === "symbol") {
      throw new TypeError(`a ${typeof value} is not JSON`);
    }
    return JSON.stringify(value ?? null);
  } catch (error) {
    throw new Abort(`the value of the step "${name}" cannot be recorded: ${statusOf(error)}`,
      { cause: error });
  }
}
