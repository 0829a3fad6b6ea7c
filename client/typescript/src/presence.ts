// How a worker shows to the service that it lives.

import type { Attendance, Change, Told } from "./attend.ts";
import type { Connection } from "./connection.ts";
import { builtin, nodeProcess, pause } from "./platform.ts";
import type { Performance } from "./tasks.ts";

// For how many seconds a worker that leaves waits until the service knows.
const leaveMost = 1;

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
  thread.on("message", ({ stood, lost = [], failed, code = "", over = false }: Told) => {
    if (over) isOver();
    if (stood) watcher.stood();
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
  const named = ({ id, token }: Performance) => ({ id, token });
  return {
    hold: (tasks) => tell({ held: tasks.map(named) }),
    done: (task) => tell({ done: [named(task)] }),
    leave: async () => {
      tell({ leave: true });
      const inTime = new AbortController();
      await Promise.race([over, pause(leaveMost, inTime.signal).catch(() => undefined)]);
      inTime.abort();
      await thread.terminate();
    },
  };
}
