package worker

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/internal/tail"
)

// logBytesMax is how much of its log a store keeps of a performance.
const logBytesMax = 16 << 10

// A taskLog is what a handler has logged of its task.
type taskLog struct {
	once   sync.Once
	logger *slog.Logger

	mutex sync.Mutex // guards end
	end   *tail.Tail // nil as long as nothing was logged
}

// Write keeps a record.
func (l *taskLog) Write(line []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.end == nil {
		l.end = tail.New(logBytesMax)
	}
	return l.end.Write(line)
}

// text is the end of what was logged.
func (l *taskLog) text() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.end == nil {
		return ""
	}
	return l.end.Text(logBytesMax)
}

// Logger returns a logger for the handler. What it logs, from the level Info on, goes into the
// history of the task ([stint.Store.History]), its last 16 KiB, if the store keeps that:
// [stint.Options]. It also goes to [Options.Logger], with the ID of the task, its action, and the
// number of the try. A handler that never calls Logger costs nothing.
func (t *Task) Logger() *slog.Logger {
	t.log.once.Do(func() {
		logger := safely.LoggerOr(t.logger).With(slog.String("task", string(t.ID)),
			slog.String("action", t.Action), slog.Int("try", t.Try))
		t.log.logger = slog.New(slog.NewMultiHandler(logger.Handler(),
			slog.NewTextHandler(&t.log, &slog.HandlerOptions{ReplaceAttr: finite})))
	})
	return t.log.logger
}

// finite replaces a value of which the text has no end: other handlers may write it, such as that
// for JSON.
func finite(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindAny && safely.IsEndless(a.Value.Any()) {
		a.Value = slog.StringValue(fmt.Sprintf("a %T, which is endless", a.Value.Any()))
	}
	return a
}
