package client_test

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// Proves G332.
func TestEnds_AreToldOverAService(t *testing.T) {
	t.Parallel()
	r := newRemote(t, stint.Options{Retention: stint.Retention{Aborted: time.Hour}})
	ctx := t.Context()
	now, err := r.Ends(ctx, nil, stint.EndsNow, time.Hour)
	wantErr(t, "Ends", err, nil)
	wantErr(t, "InsertTasks", r.InsertTasks(ctx, []stint.Task{
		{ID: "a", Action: "act"}, {ID: "b", Action: "other"},
	}), nil)
	told := make(chan stint.EndPage, 1)
	go func() {
		page, err := r.Ends(ctx, []string{"act"}, now.Next, time.Hour)
		if err != nil {
			t.Errorf("Ends = %v", err)
		}
		told <- page
	}()
	_, err = r.AbortTasks(ctx, []stint.TaskID{"a", "b"}, "off")
	wantErr(t, "AbortTasks", err, nil)
	page := <-told
	if len(page.Tasks) != 1 || page.Tasks[0].ID != "a" || page.Tasks[0].Status != "off" {
		t.Errorf("Ends told %+v", page.Tasks)
	}
	_, err = r.pool.Exec(ctx, "UPDATE stint.finished SET finished_at = clock_timestamp()")
	wantErr(t, "Exec", err, nil)
	_, err = r.pool.Exec(ctx, `INSERT INTO stint.pruning (told_at, pruned_to)
		VALUES (clock_timestamp(), clock_timestamp())`)
	wantErr(t, "Exec", err, nil)
	_, err = r.Ends(ctx, nil, page.Next, 0)
	wantErr(t, "Ends", err, stint.ErrEndsPruned)
}
