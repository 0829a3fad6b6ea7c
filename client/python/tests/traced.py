"""A worker that traces: python3 -m tests.traced URL by-hand|opentelemetry

Its tasks "charge" are put off, fail and then insert a task "mail". It prints each span.
"""

import json
import secrets
import sys

from stint import Client, Retry, Snooze, Task, Worker


def say(**span):
    sys.stdout.write(json.dumps(span) + "\n")  # at once, unlike print
    sys.stdout.flush()


def by_hand():
    """What the headers of W3C Trace Context say, without a library."""
    own = ""

    def headers():
        return {"traceparent": f"00-{own}-01"}

    def traced(handler):
        def perform(task):
            nonlocal own
            own = f"{secrets.token_hex(16)}-{secrets.token_hex(8)}"
            say(id=own, links=[task.headers["traceparent"][3:-3]])
            return handler(task)
        return perform

    return headers, traced


def with_opentelemetry():
    from opentelemetry import propagate, trace
    from opentelemetry.sdk.trace import TracerProvider, export
    from opentelemetry.trace.propagation import tracecontext

    from .tracing import headers, traced

    class Printer(export.SpanExporter):
        def export(self, spans):
            def id_of(of):
                return f"{of.trace_id:032x}-{of.span_id:016x}"

            for span in spans:
                say(id=id_of(span.context), name=span.name, kind=span.kind.name,
                    status=span.status.status_code.name,
                    links=[id_of(link.context) for link in span.links],
                    parent=id_of(span.parent) if span.parent else "",
                    attributes=dict(span.attributes))
            return export.SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(Printer()))
    trace.set_tracer_provider(provider)
    propagate.set_global_textmap(tracecontext.TraceContextTextMapPropagator())
    return headers, traced


def main():
    url, how = sys.argv[1:]
    headers, traced = by_hand() if how == "by-hand" else with_opentelemetry()
    client = Client(url)
    worker = Worker(client)
    calls = []

    @worker.handles("charge")
    @traced
    def charge(task):
        calls.append(task)
        if len(calls) == 1:
            raise Snooze(0)
        if len(calls) == 2:
            raise Retry("the bank does not answer", after=0)
        client.insert(Task("mail", id="mail", headers=headers()))

    worker.run()


main()
