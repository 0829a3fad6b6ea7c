// How an owned task is returned.

import { withToken } from "./fields.ts";
import type { Outcome, Performance, Return } from "./tasks.ts";

/** Returns the return of an owned task. Its token is not enumerable, as that of the task. */
export function returnOf(task: Performance, outcome: Outcome = {}): Return {
  return withToken({ id: task.id, ...outcome }, task.token);
}
