// The errors of calls. Each is known by the kind that the service sends, never by its text.

import { type Detail, decodeDetail } from "./detail.ts";
import { fromBase64 } from "./platform.ts";

/** A dependency that cannot be added. A state is empty if there is no such task. */
export interface RefusedDependency {
  predecessor: string;
  dependent: string;
  kind: string;
  predecessorState: string;
  dependentState: string;
}

/** What the service says about a call that failed, or about a return that was not made. */
export class StintError extends Error {
  /** As in the messages: "task-exists"; empty if the service sent none. */
  kind = "";
  /** Of the Connect protocol: "already_exists"; empty for a verdict on a return. */
  code = "";
  /** The tasks concerned: as many as fit into an answer, of total. */
  ids: string[] = [];
  total = 0;
  /** Of an argument that was refused: which one. */
  argument = "";
  /** Its place in the list of the call, or -1. */
  index = -1;
  /** Its task. */
  id = "";
  /** What is wrong with it. */
  problem = "";
  /** Of a cycle: its tasks, the last one is the first one again. */
  path: string[] = [];
  /** Of dependencies that were refused: which, and why. */
  refused: RefusedDependency[] = [];
  /** The schedules concerned: as many as fit into an answer, of total. */
  schedules: string[] = [];

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** There is a task with this ID. */
export class TaskExists extends StintError {}

/** There is no task with this ID. */
export class TaskNotFound extends StintError {}

/** There is no schedule with this name. */
export class ScheduleNotFound extends StintError {}

/** The task is owned, and the verb is for tasks that are not. */
export class TaskInProgress extends StintError {}

/** The task was fetched before, and the verb is for tasks that were not. */
export class TaskStarted extends StintError {}

/** The task is completed, aborted or skipped, and the verb is for tasks that are not. */
export class TaskFinished extends StintError {}

/** The task cannot be answered yet: it waits for others, or for its time. */
export class TaskBlocked extends StintError {}

/** The dependencies form a cycle, which path names. */
export class Cycle extends StintError {}

/** The task would wait for one that was aborted. */
export class PredecessorAborted extends StintError {}

/** The caller does not own the task any more. */
export class InvalidToken extends StintError {}

/** An answer came without the answerKey of its task, or with another one. */
export class InvalidAnswerKey extends StintError {}

/** The task was returned before, under this token and with this outcome. */
export class AlreadyReturned extends InvalidToken {}

/** The task was inserted without postResult, so nobody can wait for it. */
export class NoPostResult extends StintError {}

/** Tasks have been pruned that ended behind the cursor. */
export class EndsPruned extends StintError {}

/** The return would have had to wait, and was asked not to. */
export class Busy extends StintError {}

/** The call makes no sense, wherever it is sent: argument and problem say why. */
export class InvalidArgument extends StintError {}

/** Something exceeds a limit: make the call with fewer tasks, or smaller ones. */
export class TooLarge extends InvalidArgument {}

/** Nothing is fetched under this claim any more. */
export class ClaimSpent extends StintError {}

/** The service's database is a copy, in which nothing is handed out: see stint adopt. */
export class Copied extends StintError {}

/** The tables of the service's database are of another release than the service. */
export class SchemaVersion extends StintError {}

/** The service does not let the caller do this. */
export class Refused extends StintError {}

/** The service does not know the caller: the token is missing, wrong or out of date. */
export class Unauthenticated extends Refused {}

/** The caller has made more calls than it may; this attempt took no effect. */
export class Limited extends StintError {
  /** Whether an attempt before may have taken effect. */
  ambiguous = false;
  /** After how many seconds the service wants to be asked again, or null. */
  retryAfter: number | null = null;
}

/** The service, or its database, did not answer at any attempt. */
export class Unavailable extends StintError {
  /** Whether an attempt may have taken effect. */
  ambiguous = true;
  /** After how many seconds the service wants to be asked again, or null. */
  retryAfter: number | null = null;
}

/** The tasks that wait was called for have not finished within its timeout. */
export class TimeoutError extends Error {
  override name = "TimeoutError";
}

const byKind: Record<string, typeof StintError> = {
  "task-exists": TaskExists,
  "task-not-found": TaskNotFound,
  "schedule-not-found": ScheduleNotFound,
  "task-in-progress": TaskInProgress,
  "task-started": TaskStarted,
  "task-finished": TaskFinished,
  "task-blocked": TaskBlocked,
  cycle: Cycle,
  "predecessor-aborted": PredecessorAborted,
  "invalid-token": InvalidToken,
  "invalid-answer-key": InvalidAnswerKey,
  "already-returned": AlreadyReturned,
  "no-post-result": NoPostResult,
  "ends-pruned": EndsPruned,
  busy: Busy,
  "invalid-argument": InvalidArgument,
  "too-large": TooLarge,
  "claim-spent": ClaimSpent,
  copy: Copied,
  "schema-version": SchemaVersion,
  limited: Limited,
  closed: Unavailable,
};

// Errors that no verb has seen have no detail, but a code.
const byCode: Record<string, typeof StintError> = {
  invalid_argument: InvalidArgument,
  permission_denied: Refused,
  unauthenticated: Unauthenticated,
  unavailable: Unavailable,
  deadline_exceeded: Unavailable, // of the attempt, noticed there
  canceled: Unavailable,
  resource_exhausted: TooLarge, // what the service reads of a message is limited
};

// The codes of the Connect protocol. Proxies have others, numbers for example.
const codes = new Set([
  "aborted", "already_exists", "canceled", "data_loss", "deadline_exceeded",
  "failed_precondition", "internal", "invalid_argument", "not_found", "out_of_range",
  "permission_denied", "resource_exhausted", "unauthenticated", "unavailable", "unimplemented",
  "unknown",
]);

function known(of: Record<string, typeof StintError>, name: string): typeof StintError | undefined {
  return Object.hasOwn(of, name) ? of[name] : undefined;
}

/** Returns the error of an answer with this detail, which is empty if it had none. */
export function newError(code: string, message: string, detail: Detail): StintError {
  const kind = detail.kind ?? "";
  const error = new (known(byKind, kind) ?? known(byCode, code) ?? StintError)(message);
  error.code = code;
  error.kind = kind;
  error.ids = detail.ids ?? [];
  error.total = Number(detail.total ?? 0); // in JSON a string
  error.argument = detail.argument ?? "";
  error.index = error.argument ? (detail.index ?? 0) : -1;
  error.id = detail.id ?? "";
  error.problem = detail.problem ?? "";
  error.path = detail.path ?? [];
  error.refused = (detail.refused ?? []).map((each) => ({
    predecessor: each.predecessor ?? "",
    dependent: each.dependent ?? "",
    kind: each.kind ?? "",
    predecessorState: each.predecessor_state ?? "",
    dependentState: each.dependent_state ?? "",
  }));
  error.schedules = detail.schedules ?? [];
  return error;
}

/** Whether an answer is an error of the Connect protocol. */
export function isError(answer: Record<string, unknown>): boolean {
  return typeof answer.code === "string" && codes.has(answer.code);
}

/** Returns the error that an answer of the Connect protocol reports. */
export function errorOfAnswer(answer: Record<string, unknown>): StintError {
  let detail: Detail = {};
  for (const each of Array.isArray(answer.details) ? answer.details : []) {
    if (each?.type === "stint.v1.ErrorDetail") {
      try {
        detail = decodeDetail(fromBase64(String(each.value ?? "")));
      } catch {
        // The code says enough.
      }
    }
  }
  const code = String(answer.code ?? "unknown");
  return newError(code, String(answer.message || code), detail);
}

/** Whether an error of an attempt to own tasks says that nothing was fetched. */
export function nothingHandedOut(error: unknown): boolean {
  return [ClaimSpent, Copied, InvalidArgument, Limited, Refused, SchemaVersion].some(
    (known) => error instanceof known);
}
