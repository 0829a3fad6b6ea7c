// How a worker shows to the service that it lives.

import type { Answer, Attendance, Change, Told } from "./attend.ts";
import type { Connection } from "./connection.ts";
import { builtin, nodeProcess, pause } from "./platform.ts";
import type { Performance } from "./tasks.ts";

// For how many seconds a worker that leaves waits until the service knows.
const leaveMost = 1;
// For how many seconds a call waits for the next stream.
const comeBackMost = 1;

/** Who wants to know what becomes of a stream. */
export interface Watcher {
  lost(token: string): void;
  stood(): void;
  failed(text: string): void;
}

/** The stream of a worker, which is opened again whenever it breaks. */
export interface Presence {
  hold(tasks: Performance[]): void;
  done(task: Performance): void;
  /** Makes a call over the connection of the stream, or as others are made if there is none. */
  readonly fetch: typeof fetch;
  /** Tells the service, for a second at most, and ends the stream. */
  leave(): Promise<void>;
}

/**
 * Starts the thread that keeps the stream. It returns null where there are no threads of Node, or
 * a fetch of the caller's alone knows how the service is reached: tasks are handed on when their
 * leases expire then.
 */
export async function show(
  connection: Connection, who: Pick<Attendance, "session" | "actor" | "actions">,
  watcher: Watcher,
): Promise<Presence | null> {
  if (!nodeProcess() || connection.hasOwnFetch) return null;
  const workerData: Attendance = {
    url: connection.url, headers: await connection.headersOfStream(), ...who,
  };
  let thread: import("node:worker_threads").Worker;
  try {
    const { Worker } = await builtin<typeof import("node:worker_threads")>("node:worker_threads");
    const program = new URL("./attend.js", import.meta.url);
    thread = new Worker(program, { workerData, execArgv: [] });
  } catch (error) {
    watcher.failed(`no thread can be started: ${error}`);
    return null;
  }
  thread.unref(); // it keeps no process alive
  let isOver!: () => void;
  const over = new Promise<void>((resolve) => { isOver = resolve; });
  thread.once("exit", isOver);
  thread.on("error", (error) => watcher.failed(`the thread has failed: ${error}`));
  let stands = false;
  let ever = false; // it has stood before
  let may = true; // it may stand soon: it has before, or nothing has failed yet
  const waiting: (() => void)[] = []; // for that
  const calls = new Map<number, (answer: Answer) => void>();
  const failAll = () => {
    stands = ever = may = false;
    for (const go of waiting.splice(0)) go();
    for (const [number, answer] of calls) answer({ number, lost: "the thread has ended" });
  };
  thread.once("exit", failAll);
  thread.on("message", ({ stood, fell, lost = [], failed, code = "", answer, over }: Told) => {
    if (over) isOver();
    if (stood) watcher.stood();
    if (stood) stands = ever = true;
    if (fell) stands = false;
    may = ever || (may && failed === undefined);
    if (stands || !may) for (const go of waiting.splice(0)) go();
    if (answer) calls.get(answer.number)?.(answer);
    for (const token of lost) watcher.lost(token);
    if (failed !== undefined) watcher.failed(failed);
    if (code === "unauthenticated") void refresh(); // another token may be in its place
  });
  const tell = (change: Change) => thread.postMessage(change);
  const refresh = async () => {
    try {
      tell({ headers: await connection.headersOfStream() });
    } catch (error) {
      watcher.failed(`there is no token: ${error}`);
    }
  };
  let number = 0;
  const call = (at: URL, init: RequestInit) => new Promise<Response>((resolve, reject) => {
    const { signal } = init;
    if (signal?.aborted) return reject(signal.reason);
    const mine = ++number;
    const cancel = () => {
      calls.delete(mine);
      tell({ cancel: mine });
      reject(signal!.reason);
    };
    signal?.addEventListener("abort", cancel, { once: true });
    thread.ref(); // somebody waits for the answer
    calls.set(mine, ({ status, headers, text, lost }) => {
      calls.delete(mine);
      signal?.removeEventListener("abort", cancel);
      if (lost !== undefined) return reject(new Error(lost));
      try {
        resolve(new Response(text, { status, headers }));
      } catch (error) { // for a status that no answer has
        reject(error);
      }
    });
    tell({ call: {
      number: mine, path: at.pathname, headers: init.headers as Record<string, string>,
      body: init.body as string,
    } });
  }).finally(() => { if (calls.size === 0) thread.unref(); });
  const named = ({ id, token }: Performance) => ({ id, token });
  return {
    hold: (tasks) => tell({ held: tasks.map(named) }),
    done: (task) => tell({ done: [named(task)] }),
    fetch: async (input, init) => {
      if (!stands && may) {
        let go = () => {};
        const soon = new Promise<void>((resolve) => { waiting.push(go = resolve); });
        try {
          await Promise.race([soon, pause(comeBackMost, init?.signal ?? undefined, true)]);
        } finally {
          waiting.splice(0, waiting.length, ...waiting.filter((each) => each !== go));
        }
      }
      return stands ? call(new URL(String(input)), init!) : fetch(input, init);
    },
    leave: async () => {
      tell({ leave: true });
      const inTime = new AbortController();
      await Promise.race([over, pause(leaveMost, inTime.signal).catch(() => undefined)]);
      inTime.abort();
      await thread.terminate();
    },
  };
}
