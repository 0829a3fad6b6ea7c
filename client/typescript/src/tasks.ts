// The tasks that calls take and return. messages.ts has the form that they have in JSON.

/** In seconds. */
export type Duration = number;
/** A string is sent as text; in the store both are bytes. */
export type Content = string | Uint8Array;
/** One, or several. */
export type Some<T> = T | Iterable<T>;

/** How a task ends. */
export type Ended = "completed" | "aborted" | "skipped";

/** A task that another waits for, and how it must end for the other one to start. */
export interface Condition {
  after: string;
  /** Default: "completed". */
  states?: Some<Ended>;
  /**
   * The results of which a completed task must have one, byte by byte: at most 32, of 255 bytes.
   * Default: any result. Conditions that come from the service have them as bytes.
   */
  results?: Content | Iterable<Content>;
}

/** A task to insert. */
export interface Task {
  action: string;
  /** The parameters of the action, at most 64 MiB, which nobody interprets. */
  body?: Content | null;
  /** 1 to 512 bytes of UTF-8. Default: a random one, which insert returns. */
  id?: string;
  priority?: number;
  /** How often the task is fetched at most. Default: 25; -1 is no limit. */
  maxTries?: number;
  notBefore?: Date | null;
  deadline?: Date | null;
  /** Makes it possible to wait for the task. */
  postResult?: boolean;
  /** "abort-too" is the default. */
  onAbort?: "" | "abort-too" | "run-anyway";
  /** The tasks that this one waits for. */
  after?: Some<string>;
  /** The tasks that wait for this one. */
  toSignalAfter?: Some<string>;
  /**
   * Further tasks that this one waits for, and how each must end: the task starts when all
   * conditions are met, and is skipped as soon as one cannot be met any more.
   */
  when?: Some<Condition>;
  /**
   * Tasks of which the first that ends as its condition says starts this one. Such a task has
   * neither after nor when.
   */
  whenAny?: Some<Condition>;
  /** Groups tasks of an action, such as by customer: limits per key and fair shares count by it. */
  key?: string;
  /**
   * What must come with the answer to a task whose action is "stint.External": 16 bytes or more
   * that cannot be guessed.
   */
  answerKey?: string;
  /** Has what only this task needs aborted when this one is. */
  failFast?: boolean;
  /**
   * What is said of the task that is no parameter of the action, such as of which trace it is a
   * part: up to 16 names with values, of 2 KiB together. Names have the characters a-z, 0-9 and -.
   */
  headers?: Record<string, string>;
}

/** What the store knows about a task at one instant. */
export interface TaskInfo {
  id: string;
  action: string;
  /** null in a list, and if there is none. */
  body: Uint8Array | null;
  priority: number;
  /** -1 is no limit. */
  maxTries: number;
  deadline: Date | null;
  postResult: boolean;
  onAbort: string;
  /** "pending", "in-progress", "completed", "aborted" or "skipped". */
  statusCode: string;
  /** The same, more finely: "blocked", "scheduled" and "ready" are pending. */
  state: string;
  abortCause: string;
  insertedAt: Date | null;
  notBefore: Date | null;
  finishedAt: Date | null;
  tries: number;
  actor: string;
  ownedAt: Date | null;
  leaseUntil: Date | null;
  status: string;
  progress: number;
  /** null in a list, and if there is none. */
  result: Uint8Array | null;
  key: string;
  headers: Record<string, string>;
  /** The service has left out body and result, if there are any: the caller may not read them. */
  hidden: boolean;
}

/** Names a fetch of a task, with the proof that it is the caller's. */
export interface Performance {
  id: string;
  token: string;
}

/**
 * A task that an actor owns. Whoever has the token controls the task: keep it out of logs. So token
 * is not enumerable: neither console.log nor JSON.stringify shows it, and {...task} lacks it.
 */
export interface OwnedTask extends Performance {
  action: string;
  body: Uint8Array | null;
  /** The number of this try, from 1. */
  try: number;
  /** -1 is no limit. */
  maxTries: number;
  /** How many of the tasks that this one waited for were completed. */
  completed: number;
  /** How many of the tasks that this one waited for were aborted. */
  aborted: number;
  /** When the lease expires on the database's clock; null if it does not. */
  leaseUntil: Date | null;
  /** Empty if the task has none. */
  key: string;
  headers: Record<string, string>;
  /** When the task was inserted, on the database's clock. */
  insertedAt: Date | null;
}

