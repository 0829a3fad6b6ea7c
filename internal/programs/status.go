package programs

import "github.com/stint-tasks/stint/internal/safely"

// An endError is the error of a program that failed. Its text says how the program ended, and then
// has its log, within the limit of a status.
type endError struct {
	how error
	log *safely.Tail
}

func (e *endError) Error() string {
	how := e.how.Error()
	if log := e.log.Text(statusBytesMax - len(how) - 1); log != "" {
		return how + "\n" + log
	}
	return how
}

func (e *endError) Unwrap() error { return e.how }
