package safely

import (
	"context"
	"log/slog"
	"os"
	"sync"
)

// LoggerOr returns the logger that the store, the worker, the service or its client logs to: the
// user's or, if that is nil, one for warnings and errors that passes them on to
// [slog.Default] as it is now. What is logged with it is lost if the handler of the logger panics
// or ends its goroutine, and nothing else happens.
func LoggerOr(logger *slog.Logger) *slog.Logger {
	if logger == nil {
		return slog.New(guard(warnings{slog.Default().Handler()}))
	}
	if _, already := logger.Handler().(guarded); already {
		return logger
	}
	return slog.New(guard(logger.Handler()))
}

// Warnings returns a logger that passes only warnings and errors on to another one.
func Warnings(logger *slog.Logger) *slog.Logger { return slog.New(warnings{logger.Handler()}) }

// warnings is a handler that drops records below [slog.LevelWarn].
type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

func (w warnings) WithGroup(name string) slog.Handler {
	return warnings{w.Handler.WithGroup(name)}
}

// guarded is a handler whose failures stay there. It calls the other one in another goroutine,
// which costs a microsecond for each record that is written.
type guarded struct {
	slog.Handler

	complaint *sync.Once
}

func guard(handler slog.Handler) guarded { return guarded{handler, &sync.Once{}} }

func (g guarded) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() {
		if value := recover(); value != nil {
			g.complain(Recovered(value))
		}
	}()
	return g.Handler.Enabled(ctx, level)
}

func (g guarded) Handle(ctx context.Context, record slog.Record) (err error) {
	failure := Call(func() { err = g.Handler.Handle(ctx, record) })
	if failure != nil {
		g.complain(failure)
		return failure
	}
	return err
}

func (g guarded) WithAttrs(attrs []slog.Attr) slog.Handler {
	return g.with(func() slog.Handler { return g.Handler.WithAttrs(attrs) })
}

func (g guarded) WithGroup(name string) slog.Handler {
	return g.with(func() slog.Handler { return g.Handler.WithGroup(name) })
}

func (g guarded) with(derive func() slog.Handler) slog.Handler {
	derived := g.Handler
	if failure := Call(func() { derived = derive() }); failure != nil {
		g.complain(failure)
	}
	return guarded{derived, g.complaint}
}

// complain says on standard error, once, that the logger fails: nobody else can be told.
func (g guarded) complain(failure *CallError) {
	g.complaint.Do(func() {
		_, _ = os.Stderr.WriteString("stint: a logger fails, and its records are lost: " +
			failure.Error() + "\n")
	})
}
