package bulk_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
)

// Whatever a form holds, it is read as tasks that are written in the same way, or refused.
func FuzzUnpack(f *testing.F) {
	at := time.UnixMicro(1_790_000_000_123_456)
	f.Add(bulk.Pack(bulk.Task{ID: "a", Inserted: at, State: stint.StateReady}), bulk.Pack())
	f.Add(bulk.Pack(bulk.Task{ID: "b\r\n\x01", Inserted: at, Finished: at.Add(time.Hour)},
		bulk.Task{ID: "a", Inserted: at}), "_w")
	f.Add("gICAgICAgICAgAE", "%")
	f.Fuzz(func(t *testing.T, first, second string) {
		tasks, err := bulk.Unpack([]string{first, second}, 1000)
		if err != nil {
			return
		}
		again, err := bulk.Unpack([]string{bulk.Pack(tasks...)}, len(tasks))
		if err != nil || !slices.Equal(again, tasks) {
			t.Errorf("%q and %q are %v, and then %v: %v", first, second, tasks, again, err)
		}
	})
}
