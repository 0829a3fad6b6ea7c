// The form that tasks have in JSON: that of the messages in api/proto/stint/v1.

import { InvalidArgument, newError, type StintError } from "./errors.ts";
import { fromBase64, randomUUID, toBase64 } from "./platform.ts";
import type * as t from "./tasks.ts";
import { withToken } from "./tasks.ts";

export type Message = Record<string, any>;

/** How a field is put into a message, and taken out of one. What has its default is not put. */
interface Field {
  put(into: Message, wire: string, value: any, name: string): void;
  take(from: Message, wire: string): any;
}

/** The fields of a message, by the names that they have here. */
type Fields = Record<string, Field>;

function wrong(name: string, problem: string): InvalidArgument {
  const error = new InvalidArgument(`${name} ${problem}`);
  error.argument = name;
  error.problem = problem;
  return error;
}

function plain<T>(type: string, otherwise: T, good: (value: any) => boolean = () => true): Field {
  return {
    put(into, wire, value, name) {
      if (typeof value !== type || !good(value)) throw wrong(name, `must be a ${type}`);
      if (value !== otherwise) into[wire] = value;
    },
    take: (from, wire) => from[wire] ?? otherwise,
  };
}

const flag = plain("boolean", false);

const number: Field = {
  ...plain("number", 0, Number.isFinite),
  take: (from, wire) => Number(from[wire] ?? 0), // 64 bits are a string
};

const text: Field = {
  put(into, wire, value, name) {
    checkText(value, name);
    if (value !== "") into[wire] = value;
  },
  take: (from, wire) => from[wire] ?? "",
};

/**
 * Returns a text for people as it can be sent. What is no Unicode in it is replaced: no status
 * keeps a task from being returned.
 */
export function told(value: unknown, name: string): string {
  if (typeof value !== "string") throw wrong(name, "must be a string");
  return value.replace(/\p{Surrogate}/gu, "\ufffd");
}

/** A text for people. */
const status: Field = {
  put: (into, wire, value, name) => text.put(into, wire, told(value, name), name),
  take: text.take,
};

/** Names with values, which are texts. */
const pairs: Field = {
  put(into, wire, value, name) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw wrong(name, "must be an object of strings");
    }
    for (const [key, each] of Object.entries(value)) {
      checkText(key, name);
      checkText(each, name);
    }
    if (Object.keys(value).length > 0) into[wire] = { ...value };
  },
  take: (from, wire) => ({ ...from[wire] }),
};

function checkText(value: unknown, name: string): void {
  if (typeof value !== "string") throw wrong(name, "must be a string");
  if (/\p{Surrogate}/u.test(value)) throw wrong(name, "is not Unicode");
}

const texts: Field = {
  put(into, wire, value, name) {
    const found = namesOf(value, name);
    if (found.length > 0) into[wire] = found;
  },
  take: (from, wire) => from[wire] ?? [],
};

const time: Field = {
  put(into, wire, value, name) {
    if (!(value instanceof Date) || Number.isNaN(value.getTime())) {
      throw wrong(name, "must be a Date");
    }
    into[wire] = value.toISOString();
  },
  take: (from, wire) => (from[wire] ? new Date(from[wire]) : null),
};

const duration: Field = {
  put(into, wire, value, name) {
    const found = fromDuration(value, name);
    if (found) into[wire] = found;
  },
  take: (from, wire) => toDuration(from[wire]),
};

const span: Field = {
  ...duration,
  take: (from, wire) => (from[wire] === undefined ? null : toDuration(from[wire])),
};

/** A field that is put into a message even if it has its default. */
function always(field: Field): Field {
  return {
    ...field,
    put(into, wire, value, name) {
      field.put(into, wire, value, name);
      into[wire] = value;
    },
  };
}

/** Bytes, which a message has in one field as such and in another one as text. */
function content(bytesWire: string, textWire: string): Field {
  return {
    put(into, _, value, name) {
      if (typeof value === "string") {
        checkText(value, name);
        into[textWire] = value;
      } else if (value instanceof Uint8Array) {
        into[bytesWire] = toBase64(value);
      } else {
        throw wrong(name, "must be a string or a Uint8Array");
      }
    },
    take(from) {
      if (bytesWire in from) return fromBase64(from[bytesWire]);
      return textWire in from ? new TextEncoder().encode(from[textWire]) : null;
    },
  };
}

