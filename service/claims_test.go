package service_test

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pgcut"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testrun"
	"github.com/stint-tasks/stint/service"
)

// A wait that is over while tasks are handed out has none to give, and so leaves none owned.
func TestOwnTasks_AWaitThatIsOverLeavesNothingOwned(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct := testdb.New(t)
	truth := startOn(t, direct, service.Options{}).store
	proxy := pgcut.New(t, direct)
	r := startOn(t, proxy.Pool(t, 5), service.Options{})
	wantErr(t, "InsertTasks", truth.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "mail"},
	}), nil)
	trap := proxy.Hold(pgcut.AtReply, pgcut.Executes("own_tasks"))
	r.wantPosted(t, "WorkerService/OwnTasks", `{"actor":"curl","session":1,"claim":"42",`+
		`"max_tasks":1,"actions":["mail"],"lease":"3600s","wait":"0.1s"}`, `{}`)
	owned, err := truth.WaitToOwnTasks(t.Context(), "next", 1, []string{"mail"}, time.Hour)
	if err != nil || owned[0].Try != 1 {
		t.Errorf("WaitToOwnTasks = %v, %v", owned, err)
	}
	trap.Release()
}

// If what does not fit into an answer cannot be given back, the call is made again.
func TestOwnTasks_ThatCannotCutItsAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	r := start(t)
	body := bytes.Repeat([]byte("x"), 5<<20)
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "mail", Body: body}, {ID: "b", Action: "mail", Body: body},
	}), nil)
	exec := func(statement string) {
		t.Helper()
		_, err := r.pool.Exec(t.Context(), statement)
		wantErr(t, statement, err, nil)
	}
	exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN RAISE EXCEPTION 'the disk is full' USING ERRCODE = '53100'; END $$`)
	exec(`CREATE TRIGGER refuse BEFORE DELETE ON stint.leased EXECUTE FUNCTION refuse()`)
	const own = `{"actor":"curl","session":1,"claim":"42","max_tasks":2,"actions":["mail"],` +
		`"lease":"3600s"`
	code, _ := r.post(t, "WorkerService/OwnTasks", own+"}")
	if code != http.StatusServiceUnavailable {
		t.Errorf("OwnTasks = %d, want %d", code, http.StatusServiceUnavailable)
	}
	exec(`DROP TRIGGER refuse ON stint.leased`)
	code, _ = r.post(t, "WorkerService/OwnTasks", own+`,"repeated":true}`)
	if code != http.StatusOK {
		t.Errorf("OwnTasks = %d, want %d", code, http.StatusOK)
	}
	for id, want := range map[stint.TaskID]stint.State{
		"a": stint.StateInProgress, "b": stint.StateReady,
	} {
		found, err := r.store.GetTasks(t.Context(), []stint.TaskID{id})
		if err != nil || found[0].State != want {
			t.Errorf("%s is %v, %v, want %s", id, found, err, want)
		}
	}
}
