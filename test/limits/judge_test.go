package limits_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// A group is an action, or a key of it.
type group struct{ action, key string }

// of says which group a task with a key counts for, besides its action.
func of(action, key string) []group {
	if key == "" {
		return []group{{action: action}}
	}
	return []group{{action: action}, {action, key}}
}

// A setting is one call that changes limits, or begins or ends a pause. It may have taken effect
// from its begin on; it has if it returned without an error.
type setting struct {
	limits stint.Limits
	paused bool
	begin  time.Time
	end    time.Time // zero: it failed
}

// possible are the settings that may have been in force at some time between from and to.
func possible(history []setting, from, to time.Time) []setting {
	var some []setting
	for _, s := range history {
		if s.begin.After(to) {
			break
		}
		if !s.end.IsZero() && !s.end.After(from) {
			some = some[:0]
		}
		some = append(some, s)
	}
	return some
}

// A seen is how many tasks of a group were in progress in a snapshot, and the youngest of their
// fetches.
type seen struct {
	group    group
	at       time.Time
	tasks    int
	youngest time.Time
	claim    int64
}

// A fetch is how many tasks of a group were fetched under a claim.
type fetch struct {
	group       group
	call, start time.Time
	claim       int64
	tasks       int
}

// A judge knows what happened from the journals of the workers and the snapshots of a watcher.
type judge struct {
	limits  map[string][]setting
	pauses  map[group][]setting
	seen    []seen
	watched map[int64]map[group]fetch
	notes   []note
}

const watch = `SELECT statement_timestamp(), tasks.action, coalesce(tasks.limit_key, ''),
	leased.claim, max(leases.owned_at), count(*), count(DISTINCT tasks.key)
FROM stint.leased
JOIN stint.leases USING (claim, part)
JOIN stint.tasks ON tasks.key BETWEEN leased.lo AND leased.hi
GROUP BY tasks.action, tasks.limit_key, leased.claim`

// look takes one snapshot.
func (j *judge) look(ctx context.Context, conn *pgxpool.Conn) error {
	rows, err := conn.Query(ctx, watch)
	if err != nil {
		return err
	}
	groups := map[group]seen{}
	var at, start time.Time
	var action, key string
	var claim int64
	var tasks, different int
	_, err = pgx.ForEachRow(rows, []any{
		&at, &action, &key, &claim, &start, &tasks, &different,
	}, func() error {
		if tasks != different {
			return fmt.Errorf("%d owners of %d tasks", tasks, different)
		}
		for _, g := range of(action, key) {
			s := groups[g]
			s.group, s.at, s.tasks = g, at, s.tasks+tasks
			if start.After(s.youngest) {
				s.youngest, s.claim = start, claim
			}
			groups[g] = s
			j.noteWatched(g, claim, start, tasks)
		}
		return nil
	})
	for _, s := range groups {
		j.seen = append(j.seen, s)
	}
	return err
}

// noteWatched takes note of a fetch, of which no worker may have lived to tell.
func (j *judge) noteWatched(g group, claim int64, start time.Time, tasks int) {
	if j.watched[claim] == nil {
		j.watched[claim] = map[group]fetch{}
	}
	one := j.watched[claim][g]
	if one.tasks == 0 {
		const atMost = 3 * time.Second // that its call took until then
		one = fetch{group: g, call: start.Add(-atMost), start: start, claim: claim}
	}
	one.tasks = max(one.tasks, tasks)
	j.watched[claim][g] = one
}

// fetches are all that are known, by group, in order.
func (j *judge) fetches() (map[group][]fetch, map[int64]time.Time) {
	all, calls := map[group][]fetch{}, map[int64]time.Time{}
	told := map[int64]bool{}
	for _, n := range j.notes {
		if n.Kind != "own" {
			continue
		}
		told[n.Claim], calls[n.Claim] = true, n.Call
		counts := map[group]int{}
		for i := range n.Tasks {
			for _, g := range of(n.Actions[i], n.Keys[i]) {
				counts[g]++
			}
		}
		for g, tasks := range counts {
			all[g] = append(all[g], fetch{g, n.Call, n.Start, n.Claim, tasks})
		}
	}
	for claim, groups := range j.watched {
		if told[claim] {
			continue
		}
		for g, one := range groups {
			calls[claim] = one.call
			all[g] = append(all[g], one)
		}
	}
	for _, list := range all {
		slices.SortFunc(list, func(a, b fetch) int { return a.start.Compare(b.start) })
	}
	return all, calls
}

