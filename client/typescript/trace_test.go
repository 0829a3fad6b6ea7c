package typescript_test

import (
	process "os/exec"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testtrace"
)

// A trace goes from a producer in Go over the service to a worker in TypeScript, which uses what
// tests/tracing.ts has, and back.
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
}
