package limits_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// verdicts are the errors of a judge.
type verdicts struct {
	testing.TB
	errors []string
}

func (v *verdicts) Errorf(format string, args ...any) {
	v.errors = append(v.errors, fmt.Sprintf(format, args...))
}

func (v *verdicts) Logf(string, ...any) {}

// A judge that finds nothing wrong with a journal that is wrong would be none.
func TestJudge_FindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	at := func(seconds float64) time.Time {
		return begin.Add(time.Duration(seconds * float64(time.Second)))
	}
	own := func(seconds float64, claim int64, ids ...stint.TaskID) note {
		n := note{Kind: "own", Start: at(seconds), Claim: claim, Tasks: ids}
		n.Call = n.Start.Add(-10 * time.Millisecond)
		for range ids {
			n.Actions, n.Keys = append(n.Actions, "a"), append(n.Keys, "k")
		}
		return n
	}
	end := note{Kind: "end", Done: true, Tasks: []stint.TaskID{"x"}}
	action, key := group{action: "a"}, group{"a", "k"}
	limits := setting{
		begin: at(0), end: at(0.1), limits: stint.Limits{
			Concurrency: 2, Rate: stint.Rate{Tasks: 1, Per: time.Second, Burst: 2},
			ConcurrencyPerKey: 1,
			RatePerKey:        stint.Rate{Tasks: 1, Per: time.Second, Burst: 1},
		},
	}
	paused := []setting{{}, {begin: at(1), end: at(1.1), paused: true}}
	saw := func(g group, tasks int) seen {
		return seen{group: g, at: at(3), tasks: tasks, youngest: at(2), claim: 1}
	}
	for name, c := range map[string]struct {
		seen   []seen
		notes  []note
		pauses map[group][]setting
		want   string
	}{
		"all is well": {
			seen:  []seen{saw(action, 2), saw(key, 1)},
			notes: []note{own(2, 1, "x"), end},
		},
		"action": {seen: []seen{saw(action, 3)}, want: "L1: of {a }, 3 are in progress"},
		"key":    {seen: []seen{saw(key, 2)}, want: "L1: of {a k}, 2 are in progress"},
		"rate":   {notes: []note{own(2, 1, "x", "y", "z")}, want: "L3: of {a }"},
		"rate of keys": {
			notes: []note{own(2, 1, "x"), own(2.5, 2, "y")},
			want:  "L3: of {a k}",
		},
		"pause": {
			notes:  []note{own(2, 1, "x")},
			pauses: map[group][]setting{key: paused},
			want:   "which is paused",
		},
		"two ends": {notes: []note{end, end}, want: `"x" was completed 2 times`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &judge{
				limits: map[string][]setting{"a": {limits}}, pauses: c.pauses, seen: c.seen,
				watched: map[int64]map[group]fetch{}, notes: c.notes,
			}
			v := &verdicts{TB: t}
			j.judge(v)
			all := strings.Join(v.errors, "\n")
			if c.want == "" && all != "" || !strings.Contains(all, c.want) {
				t.Errorf("the judge says %q, want %q", all, c.want)
			}
		})
	}
}
