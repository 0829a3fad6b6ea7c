package client_test

import (
	"errors"
	"testing"

	"github.com/stint-tasks/stint"
)

// A client is told the minutes that the store has.
// Proves G334.
func TestClient_TellsMinutes(t *testing.T) {
	t.Parallel()
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	err := errors.Join(r.InsertTasks(ctx, []stint.Task{{Action: "act"}}), r.store.Maintain(ctx))
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"", "act", "none"} {
		minutes, err := r.Minutes(ctx, action)
		want, err2 := r.store.Minutes(ctx, action)
		for i := range want {
			want[i].Since, want[i].Until = want[i].Since.UTC(), want[i].Until.UTC()
		}
		same(t, "Minutes of "+action, minutes, want, err, err2)
	}
}
