package client_test

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// settled puts all times of schedules into one zone.
func settled(list []stint.ScheduleInfo) []stint.ScheduleInfo {
	for i := range list {
		info := &list[i]
		for _, at := range []*time.Time{
			&info.From, &info.To, &info.NextAt, &info.LastAt, &info.PausedSince, &info.ChangedAt,
		} {
			*at = at.UTC()
		}
	}
	return list
}

// What a client puts is what the store has, and what it lists is what the store lists.
func TestSchedules_AreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	whole := stint.Schedule{
		Name: "whole", Spec: "0 8 * * mon-fri", Zone: "Europe/Berlin",
		Tasks: []stint.Task{
			{
				ID: "a", Action: "fetch", Key: "k", Body: []byte("\xff"), Priority: 3, MaxTries: 7,
				PostResult: true, OnAbort: stint.RunAnyway,
			},
			{ID: "b", Action: "send", After: []stint.TaskID{"a"}},
		},
		CatchUp: stint.CatchUpAll, Window: time.Hour, Overlap: stint.OverlapWait,
		Jitter: time.Minute, Expire: true,
		From: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		To:   time.Date(2100, 1, 2, 3, 4, 5, 0, time.UTC),
	}
	plain := stint.Schedule{
		Name: "plain", Spec: "every 90s", Tasks: []stint.Task{{Action: "tick"}},
	}
	wantErr(t, "PutSchedules", r.PutSchedules(ctx, []stint.Schedule{whole, plain}), nil)
	changed := plain
	changed.Spec = "every 5s"
	wantErr(t, "EnsureSchedules", r.EnsureSchedules(ctx, []stint.Schedule{changed}), nil)
	wantErr(t, "PauseSchedules", r.PauseSchedules(ctx, "plain", "whole"), nil)
	wantErr(t, "ResumeSchedules", r.ResumeSchedules(ctx, "whole"), nil)
	for _, names := range [][]string{nil, {"plain"}, {"none"}} {
		got, err := r.ListSchedules(ctx, names...)
		wantErr(t, "ListSchedules", err, nil)
		want, err := r.store.ListSchedules(ctx, names...)
		wantErr(t, "ListSchedules of the store", err, nil)
		if !reflect.DeepEqual(settled(got), settled(want)) {
			t.Errorf("ListSchedules(%q) =\n%+v, want\n%+v", names, got, want)
		}
	}
	id, err := r.TriggerSchedule(ctx, "plain")
	wantErr(t, "TriggerSchedule", err, nil)
	if _, err := r.store.GetTasks(ctx, []stint.TaskID{id}); err != nil {
		t.Errorf("%q was not inserted: %v", id, err)
	}
	for verb, err := range map[string]error{
		"PauseSchedules":  r.PauseSchedules(ctx, "plain", "none", "nothing"),
		"ResumeSchedules": r.ResumeSchedules(ctx, "nothing", "none"),
		"DeleteSchedules": r.DeleteSchedules(ctx, "none", "nothing", "whole"),
	} {
		var missing *stint.ScheduleError
		if !errors.Is(err, stint.ErrScheduleNotFound) || !errors.As(err, &missing) ||
			!slices.Equal(missing.Names, []string{"none", "nothing"}) {
			t.Errorf("%s = %v, want both names", verb, err)
		}
	}
	_, err = r.TriggerSchedule(ctx, "none")
	wantErr(t, "TriggerSchedule", err, stint.ErrScheduleNotFound)
	wantErr(t, "DeleteSchedules", r.DeleteSchedules(ctx, "plain", "whole"), nil)
	bad := plain
	bad.Spec = "60 * * * *"
	wantErr(t, "PutSchedules", r.PutSchedules(ctx, []stint.Schedule{bad}),
		stint.ErrInvalidArgument)
	if list, err := r.store.ListSchedules(ctx); err != nil || len(list) > 0 {
		t.Errorf("ListSchedules = %+v, %v", list, err)
	}
}

// What a schedule is refused for, and what to write instead, is said as the store says it.
func TestPutSchedules_SaysWhatTheStoreSays(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	for _, wrong := range []stint.Schedule{
		{Name: "s", Spec: "@every 1h"},
		{Name: "s", Spec: "CRON_TZ=Asia/Tokyo @daily"},
		{Name: "s", Spec: "0 0 8 ? * MON-FRI"},
		{Name: "s", Spec: "@daily", Zone: "localtime"},
	} {
		wrong.Tasks = []stint.Task{{Action: "act"}}
		want := r.store.PutSchedules(t.Context(), []stint.Schedule{wrong})
		got := r.PutSchedules(t.Context(), []stint.Schedule{wrong})
		var refused, said *stint.ArgumentError
		if !errors.As(got, &refused) || !errors.As(want, &said) ||
			refused.Argument != said.Argument || refused.Problem != said.Problem {
			t.Errorf("of %+v the client says %v, the store %v", wrong, got, want)
		}
	}
}
