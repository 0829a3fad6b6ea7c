package client_test

import (
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// What a client says of limits is what the store says.
func TestExplain_TellsOfLimitsAsTheStoreDoes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	tasks := []stint.Task{
		{ID: "a", Action: "act", Key: "k"},
		{ID: "b", Action: "act", Key: "k"},
		{ID: "c", Action: "act", Key: "k"},
		{ID: "d", Action: "act", Key: "other"},
	}
	wantErr(t, "InsertTasks", r.InsertTasks(ctx, tasks), nil)
	before, err := r.Explain(ctx, "a")
	wantErr(t, "Explain", err, nil)
	if before.Limits != nil {
		t.Errorf("without limits, Explain = %+v", before.Limits)
	}
	wantErr(t, "SetLimits", r.SetLimits(ctx, "act", stint.Limits{
		Concurrency: 5, ConcurrencyPerKey: 1, Fair: true, FairGroup: "tenants",
		Rate:       stint.Rate{Tasks: 1, Per: 365 * 24 * time.Hour},
		RatePerKey: stint.Rate{Tasks: 1, Per: 365 * 24 * time.Hour},
	}), nil)
	_, err = r.store.OwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	wantErr(t, "PauseKeys", r.PauseKeys(ctx, "act", "k"), nil)
	wantErr(t, "Pause", r.Pause(ctx, "act"), nil)
	for _, id := range []stint.TaskID{"c", "d"} {
		got, err := r.Explain(ctx, id)
		wantErr(t, "Explain", err, nil)
		want, err := r.store.Explain(ctx, id)
		wantErr(t, "Explain of the store", err, nil)
		if got.String() != want.String() {
			t.Errorf("Explain = %s, want %s", got, want)
		}
		if g, w := atRest(got.Limits), atRest(want.Limits); !reflect.DeepEqual(g, w) {
			t.Errorf("Explain = %+v, want %+v", g, w)
		}
	}
}

// atRest leaves out the tasks, which are compared by others, and what changes with time, and puts
// all times into one zone.
func atRest(l *stint.TaskLimits) stint.TaskLimits {
	still := *l
	still.Owned, still.KeyOwned = nil, nil
	for _, at := range []*time.Time{
		&still.PausedSince, &still.KeyPausedSince, &still.NextAt, &still.KeyNextAt,
	} {
		*at = at.UTC().Truncate(time.Minute)
	}
	still.Tokens, still.KeyTokens = math.Round(still.Tokens), math.Round(still.KeyTokens)
	return still
}