/** A call of debounce: the task starts quiet after it, but at most atMost after the first. */
export interface Debounced {
  task: Task;
  quiet: Duration;
  atMost: Duration;
}

/** How a performance ends. */
export interface Outcome {
  /** "pending" is for another try. Default: "completed". */
  code?: "completed" | "aborted" | "pending";
  /** A text for people. */
  status?: string;
  result?: Content | null;
  /** How long a task that is returned as pending waits. */
  retryAfter?: Duration | null;
  /** Refunds the try of a task that is returned as pending. */
  release?: boolean;
  /** The last lines that were logged of the performance, for its history. */
  log?: string;
}

/** The end of a performance: returnOf makes it from an owned task. */
export interface Return extends Outcome, Performance {}

/** The end of an external task. */
export interface Answer {
  id: string;
  /** Default: "completed". */
  code?: Ended;
  /** A text for people. */
  status?: string;
  result?: Content | null;
  /** The answerKey of the task, if it has one. */
  key?: string;
}

/** Says that one task waits for another. */
export interface Dependency {
  predecessor: string;
  dependent: string;
}

/** How tasks that wait are changed. What is left out stays as it is. */
export interface TaskChanges {
  /** At most one of the first three is given. A time that has passed starts the tasks at once. */
  notBefore?: Date | null;
  /** So long after the call. */
  startAfter?: Duration;
  startNow?: boolean;
  priority?: number;
  /** An empty one is none. */
  key?: string;
  /** It counts the tries that a task has had; -1: no limit. */
  maxTries?: number;
}

/** Which tasks a call changed: those that it named, and how many with them. */
export interface Affected {
  tasks: string[];
  others: number;
  /** How many of the tasks were in progress when they were aborted. */
  inProgress: number;
  /** Only with dryRun: how many others then wait for no tasks any more, and begin. */
  started: number;
  /** Only with dryRun: how many end skipped. */
  skipped: number;
  /** Only with dryRun: how many more are aborted within about a second. */
  later: number;
}

/** The IDs of the tasks of a call, and of those that were there before. */
export interface Ensured {
  ids: string[];
  existing: string[];
}

/** What a transaction does, in this order. */
export interface Transaction {
  /** The caller must still own these tasks. */
  hold?: Some<Performance>;
  /** These tasks must be in the store. */
  mustExist?: Some<string>;
  insert?: Some<Task>;
  replace?: Some<Task>;
  /** 1,000 at most. */
  debounce?: Some<Debounced>;
  depend?: Some<Dependency>;
  retry?: Some<string>;
  abort?: Some<string>;
  abortStatus?: string;
  delete?: Some<string>;
  /** One that is refused undoes the whole. */
  return?: Some<Return>;
}

/** What a transaction did: the IDs that it inserted, and what else it changed. */
export interface Transacted {
  ids: string[];
  retried: Affected;
  aborted: Affected;
  deleted: Affected;
}

/** How a predecessor of a task ended. */
export interface Input {
  id: string;
  action: string;
  statusCode: string;
  abortCause: string;
  status: string;
  result: Uint8Array | null;
}

/** Why a task does not run, or because of which others it was aborted or skipped. */
export interface Explanation {
  task: TaskInfo;
  /** How many tasks it waits for. */
  missing: number;
  waitsFor: TaskInfo[];
  /** The first of these to meet its condition starts it. */
  anyOf: boolean;
  becauseOf: TaskInfo[];
  /** -1 is no limit. */
  triesLeft: number;
  /** When somebody last asked for tasks of its action: now, as long as somebody waits for some. */
  askedAt: Date | null;
  /** How many actors are registered for its action. */
  actors: number;
  /** "lives" or "gone", of the process of its owner; empty if nothing is known. */
  presence: string;
  /** The time on the database's clock. */
  now: Date | null;
  /** How limits and pauses hold a ready task up; null where there are none. */
  limits: TaskLimits | null;
  /** Its recorded steps. */
  steps: StepInfo[];
}

/** A recorded step of a task, and how many bytes its result has. */
export interface StepInfo {
  name: string;
  recordedAt: Date | null;
  bytes: number;
}

