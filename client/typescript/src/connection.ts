// Requests to the service, and repetition of what was lost.

import {
  InvalidArgument, Limited, Refused, SchemaVersion, StintError, Unauthenticated, Unavailable,
  errorOfAnswer, isError, newError,
} from "./errors.ts";
import type { Message } from "./fields.ts";
import { builtin, monotonic, pause, randomUUID, timerMost } from "./platform.ts";

/** How a client reaches its service. */
export interface ClientOptions {
  /** A bearer token, or a function that returns it. */
  token?: string | (() => string | Promise<string>);
  /** A file that has the token. */
  tokenFile?: string;
  /** For how many seconds the service may be silent, besides what the call asks it to wait. */
  timeout?: number;
  /** In the place of the platform's fetch: with the certificate of the client, for example. */
  fetch?: typeof fetch;
  /**
   * Who has tasks changed by this client. With it or a reason the service notes each change, with
   * the name of its caller ahead of the author.
   */
  author?: string;
  /** Why. */
  reason?: string;
}

/** What every call takes. */
export interface CallOptions {
  /** Ends the call when it is aborted: the call throws its reason. */
  signal?: AbortSignal;
}

/** How an attempt is made. */
export interface Attempt extends CallOptions {
  /** For how many seconds the service may wait before it answers. */
  wait?: number;
  /** In the place of the client's. */
  timeout?: number;
  /** The same. */
  fetch?: typeof fetch;
  /** More headers. */
  headers?: Record<string, string>;
}

// For how many seconds a call is repeated after its first failure: longer than a service takes to
// be replaced.
const repeatFor = 10;
const pauseFirst = 0.05;
const pauseMost = 2;
const mib = 1 << 20;

// How an answer is understood that is not of the Connect protocol, but of a proxy, for example.
// With every other status the call may have taken effect.
const codes: Record<number, string> = {
  400: "internal", 401: "unauthenticated", 403: "permission_denied", 404: "unimplemented",
  413: "resource_exhausted",
};

// Causes of a fetch that failed before the request was sent. A page is not told them.
const unsent = new Set([
  "ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL",
  "UND_ERR_CONNECT_TIMEOUT", "CERT_HAS_EXPIRED", "CERT_NOT_YET_VALID",
  "DEPTH_ZERO_SELF_SIGNED_CERT", "ERR_TLS_CERT_ALTNAME_INVALID", "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_GET_ISSUER_CERT", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
]);

/** Sends requests to a service. */
export class Connection {
  readonly url: string;
  /** Whether requests go by a function of the caller's. */
  readonly hasOwnFetch: boolean;
  readonly #fetch: typeof fetch;
  readonly #timeout: number;
  readonly #read: (() => string | Promise<string>) | null;
  readonly #noted: Record<string, string> = {};
  #token: string | null = null;

  constructor(url: string, options: ClientOptions) {
    const at = checkedURL(url);
    const { token, tokenFile, timeout = 10 } = options;
    if (token !== undefined && tokenFile !== undefined) {
      throw new InvalidArgument("give token or tokenFile, not both");
    }
    const hasToken = token !== undefined || tokenFile !== undefined;
    if (hasToken && at.protocol === "http:" && !isLoopback(at.hostname)) {
      throw new InvalidArgument("a token is sent to https:// addresses, and to http:// on this " +
        "machine alone, since anybody on the way could read it");
    }
    if (!(timeout > 0)) throw new InvalidArgument("timeout must be positive");
    this.url = at.origin + at.pathname.replace(/\/+$/, "");
    this.hasOwnFetch = options.fetch !== undefined;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#timeout = timeout;
    this.#read = null;
    // A header has no other characters than those of ASCII.
    const { author, reason } = options;
    if (author) this.#noted["stint-author"] = encodeURIComponent(author);
    if (reason) this.#noted["stint-reason"] = encodeURIComponent(reason);
    if (typeof token === "string") {
      this.#token = checkedToken(token);
    } else if (token !== undefined) {
      this.#read = token;
    } else if (tokenFile !== undefined) {
      this.#read = () => readFile(tokenFile);
    }
  }

