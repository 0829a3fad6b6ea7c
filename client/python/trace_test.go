package python_test

import (
	"os"
	process "os/exec"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testtrace"
)

// A trace goes from a producer in Go over the service to a worker in Python, and back: with the
// headers alone, and with tests/tracing.py, if OpenTelemetry is installed.
// Proves G235.
func TestTraces_CrossTheServiceAndComeBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	python := interpreter(t)
	program := func(how string) func(address string) *process.Cmd {
		return func(address string) *process.Cmd {
			cmd := process.CommandContext(t.Context(), python, "-m", "tests.traced", address, how)
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			return cmd
		}
	}
	t.Run("by hand", func(t *testing.T) {
		t.Parallel()
		testtrace.Cross(t, program("by-hand"))
	})
	t.Run("with OpenTelemetry", func(t *testing.T) {
		t.Parallel()
		installed := process.CommandContext(t.Context(), python, "-c", "import opentelemetry.sdk")
		if installed.Run() != nil {
			t.Skip("pip install opentelemetry-sdk, for this test")
		}
		spans := testtrace.Cross(t, program("opentelemetry"))
		for i, status := range []string{"UNSET", "ERROR", "UNSET"} { // put off, failed, completed
			span := spans[i]
			if span.Name != "perform charge" || span.Kind != "CONSUMER" || span.Status != status ||
				span.Attributes["messaging.message.id"] != "charge" {
				t.Errorf("try %d has the span %+v, want %s", i+1, span, status)
			}
		}
	})
}
