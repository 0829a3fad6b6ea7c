package client_test

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/limit"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/internal/wire"
)

// What a client lists is what the store lists.
func TestListLimits_IsThatOfTheStore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	all := stint.Limits{
		Concurrency: 40, ConcurrencyPerKey: 2, Fair: true, FairGroup: "tenants",
		Rate:       stint.Rate{Tasks: 5, Per: 365 * 24 * time.Hour, Burst: 7},
		RatePerKey: stint.Rate{Tasks: 1, Per: time.Millisecond},
	}
	wantErr(t, "SetLimits", r.SetLimits(ctx, "a", all), nil)
	wantErr(t, "SetLimits", r.SetLimits(ctx, "in order", stint.Limits{Ordered: true}), nil)
	wantErr(t, "SetLimits", r.SetLimits(ctx, "gone", all), nil)
	wantErr(t, "SetLimits", r.SetLimits(ctx, "gone", stint.Limits{}), nil)
	wantErr(t, "Pause", r.Pause(ctx, "a", "b", "c"), nil)
	wantErr(t, "Resume", r.Resume(ctx, "c"), nil)
	wantErr(t, "PauseKeys", r.PauseKeys(ctx, "a", "k", "l", "m"), nil)
	wantErr(t, "ResumeKeys", r.ResumeKeys(ctx, "a", "m"), nil)
	wantErr(t, "SetWeights", r.SetWeights(ctx, "a", map[string]int{"k": 3, "n": 1000}), nil)
	for _, actions := range [][]string{nil, {"a"}, {"none"}} {
		got, err := r.ListLimits(ctx, actions...)
		wantErr(t, "ListLimits", err, nil)
		want, err := r.store.ListLimits(ctx, actions...)
		wantErr(t, "ListLimits of the store", err, nil)
		if !reflect.DeepEqual(still(got), still(want)) {
			t.Errorf("ListLimits(%q) = %+v, want %+v", actions, got, want)
		}
	}
}

// still leaves out what changes with time, and puts all times into one zone.
func still(list []stint.ActionLimits) []stint.ActionLimits {
	for i := range list {
		l := &list[i]
		l.Tokens = 0
		for _, at := range []*time.Time{&l.SetAt, &l.PausedSince, &l.NextAt} {
			*at = at.UTC()
		}
		for key, at := range l.PausedKeys {
			l.PausedKeys[key] = at.UTC()
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

func TestSetLimits_RefusesWhatTheStoreRefuses(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	for argument, err := range map[string]error{
		"Limits.Concurrency": r.SetLimits(ctx, "act", stint.Limits{Concurrency: 1 << 40}),
		"Limits.Rate.Per":    r.SetLimits(ctx, "act", stint.Limits{Rate: stint.Rate{Tasks: 1}}),
		"action":             r.Pause(ctx, stint.Spontaneous),
		"key":                r.PauseKeys(ctx, "act", ""),
		"weights":            r.SetWeights(ctx, "act", map[string]int{"k": 1001}),
	} {
		var refused *stint.ArgumentError
		if !errors.As(err, &refused) || refused.Argument != argument {
			t.Errorf("%v, want an error about %s", err, argument)
		}
	}
}

func TestPause_SaysThatOlderStoresAreConnected(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{Maintenance: stint.MaintainNever})
	_, err := r.pool.Exec(t.Context(), "INSERT INTO stint.sessions "+
		"(id, grace, watches, topics, schema_version) VALUES (4711, '1 h', false, '{}', 1)")
	wantErr(t, "INSERT", err, nil)
	err = r.Pause(t.Context(), "act")
	wantErr(t, "Pause", err, stint.ErrSchemaVersion)
	if !strings.Contains(err.Error(), "replace their processes first") {
		t.Errorf("Pause = %v", err)
	}
}

// Limits are set as their caller has seen them, or not at all, and what the call has set itself
// before its answer was lost is no change by others.
func TestClient_SetsLimitsOnlyAsSeen(t *testing.T) {
	t.Parallel()
	r := newRemote(t, stint.Options{})
	way := &loser{verb: "SetLimits", loses: true, meanwhile: func() {}, next: newTransport()}
	c := testservice.Client(t, r.address, client.Options{HTTPClient: &http.Client{Transport: way}})
	first, second := stint.Limits{Concurrency: 3}, stint.Limits{Concurrency: 3, Fair: true}
	seeing := func(seen stint.Limits) context.Context {
		return wire.WithSeenLimits(t.Context(), seen)
	}
	wantErr(t, "SetLimits as seen, whose answer is lost",
		c.SetLimits(seeing(stint.Limits{}), "mail", first), nil)
	if way.attempts.Load() < 2 {
		t.Error("it was not repeated")
	}
	for _, set := range []interface {
		SetLimits(ctx context.Context, action string, limits stint.Limits) error
	}{c, r.store} {
		for _, none := range []stint.Limits{second, {}} {
			err := set.SetLimits(seeing(stint.Limits{}), "mail", none)
			wantErr(t, "SetLimits as seen before", err, limit.ErrChanged)
		}
	}
	list, err := r.store.ListLimits(t.Context(), "mail")
	wantErr(t, "ListLimits", err, nil)
	if len(list) != 1 || list[0].Limits != first {
		t.Errorf("the limits are %+v, want %+v", list, first)
	}
	wantErr(t, "SetLimits as seen", c.SetLimits(seeing(first), "mail", second), nil)
}
