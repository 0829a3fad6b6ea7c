package stint

import (
	"testing"
	"testing/synctest"
	"time"
)

// A store that inserts seldom must not give new tasks keys from long ago: these say which task is
// newer.
func TestKeyring_ForgetsItsBlockAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var keys keyring
		keys.refill(5000)
		if got, ok := keys.take(2); !ok || got[0] != 5000 || got[1] != 5001 {
			t.Errorf("take = %v, %v", got, ok)
		}
		time.Sleep(blockAgeMax)
		if _, ok := keys.take(1); !ok {
			t.Error("the block was forgotten within its time")
		}
		time.Sleep(time.Nanosecond)
		if got, ok := keys.take(1); ok {
			t.Errorf("take = %v of an old block", got)
		}
	})
}
