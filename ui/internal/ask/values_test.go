package ask_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stint-tasks/stint/ui/internal/ask"
)

// Whoever reads a value slowly holds up others who save one, and nobody who looks at a page.
func TestAwaitReading_WaitsForNobodyWhoIsSentAValue(t *testing.T) {
	t.Parallel()
	for range 2 {
		done, err := ask.AwaitSending(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(done)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ask.AwaitSending(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("AwaitSending behind two others = %v, want %v", err, context.Canceled)
	}
	done, err := ask.AwaitReading(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	done()
}
