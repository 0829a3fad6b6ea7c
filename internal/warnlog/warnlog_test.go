package warnlog

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Warnings and errors pass, with attributes and groups; the rest does not. A logger that is given
// is used as it is.
func TestOr_PassesWarningsOn(t *testing.T) { //nolint:paralleltest // sets the default logger
	var text bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	handler := slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})
	slog.SetDefault(slog.New(handler))
	logger := Or(nil).With("actor", "a").WithGroup("task")
	logger.Debug("dropped")
	logger.Info("dropped")
	logger.Warn("passed", "id", "t")
	logger.Error("passed")
	got := text.String()
	if strings.Contains(got, "dropped") || strings.Count(got, "passed") != 2 ||
		!strings.Contains(got, "actor=a") || !strings.Contains(got, "task.id=t") {
		t.Errorf("logged\n%s", got)
	}
	given := slog.New(slog.DiscardHandler)
	if Or(given) != given {
		t.Error("a logger that is given is replaced")
	}
}