  /** Makes one attempt. */
  async call(procedure: string, request: Message, how: Attempt = {}): Promise<Message> {
    const body = JSON.stringify(request);
    if (this.#read && this.#token === null) this.#token = checkedToken(await this.#read());
    const token = this.#token;
    try {
      return await this.#answer(procedure, body, token, how);
    } catch (error) {
      if (!(error instanceof Unauthenticated) || !this.#read) throw error;
      try {
        this.#token = checkedToken(await this.#read()); // another one may be in its place
      } catch (problem) {
        error.cause = problem;
        throw error;
      }
      if (this.#token === token) throw error;
    }
    return this.#answer(procedure, body, this.#token, how);
  }

  /** Returns what makes attempts of one call, by whose key the service knows it again. */
  attempts(
    procedure: string, request: Message, how: Attempt = {},
  ): (ambiguous: boolean) => Promise<Message> {
    const key = randomUUID();
    return (ambiguous) => this.call(procedure, request, {
      ...how, headers: { "idempotency-key": key, "stint-repeated": String(ambiguous) },
    });
  }

  /** The headers of a stream, with the token that there is now. */
  async headersOfStream(): Promise<Record<string, string>> {
    if (this.#read) this.#token = checkedToken(await this.#read());
    return headersWith(this.#token);
  }

  async #answer(
    procedure: string, body: string, token: string | null, how: Attempt,
  ): Promise<Message> {
    const { status, fields, text } = await this.#send(procedure, body, token, how);
    let answer: unknown;
    try {
      answer = JSON.parse(text);
    } catch {
      answer = undefined; // it is not of a service
    }
    const isObject = typeof answer === "object" && answer !== null && !Array.isArray(answer);
    if (status === 200 && isObject) return answer as Message;
    throw failure(status, fields, isObject ? (answer as Message) : {});
  }

  async #send(
    procedure: string, body: string, token: string | null, how: Attempt,
  ): Promise<{ status: number; fields: Headers; text: string }> {
    how.signal?.throwIfAborted();
    const ending = new AbortController();
    const passOn = () => ending.abort();
    how.signal?.addEventListener("abort", passOn, { once: true });
    const silence = how.timeout ?? this.#timeout;
    const late = () => ending.abort(new Error("no answer in time"));
    let timer: ReturnType<typeof setTimeout> | undefined;
    const until = (seconds: number) => {
      clearTimeout(timer);
      timer = setTimeout(late, Math.min(seconds * 1000, timerMost));
    };
    // A second more for a MiB.
    const most = silence + (how.wait ?? 0) + Math.floor(body.length / mib);
    until(most);
    try {
      const response = await (how.fetch ?? this.#fetch)(`${this.url}/stint.v1.${procedure}`, {
        method: "POST", body, signal: ending.signal,
        headers: {
          ...headersWith(token), ...this.#noted, ...how.headers,
          "content-type": "application/json",
          // The service is not to work on when nobody waits any more.
          "connect-timeout-ms": String(Math.ceil(Math.min(most * 1000, timerMost))),
        },
        redirect: "manual", credentials: "omit", cache: "no-store",
      });
      const text = await readAll(response, () => until(silence));
      return { status: response.status, fields: response.headers, text };
    } catch (error) {
      how.signal?.throwIfAborted();
      throw lost(error);
    } finally {
      clearTimeout(timer);
      how.signal?.removeEventListener("abort", passOn);
    }
  }
}

function headersWith(token: string | null): Record<string, string> {
  const headers = { "connect-protocol-version": "1", "user-agent": "stint-typescript" };
  return token === null ? headers : { ...headers, authorization: `Bearer ${token}` };
}

/** Reads an answer, and tells of each part of it. */
async function readAll(response: Response, arrived: () => void): Promise<string> {
  arrived();
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (reader) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
    arrived();
  }
  return text + decoder.decode();
}

function checkedURL(url: string): URL {
  let at: URL | undefined;
  try {
    at = new URL(url);
  } catch {
    at = undefined;
  }
  const good = at && /^https?:\/\/[^/@]/i.test(url) && /^https?:$/.test(at.protocol);
  if (!at || !good || url.includes("@") || at.search || at.hash) {
    throw new InvalidArgument("url must have the form http://host:port or https://host:port, " +
      "without a user, a query and a fragment");
  }
  return at;
}

/** Whether a host is this machine by its name: what a name resolves to may change. */
function isLoopback(host: string): boolean {
  return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host) ||
    /^\[::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\]$/.test(host);
}

