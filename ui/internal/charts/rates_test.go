package charts

import (
	"fmt"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

func statsOf(all, again int64) stint.Stats {
	return stint.Stats{Actions: []stint.ActionStats{{Action: "mail", Tries: all, Retries: again}}}
}

func TestRates_AreOfTheLastSeconds(t *testing.T) {
	t.Parallel()
	var r Rates
	begun := time.Unix(0, 0)
	if r.Now().Known || r.Spark().Line != "" {
		t.Error("rates are known without samples")
	}
	for second := range 30 {
		handedOut := int64(10 * min(second, 15)) // ten a second, and then none
		r.Note(statsOf(handedOut, handedOut/2), begun.Add(time.Duration(second)*time.Second))
		if second == 14 {
			if got := r.Now("mail"); got != (Pace{All: 10, Again: 5, Known: true}) {
				t.Errorf("the pace is %+v", got)
			}
		}
	}
	if got := r.Now("mail"); got != (Pace{Known: true}) {
		t.Errorf("the pace is %+v after a while without fetches", got)
	}
	if got := r.Spark(); got.Most != 10 || got.Line == "" || got.Span != 29*time.Second {
		t.Errorf("the curve is %+v", got)
	}
	if got := r.Now("other"); got != (Pace{Known: true}) {
		t.Errorf("the pace of an action without fetches is %+v", got)
	}
}

// An action that is new, or whose counts began anew, is not taken for a burst.
func TestRates_DoNotLeap(t *testing.T) {
	t.Parallel()
	var r Rates
	begun := time.Unix(0, 0)
	r.Note(stint.Stats{}, begun)
	r.Note(statsOf(1_000_000, 0), begun.Add(time.Second))
	if got := r.Now(); got.All != 0 {
		t.Errorf("the pace is %v when an action is seen first", got.All)
	}
	r.Note(statsOf(1_000_020, 0), begun.Add(3*time.Second))
	if all, one := r.Now(), r.Now("mail"); all.All != 10 || one.All != 10 {
		t.Errorf("the pace is %v, and %v of the action, want 10 since it was seen first",
			all.All, one.All)
	}
	r.Note(statsOf(5, 0), begun.Add(4*time.Second))
	if got := r.Now(); got.All != 0 {
		t.Errorf("the pace is %v when counts begin anew", got.All)
	}
	r.Note(statsOf(5, 0), begun.Add(-time.Hour))
	if len(r.ring) != 1 {
		t.Errorf("%d samples are left when the clock was set back", len(r.ring))
	}
}

// The samples of a handler that many look at for long stay few.
func TestRates_AreBounded(t *testing.T) {
	t.Parallel()
	for _, actions := range []int{1, 1000} {
		var r Rates
		stats := stint.Stats{}
		for i := range actions {
			stats.Actions = append(stats.Actions, stint.ActionStats{Action: fmt.Sprint(i)})
		}
		for second := range 2000 {
			r.Note(stats, time.Unix(int64(second), 0))
		}
		if n := len(r.ring) * actions; n > countsMax || len(r.ring) < 2 {
			t.Errorf("%d counts of %d actions are kept", n, actions)
		}
	}
}
