// A worker that traces: node build/traced.js URL
//
// Its tasks "charge" are put off, fail and then insert a task "mail". It prints each span.

import { SpanKind, SpanStatusCode, type SpanContext } from "@opentelemetry/api";
import {
  NodeTracerProvider, SimpleSpanProcessor, type ReadableSpan,
} from "@opentelemetry/sdk-trace-node";
import { Client, Retry, Snooze, Worker } from "@stint-tasks/client";
import { headers, traced } from "./tracing.js";

const idOf = (of: SpanContext) => `${of.traceId}-${of.spanId}`;

function print(span: ReadableSpan): void {
  process.stdout.write(`${JSON.stringify({
    id: idOf(span.spanContext()), name: span.name, kind: SpanKind[span.kind],
    status: SpanStatusCode[span.status.code], links: span.links.map((link) => idOf(link.context)),
    parent: span.parentSpanContext?.spanId ?? "", attributes: span.attributes,
  })}\n`);
}

new NodeTracerProvider({
  spanProcessors: [new SimpleSpanProcessor({
    export(spans, done) {
      spans.forEach(print);
      done({ code: 0 });
    },
    shutdown: async () => {},
  })],
}).register();

const client = new Client(process.argv[2]!);
const worker = new Worker(client, { logger: { warn: () => {}, error: () => {} } });
let calls = 0;
worker.handles("charge", traced(async () => {
  switch (++calls) {
    case 1: throw new Snooze(0);
    case 2: throw new Retry("the bank does not answer", { after: 0 });
  }
  await client.insert({ action: "mail", id: "mail", headers: headers() });
}));
await worker.run();
