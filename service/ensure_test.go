package service_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Whoever ensures a task whose ID another one has is told that it is taken, and no more: its own
// tasks cannot wait for that one, nor that one for them, also if it was inserted at that moment.
// Proves G136, G231.
func TestEnsureTasks_LinksNothingToHiddenTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := startGuarded(t)
	requests := []string{
		`{"tasks":[{"id":"ID","action":"mail"},{"id":"shop/new","action":"mail","after":["ID"]}]}`,
		`{"tasks":[{"id":"ID","action":"mail","after":["shop/new"]},` +
			`{"id":"shop/new","action":"mail"}]}`,
	}
	wantHidden := func(code int, answer map[string]any) {
		t.Helper()
		if text := fmt.Sprint(answer); code != http.StatusNotFound ||
			strings.Contains(text, "started") || strings.Contains(text, "action") {
			t.Errorf("EnsureTasks = %d %s", code, text)
		}
		_, err := r.store.GetTasks(t.Context(), []stint.TaskID{"shop/new"})
		wantErr(t, "GetTasks", err, stint.ErrTaskNotFound)
	}
	owned, err := r.store.OwnTasks(t.Context(), "w", 1, []string{"ship"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	for i, request := range requests {
		wantHidden(r.as("chain").post(t, "TaskService/EnsureTasks",
			strings.ReplaceAll(request, "ID", "shop/ship")))

		id := stint.TaskID(fmt.Sprint("shop/", i))
		tx, err := r.pool.Begin(t.Context())
		wantErr(t, "Begin", err, nil)
		defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
		wantErr(t, "InsertTasks", r.store.WithTx(tx).InsertTasks(t.Context(), []stint.Task{
			{ID: id, Action: "ship"},
		}), nil)
		type answer struct {
			code int
			body map[string]any
		}
		answers := make(chan answer)
		go func() {
			code, body := r.as("chain").post(t, "TaskService/EnsureTasks",
				strings.ReplaceAll(request, "ID", string(id)))
			answers <- answer{code, body}
		}()
		for waiting := 0; waiting == 0; {
			err := r.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE
				datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
			wantErr(t, "Scan", err, nil)
		}
		wantErr(t, "Commit", tx.Commit(t.Context()), nil)
		got := <-answers
		wantHidden(got.code, got.body)
	}
	code, answer := r.as("chain").post(t, "TaskService/EnsureTasks",
		strings.ReplaceAll(requests[0], "ID", "shop/mail"))
	if code != http.StatusOK || fmt.Sprint(answer["existing"]) != "[shop/mail]" ||
		fmt.Sprint(answer["ids"]) != "[shop/mail shop/new]" {
		t.Errorf("EnsureTasks = %d %v", code, answer)
	}
}