/** A fetch of a task that has ended. */
export interface Try {
  /** Of the fetch, since the task was inserted or retried. */
  number: number;
  /**
   * "completed", "aborted", "returned" for another try, "released" if it did not count, "expired",
   * "cancelled" or "overdue".
   */
  outcome: string;
  actor: string;
  /** null where only the end is known. */
  ownedAt: Date | null;
  endedAt: Date | null;
  status: string;
  log: string;
}

/** The ended tries of a task, the latest last, and its recorded steps. */
export interface History {
  tries: Try[];
  steps: StepInfo[];
}

/** The network around a task. */
export interface Graph {
  tasks: TaskInfo[];
  dependencies: Dependency[];
  /** It is larger than an answer may be. */
  cut: boolean;
  /** Those of the dependencies that have one. */
  conditions: EdgeCondition[];
}

/** The condition of a dependency. */
export interface EdgeCondition {
  dependent: string;
  condition: Condition;
  /** It is one of the dependent's whenAny. */
  any: boolean;
}

/** How many tasks of an action are in each state, and how often they were tried. */
export interface ActionStats {
  action: string;
  blocked: number;
  scheduled: number;
  ready: number;
  inProgress: number;
  completed: number;
  aborted: number;
  skipped: number;
  oldestReady: Duration;
  tries: number;
  retries: number;
  /** How many of the ready tasks wait for their key, below a limit, a pause or for its turn. */
  parked: number;
  /** Whether there are limits. */
  limited: boolean;
  /** How many tasks its limits let be in progress at once; 0 is any number. */
  concurrency: number;
  /** Whether the whole action is paused. */
  paused: boolean;
}

/** Counts of all tasks. */
export interface Stats {
  actions: ActionStats[];
  /** The states whose counts are estimates. */
  estimated: string[];
  /** When these were made; null if none was. */
  estimatedAt: Date | null;
  pruningBehind: Duration;
}

/** The slowest tasks, those that fail, and those that failed. */
export interface Problems {
  slow: TaskInfo[];
  failing: TaskInfo[];
  failed: TaskInfo[];
  /** The latter two by what their last owners said, the largest group first. */
  errors: ErrorGroup[];
  /** In progress, of owners whose process nobody watches, the last to expire first. */
  unwatched: TaskInfo[];
}

/** Tasks of an action that failed alike: how many, the error of the latest one, and its ID. */
export interface ErrorGroup {
  action: string;
  tasks: number;
  error: string;
  example: string;
}

/** A live actor: what it performs, and how many tasks it owns. */
export interface ActorInfo {
  actor: string;
  actions: string[];
  tasks: number;
  since: Date | null;
}

/** So many tasks in a time. */
export interface Rate {
  tasks: number;
  per: Duration;
  /**
   * If fewer were fetched for a while, so many may be at once. Default: what comes in a second,
   * at least 1.
   */
  burst?: number;
}

/** How tasks with one action are fetched. What is left out, 0, null and false are no limit. */
export interface Limits {
  /** How many may be in progress at once. */
  concurrency?: number;
  /** How many of each key may be. */
  concurrencyPerKey?: number;
  rate?: Rate | null;
  ratePerKey?: Rate | null;
  /** Keys take turns, by weight, within a priority. */
  fair?: boolean;
  /** Fair actions of a group share the turns of their keys. */
  fairGroup?: string;
  /** Tasks of each key one at a time, in order, through all tries; concurrencyPerKey is 1 then. */
  ordered?: boolean;
}

/** How limits and pauses hold up a ready task. */
export interface TaskLimits {
  /** Those of its action. */
  limits: Limits;
  /** null if the action is not paused. */
  pausedSince: Date | null;
  /** null if the task's key is not paused. */
  keyPausedSince: Date | null;
  /** Counted where concurrency is set. */
  inProgress: number;
  /** Up to 100 of these tasks. */
  owned: TaskInfo[];
  /** Counted where concurrencyPerKey is set. */
  keyInProgress: number;
  /** Up to 100 of these tasks; of an ordered action what holds the key, in progress or not. */
  keyOwned: TaskInfo[];
  /** When the next token comes; null if there is one. */
  nextAt: Date | null;
  keyNextAt: Date | null;
  /** How many tasks with the key are parked, 10,000 if keyWaitingOrMore. */
  keyWaiting: number;
  keyWaitingOrMore: boolean;
  /** It waits for the turn of its key, and turnsAhead of others come first. */
  waitsForTurn: boolean;
  turnsAhead: number;
  /** It is not in the queue, but waits until its key has capacity, is resumed, or has its turn. */
  parked: boolean;
  /** Some of this is left out, since the caller may not read all tasks of the action. */
  hidden: boolean;
}

