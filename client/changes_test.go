package client_test

import (
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Proves G225, G227.
func TestListChanges_HasAChangeOnceWhoseAnswerWasLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	r.insert(t, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "act"})
	author := stint.Author{Name: "änn\n%41", Reason: strings.Repeat("ö%", 700)}
	ctx := stint.WithAuthor(t.Context(), author)
	ids := []stint.TaskID{"a"}
	for _, call := range []func() error{
		func() error { return errOf(r.AbortTasks(ctx, ids, "")) },
		func() error { return errOf(r.RetryTasks(ctx, ids)) },
		func() error { return r.Pause(ctx, "act") },
		func() error { return r.SetLimits(ctx, "act", stint.Limits{Concurrency: 3}) },
	} {
		r.cuts.answers.Store(1)
		wantErr(t, "a call", call(), nil)
		if left := r.cuts.answers.Load(); left > 0 {
			t.Fatal("no answer was lost")
		}
	}
	wantErr(t, "AbortTasks without an author",
		errOf(r.AbortTasks(t.Context(), []stint.TaskID{"b"}, "")), nil)
	page, err := r.ListChanges(t.Context(), stint.ChangeFilter{Limit: 3})
	wantErr(t, "ListChanges", err, nil)
	rest, err := r.ListChanges(t.Context(), stint.ChangeFilter{After: page.Next})
	wantErr(t, "ListChanges", err, nil)
	var verbs []string
	for _, c := range append(page.Changes, rest.Changes...) {
		verbs = append(verbs, c.Verb)
		if c.By != author.Name || !strings.HasPrefix(author.Reason, c.Reason) ||
			len(c.Reason) < 1020 || c.Action != "act" || c.Items != 1 || c.At.IsZero() {
			t.Errorf("a change is %+v", c)
		}
	}
	if got := strings.Join(verbs, " "); got != "SetLimits Pause RetryTasks AbortTasks" {
		t.Errorf("changes: %s", got)
	}
}
