package worker

import (
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
)

// attemptMax is how long one attempt to give tasks back, or to take leave, may take.
const attemptMax = 5 * time.Second

// attemptFor is how long an attempt to return tasks may take.
func attemptFor(returns ...stint.Return) time.Duration {
	bytes := 0
	for i := range returns {
		bytes += bytesOf(&returns[i])
	}
	return attemptToSend(bytes)
}

// attemptToSend is attemptMax and, besides, as long as a slow line needs for so many bytes.
func attemptToSend(bytes int) time.Duration {
	const slow = 256 << 10 // a second
	return attemptMax + time.Duration(bytes/slow)*time.Second
}

// reconnect returns the pauses between attempts to reach a database that cannot be reached. Behind
// a restart the last one is how long tasks wait for nothing, so they stay short.
func reconnect() Retry { return Retry{Base: 100 * time.Millisecond, Max: time.Second} }

// hopeless reports whether a call fails with err however often it is repeated.
func hopeless(err error) bool {
	return errors.Is(err, stint.ErrSchemaVersion) || errors.Is(err, stint.ErrClosed) ||
		errors.Is(err, stint.ErrInvalidArgument) || errors.Is(err, stint.ErrRefused)
}

// unanswered reports whether a call has failed for want of a server: there is no connection, or it
// broke, which the server may have announced.
func unanswered(err error) bool {
	var verdict *stint.TaskError
	if err == nil || hopeless(err) || errors.As(err, &verdict) {
		return false
	}
	var connect *pgconn.ConnectError
	var refused *pgconn.PgError
	return errors.As(err, &connect) || !errors.As(err, &refused) ||
		refused.SeverityUnlocalized == "FATAL" || refused.SeverityUnlocalized == "PANIC" ||
		strings.HasPrefix(refused.Code, "08") // connection exceptions
}
