package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A printer prints each span when it ends: its number and that of its trace, in the order in which
// they were begun, and the spans that it is in or links to.
type printer struct {
	mutex         sync.Mutex
	out           io.Writer
	spans, traces map[string]int
}

// number is the number of a span or a trace: the next one for one that is new.
func number(of *map[string]int, id string) int {
	if *of == nil {
		*of = map[string]int{}
	}
	if _, known := (*of)[id]; !known {
		(*of)[id] = len(*of) + 1
	}
	return (*of)[id]
}

func (p *printer) span(of trace.SpanContext) int {
	return number(&p.spans, of.SpanID().String())
}

func (p *printer) OnStart(_ context.Context, span sdktrace.ReadWriteSpan) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.span(span.SpanContext())
	number(&p.traces, span.SpanContext().TraceID().String())
}

func (p *printer) OnEnd(span sdktrace.ReadOnlySpan) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	of := span.SpanContext()
	line := fmt.Sprintf("trace %d  span %d  %s", number(&p.traces, of.TraceID().String()),
		p.span(of), span.Name())
	for _, a := range span.Attributes() {
		switch a.Key {
		case "stint.task.try", "stint.step":
			name := string(a.Key)
			line += fmt.Sprintf(", %s %s", name[strings.LastIndex(name, ".")+1:], a.Value.String())
		}
	}
	if span.Parent().IsValid() {
		line += fmt.Sprintf(", in span %d", p.span(span.Parent()))
	}
	for _, link := range span.Links() {
		line += fmt.Sprintf(", links to span %d", p.span(link.SpanContext))
	}
	if why := span.Status().Description; why != "" {
		line += ": " + why
	}
	fmt.Fprintln(p.out, line)
}

func (p *printer) Shutdown(context.Context) error   { return nil }
func (p *printer) ForceFlush(context.Context) error { return nil }
