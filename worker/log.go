package worker

import (
	"log/slog"
	"sync"

	"github.com/stint-tasks/stint/internal/safely"
)

// logBytesMax is how much of its log a store keeps of a performance.
const logBytesMax = 16 << 10

// A taskLog is what a handler has logged of its task.
type taskLog struct {
	once   sync.Once
	logger *slog.Logger

	mutex sync.Mutex   // guards end
	end   *safely.Tail // nil as long as nothing was logged
}

// Write keeps a record.
func (l *taskLog) Write(line []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.end == nil {
		l.end = safely.NewTail(logBytesMax)
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