/** A message in a message; null if it is missing. */
function nested(fields: Fields): Field {
  return {
    put(into, wire, value) {
      into[wire] = encode(fields, value);
    },
    take: (from, wire) => (from[wire] === undefined ? null : decode(fields, from[wire])),
  };
}

/** A message in a message that always has one. */
function whole(fields: Fields): Field {
  return { ...nested(fields), take: (from, wire) => decode(fields, from[wire] ?? {}) };
}

function many(fields: Fields, make: (value: any) => Message = (v) => encode(fields, v)): Field {
  return {
    put(into, wire, value) {
      const found = listOf<any>(value).map(make);
      if (found.length > 0) into[wire] = found;
    },
    take: (from, wire) => (from[wire] ?? []).map((each: Message) => decode(fields, each)),
  };
}

/** Bytes or texts, of which a message has the former in one field and the latter in another. */
const results: Field = {
  put(into, _, value, name) {
    const one = typeof value === "string" || value instanceof Uint8Array;
    for (const each of one ? [value] : listOf<any>(value)) {
      const found: Message = {};
      content("bytes", "text").put(found, "", each, name);
      if ("text" in found) (into["results"] ??= []).push(found["text"]);
      else (into["result_bytes"] ??= []).push(found["bytes"]);
    }
  },
  take: (from) => [
    ...(from["results"] ?? []).map((each: string) => new TextEncoder().encode(each)),
    ...(from["result_bytes"] ?? []).map(fromBase64),
  ],
};

const conditionFields: Fields = { after: text, states: texts, results };
const conditions = many(conditionFields);

const body = content("body", "text");
const result = content("result", "result_text");

