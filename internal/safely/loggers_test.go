package safely

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
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
	logger := LoggerOr(nil).With("actor", "a").WithGroup("task")
	logger.Debug("dropped")
	logger.Info("dropped")
	logger.Warn("passed", "id", "t")
	logger.Error("passed")
	got := text.String()
	if strings.Contains(got, "dropped") || strings.Count(got, "passed") != 2 ||
		!strings.Contains(got, "actor=a") || !strings.Contains(got, "task.id=t") {
		t.Errorf("logged\n%s", got)
	}
	text.Reset()
	given := LoggerOr(slog.New(handler))
	given.Debug("passed")
	if !strings.Contains(text.String(), "passed") || LoggerOr(given) != given {
		t.Errorf("a logger that is given logs %q, or is wrapped twice", text.String())
	}
}

// hostile is a handler that fails in each call.
type hostile struct{ do func() }

func (h hostile) Enabled(_ context.Context, level slog.Level) bool {
	if level == slog.LevelInfo {
		panic("boom")
	}
	return true
}

func (h hostile) Handle(context.Context, slog.Record) error { h.do(); return nil }
func (h hostile) WithAttrs([]slog.Attr) slog.Handler        { h.do(); return h }
func (h hostile) WithGroup(string) slog.Handler             { h.do(); return h }

// Proves G110.
func TestOr_KeepsFailuresOfTheLogger(t *testing.T) {
	t.Parallel()
	for _, do := range []func(){func() { panic("boom") }, runtime.Goexit} {
		logger := LoggerOr(slog.New(hostile{do})).With("a", 1).WithGroup("g")
		logger.Info("lost")
		logger.Error("lost")
	}
}
