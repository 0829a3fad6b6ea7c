package recipes

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/stinttest"
)

func publishEnds(
	ctx context.Context, store *stint.Store, actions []string, cursor stint.Cursor,
	publish func(stint.TaskInfo) error, keep func(stint.Cursor) error,
) error {
	for {
		page, err := store.Ends(ctx, actions, cursor, time.Minute)
		if err != nil {
			return err
		}
		for _, task := range page.Tasks {
			if err := publish(task); err != nil {
				return err // the page comes again
			}
		}
		cursor = page.Next
		if err := keep(cursor); err != nil {
			return err
		}
	}
}

var errStop = errors.New("stop")

// What could not be published comes again; what was, does not.
func TestPublishEnds_GoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	store := stinttest.New(t, stint.Options{})
	ctx := t.Context()
	var kept stint.Cursor
	var published []stint.TaskID
	end := func(id stint.TaskID) {
		t.Helper()
		if err := store.InsertTasks(ctx, []stint.Task{{ID: id, Action: "count"}}); err != nil {
			t.Fatalf("InsertTasks = %v", err)
		}
		if _, err := store.AbortTasks(ctx, []stint.TaskID{id}, ""); err != nil {
			t.Fatalf("AbortTasks = %v", err)
		}
	}
	run := func(publish func(stint.TaskInfo) error) {
		t.Helper()
		err := publishEnds(ctx, store.Store, []string{"count"}, kept, publish,
			func(cursor stint.Cursor) error {
				kept = cursor
				return errStop
			})
		if !errors.Is(err, errStop) {
			t.Fatalf("publishEnds = %v", err)
		}
	}
	end("a")
	run(func(stint.TaskInfo) error { return errStop })
	publish := func(task stint.TaskInfo) error {
		published = append(published, task.ID)
		return nil
	}
	run(publish)
	end("b")
	run(publish)
	if want := []stint.TaskID{"a", "b"}; !slices.Equal(published, want) {
		t.Errorf("published %q, want %q", published, want)
	}
}
