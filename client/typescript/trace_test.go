package typescript_test

import (
	"os"
	process "os/exec"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testrun"
	"github.com/stint-tasks/stint/internal/testtrace"
)

// A trace goes from a producer in Go over the service to a worker in TypeScript, which uses what
// the page shows, and back.
// Proves G235.
func TestTraces_CrossTheServiceAndComeBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	build(t)
	spans := testtrace.Cross(t, func(address string) *process.Cmd {
		return process.CommandContext(t.Context(), "node", "build/traced.js", address)
	})
	for i, status := range []string{"UNSET", "ERROR", "UNSET"} { // put off, failed, completed
		span := spans[i]
		if span.Name != "perform charge" || span.Kind != "CONSUMER" || span.Status != status ||
			span.Attributes["messaging.message.id"] != "charge" {
			t.Errorf("try %d has the span %+v, want %s", i+1, span, status)
		}
	}
	page, err := os.ReadFile("../../docs/guides/headers.md")
	if err != nil {
		t.Fatal(err)
	}
	used, err := os.ReadFile("tests/tracing.ts")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```ts\n"+string(used)+"```\n") {
		t.Error("the page does not show tests/tracing.ts")
	}
}
