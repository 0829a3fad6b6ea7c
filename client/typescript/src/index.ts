/**
 * Client and worker of Stint's service, which keeps tasks in PostgreSQL.
 *
 *     import { Client, Worker } from "@stint-tasks/client";
 *
 *     const client = new Client("http://localhost:7330");
 *     await client.insert({ action: "mail", body: "hello" });
 *
 * The package needs the platform only: Node, Deno or a browser. It speaks JSON by fetch.
 */

export { Client, type ChangeOptions, type OwnOptions } from "./client.ts";
export type { CallOptions, ClientOptions } from "./connection.ts";
export { jsonOf, textOf } from "./content.ts";
export {
  AlreadyReturned, Busy, ClaimSpent, Copied, Cycle, EndsPruned, InvalidAnswerKey, InvalidArgument,
  InvalidToken, Limited, NoPostResult, PredecessorAborted, Refused, ScheduleNotFound,
  SchemaVersion, StintError, TaskBlocked, TaskExists, TaskFinished, TaskInProgress, TaskNotFound,
  TaskStarted, TimeoutError, TooLarge, Unauthenticated, Unavailable, type RefusedDependency,
} from "./errors.ts";
export type { Content, Duration, Ended, Some } from "./fields.ts";
export { Abort, HeldTask, Lost, Retry, Snooze } from "./held.ts";
export type { Logger, TaskLogger } from "./log.ts";
export type * from "./tasks.ts";
export { returnOf } from "./return.ts";
export { finishTask, type Finish, type Transaction } from "./transaction.ts";
export { Worker, type Handler, type Result, type WorkerOptions } from "./worker.ts";
