package worker

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A pause is at least half as long as it may be, so that a task that failed is not tried again at
// once, and never longer than Max.
func TestRetry_PausesBetweenHalfAndWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base"))
		longest := base + time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "more"))
		try := rapid.IntRange(1, 100).Draw(t, "try")
		doubled := math.Ldexp(float64(base), try-1) // exact
		most := time.Duration(min(doubled, float64(longest)))
		got := Retry{Base: base, Max: longest}.pause(try)
		if got < most/2 || got > most {
			t.Errorf("pause = %v, want between %v and %v", got, most/2, most)
		}
	})
}
