package service_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service"
)

// A wait that is over while tasks are fetched has none to give, and so leaves none owned.
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
		`"max_tasks":1,"actions":["mail"],"lease":"3600s","wait":"1s"}`, `{}`)
	owned, err := truth.WaitToOwnTasks(t.Context(), "next", 1, []string{"mail"}, time.Hour)
	if err != nil || owned[0].Try != 1 {
		t.Errorf("WaitToOwnTasks = %v, %v", owned, err)
	}
	trap.Release()
}

// A repetition that may wait asks at once what its claim has, also where others have just found
// nothing: a wait is for tasks that are not fetched yet.
func TestOwnTasks_RepeatedDoesNotWaitForWhatItHas(t *testing.T) {
	t.Parallel()
	r := start(t)
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "mail"},
	}), nil)
	c := stintv1connect.NewWorkerServiceClient(http.DefaultClient, r.address)
	own := func(
		ctx context.Context, claim uint64, repeated bool, wait time.Duration,
	) ([]*stintv1.OwnedTask, error) {
		answer, err := c.OwnTasks(ctx, &stintv1.OwnTasksRequest{
			Actor: "actor", Session: 1, Claim: claim, Repeated: repeated, MaxTasks: 1,
			Actions: []string{"mail"}, Lease: durationpb.New(time.Hour), Wait: durationpb.New(wait),
		})
		return answer.GetTasks(), err
	}
	if lost, err := own(t.Context(), 1, false, 0); err != nil || len(lost) != 1 {
		t.Fatalf("OwnTasks = %v, %v", lost, err)
	}
	others := sync.WaitGroup{}
	ctx, end := context.WithCancel(t.Context())
	others.Go(func() {
		for claim := uint64(2); ctx.Err() == nil; claim++ {
			others.Go(func() { _, _ = own(ctx, claim, false, time.Minute) })
			<-time.After(20 * time.Millisecond)
		}
	})
	<-time.After(time.Second) // they have found nothing for a while by then
	began := time.Now()
	again, err := own(t.Context(), 1, true, 20*time.Second)
	if took := time.Since(began); err != nil || len(again) != 1 || took > 5*time.Second {
		t.Errorf("OwnTasks repeated = %v, %v after %v, want the task at once", again, err, took)
	}
	end()
	others.Wait()
	_, err = own(t.Context(), 999, true, 20*time.Second)
	wantErr(t, "OwnTasks for nothing", wire.ToError(wire.DetailOf(err)), stint.ErrClaimSpent)
}

// If what does not fit into an answer cannot be given back, the call is made again.
func TestOwnTasks_ThatCannotCutItsAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
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

// others are calls of whoever owns tasks with another action, as whatever actor, and knows
// everything of a fetch but its tokens. Each procedure of workerService that is no stream must be
// here.
var others = map[string][]string{
	"OwnTasks": {
		`{"actor":"w","session":"5","claim":"7","max_tasks":9,"actions":["bill"],"lease":"60s"}`,
		`{"actor":"w","session":"5","claim":"7","max_tasks":9,"actions":["bill"],"lease":"60s",` +
			`"repeated":true}`,
		`{"actor":"v","session":"5","claim":"7","max_tasks":9,"actions":["bill"],"lease":"60s",` +
			`"repeated":true,"wait":"0.001s"}`,
		`{"actor":"w","session":"5","claim":"8","max_tasks":9,"actions":["bill"],"lease":"60s",` +
			`"returns":[{"id":"a","token":"PLAIN","code":"completed"}]}`,
	},
	"ReleaseClaim":         {`{"actor":"w","claim":"7"}`, `{"actor":"v","claim":"7"}`},
	"ExtendTasksOwnership": {`{"actor":"w","session":"5","lease":"60s","tasks":[TOKEN]}`},
	"ReturnTasks": {
		`{"returns":[{"id":"a","token":"PLAIN","code":"completed"}]}`,
		`{"returns":[{"id":"a","token":"PLAIN","code":"pending"}],"promptly":true}`,
	},
	"SetStatus":  {`{"id":"a","token":"PLAIN","status":"x"}`},
	"DrawFence":  {`{"id":"a","token":"PLAIN"}`},
	"GetInputs":  {`{"id":"a","token":"PLAIN"}`},
	"RecordStep": {`{"id":"a","token":"PLAIN","name":"s","result":"YQ=="}`},
	"ListSteps":  {`{"id":"a","token":"PLAIN"}`},
}

