package command

import (
	"log/slog"
	"slices"
	"strings"
)

// logLevels are the values of --log-level.
func logLevels() []string { return []string{"debug", "info", "warn", "error"} }

func checkLogLevel(name string) error {
	if !slices.Contains(logLevels(), name) {
		return said(errInput, "invalid --log-level %q: must be one of %s", name,
			strings.Join(logLevels(), ", "))
	}
	return nil
}

// logger returns a logger that writes records of that level and above to standard error.
func (p *program) logger(name string) (*slog.Logger, error) {
	var level slog.Level
	if err := checkLogLevel(name); err != nil {
		return nil, err
	}
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return nil, err
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: shortened}
	if p.json {
		return slog.New(slog.NewJSONHandler(p.stderr, options)), nil
	}
	return slog.New(slog.NewTextHandler(p.stderr, options)), nil
}

// shortened cuts long texts, such as the output of a program. The task has the whole text.
func shortened(_ []string, attr slog.Attr) slog.Attr {
	const bytesMax = 1 << 10
	if attr.Value.Kind() != slog.KindString || len(attr.Value.String()) <= bytesMax {
		return attr
	}
	beginning := strings.ToValidUTF8(attr.Value.String()[:bytesMax], "")
	return slog.String(attr.Key, beginning+"…")
}
