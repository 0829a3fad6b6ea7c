//go:build unix

package programs

import (
	"math"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// What a program writes into the file counts towards a budget, however it ends. Without a number
// the cost stands.
// Proves G342.
func TestPerform_CountsWhatTheProgramHasSpent(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, test := range []struct {
		script string
		left   float64 // of 100, in at most two tries that take 30 each
		status string
	}{
		{`echo 20 >"$STINT_SPENT"; [ $STINT_TRY = 2 ] || exit 75; echo 75 >"$STINT_SPENT"`, 5, ""},
		{`echo 5 >"$STINT_SPENT"; echo 40 >"$STINT_SPENT"`, 60, ""},
		{`echo -7 >"$STINT_SPENT"`, 100, ""},
		{`echo 99999999999999999999 >"$STINT_SPENT"`, 100 - 1e9, ""},
		{`echo 10 >"$STINT_SPENT"; exit 65`, 90, "exit status 65"},
		{`[ ! -e "$STINT_SPENT" ]`, 70, ""},
		{`echo 7 dollars >"$STINT_SPENT"`, 70, "stint: what the program has spent is not known: " +
			"strconv.Atoi: parsing \"7 dollars\": invalid syntax\n"},
	} {
		t.Run(test.script, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			err := store.SetLimits(t.Context(), "a", stint.Limits{
				Rate: stint.Rate{Tasks: 100, Per: 24 * time.Hour, Burst: 100}, ByCost: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			insert(t, store, stint.Task{ID: "a", Action: "a", Cost: 30, MaxTries: 2})
			start(t, store, newDirectory(t, map[string]string{"a": test.script}))
			if info := finish(t, store, "a"); info.Status != test.status {
				t.Errorf("status = %q, want %q", info.Status, test.status)
			}
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			left := math.Inf(1)
			for late := time.After(time.Minute); math.Abs(left-test.left) > 1; {
				select {
				case <-late:
					t.Fatalf("%v are left, want %v", left, test.left)
				case <-tick.C:
				}
				limits, err := store.ListLimits(t.Context(), "a")
				if err != nil {
					t.Fatal(err)
				}
				left = limits[0].Tokens
			}
		})
	}
}