// The claim, the session and the actor of others are of no use, whatever is made of them.
// Proves G138.
func TestOwners_AreNotWhoeverKnowsTheirNumbers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := startSharded(t, service.Options{
		Authenticate: byName(t), Grace: time.Millisecond,
	})
	const own = `{"actor":"w","session":"5","claim":"7","max_tasks":9,"actions":["mail"],` +
		`"lease":"3600s"`
	owner := r.as("carrier")
	token := owner.ownAll(t, own+"}")
	defer r.attend(t, "carrier", "mail", 1)() // whose end hands its tasks on
	// The token that the claim would make where nobody is asked who he is.
	plain := start(t).ownAll(t, own+"}")
	if plain == token {
		t.Errorf("the token is %s, which whoever knows the claim knows", token)
	}
	methods := stintv1.File_stint_v1_worker_service_proto.Services().Get(0).Methods()
	for i := range methods.Len() {
		name := string(methods.Get(i).Name())
		if name == "Attend" {
			continue
		}
		if len(others[name]) == 0 {
			t.Errorf("%s has no calls of others here", name)
		}
		for _, request := range others[name] {
			request = strings.ReplaceAll(request, "TOKEN", `{"id":"a","token":"PLAIN"}`)
			request = strings.ReplaceAll(request, "PLAIN", plain)
			code, got := r.as("biller").post(t, "WorkerService/"+name, request)
			text := fmt.Sprint(got)
			if strings.Contains(text, "c2VjcmV0") || strings.Contains(text, token) ||
				strings.Contains(text, "kept:[true]") {
				t.Errorf("%s %s = %d %v", name, request, code, got)
			}
		}
	}
	r.attend(t, "biller", "bill", 2)() // a later connection, which ends
	code, again := owner.post(t, "WorkerService/OwnTasks", own+`,"repeated":true}`)
	if code != http.StatusOK || len(again["tasks"].([]any)) != 2 { //nolint:forcetypeassert // ok
		t.Errorf("OwnTasks repeated = %d %v, want both tasks", code, again)
	}
	for _, task := range r.list(t) {
		if task.State != stint.StateInProgress || task.Status != "" || task.Tries != 1 {
			t.Errorf("the task is %+v, want it owned as before", task)
		}
	}
}

// ownAll inserts two tasks, owns both, and returns the token of the first.
func (r *running) ownAll(t *testing.T, request string) string {
	t.Helper()
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "mail", Body: []byte("secret")}, {ID: "b", Action: "mail"},
	}), nil)
	code, answer := r.post(t, "WorkerService/OwnTasks", request)
	tasks, _ := answer["tasks"].([]any)
	if code != http.StatusOK || len(tasks) != 2 {
		t.Fatalf("OwnTasks = %d %v", code, answer)
	}
	first, _ := tasks[0].(map[string]any)
	return fmt.Sprint(first["token"])
}

// attend shows by a stream that the process 5 of actor w lives. The function that it returns checks
// that it still does, and ends it.
func (r *running) attend(t *testing.T, name, action string, epoch int64) (end func()) {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	client := stintv1connect.NewWorkerServiceClient(
		&http.Client{Transport: bearer{name, transport}}, r.address)
	stream, err := client.Attend(t.Context())
	wantErr(t, "Attend", err, nil)
	wantErr(t, "Send", stream.Send(&stintv1.AttendRequest{Hello: &stintv1.AttendHello{
		Actor: "w", Session: 5, Epoch: epoch, Actions: []string{action},
	}}), nil)
	if answer, err := stream.Receive(); err != nil || !answer.GetWelcome() {
		t.Fatalf("Attend by %s = %v, %v, want a welcome", name, answer, err)
	}
	return func() {
		t.Helper()
		wantErr(t, "CloseRequest", stream.CloseRequest(), nil)
		_, err := stream.Receive()
		wantErr(t, "Receive", err, io.EOF)
		_ = stream.CloseResponse()
	}
}
