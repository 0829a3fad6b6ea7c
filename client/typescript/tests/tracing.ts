import * as otel from "@opentelemetry/api";
import { Snooze, type Handler } from "@stint-tasks/client";

/** The headers of a task that is inserted now: client.insert({ action, headers: headers() }). */
export function headers(): Record<string, string> {
  const written = {};
  otel.propagation.inject(otel.context.active(), written);
  return written;
}

/** worker.handles(action, traced(handler)) makes a span of each try, which links to the insert. */
export function traced(handler: Handler): Handler {
  return (task) => {
    const inserted = otel.trace.getSpanContext(
      otel.propagation.extract(otel.ROOT_CONTEXT, task.headers));
    const options: otel.SpanOptions = {
      kind: otel.SpanKind.CONSUMER, root: true, links: inserted ? [{ context: inserted }] : [],
      attributes: {
        "messaging.system": "stint", "messaging.destination.name": task.action,
        "messaging.operation.name": "perform", "messaging.operation.type": "process",
        "messaging.message.id": task.id, "stint.task.try": task.try,
      },
    };
    const tracer = otel.trace.getTracer("app");
    return tracer.startActiveSpan(`perform ${task.action}`, options, async (span) => {
      try {
        return await handler(task);
      } catch (error) {
        if (!(error instanceof Snooze)) {
          span.recordException(error as Error);
          span.setStatus({ code: otel.SpanStatusCode.ERROR, message: String(error) });
        }
        throw error;
      } finally {
        span.end();
      }
    });
  };
}
