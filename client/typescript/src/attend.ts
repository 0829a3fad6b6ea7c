// The program of a thread that shows to the service, by a stream, that its worker lives. It is a
// thread of its own since the service asks for a sign of life every second, and a handler may keep
// the event loop of the worker busy for longer. Streams need HTTP/2, which fetch does not speak.
//
// The thread also makes the calls that wait for tasks, over the same connection: the service ends
// them when it is silent. Otherwise a worker that is cut off would still be handed tasks.

import http2 from "node:http2";
import { parentPort, workerData } from "node:worker_threads";
import type { Performance } from "./tasks.ts";

/** What the thread is given. */
export interface Attendance {
  url: string;
  headers: Record<string, string>;
  session: string;
  actor: string;
  actions: string[];
}

/** What the worker tells. */
export interface Change {
  held?: Performance[];
  done?: Performance[];
  /** In the place of those before. */
  headers?: Record<string, string>;
  /** Makes a call. */
  call?: Call;
  /** Ends a call with this number. */
  cancel?: number;
  leave?: boolean;
}

/** A call, which the thread answers once. */
export interface Call {
  number: number;
  path: string;
  headers: Record<string, string>;
  body: string;
}

/** The answer to a call, or why there is none. */
export interface Answer {
  number: number;
  status?: number;
  headers?: Record<string, string>;
  text?: string;
  lost?: string;
}

/** What the thread tells. */
export interface Told {
  stood?: boolean;
  /** Tokens of tasks. */
  lost?: string[];
  failed?: string;
  /** With failed: the code of the Connect protocol, or empty. */
  code?: string;
  /** The stream has ended. */
  fell?: boolean;
  answer?: Answer;
  /** There will be no stream any more. */
  over?: boolean;
}

/** How a stream ended. */
interface End {
  stood: boolean;
  text: string;
  code: string;
}

// The longest pause before a stream that broke is opened again, in milliseconds: the service hands
// tasks on when three quarters of a second have passed.
const comeBackFirst = 50;
const comeBackMost = 2000;
// The same if no stream has ever stood: a proxy may speak HTTP/1.1 only.
const tryMost = 60_000;
const welcomeMost = 10_000;
// How long calls may take that are under way when the service stops.
const stoppingMost = 10_000;
// How often the connection is asked for a sign of life, and for how long it may be silent.
const pingEvery = 1000;
const silenceMost = 2500;
// How long a message may be.
const messageMost = 16 << 20;
// Flags of a message.
const compressed = 1;
const last = 2;
const stopping = "the service stops"; // another one takes the next stream

const { url, session, actor, actions, ...given } = workerData as Attendance;
let headers = given.headers;
const port = parentPort!;
const held = new Map<string, Performance>(); // by token
let connection: http2.ClientHttp2Session | null = null; // of the stream
let stream: http2.ClientHttp2Stream | null = null;
const calls = new Map<number, http2.ClientHttp2Stream>();
let leaving = false;

const tell = (told: Told) => port.postMessage(told);

function send(message: object): void {
  const text = Buffer.from(JSON.stringify(message));
  const head = Buffer.alloc(5);
  head.writeUInt32BE(text.length, 1);
  stream?.write(Buffer.concat([head, text]));
}

port.on("message", (change: Change) => {
  headers = change.headers ?? headers;
  for (const task of change.held ?? []) held.set(task.token, task);
  const done = (change.done ?? []).filter((task) => held.delete(task.token));
  if (change.held || done.length > 0) send({ held: change.held ?? [], done });
  if (change.call) answer(change.call);
  if (change.cancel !== undefined) calls.get(change.cancel)?.close(http2.constants.NGHTTP2_CANCEL);
  if (change.leave) {
    leaving = true;
    if (!stream) return tell({ over: true });
    send({ leave: true });
    stream.end(); // the service has noted it when it ends the stream, too
  }
});

/** Makes a call over the connection of the stream. */
function answer({ number, path, headers, body }: Call): void {
  let call: http2.ClientHttp2Stream;
  try {
    if (!connection) throw new Error("the stream has ended");
    call = connection.request({ ...headers, ":method": "POST", ":path": path });
  } catch (error) { // the service may have said that it ends the connection
    return tell({ answer: { number, lost: String(error) } });
  }
  calls.set(number, call);
  const parts: Buffer[] = [];
  let lost = "the connection was closed";
  let fields: http2.IncomingHttpHeaders & http2.IncomingHttpStatusHeader | null = null;
  let whole = false;
  call.on("response", (given) => { fields = given; });
  call.on("data", (part: Buffer) => parts.push(part));
  call.on("end", () => { whole = true; });
  call.on("error", (error) => { lost = error.message; });
  call.on("close", () => {
    calls.delete(number);
    if (!fields || !whole || call.rstCode !== http2.constants.NGHTTP2_NO_ERROR) {
      return tell({ answer: { number, lost } });
    }
    const passed: Record<string, string> = {};
    if (fields["retry-after"]) passed["retry-after"] = fields["retry-after"];
    tell({ answer: {
      number, status: fields[":status"]!, headers: passed, text: Buffer.concat(parts).toString(),
    } });
  });
  call.end(body);
}