/** How an action is limited and paused. */
export interface ActionLimits {
  action: string;
  limits: Limits;
  setAt: Date | null;
  /** null if the whole action is not paused. */
  pausedSince: Date | null;
  /** Counted where concurrency or concurrencyPerKey is set. */
  inProgress: number;
  /**
   * How many ready tasks wait for capacity of their key, for the end of its pause, or for its turn;
   * 100,000 if parkedOrMore.
   */
  parked: number;
  parkedOrMore: boolean;
  /** What there is of the rate. */
  tokens: number;
  /** When the next token comes, null if there is one. */
  nextAt: Date | null;
  /** Not all if keysOrMore. */
  pausedKeys: Map<string, Date>;
  /** Those other than 1; not all if keysOrMore. */
  weights: Map<string, number>;
  keysOrMore: boolean;
}

/** Inserts tasks again and again, at times that a calendar says. */
export interface Schedule {
  /** The IDs of its tasks begin with it: 1 to 200 bytes of UTF-8. */
  name: string;
  /**
   * The five fields of cron, one of @yearly, @monthly, @weekly, @daily and @hourly, or "every" and
   * a time, such as "every 90s".
   */
  spec: string;
  /**
   * What is inserted. Their IDs become name/2026-11-22T08:00:00Z/id; of a task that is alone the ID
   * is left out. after and toSignalAfter name tasks of the same schedule; notBefore and deadline
   * must be missing.
   */
  tasks: Some<Task>;
  /** The zone of the fields, such as "Europe/Berlin". Default: UTC. */
  zone?: string;
  /** What becomes of occurrences that were missed. Default: "last". */
  catchUp?: "" | "last" | "skip" | "all";
  /** How long ago those are at most that are caught up with. Default: 24 hours. */
  window?: Duration | null;
  /**
   * What becomes of an occurrence while tasks of the one before have not finished. Default:
   * "allow".
   */
  overlap?: "" | "allow" | "skip" | "wait" | "abort";
  /** Tasks start up to that much later. */
  jitter?: Duration | null;
  /** The first moment at which it may occur. */
  from?: Date | null;
  /** The last moment at which it may occur. */
  to?: Date | null;
  /** The next occurrence is the deadline of the tasks. */
  expire?: boolean;
}

/** A schedule and how far it has come. */
export interface ScheduleInfo {
  schedule: Schedule & { tasks: Task[] };
  /** The next occurrence; null if there is none, or the schedule is paused. */
  nextAt: Date | null;
  /** The last occurrence of which tasks were inserted. */
  lastAt: Date | null;
  /** The IDs of these tasks. */
  lastIds: string[];
  /** How many occurrences were left out because of catchUp. */
  missed: number;
  /** How many were left out because of overlap. */
  skipped: number;
  /** null if it is not paused. */
  pausedSince: Date | null;
  changedAt: Date | null;
  /** The service has left out bodies of its tasks: the caller may not read them. */
  hidden: boolean;
}

/** Which tasks list yields. */
export interface Filter {
  actions?: Some<string>;
  states?: Some<string>;
  idPrefix?: string;
  actor?: string;
  minAge?: Duration | null;
  maxAge?: Duration | null;
  newestFirst?: boolean;
  key?: string;
  /** Headers that a task has, perhaps among others. */
  headers?: Record<string, string>;
  /** How many at most. Default: all. */
  limit?: number | null;
}

/** Returns the return of an owned task. Its token is not enumerable, as that of the task. */
export function returnOf(task: Performance, outcome: Outcome = {}): Return {
  return withToken({ id: task.id, ...outcome }, task.token);
}

/** Adds a token where console.log and JSON.stringify do not show it. */
export function withToken<T extends object>(to: T, token: string): T & { token: string } {
  Object.defineProperty(to, "token", { value: token, configurable: true, writable: true });
  return to as T & { token: string };
}

/** Returns a body or a result as text, which it must be in UTF-8; "" if there is none. */
export function textOf(content: Uint8Array | null): string {
  if (content === null) return "";
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
}

/** Returns what a body or a result has as JSON; undefined if there is none. */
export function jsonOf<T = unknown>(content: Uint8Array | null): T | undefined {
  return content === null ? undefined : (JSON.parse(textOf(content)) as T);
}
