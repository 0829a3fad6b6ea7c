// Ends tasks in a transaction of the caller's, by the SQL function finish_task.

import {
  AlreadyReturned, InvalidArgument, InvalidToken, SchemaVersion, StintError, TooLarge,
} from "./errors.ts";
import type { Outcome, Performance } from "./tasks.ts";

/** A client of the package pg, which is in a transaction. */
export interface Transaction {
  query(text: string, values: unknown[]): Promise<unknown>;
}

/** The outcome of a performance. */
export type Code = NonNullable<Outcome["code"]>;

/** How a task ends in a transaction. */
export interface Finish extends Omit<Outcome, "release" | "log"> {
  /** Whether the commit wakes those who wait. Default: true; two-phase commit needs false. */
  notify?: boolean;
  /** The schema of the tables. Default: "stint". */
  schema?: string;
}

const errors: Record<string, [kind: string, error: typeof StintError]> = {
  STI02: ["invalid-argument", InvalidArgument],
  STI03: ["too-large", TooLarge],
  STI04: ["schema-version", SchemaVersion],
  STI05: ["invalid-token", InvalidToken],
  STI06: ["already-returned", AlreadyReturned],
};

/**
 * Ends an owned task in a transaction of a client of pg.
 *
 * The caller commits, and with its rows the end of the task: both or neither. It needs the SQL
 * function finish_task in the database, and the right to call it.
 *
 * It throws InvalidToken if another owner has the task, or it has ended otherwise, and
 * AlreadyReturned if an earlier transaction of the same try has ended it like this;
 * InvalidArgument, TooLarge and SchemaVersion; and what pg throws. After each the transaction has
 * failed: roll it back. Nobody need return the task after the commit.
 */
export async function finishTask(
  transaction: Transaction, task: Performance, finish: Finish = {},
): Promise<void> {
  const { code = "completed", status = "", retryAfter = null, notify = true } = finish;
  const result = typeof finish.result === "string"
    ? new TextEncoder().encode(finish.result) : finish.result ?? null;
  // In hexadecimal, since not every release of pg takes other arrays of bytes than a Buffer.
  const bytes = result && "\\x" + [...result].map((byte) => hex[byte]).join("");
  const schema = (finish.schema ?? "stint").replaceAll('"', '""');
  try {
    await transaction.query(
      `SELECT "${schema}".finish_task($1, $2::text::uuid, code => $3, status => $4, ` +
      "result_bytes => $5::text::bytea, retry_after => $6::float8 * interval '1 s', " +
      "notify => $7, spent => $8)",
      [task.id, task.token, code, status, bytes, retryAfter, notify, finish.spent ?? null]);
  } catch (error) {
    const state = (error as { code?: unknown } | null)?.code;
    const known = typeof state === "string" && Object.hasOwn(errors, state) && errors[state];
    if (!known) throw error;
    const refused = new known[1]((error as Error).message, { cause: error });
    refused.kind = known[0];
    refused.ids = [task.id];
    refused.total = 1;
    throw refused;
  }
}

const hex = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
