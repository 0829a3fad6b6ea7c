package stint

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// spanTasksMax is how many tasks a span stands for at most, so that an OwnTasks call of a usual
	// size takes a whole span.
	spanTasksMax = 1000
	// spansWanted is how many spans an insert makes at least, if it can, so that this many owners
	// find one each.
	spansWanted = 16
)

// A span is tasks with consecutive keys: those from lo to hi.
type span struct{ lo, hi int64 }

// singles are spans of one task each.
func singles(keys []int64) []span {
	spans := make([]span, len(keys))
	for i, key := range keys {
		spans[i] = span{key, key}
	}
	return spans
}

// carveLeased cuts spans out of the rows of leased that they share with other tasks. The spans are
// sorted by lo.
func carveLeased(spans []span) step {
	disjoint := make([]span, 0, len(spans))
	for _, next := range spans { // a task comes twice if it comes with two tokens
		if n := len(disjoint); n == 0 || next.lo > disjoint[n-1].hi {
			disjoint = append(disjoint, next)
		}
	}
	lo, hi := bounds(disjoint)
	return step{name: "carve_leased", args: []any{lo, hi}}
}

// An ownedSpan is tasks with consecutive keys that were handed out under one claim.
type ownedSpan struct {
	span
	claim claim
}

// ownedSpans sorts performances and joins those with consecutive keys.
func ownedSpans(performances []performance) []ownedSpan {
	performances = slices.Clone(performances)
	slices.SortFunc(performances, comparePerformances)
	performances = slices.Compact(performances)
	var spans []ownedSpan
	for i, p := range performances {
		if n := len(spans); n > 0 && follows(performances, i) {
			spans[n-1].hi = p.key
		} else {
			spans = append(spans, ownedSpan{span{p.key, p.key}, p.claim})
		}
	}
	return spans
}

func comparePerformances(a, b performance) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.claim, b.claim))
}

// follows reports whether the performance at place i of a sorted list is of the same hand-out as
// the one before it, and of the task with the next key. A task that comes with two tokens follows
// none, and none follows it.
func follows(performances []performance, i int) bool {
	if i == 0 {
		return false
	}
	before, p := performances[i-1], performances[i]
	return p.claim == before.claim && p.key == before.key+1 &&
		(i < 2 || performances[i-2].key != before.key) &&
		(i+1 == len(performances) || performances[i+1].key != p.key)
}

// setApart cuts owned tasks out of the rows of leased that they share with others, before the
// caller's transaction changes them: that transaction would lock their neighbours until it ends.
// The cut is made in a separate transaction, on a connection of the pool or the reserve. If neither
// can be had soon, or if that transaction fails, the caller's transaction cuts the tasks out
// itself, and others wait for it.
func (s *Store) setApart(ctx context.Context, spans []span) {
	const lookEvery, runMax = 100 * time.Millisecond, 5 * time.Second
	if !s.callersTx || len(spans) == 0 {
		return
	}
	hopeless := func() bool { return s.isExhausted() && s.reserves.prompt.isAway() }
	if hopeless() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, runMax)
	defer cancel()
	acquiring, acquired := context.WithCancel(ctx)
	go func() {
		for acquiring.Err() == nil && !hopeless() { // otherwise the machine is only slow
			select {
			case <-time.After(lookEvery):
			case <-acquiring.Done():
			}
		}
		acquired()
	}()
	own := (&Store{core: s.core, afterClose: s.afterClose}).asOwner(&s.reserves.prompt, 0)
	conn, err := own.acquire(acquiring)
	acquired()
	if err != nil {
		return
	}
	defer conn.release()
	own.conn = conn.Conn
	_ = own.run(ctx, limitWaiting(true)[0], carveLeased(spans)) // as said above
}

// sharedTasks looks for owned tasks that are to be set apart.
func (s *Store) sharedTasks(ids []TaskID, shared *[]int64) []step {
	if !s.callersTx || len(ids) == 0 {
		return nil
	}
	return []step{{
		name: "shared_tasks", args: []any{texts(ids)},
		read: func(rows pgx.Rows) error {
			var err error
			*shared, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		},
	}}
}

// performance is what the token of the task stands for.
func (t *OwnedTask) performance() performance { return t.Token.performance(t.ID) }

// readOwnedSpans reads rows of a span, its claim and whether it has to be asked for again, into a
// set of the performances that need not be asked for again.
func readOwnedSpans(set map[performance]bool, repeat *bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		clear(set) // drops what an attempt that was undone had read
		*repeat = false
		for rows.Next() {
			var s ownedSpan
			var unsure bool
			if err := rows.Scan(&s.lo, &s.hi, &s.claim, &unsure); err != nil {
				return err
			}
			*repeat = *repeat || unsure
			for key := s.lo; key <= s.hi && !unsure; key++ {
				set[performance{key, s.claim}] = true
			}
		}
		return rows.Err()
	}
}

func performancesOf(owned []OwnedTask) []performance {
	performances := make([]performance, len(owned))
	for i := range owned {
		performances[i] = owned[i].performance()
	}
	return performances
}

// bounds returns spans as the parameters of a statement.
func bounds(spans []span) (lo, hi []int64) {
	lo, hi = make([]int64, len(spans)), make([]int64, len(spans))
	for i, span := range spans {
		lo[i], hi[i] = span.lo, span.hi
	}
	return lo, hi
}
