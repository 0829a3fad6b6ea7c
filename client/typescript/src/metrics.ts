// Metrics of workers, for Prometheus.

import { InvalidArgument } from "./errors.ts";
import type { EndedAs } from "./held.ts";
import { builtin, monotonic } from "./platform.ts";

const outcomes: EndedAs[] = ["completed", "retried", "snoozed", "aborted", "stopped", "lost"];
// The bounds of the histogram, in seconds, from a millisecond to ten minutes.
const bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
  1, 2.5, 5, 10, 30, 60, 120, 300, 600];
const here = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/;
// How many milliseconds a request may take to come.
const requestMost = 10_000;

interface Counts {
  ended: Map<EndedAs, number>;
  running: number;
  buckets: number[];
  sum: number;
}

/** Counts and times the performances of a worker. The names are those of Go's workers. */
export class Performances {
  readonly #actions = new Map<string, Counts>();

  /** Makes the series of an action, so that its first failure is seen to increase one. */
  know(action: string): void {
    this.#of(action);
  }

  #of(action: string): Counts {
    let counts = this.#actions.get(action);
    if (!counts) {
      counts = {
        ended: new Map(outcomes.map((each) => [each, 0])), running: 0,
        buckets: new Array(bounds.length + 1).fill(0), sum: 0,
      };
      this.#actions.set(action, counts);
    }
    return counts;
  }

  /** Notes that a performance begins, and returns when. */
  begin(action: string): number {
    this.#of(action).running++;
    return monotonic();
  }

  end(action: string, outcome: EndedAs, begun: number): void {
    const took = monotonic() - begun;
    const counts = this.#of(action);
    counts.running--;
    counts.ended.set(outcome, counts.ended.get(outcome)! + 1);
    const bucket = bounds.findIndex((bound) => took <= bound);
    counts.buckets[bucket < 0 ? bounds.length : bucket]!++;
    counts.sum += took;
  }

  /** Returns the metrics in the text format of Prometheus. */
  text(): string {
    const lines: string[] = [];
    const family = (name: string, kind: string, about: string) => {
      lines.push(`# HELP ${name} ${about}`, `# TYPE ${name} ${kind}`);
      return name;
    };
    let name = family(
      "stint_worker_performances_total", "counter", "Performances that have ended.");
    for (const [action, counts] of this.#actions) {
      for (const [outcome, number] of counts.ended) {
        lines.push(`${name}{action="${quoted(action)}",outcome="${outcome}"} ${number}`);
      }
    }
    name = family("stint_worker_duration_seconds", "histogram",
      "How long performances took until the task was returned.");
    for (const [action, counts] of this.#actions) {
      const label = `action="${quoted(action)}"`;
      let number = 0;
      [...bounds, "+Inf"].forEach((bound, at) => {
        number += counts.buckets[at]!;
        lines.push(`${name}_bucket{${label},le="${bound}"} ${number}`);
      });
      lines.push(`${name}_sum{${label}} ${counts.sum}`, `${name}_count{${label}} ${number}`);
    }
    name = family("stint_worker_running", "gauge", "Performances under way.");
    for (const [action, counts] of this.#actions) {
      lines.push(`${name}{action="${quoted(action)}"} ${counts.running}`);
    }
    return lines.join("\n") + "\n";
  }
}

function quoted(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

/** The host and the port of an address: a port alone is one of this machine. */
export function addressOf(metrics: number | string): { host: string; port: number } {
  const given = typeof metrics === "number" ? `127.0.0.1:${metrics}` : String(metrics);
  const [, host, port] = /^(.+):(\d+)$/.exec(given) ?? [];
  if (!host || !(Number(port) <= 65535)) {
    throw new InvalidArgument(`metrics ${metrics} must be a port, or have the form host:port`);
  }
  return { host, port: Number(port) };
}

/** Answers GET /metrics. */
export interface MetricsServer {
  port: number;
  close(): void;
}

/** Starts a server of metrics; it needs Node or Deno. */
export async function serve(
  performances: Performances, { host, port }: { host: string; port: number },
): Promise<MetricsServer> {
  const http = await builtin<typeof import("node:http")>("node:http");
  const server = http.createServer((request, response) => {
    const answer = (status: number, text: string) => {
      response.writeHead(status, { "Content-Type": "text/plain; version=0.0.4; charset=utf-8" });
      response.end(text);
    };
    if (here.test(host) && !here.test(request.headers.host ?? "")) {
      // A page in a browser may have the name of its host resolved to this machine.
      answer(403, "only requests for localhost, 127.0.0.1 or [::1]\n");
    } else if (request.method !== "GET") {
      answer(405, "the method must be GET\n");
    } else if (request.url?.split("?")[0] !== "/metrics") {
      answer(404, "the metrics are at /metrics\n");
    } else {
      answer(200, performances.text());
    }
  });
  server.requestTimeout = requestMost;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host.replace(/^\[|\]$/g, ""), resolve);
  });
  const address = server.address();
  return {
    port: typeof address === "object" && address ? address.port : port,
    close: () => {
      server.close();
      server.closeAllConnections?.();
    },
  };
}