const taskFields: Fields = {
  id: text, action: text, body, priority: number, maxTries: number, notBefore: time,
  deadline: time, postResult: flag, onAbort: text, after: texts, toSignalAfter: texts, key: text,
  answerKey: text, failFast: flag, headers: pairs, when: conditions, whenAny: conditions,
};
const infoFields: Fields = {
  id: text, action: text, body, priority: number, maxTries: number, deadline: time,
  postResult: flag, onAbort: text, statusCode: text, state: text, abortCause: text,
  insertedAt: time, notBefore: time, finishedAt: time, tries: number, actor: text, ownedAt: time,
  leaseUntil: time, status: text, progress: number, result, key: text,
  headers: pairs, hidden: flag,
};
const ownedFields: Fields = {
  id: text, action: text, body, try: number, maxTries: number, completed: number,
  aborted: number, leaseUntil: time, key: text, headers: pairs, insertedAt: time,
};
const performanceFields: Fields = { id: text, token: text };
const returnFields: Fields = {
  id: text, token: text, code: text, status, result, retryAfter: duration, release: flag,
  log: status,
};
const answerFields: Fields = { id: text, code: text, status, result, key: text };
const dependencyFields: Fields = { predecessor: text, dependent: text };
const affectedFields: Fields = {
  tasks: texts, others: number, inProgress: number, started: number, skipped: number,
  later: number,
};
const changesFields: Fields = {
  notBefore: time, startAfter: duration, startNow: flag, maxTries: number,
  priority: always(number), key: always(text),
};
const inputFields: Fields = {
  id: text, action: text, statusCode: text, abortCause: text, status: text, result,
};
const stepFields: Fields = { id: text, token: text, name: text, result };
const stepInfoFields: Fields = { name: text, recordedAt: time, bytes: number };
const recordedFields: Fields = { name: text, result, recordedAt: time, ago: duration };
const tryFields: Fields = {
  number, outcome: text, actor: text, ownedAt: time, endedAt: time, status: text, log: text,
};
const debouncedFields: Fields = {
  task: { ...nested(taskFields), put: (into, wire, value) => { into[wire] = fromTask(value); } },
  quiet: duration, atMost: duration,
};
const transactionFields: Fields = {
  hold: many(performanceFields, fromPerformance), mustExist: texts,
  insert: many(taskFields, fromTask), replace: many(taskFields, fromTask),
  debounce: many(debouncedFields), depend: many(dependencyFields), retry: texts, abort: texts,
  abortStatus: status, delete: texts, return: many(returnFields, fromReturn),
};
const transactedFields: Fields = {
  retried: whole(affectedFields), aborted: whole(affectedFields), deleted: whole(affectedFields),
};
const rateFields: Fields = { tasks: number, per: duration, burst: number };
const limitsFields: Fields = {
  concurrency: number, concurrencyPerKey: number, rate: nested(rateFields),
  ratePerKey: nested(rateFields), fair: flag, fairGroup: text, ordered: flag,
};
const taskLimitsFields: Fields = {
  limits: whole(limitsFields), pausedSince: time, keyPausedSince: time, inProgress: number,
  owned: many(infoFields), keyInProgress: number, keyOwned: many(infoFields), nextAt: time,
  keyNextAt: time, keyWaiting: number, keyWaitingOrMore: flag, waitsForTurn: flag,
  turnsAhead: number, parked: flag, hidden: flag,
};
const actionLimitsFields: Fields = {
  action: text, limits: whole(limitsFields), setAt: time, pausedSince: time, inProgress: number,
  parked: number, parkedOrMore: flag, tokens: number, nextAt: time, keysOrMore: flag,
};
const explanationFields: Fields = {
  task: whole(infoFields), missing: number, waitsFor: many(infoFields),
  becauseOf: many(infoFields), anyOf: flag, triesLeft: number, askedAt: time, now: time,
  limits: nested(taskLimitsFields), steps: many(stepInfoFields), actors: number, presence: text,
};
const historyFields: Fields = { tries: many(tryFields), steps: many(stepInfoFields) };
const edgeConditionFields: Fields = {
  dependent: text, condition: whole(conditionFields), any: flag,
};
const graphFields: Fields = {
  tasks: many(infoFields), dependencies: many(dependencyFields), cut: flag,
  conditions: many(edgeConditionFields),
};
const actionStatsFields: Fields = {
  action: text, blocked: number, scheduled: number, ready: number, inProgress: number,
  completed: number, aborted: number, skipped: number, oldestReady: duration, tries: number,
  retries: number, parked: number, limited: flag, concurrency: number, paused: flag,
};
const statsFields: Fields = {
  actions: many(actionStatsFields), estimated: texts, pruningBehind: duration,
  estimatedAt: time,
};
const errorFields: Fields = { action: text, tasks: number, error: text, example: text };
const problemsFields: Fields = {
  slow: many(infoFields), failing: many(infoFields), failed: many(infoFields),
  errors: many(errorFields),
};
const actorFields: Fields = { actor: text, actions: texts, tasks: number, since: time };
const scheduleFields: Fields = {
  name: text, spec: text, zone: text, tasks: many(taskFields), catchUp: text, window: span,
  overlap: text, jitter: span, from: time, to: time, expire: flag,
};
const scheduleInfoFields: Fields = {
  schedule: whole(scheduleFields), nextAt: time, lastAt: time, lastIds: texts, missed: number,
  skipped: number, pausedSince: time, changedAt: time, hidden: flag,
};
const filterFields: Fields = {
  actions: texts, states: texts, idPrefix: text, actor: text, minAge: duration, maxAge: duration,
  newestFirst: flag, key: text, headers: pairs, limit: number,
};

/** Returns the name that a field has in messages. */
function wireName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function encode(fields: Fields, given: any): Message {
  if (typeof given !== "object" || given === null) {
    throw new InvalidArgument(`an object with ${Object.keys(fields).join(", ")} is needed`);
  }
  for (const name of Object.keys(given)) { // a mistyped name would be a default that nobody meant
    if (!Object.hasOwn(fields, name)) throw wrong(name, "is no field of this");
  }
  const message: Message = {};
  for (const [name, field] of Object.entries(fields)) {
    const value = given[name];
    if (value !== undefined && value !== null) field.put(message, wireName(name), value, name);
  }
  return message;
}

function decode(fields: Fields, message: Message): any {
  const found: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(fields)) {
    found[name] = field.take(message, wireName(name));
  }
  return found;
}

/** Returns one or several as a list. */
export function listOf<T>(given: t.Some<T>): T[] {
  const several = typeof given === "object" && given !== null && Symbol.iterator in given;
  return several ? [...(given as Iterable<T>)] : [given as T];
}

/** Returns names as a list; a string is one name, not its letters. */
export function namesOf(given: t.Some<string>, name = "a name"): string[] {
  const found = listOf(given);
  for (const each of found) checkText(each, name);
  return found;
}

