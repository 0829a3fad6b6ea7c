// The form that the fields of tasks have in JSON.

import { InvalidArgument } from "./errors.ts";
import { fromBase64, randomUUID, toBase64 } from "./platform.ts";

/** In seconds. */
export type Duration = number;
/** A string is sent as text; in the store both are bytes. */
export type Content = string | Uint8Array;
/** One, or several. */
export type Some<T> = T | Iterable<T>;

/** How a task ends. */
export type Ended = "completed" | "aborted" | "skipped";

/** A message in JSON. */
export type Message = Record<string, any>;

/** How a field is put into a message, and taken out of one. What has its default is not put. */
export interface Field {
  put(into: Message, wire: string, value: any, name: string): void;
  take(from: Message, wire: string): any;
}

/** The fields of a message, by the names that they have here. */
export type Fields = Record<string, Field>;

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

/** true or false. */
export const flag = plain("boolean", false);

/** A number; 64 bits are a string in a message. */
export const number: Field = {
  ...plain("number", 0, Number.isFinite),
  take: (from, wire) => Number(from[wire] ?? 0),
};

/** A text, which must be Unicode. */
export const text: Field = {
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
export const status: Field = {
  put: (into, wire, value, name) => text.put(into, wire, told(value, name), name),
  take: text.take,
};

/** Names with values, which are texts. */
export const pairs: Field = {
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

/** Texts: one, or several. */
export const texts: Field = {
  put(into, wire, value, name) {
    const found = namesOf(value, name);
    if (found.length > 0) into[wire] = found;
  },
  take: (from, wire) => from[wire] ?? [],
};

/** A time; null if it is missing. */
export const time: Field = {
  put(into, wire, value, name) {
    if (!(value instanceof Date) || Number.isNaN(value.getTime())) {
      throw wrong(name, "must be a Date");
    }
    into[wire] = value.toISOString();
  },
  take: (from, wire) => (from[wire] ? new Date(from[wire]) : null),
};

/** A duration; 0 if it is missing. */
export const duration: Field = {
  put(into, wire, value, name) {
    const found = fromDuration(value, name);
    if (found) into[wire] = found;
  },
  take: (from, wire) => toDuration(from[wire]),
};

/** A duration; null if it is missing. */
export const span: Field = {
  ...duration,
  take: (from, wire) => (from[wire] === undefined ? null : toDuration(from[wire])),
};

/** A field that is put into a message even if it has its default. */
export function always(field: Field): Field {
  return {
    ...field,
    put(into, wire, value, name) {
      field.put(into, wire, value, name);
      into[wire] = value;
    },
  };
}

/** Bytes, which a message has in one field as such and in another one as text. */
export function content(bytesWire: string, textWire: string): Field {
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
export function nested(fields: Fields, complete = (message: Message) => message): Field {
  return {
    put(into, wire, value) {
      into[wire] = complete(encode(fields, value));
    },
    take: (from, wire) => (from[wire] === undefined ? null : decode(fields, from[wire])),
  };
}

/** A message in a message that always has one. */
export function whole(fields: Fields): Field {
  return { ...nested(fields), take: (from, wire) => decode(fields, from[wire] ?? {}) };
}

/** Messages in a message: one, or several. */
export function many(fields: Fields, complete = (message: Message) => message): Field {
  return {
    put(into, wire, value) {
      const found = listOf<any>(value).map((each) => complete(encode(fields, each)));
      if (found.length > 0) into[wire] = found;
    },
    take: (from, wire) => (from[wire] ?? []).map((each: Message) => decode(fields, each)),
  };
}

/** Bytes or texts, of which a message has the former in one field and the latter in another. */
export const results: Field = {
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

/** Tasks of whatever has an ID and a token. */
export const performances: Field = {
  put(into, wire, value) {
    const found = listOf<any>(value).map(fromPerformance);
    if (found.length > 0) into[wire] = found;
  },
  take: () => [],
};

/** Returns the ID and the token of whatever has both. */
export function fromPerformance(task: { id: string; token: string }): Message {
  return encode({ id: text, token: text }, { id: task.id, token: task.token });
}

/** Since when the keys of an action are paused that are. */
export const pausedKeys: Field = {
  put: () => undefined,
  take: (from) => new Map((from["keys"] ?? [])
    .filter((each: Message) => each["paused_since"])
    .map((each: Message) => [each["key"] ?? "", time.take(each, "paused_since")])),
};

/** The weights other than 1 that the keys of an action have. */
export const weights: Field = {
  put: () => undefined,
  take: (from) => new Map((from["keys"] ?? [])
    .filter((each: Message) => each["weight"] > 1)
    .map((each: Message) => [each["key"] ?? "", each["weight"]])),
};

/** Gives a task an ID if it has none: a repetition needs one. */
export function withID(task: Message): Message {
  task.id ??= randomUUID();
  return task;
}

/** Completes the task of a return or an answer that says no other end. */
export function completed(message: Message): Message {
  return { code: "completed", ...message };
}

/** Returns the name that a field has in messages. */
function wireName(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Returns the message of what has these fields. */
export function encode(fields: Fields, given: any): Message {
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

/** Returns what a message says of these fields. */
export function decode(fields: Fields, message: Message): any {
  const found: Record<string, unknown> = {};
  for (const [name, field] of Object.entries(fields)) {
    found[name] = field.take(message, wireName(name));
  }
  return "token" in found ? withToken(found, found["token"] as string) : found;
}

/** Returns one or several as a list. */
export function listOf<T>(given: Some<T>): T[] {
  const several = typeof given === "object" && given !== null && Symbol.iterator in given;
  return several ? [...(given as Iterable<T>)] : [given as T];
}

/** Returns names as a list; a string is one name, not its letters. */
export function namesOf(given: Some<string>, name = "a name"): string[] {
  const found = listOf(given);
  for (const each of found) checkText(each, name);
  return found;
}

/** Returns a duration as JSON has it, to the microsecond; undefined for none. */
export function fromDuration(seconds: Duration, name: string): string | undefined {
  if (typeof seconds !== "number" || !Number.isFinite(seconds)) {
    throw wrong(name, "must be a number of seconds");
  }
  const fixed = seconds.toFixed(6);
  if (fixed.includes("e")) throw wrong(name, "is too long");
  return Number(fixed) === 0 ? undefined : `${fixed}s`;
}

/** Undoes fromDuration. */
export function toDuration(text: string | undefined): Duration {
  return text ? Number(text.replace(/s$/, "")) : 0;
}

/** Returns for how many seconds to wait. */
export function toWait(name: string, wait: Duration): number {
  if (typeof wait !== "number" || !(wait >= 0)) { // nor if it is not a number
    throw wrong(name, "must be seconds, and not negative");
  }
  return wait;
}

/** Adds a token where console.log and JSON.stringify do not show it. */
export function withToken<T extends object>(to: T, token: string): T & { token: string } {
  Object.defineProperty(to, "token", {
    value: token, configurable: true, enumerable: false, writable: true,
  });
  return to as T & { token: string };
}
