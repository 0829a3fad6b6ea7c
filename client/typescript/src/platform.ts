// What platforms have in ways of their own.

/**
 * Returns a module of Node, which Deno has too. A page has none: it throws there. Bundlers are told
 * to leave the import as it is.
 */
export function builtin<T>(name: string): Promise<T> {
  return import(/* webpackIgnore: true */ /* @vite-ignore */ name);
}

/** The object process of Node and Deno; a page has none. */
export function nodeProcess(): NodeJS.Process | undefined {
  const found = (globalThis as { process?: NodeJS.Process }).process;
  return typeof found?.versions?.node === "string" ? found : undefined;
}

const chunk = 0x8000; // arguments of a call at most
/** The longest time of a timer, in milliseconds; a longer one is over at once. */
export const timerMost = 2 ** 31 - 1;

/** Returns bytes in base64. */
export function toBase64(bytes: Uint8Array): string {
  if (nodeProcess()) {
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
  }
  let text = "";
  for (let at = 0; at < bytes.length; at += chunk) {
    text += String.fromCharCode(...bytes.subarray(at, at + chunk));
  }
  return btoa(text);
}

/** Undoes toBase64, with padding or without. Throws if the text is not base64. */
export function fromBase64(text: string): Uint8Array {
  if (nodeProcess() && /^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
    return new Uint8Array(Buffer.from(text, "base64"));
  }
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Returns a random number of so many bits, but not 0. */
export function randomBits(bits: number): bigint {
  let number = 0n;
  while (number === 0n) {
    const [high, low] = crypto.getRandomValues(new Uint32Array(2));
    number = BigInt.asUintN(bits, (BigInt(high!) << 32n) | BigInt(low!));
  }
  return number;
}

/** Returns a random UUID. A page that came by plain HTTP has no crypto.randomUUID. */
export function randomUUID(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const text = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return text.replace(/(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/**
 * Waits, for 24 days at most, or until the signal is aborted: it throws the reason of that. In the
 * background, it does not keep a process of Node alive.
 */
export function pause(
  seconds: number, signal?: AbortSignal, background = false,
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const aborted = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", aborted);
      resolve();
    }, Math.min(seconds * 1000, timerMost));
    if (background && typeof timer === "object") timer.unref();
    signal?.addEventListener("abort", aborted, { once: true });
  });
}

/** The clock of this process, in seconds: for durations, not for times. */
export function monotonic(): number {
  return performance.now() / 1000;
}
