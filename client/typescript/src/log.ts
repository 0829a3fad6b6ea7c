// What workers log, and how failures are counted that repeat.

import { monotonic } from "./platform.ts";

/** Where a worker logs: console is one. */
export interface Logger {
  debug?(text: string): void;
  info?(text: string): void;
  warn(text: string): void;
  error(text: string): void;
}

/** For a handler: what it logs, but for debug, also goes into the history of its task. */
export interface TaskLogger {
  debug(text: string): void;
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
}

/** How many bytes of a text the store keeps in a status and a log. */
export const statusBytes = 16 << 10;
// For how many seconds failures of a kind are counted before they are logged again.
const quiet = 60;

/** Warnings and errors alone, to the console. */
export const toConsole: Logger = {
  warn: (text) => console.warn(`stint: ${text}`),
  error: (text) => console.error(`stint: ${text}`),
};

/** Calls a logger, whose exceptions are nobody's. */
export function say(logger: Logger, level: keyof Logger, text: string): void {
  try {
    logger[level]?.(text);
  } catch {
    // A logger must not end a worker.
  }
}

/** Returns the end of a text that is too long, without what PostgreSQL cannot store. */
export function cut(text: string): string {
  const bytes = new TextEncoder().encode(text.replaceAll("\0", "\ufffd"));
  if (bytes.length <= statusBytes) return new TextDecoder().decode(bytes);
  let at = bytes.length - statusBytes;
  while ((bytes[at]! & 0xc0) === 0x80) at++; // within a letter
  return new TextDecoder().decode(bytes.subarray(at));
}

/** Keeps the last lines that are logged, and passes them on. */
export class Lines implements TaskLogger {
  text = "";
  readonly #next: Logger;

  constructor(next: Logger) {
    this.#next = next;
  }

  debug(text: string): void {
    say(this.#next, "debug", text);
  }

  info(text: string): void {
    this.#keep("info", text);
  }

  warn(text: string): void {
    this.#keep("warn", text);
  }

  error(text: string): void {
    this.#keep("error", text);
  }

  #keep(level: "info" | "warn" | "error", text: string): void {
    const line = `${new Date().toISOString()} ${level.toUpperCase()} ${text}\n`;
    this.text = (this.text + line).slice(-statusBytes);
    say(this.#next, level, text);
  }
}

/**
 * Logs failures: the first of a kind at once, those of the next minute together at its end. Each of
 * them by itself is logged at the level debug.
 */
export class Failures {
  readonly #logger: Logger;
  // By kind: until when it is quiet, how many were not logged, and the last of them.
  readonly #kinds = new Map<string, { until: number; number: number; text: string }>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  failed(kind: string, text: string): void {
    const now = monotonic();
    const known = this.#kinds.get(kind);
    if (known && now < known.until) {
      known.number++;
      known.text = text;
      say(this.#logger, "debug", text);
      return;
    }
    this.#kinds.set(kind, { until: now + quiet, number: 0, text: "" });
    this.#warn(text, (known?.number ?? 0) + 1);
  }

  /** Logs what was counted and may be logged by now. */
  tell(now: number): void {
    for (const known of this.#kinds.values()) {
      if (known.number > 0 && known.until <= now) {
        const { text, number } = known;
        Object.assign(known, { until: monotonic() + quiet, number: 0, text: "" });
        this.#warn(text, number);
      }
    }
  }

  #warn(text: string, number: number): void {
    const more = `\n(${number} failures like this one since the last warning)`;
    say(this.#logger, "warn", number > 1 ? text + more : text);
  }
}
