// Package testtrace sends a trace from Go over a service through a worker in another language, and
// back.
package testtrace

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/stintotel"
	"github.com/stint-tasks/stint/worker"
)

// A Span is what a program prints of a try: a line of JSON. IDs are those of the trace and of the
// span, with a hyphen between them.
type Span struct {
	ID     string   `json:"id"`
	Links  []string `json:"links"`
	Name   string   `json:"name"`
	Kind   string   `json:"kind"`
	Status string   `json:"status"`
	Parent string   `json:"parent"`

	Attributes map[string]any `json:"attributes"`
}

func idOf(of trace.SpanContext) string { return of.TraceID().String() + "-" + of.SpanID().String() }

// Cross inserts a task "charge" in a span of a producer. The program is a worker, which puts the
// task off, fails, and then inserts a task "mail" and completes its own; a worker in Go performs
// that one over the service. Cross checks that the three tries link to the insert and begin traces
// of their own, and that the last one links to the third, and returns what the program has printed.
func Cross(t *testing.T, program func(address string) *exec.Cmd) []Span {
	t.Helper()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Headers: stintotel.Headers(nil)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	address, _ := testservice.Start(t, pool, store, service.Options{})
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	tasks := []stint.Task{{ID: "charge", Action: "charge"}}
	if err := stintotel.Insert(t.Context(), provider, tasks, store.InsertTasks); err != nil {
		t.Fatal(err)
	}
	inserted := idOf(recorder.Ended()[0].SpanContext())
	spans := printed(t, program(address), 3)
	traces := map[string]bool{}
	for _, span := range spans {
		if !slices.Equal(span.Links, []string{inserted}) || span.Parent != "" {
			t.Errorf("%+v does not link to %s alone", span, inserted)
		}
		traces[strings.Split(span.ID, "-")[0]] = true
	}
	if len(traces) != len(spans) || traces[strings.Split(inserted, "-")[0]] {
		t.Errorf("the tries %+v do not begin traces of their own", spans)
	}
	performMail(t, testservice.Client(t, address, client.Options{}), provider)
	mail := recorder.Ended()[1]
	if links := mail.Links(); len(links) != 1 || idOf(links[0].SpanContext) != spans[2].ID {
		t.Errorf("%s links to %+v, want %s", mail.Name(), links, spans[2].ID)
	}
	return spans
}

// printed runs a program until it has printed n spans.
func printed(t *testing.T, cmd *exec.Cmd, n int) []Span {
	t.Helper()
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, spans := bufio.NewScanner(output), make([]Span, n)
	for i := range spans {
		if !lines.Scan() {
			t.Fatalf("the program has ended after %d spans: %v", i, lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &spans[i]); err != nil {
			t.Fatalf("the program has printed %q: %v", lines.Text(), err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if lines.Scan() {
		t.Errorf("the program has printed %q too", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the program has ended: %v", err)
	}
	return spans
}

// performMail performs the task "mail".
func performMail(t *testing.T, queue worker.Queue, provider trace.TracerProvider) {
	t.Helper()
	mail := func(context.Context, *worker.Task) (worker.Result, error) {
		return worker.Result{}, nil
	}
	w, err := worker.New(queue, worker.Options{TracerProvider: provider},
		worker.Handle("mail", mail))
	if err != nil {
		t.Fatal(err)
	}
	for {
		_, ok, err := w.PerformNext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
}
