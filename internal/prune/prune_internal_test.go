package prune

import (
	"testing"
	"time"
)

// A store prunes four times within its shortest retention, within bounds.
func TestKeep_SaysHowOftenToPrune(t *testing.T) {
	t.Parallel()
	age := func(d time.Duration) *time.Duration { return &d }
	for name, c := range map[string]struct {
		keep Keep
		want time.Duration
	}{
		"for ever": {Keep{}, everyMost},
		"a day":    {Keep{Completed: age(24 * time.Hour)}, everyMost},
		"a minute": {
			Keep{Completed: age(time.Hour), Aborted: age(time.Minute)}, 15 * time.Second,
		},
		"not at all": {Keep{Completed: age(0)}, everyLeast},
	} {
		if got := c.keep.Every(); got != c.want {
			t.Errorf("%s: every %v, want %v", name, got, c.want)
		}
	}
	completed, aborted := Keep{Completed: age(0), Aborted: age(1)}.Drops()
	if !completed || aborted {
		t.Errorf("Drops = %t, %t", completed, aborted)
	}
}
