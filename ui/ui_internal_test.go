package ui

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
)

func statsOf(all, again int64) stint.Stats {
	return stint.Stats{Actions: []stint.ActionStats{{Action: "mail", Tries: all, Retries: again}}}
}

func TestRates_AreOfTheLastSeconds(t *testing.T) {
	t.Parallel()
	var r rates
	begun := time.Unix(0, 0)
	if r.now().Known || r.spark().Line != "" {
		t.Error("rates are known without samples")
	}
	for second := range 30 {
		handedOut := int64(10 * min(second, 15)) // ten a second, and then none
		r.note(statsOf(handedOut, handedOut/2), begun.Add(time.Duration(second)*time.Second))
		if second == 14 {
			if got := r.now("mail"); got != (pace{All: 10, Again: 5, Known: true}) {
				t.Errorf("the pace is %+v", got)
			}
		}
	}
	if got := r.now("mail"); got != (pace{Known: true}) {
		t.Errorf("the pace is %+v after a while without hand-outs", got)
	}
	if got := r.spark(); got.Most != 10 || got.Line == "" || got.Span != 29*time.Second {
		t.Errorf("the curve is %+v", got)
	}
	if got := r.now("other"); got != (pace{Known: true}) {
		t.Errorf("the pace of an action without hand-outs is %+v", got)
	}
}

// An action that is new, or whose counts began anew, is not taken for a burst.
func TestRates_DoNotLeap(t *testing.T) {
	t.Parallel()
	var r rates
	begun := time.Unix(0, 0)
	r.note(stint.Stats{}, begun)
	r.note(statsOf(1_000_000, 0), begun.Add(time.Second))
	if got := r.now(); got.All != 0 {
		t.Errorf("the pace is %v when an action is seen first", got.All)
	}
	r.note(statsOf(1_000_020, 0), begun.Add(3*time.Second))
	if all, one := r.now(), r.now("mail"); all.All != 10 || one.All != 10 {
		t.Errorf("the pace is %v, and %v of the action, want 10 since it was seen first",
			all.All, one.All)
	}
	r.note(statsOf(5, 0), begun.Add(4*time.Second))
	if got := r.now(); got.All != 0 {
		t.Errorf("the pace is %v when counts begin anew", got.All)
	}
	r.note(statsOf(5, 0), begun.Add(-time.Hour))
	if len(r.ring) != 1 {
		t.Errorf("%d samples are left when the clock was set back", len(r.ring))
	}
}

// The samples of a handler that many look at for long stay few.
func TestRates_AreBounded(t *testing.T) {
	t.Parallel()
	for _, actions := range []int{1, 1000} {
		var r rates
		stats := stint.Stats{}
		for i := range actions {
			stats.Actions = append(stats.Actions, stint.ActionStats{Action: fmt.Sprint(i)})
		}
		for second := range 2000 {
			r.note(stats, time.Unix(int64(second), 0))
		}
		if n := len(r.ring) * actions; n > countsMax || len(r.ring) < 2 {
			t.Errorf("%d counts of %d actions are kept", n, actions)
		}
	}
}

// Those who ask the same share the answer; what nobody asked for lately is forgotten.
func TestRecent_KeepsTheLatest(t *testing.T) {
	t.Parallel()
	r := recent[int]{most: 2, timeout: time.Minute}
	asked := 0
	ask := func(context.Context) (int, error) {
		asked++
		return asked, nil
	}
	for i, step := range []struct {
		key  string
		want int
	}{{"a", 1}, {"a", 1}, {"b", 2}, {"a", 1}, {"c", 3}, {"a", 1}, {"b", 4}} {
		if got, err := r.get(t.Context(), step.key, ask); got != step.want || err != nil {
			t.Errorf("step %d: %d, %v, want %d", i, got, err, step.want)
		}
	}
}

func TestShares_ShowWhatIsSmall(t *testing.T) {
	t.Parallel()
	got := shares([]tally{
		{State: stint.StateReady, Tasks: 1},
		{State: stint.StateBlocked},
		{State: stint.StateCompleted, Tasks: 1_000_000},
	}, 1_000_001)
	if len(got) != 2 || got[0].Width < 1 || got[0].Width+got[1].Width != 100 ||
		got[1].X != got[0].Width {
		t.Errorf("the shares are %+v", got)
	}
	if got := shares(nil, 0); got != nil {
		t.Errorf("the shares of nothing are %+v", got)
	}
}

// Whatever a form holds, it is read as tasks that are written in the same way, or refused.
func FuzzUnpackTasks(f *testing.F) {
	at := time.UnixMicro(1_790_000_000_123_456)
	f.Add(packTasks(bulk.Task{ID: "a", Inserted: at}), packTasks())
	f.Add(packTasks(bulk.Task{ID: "b\r\n\x01", Inserted: at, Finished: at.Add(time.Hour)},
		bulk.Task{ID: "a", Inserted: at}), "_w")
	f.Add("gICAgICAgICAgAE", "%")
	f.Fuzz(func(t *testing.T, first, second string) {
		tasks, err := unpackTasks([]string{first, second})
		if err != nil {
			return
		}
		again, err := unpackTasks([]string{packTasks(tasks...)})
		if err != nil || !slices.Equal(again, tasks) {
			t.Errorf("%q and %q are %v, and then %v: %v", first, second, tasks, again, err)
		}
	})
}
