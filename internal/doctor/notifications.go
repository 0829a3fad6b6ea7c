package doctor

import (
	"fmt"
	"strings"
)

// A notificationQueue is the server's queue of notifications.
type notificationQueue struct {
	Used   float64  // from 0 to 1
	Oldest []string // the transactions that have been open for longest
}

func queueFindings(q notificationQueue) []Finding {
	const much = 0.5 // as much as makes the server warn in its log
	if q.Used < much {
		return nil
	}
	s := SeverityWarning
	harm := "when it is full, commits that notify fail"
	if q.Used >= 1 {
		s, harm = SeverityError, "commits that notify fail"
	}
	oldest := ""
	if len(q.Oldest) > 0 {
		oldest = fmt.Sprintf(" (the oldest: %s)", strings.Join(q.Oldest, "; "))
	}
	return []Finding{found(s, "notifications", "%.0f%% of the server's queue of notifications is "+
		"in use; %s: a session that listens has stayed in a transaction%s; end it by SELECT "+
		"pg_terminate_backend(process). What is committed is safe, and stores with PollOnly and "+
		"transactions with stint.Quiet do not notify", 100*q.Used, harm, oldest)}
}
