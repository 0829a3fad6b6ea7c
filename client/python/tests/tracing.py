import functools

import stint
from opentelemetry import context, propagate, trace


def headers():
    """The headers of a task that is inserted now: Task("charge", headers=headers())."""
    written = {}
    propagate.inject(written)
    return written


def traced(handler):
    """Below @worker.handles("charge"), makes a span of each try, which links to the insert."""
    @functools.wraps(handler)
    def perform(task):
        nowhere = context.Context()
        inserted = trace.get_current_span(propagate.extract(task.headers, nowhere))
        origin = inserted.get_span_context()
        with trace.get_tracer("app").start_as_current_span(
            f"perform {task.action}", context=nowhere, kind=trace.SpanKind.CONSUMER,
            links=[trace.Link(origin)] if origin.is_valid else [],
            attributes={
                "messaging.system": "stint", "messaging.destination.name": task.action,
                "messaging.operation.name": "perform", "messaging.operation.type": "process",
                "messaging.message.id": task.id, "stint.task.try": task.try_,
            },
        ):
            try:
                return handler(task)
            except stint.Snooze as snooze:
                put_off = snooze  # which is no error of the span
        raise put_off

    return perform
