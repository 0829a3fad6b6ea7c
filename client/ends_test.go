package client_test

import (
	"context"
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

// A call gets on past the ends of other actions, however long it may wait, while a transaction
// keeps later ones back.
// Proves G332.
func TestEnds_GetOnWhileATransactionIsOpen(t *testing.T) {
	t.Parallel()
	r := newRemote(t, stint.Options{})
	ctx := t.Context()
	wantErr(t, "InsertTasks", r.InsertTasks(ctx, []stint.Task{
		{ID: "a", Action: "act"}, {ID: "b", Action: "other"}, {ID: "c", Action: "other"},
	}), nil)
	_, err := r.AbortTasks(ctx, []stint.TaskID{"b"}, "off")
	wantErr(t, "AbortTasks", err, nil)
	before, err := r.Ends(ctx, []string{"other"}, "", time.Hour)
	if err != nil || len(before.Tasks) != 1 {
		t.Fatalf("Ends = %+v, %v", before, err)
	}
	tx, err := r.pool.Begin(ctx)
	wantErr(t, "Begin", err, nil)
	defer tx.Rollback(context.WithoutCancel(ctx))
	_, err = r.store.WithTx(tx).AbortTasks(ctx, []stint.TaskID{"a"}, "off")
	wantErr(t, "AbortTasks", err, nil)
	_, err = r.store.AbortTasks(ctx, []stint.TaskID{"c"}, "off")
	wantErr(t, "AbortTasks", err, nil)
	page, err := r.Ends(ctx, []string{"act"}, "", 0)
	if err != nil || page.Next == "" || page.Until.Before(before.Tasks[0].FinishedAt) {
		t.Errorf("Ends = %+v, %v, and has not come to %v", page, err, before.Tasks[0].FinishedAt)
	}
}