async function readFile(path: string): Promise<string> {
  const files = await builtin<typeof import("node:fs/promises")>("node:fs/promises");
  return files.readFile(path, "utf8");
}

function checkedToken(token: string): string {
  const trimmed = token.trim();
  if (!/^[!-~]+$/.test(trimmed)) { // and it stays unsaid
    throw new InvalidArgument("the token must be visible ASCII characters");
  }
  return trimmed;
}

function unavailable(text: string, ambiguous: boolean, cause?: unknown): Unavailable {
  const error = new Unavailable(text, cause === undefined ? undefined : { cause });
  error.code = "unavailable";
  error.ambiguous = ambiguous;
  return error;
}

/** Returns the error of a request that got no answer. */
function lost(error: unknown): Unavailable {
  const cause = (error as Error)?.cause as { code?: string; message?: string } | undefined;
  const text = (error as Error)?.message ?? String(error);
  const why = cause?.message || cause?.code || "";
  // Deno says it in the text.
  const notSent = unsent.has(cause?.code ?? "") || why === "bad port" ||
    text.includes("client error (Connect)");
  const said = notSent ? "no connection" : "no answer";
  return unavailable(`${said}: ${text}${why && `: ${why}`}`, !notSent, error);
}

/** Returns the error of a call with this answer, which is empty if it is not that of a service. */
function failure(status: number, fields: Headers, answer: Message): StintError {
  let error: StintError;
  if (isError(answer) && status !== 200) {
    error = errorOfAnswer(answer);
  } else if (status === 200) {
    error = unavailable("the answer is not that of a service of Stint", true);
  } else {
    error = newError(codes[status] ?? "unavailable",
      `HTTP status ${status}, not from a service of Stint`, {});
  }
  if (error instanceof Unavailable || error instanceof Limited) {
    const after = fields.get("Retry-After")?.trim() ?? "";
    error.retryAfter = /^\d+$/.test(after) ? Number(after) : null;
  }
  return error;
}

/**
 * Makes a call until the service has answered it, or some seconds have passed since it failed. The
 * attempt is told whether one before may have taken effect. In the background, the pauses do not
 * keep a process alive.
 */
export async function repeat<T>(
  attempt: (ambiguous: boolean) => Promise<T>, signal?: AbortSignal, seconds = repeatFor,
  background = false,
): Promise<T> {
  let ambiguous = false;
  let giveUp: number | undefined;
  for (let most = pauseFirst; ; most = Math.min(2 * most, pauseMost)) {
    let wait = Math.random() * most; // spreads load
    try {
      return await attempt(ambiguous);
    } catch (error) {
      if (!(error instanceof Unavailable || error instanceof Limited)) {
        throw afterLost(ambiguous, error);
      }
      wait += error.retryAfter ?? 0;
      error.ambiguous = ambiguous = ambiguous || error.ambiguous;
      giveUp ??= monotonic() + seconds;
      if (monotonic() + wait > giveUp) throw error;
    }
    await pause(wait, signal, background);
  }
}

/**
 * Returns the error of a call whose last attempt was turned away before the service looked at it.
 * If an attempt before that may have taken effect, that is what the caller must know.
 */
function afterLost(ambiguous: boolean, error: unknown): unknown {
  if (!ambiguous || !(error instanceof Refused || error instanceof SchemaVersion)) return error;
  return unavailable("an attempt that may have taken effect got no answer, and the next one " +
    `failed: ${error.message}`, true, error);
}
