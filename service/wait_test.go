package service_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/service"
)

// finish owns a task and completes it.
func (r *running) finish(t *testing.T, id stint.TaskID) {
	t.Helper()
	owned, err := r.store.OwnTasks(t.Context(), "worker", 1, []string{"act"}, time.Hour)
	if err != nil || len(owned) != 1 || owned[0].ID != id {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	err = r.store.ReturnTask(t.Context(), id, owned[0].Token, "", stint.StatusCompleted)
	if err != nil {
		t.Fatalf("ReturnTask = %v", err)
	}
}

// However short a wait is, it says what is there already.
func TestWait_HoweverShortLooksOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := start(t)
	insert := func(id string) {
		t.Helper()
		r.wantPosted(t, "TaskService/InsertTasks",
			`{"tasks":[{"id":"`+id+`","action":"act","post_result":true}]}`, `{"ids":["`+id+`"]}`)
	}
	for _, wait := range []string{"0s", "0.000000001s", "0.000001s", "0.001s"} {
		for _, verb := range []string{`{"ids":["a"],"wait":"`, `{"ids":["a","a"],"wait":"`} {
			insert("a")
			r.wantPosted(t, "TaskService/WaitForTasks", verb+wait+`"}`, `{}`)
			r.finish(t, "a")
			code, answer := r.post(t, "TaskService/WaitForTasks", verb+wait+`"}`)
			tasks, _ := answer["tasks"].([]any)
			if code != http.StatusOK || answer["finished"] != true ||
				len(tasks) != strings.Count(verb, `"a"`) {
				t.Errorf("a wait of %s answers %d %v", wait, code, answer)
			}
			if _, err := r.store.DeleteTasks(t.Context(), []stint.TaskID{"a"}); err != nil {
				t.Fatalf("DeleteTasks = %v", err)
			}
		}
	}
	for number, wait := range []string{`,"wait":"0s"`, ``, `,"wait":"0.000000001s"`} {
		insert("a")
		_, answer := r.post(t, "WorkerService/OwnTasks", `{"actor":"curl","session":1,"claim":"`+
			strings.Repeat("7", number+1)+
			`","max_tasks":1,"actions":["act"],"lease":"60s"`+wait+`}`)
		if tasks, _ := answer["tasks"].([]any); len(tasks) != 1 {
			t.Errorf("OwnTasks%s = %v", wait, answer)
		}
		if _, err := r.store.AbortTasks(t.Context(), []stint.TaskID{"a"}, ""); err != nil {
			t.Fatalf("AbortTasks = %v", err)
		}
		if _, err := r.store.DeleteTasks(t.Context(), []stint.TaskID{"a"}); err != nil {
			t.Fatalf("DeleteTasks = %v", err)
		}
	}
}

// A look says what is wrong with the tasks as a wait does.
func TestWait_HoweverShortHasTheErrorsOfAWait(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := start(t)
	r.wantPosted(t, "TaskService/InsertTasks", `{"tasks":[{"id":"silent","action":"act"},`+
		`{"id":"heard","action":"act","post_result":true}]}`, `{"ids":["silent","heard"]}`)
	for _, ids := range []string{
		`["silent","heard"]`, `["none","silent"]`, `["heard","none","none"]`,
		`["silent","silent"]`, `[""]`, `["heard","` + strings.Repeat("x", 600) + `"]`,
	} {
		ask := func(wait string) (int, string) {
			code, answer := r.post(t, "TaskService/WaitForTasks",
				`{"ids":`+ids+`,"wait":"`+wait+`"}`)
			return code, fmt.Sprint(answer["code"], answer["details"])
		}
		wantCode, want := ask("5s")
		for _, wait := range []string{"0s", "0.001s"} {
			if code, got := ask(wait); code != wantCode || got != want || code == http.StatusOK {
				t.Errorf("a wait of %s for %s answers %d %s, want %d %s", wait, ids, code, got,
					wantCode, want)
			}
		}
	}
	for _, wait := range []string{"-0.000000001s", "-1s", "-315576000000s"} {
		for verb, body := range map[string]string{
			"TaskService/WaitForTasks": `{"ids":["heard"],"wait":"` + wait + `"}`,
			"WorkerService/OwnTasks": `{"actor":"a","claim":"1","max_tasks":1,"actions":["act"],` +
				`"lease":"1s","wait":"` + wait + `"}`,
		} {
			code, answer := r.post(t, verb, body)
			if code != http.StatusBadRequest || answer["code"] != "invalid_argument" {
				t.Errorf("%s with a wait of %s = %d %v", verb, wait, code, answer)
			}
		}
	}
}

// A wait and a look give what is too long to be read without room, however long the wait may be.
func TestWait_GivesLongBodiesAndResults(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := startWith(t, service.Options{Limits: service.Limits{Bytes: 1 << 20}})
	const size = 300 << 10
	long := strings.Repeat("l", size)
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "act", PostResult: true, Body: []byte(long)},
		{ID: "b", Action: "act", PostResult: true, Body: []byte("short")},
	}), nil)
	waits := make(chan string, 2)
	for range cap(waits) { // before the end
		go func() {
			_, text := r.send(t, "TaskService/WaitForTasks", "application/json",
				strings.NewReader(`{"ids":["a","b"],"text":true,"wait":"25s"}`))
			waits <- string(text)
		}()
	}
	r.awaitTopic(t, "finished")
	for range 2 {
		owned, err := r.store.OwnTasks(t.Context(), "worker", 1, []string{"act"}, time.Hour)
		wantErr(t, "OwnTasks", err, nil)
		_, err = r.store.ReturnTasks(t.Context(), []stint.Return{{
			ID: owned[0].ID, Token: owned[0].Token, Code: stint.StatusCompleted,
			Result: []byte(long),
		}})
		wantErr(t, "ReturnTasks", err, nil)
	}
	answers := []string{<-waits, <-waits}
	for _, wait := range []string{"0s", "0.001s", "20s"} {
		_, text := r.send(t, "TaskService/WaitForTasks", "application/json",
			strings.NewReader(`{"ids":["a","b"],"text":true,"wait":"`+wait+`"}`))
		answers = append(answers, string(text))
	}
	_, text := r.send(t, "TaskService/GetTasks", "application/json",
		strings.NewReader(`{"ids":["a","b"],"text":true}`))
	for i, answer := range append(answers, string(text)) {
		if strings.Count(answer, long) != 3 || !strings.Contains(answer, "short") {
			t.Errorf("answer %d has %d bytes: %.300s", i, len(answer), answer)
		}
	}
}
