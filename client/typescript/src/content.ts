// What a body or a result has.

/** Returns a body or a result as text, which it must be in UTF-8; "" if there is none. */
export function textOf(content: Uint8Array | null): string {
  if (content === null) return "";
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
}

/** Returns what a body or a result has as JSON; undefined if there is none. */
export function jsonOf<T = unknown>(content: Uint8Array | null): T | undefined {
  return content === null ? undefined : (JSON.parse(textOf(content)) as T);
}