/** Returns a duration as JSON has it, to the microsecond; undefined for none. */
export function fromDuration(seconds: t.Duration, name: string): string | undefined {
  if (typeof seconds !== "number" || !Number.isFinite(seconds)) {
    throw wrong(name, "must be a number of seconds");
  }
  const fixed = seconds.toFixed(6);
  if (fixed.includes("e")) throw wrong(name, "is too long");
  return Number(fixed) === 0 ? undefined : `${fixed}s`;
}

/** Undoes fromDuration. */
export function toDuration(text: string | undefined): t.Duration {
  return text ? Number(text.replace(/s$/, "")) : 0;
}

/** Returns for how many seconds to wait. */
export function toWait(name: string, wait: t.Duration): number {
  if (typeof wait !== "number" || !(wait >= 0)) { // nor if it is not a number
    throw wrong(name, "must be seconds, and not negative");
  }
  return wait;
}

/** Returns the message of a task, which gets an ID: a repetition needs one. */
export function fromTask(task: t.Task): Message {
  const message = encode(taskFields, task);
  message.id ??= randomUUID();
  return message;
}

export const fromTasks = (tasks: t.Some<t.Task>): Message[] => listOf(tasks).map(fromTask);

/** Returns the ID and the token of whatever has both. */
export function fromPerformance(task: t.Performance): Message {
  return encode(performanceFields, withToken({ id: task.id }, task.token));
}

export function fromReturn(given: t.Return): Message {
  return { code: "completed", ...encode(returnFields, given) };
}

export function fromAnswer(given: t.Answer): Message {
  return { code: "completed", ...encode(answerFields, given) };
}

export function fromStep(task: t.Performance, name: string, result: t.Content): Message {
  return encode(stepFields, { id: task.id, token: task.token, name, result });
}

export const fromDependencies = (given: t.Some<t.Dependency>): Message[] =>
  listOf(given).map((each) => encode(dependencyFields, each));
export const fromChanges = (to: t.TaskChanges): Message => encode(changesFields, to);
export const fromDebounced = (call: t.Debounced): Message => encode(debouncedFields, call);
export const fromTransaction = (given: t.Transaction): Message => encode(transactionFields, given);
export const fromLimits = (limits: t.Limits): Message => encode(limitsFields, limits);
export const fromFilter = (filter: t.Filter): Message => encode(filterFields, filter);
export const fromSchedules = (given: t.Some<t.Schedule>): Message[] =>
  listOf(given).map((each) => encode(scheduleFields, each));

export const toInfos = (messages: Message[] = []): t.TaskInfo[] =>
  messages.map((each) => decode(infoFields, each));
export const toAffected = (m: Message = {}): t.Affected => decode(affectedFields, m);
export const toVerdicts = (m: Message): (StintError | null)[] =>
  (m.verdicts ?? []).map((each: Message) =>
    each.error === undefined ? null : newError("", each.message ?? "", each.error));
export const toInput = (m: Message): t.Input => decode(inputFields, m);
export const toExplanation = (m: Message): t.Explanation => decode(explanationFields, m);
export const toHistory = (m: Message): t.History => decode(historyFields, m);
export const toGraph = (m: Message): t.Graph => decode(graphFields, m);
export const toStats = (m: Message): t.Stats => decode(statsFields, m);
export const toProblems = (m: Message): t.Problems => decode(problemsFields, m);
export const toActor = (m: Message): t.ActorInfo => decode(actorFields, m);
export const toScheduleInfo = (m: Message): t.ScheduleInfo => decode(scheduleInfoFields, m);
export const toChanges = (m: Message): Omit<t.Transacted, "ids"> =>
  decode(transactedFields, m);

/** A recorded step, and how many seconds ago it was recorded. */
export interface Recorded {
  name: string;
  result: Uint8Array | null;
  recordedAt: Date | null;
  ago: t.Duration;
}

export const toRecorded = (m: Message): Recorded => decode(recordedFields, m);

export function toStepResult(m: Message): Uint8Array {
  return result.take(m, "result") ?? new Uint8Array();
}

export function toOwned(m: Message): t.OwnedTask {
  return withToken(decode(ownedFields, m), m.token ?? "");
}

export function toActionLimits(m: Message): t.ActionLimits {
  const found: t.ActionLimits = decode(actionLimitsFields, m);
  found.pausedKeys = new Map();
  found.weights = new Map();
  for (const each of m.keys ?? []) {
    const since = time.take(each, "paused_since");
    if (since) found.pausedKeys.set(each.key ?? "", since);
    if (each.weight > 1) found.weights.set(each.key ?? "", each.weight);
  }
  return found;
}
