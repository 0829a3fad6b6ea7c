package numbering

import (
	"testing"
	"testing/synctest"
	"time"
)

// A store that inserts seldom must not give new tasks keys from long ago: these say which task is
// newer.
func TestAllocator_ForgetsItsBlockAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var keys Allocator
		keys.Refill(5000)
		if got, ok := keys.Take(2); !ok || got[0] != 5000 || got[1] != 5001 {
			t.Errorf("take = %v, %v", got, ok)
		}
		time.Sleep(ageMax)
		if _, ok := keys.Take(1); !ok {
			t.Error("the block was forgotten within its time")
		}
		time.Sleep(time.Nanosecond)
		if got, ok := keys.Take(1); ok {
			t.Errorf("take = %v of an old block", got)
		}
	})
}
