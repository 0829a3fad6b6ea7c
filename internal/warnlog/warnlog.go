// Package warnlog is the logger of those who were given none: warnings and errors go to the default
// logger of log/slog, so that nothing fails in silence, and the rest is dropped.
package warnlog

import (
	"context"
	"log/slog"
)

// Or returns logger or, if that is nil, one for warnings and errors that passes them on to
// [slog.Default] as it is now.
func Or(logger *slog.Logger) *slog.Logger {
	if logger != nil {
		return logger
	}
	return slog.New(warnings{slog.Default().Handler()})
}

// Only returns a logger that passes only warnings and errors on to another one.
func Only(logger *slog.Logger) *slog.Logger { return slog.New(warnings{logger.Handler()}) }

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