/** Opens a stream, and keeps it until it ends. */
function attend(): Promise<End> {
  return new Promise((resolve) => {
    const at = new URL(url);
    const opened = http2.connect(at.origin);
    connection = opened;
    let stood = false;
    let heard = performance.now();
    const welcome = setTimeout(() => end("no answer in time"), welcomeMost);
    const pinging = setInterval(() => {
      if (stood && performance.now() - heard > silenceMost) return end("the connection is silent");
      if (stood) opened.ping((error) => { if (!error) heard = performance.now(); });
    }, pingEvery);
    let over = false;
    const end = (text: string, code = "") => {
      if (over) return; // what is destroyed ends, too, when the next stream may stand
      over = true;
      clearTimeout(welcome);
      clearInterval(pinging);
      [connection, stream] = [null, null];
      if (text === stopping) { // calls under way may end
        mine.end();
        opened.close();
        setTimeout(() => opened.destroy(), stoppingMost);
      } else {
        opened.destroy();
      }
      if (stood) tell({ fell: true });
      resolve({ stood, text, code });
    };
    opened.on("error", (error) => end(error.message));
    opened.on("close", () => end("the connection was closed"));
    const mine = opened.request({
      ...headers, "content-type": "application/connect+json", ":method": "POST",
      ":path": `${at.pathname.replace(/\/$/, "")}/stint.v1.WorkerService/Attend`,
    }, { endStream: false });
    stream = mine;
    const arrived = reader((flags, message) => {
      if (over) return;
      if (flags & compressed) return end("a message is compressed");
      if (flags & last) {
        const { code = "", message: text = "the stream has ended" } = message.error ?? {};
        return end(text, code);
      }
      if (message.welcome && !stood) {
        stood = true;
        heard = performance.now();
        clearTimeout(welcome);
        tell({ stood });
      }
      const lost = (message.lost ?? []).filter((token: string) => held.delete(token));
      if (lost.length > 0) tell({ lost });
      if (message.stopping) end(stopping);
    });
    mine.on("response", (fields) => {
      const isStream = String(fields["content-type"]).startsWith("application/connect+json");
      if (fields[":status"] !== 200 || !isStream) {
        end(`HTTP status ${fields[":status"]}, not a stream of a service of Stint`,
          fields[":status"] === 401 ? "unauthenticated" : "");
      }
    });
    mine.on("data", (bytes: Buffer) => {
      try {
        arrived(bytes);
      } catch (error) {
        end(`what arrives is no message: ${error}`);
      }
    });
    mine.on("error", (error) => end(error.message));
    mine.on("close", () => end("the stream was closed"));
    // Numbers the streams of the session, in whichever thread: each has a larger one.
    const epoch = String(process.hrtime.bigint());
    send({ hello: { actor, session, epoch, actions }, held: [...held.values()] });
  });
}

/** Returns a function that takes bytes, and calls for each message that they complete. */
function reader(call: (flags: number, message: any) => void): (bytes: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    while (rest.length >= 5) {
      const size = rest.readUInt32BE(1);
      if (size > messageMost) throw new Error(`it has ${size} bytes`);
      if (rest.length < 5 + size) return;
      const [flags, text] = [rest[0]!, rest.subarray(5, 5 + size)];
      rest = rest.subarray(5 + size);
      call(flags, flags & compressed ? {} : JSON.parse(text.toString() || "{}"));
    }
  };
}

let everStood = false;
for (let most = comeBackFirst; !leaving; ) {
  const { stood, text, code } = await attend();
  if (leaving) break;
  everStood ||= stood;
  if (stood) most = comeBackFirst;
  if (text !== stopping) tell({ failed: text, code });
  await new Promise((resolve) => setTimeout(resolve, Math.random() * most));
  most = Math.min(2 * most, everStood ? comeBackMost : tryMost);
}
tell({ over: true }); // who has started the thread ends it
