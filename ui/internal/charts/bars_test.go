package charts_test

import (
	"maps"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/charts"
)

func TestShares_ShowWhatIsSmall(t *testing.T) {
	t.Parallel()
	counts := func(yield func(stint.State, int64) bool) {
		_ = yield(stint.StateReady, 1) && yield(stint.StateBlocked, 0) &&
			yield(stint.StateCompleted, 1_000_000)
	}
	got := charts.Shares(counts, 1_000_001)
	if len(got) != 2 || got[0].Width < 1 || got[0].Width+got[1].Width != 100 ||
		got[1].X != got[0].Width {
		t.Errorf("the shares are %+v", got)
	}
	if got := charts.Shares(maps.All(map[stint.State]int64{}), 0); got != nil {
		t.Errorf("the shares of nothing are %+v", got)
	}
}