// judge says which limits were broken.
func (j *judge) judge(tb testing.TB) {
	tb.Helper()
	all, calls := j.fetches()
	j.judgeConcurrency(tb, calls)
	for g, list := range all {
		j.judgeRate(tb, g, list)
		j.judgePauses(tb, g, list)
	}
	handed := 0
	for g, list := range all {
		for _, one := range list {
			if g.key == "" {
				handed += one.tasks
			}
		}
	}
	tb.Logf("%d fetches of %d tasks, %d of them untold; %d counts in snapshots",
		len(calls), handed, len(calls)-j.told(), len(j.seen))
	j.judgeEnds(tb)
}

func (j *judge) told() (n int) {
	for _, line := range j.notes {
		if line.Kind == "own" {
			n++
		}
	}
	return n
}

func (j *judge) judgeConcurrency(tb testing.TB, calls map[int64]time.Time) {
	tb.Helper()
	broken := 0
	for _, s := range j.seen {
		from := s.youngest
		if call, ok := calls[s.claim]; ok && call.Before(from) {
			from = call
		}
		highest := 0
		for _, set := range possible(j.limits[s.group.action], from, s.at) {
			limit := set.limits.Concurrency
			if s.group.key != "" {
				limit = set.limits.ConcurrencyPerKey
			}
			if limit == 0 {
				limit = math.MaxInt
			}
			highest = max(highest, limit)
		}
		if s.tasks > highest {
			if broken++; broken <= 5 {
				tb.Errorf("L1: of %v, %d are in progress at %v, the limit since the youngest "+
					"fetch at %v (called %v) was %d", s.group, s.tasks, s.at, s.youngest, from,
					highest)
			}
		}
	}
	if broken > 0 {
		for action, history := range j.limits {
			for _, s := range history {
				tb.Logf("%s: from %v, %v: %+v", action, s.begin, s.end, s.limits)
			}
		}
		for g, history := range j.pauses {
			for _, s := range history[1:] {
				tb.Logf("%v: from %v, %v: paused %v", g, s.begin, s.end, s.paused)
			}
		}
		tb.Errorf("L1 was broken in %d of %d snapshots", broken, len(j.seen))
	}
}

// judgeRate checks the fetches between two changes of a limit against a bucket of its own.
func (j *judge) judgeRate(tb testing.TB, g group, list []fetch) {
	tb.Helper()
	history := j.limits[g.action]
	for i, set := range history {
		rate := set.limits.Rate
		if g.key != "" {
			rate = set.limits.RatePerKey
		}
		if rate == (stint.Rate{}) || set.end.IsZero() {
			continue
		}
		level, last := 0.0, time.Time{}
		for _, one := range list {
			if one.call.Before(set.end) || i+1 < len(history) &&
				!one.start.Before(history[i+1].begin) {
				continue
			}
			if !last.IsZero() {
				come := one.start.Sub(last).Seconds() * float64(rate.Tasks) / rate.Per.Seconds()
				level = math.Max(0, level-come)
			}
			last = one.start
			level += float64(one.tasks)
			if level > float64(rate.Burst)+0.01 {
				tb.Errorf("L3: of %v, the fetch of %d at %v makes %.3f, with burst %d",
					g, one.tasks, one.start, level, rate.Burst)
				break
			}
		}
	}
}

func (j *judge) judgePauses(tb testing.TB, g group, list []fetch) {
	tb.Helper()
	for _, one := range list {
		some := possible(j.pauses[g], one.call, one.start)
		if len(some) > 0 && !slices.ContainsFunc(some, func(s setting) bool { return !s.paused }) {
			tb.Errorf("of %v, which is paused since %v, %d were fetched at %v (called %v)",
				g, some[0].end, one.tasks, one.start, one.call)
		}
	}
}

// judgeEnds checks that no two owners completed a task, unless it was retried.
func (j *judge) judgeEnds(tb testing.TB) {
	tb.Helper()
	completed, again := map[stint.TaskID]int{}, map[stint.TaskID]bool{}
	for _, n := range j.notes {
		for _, id := range n.Tasks {
			switch {
			case n.Kind == "end" && n.Done:
				completed[id]++
			case n.Kind == "again":
				again[id] = true
			}
		}
	}
	for id, n := range completed {
		if n > 1 && !again[id] {
			tb.Errorf("%q was completed %d times", id, n)
		}
	}
}
