package service_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service"
)

// A call is known again by its caller, its procedure and its whole key: one with another of these
// takes effect.
// Proves G286.
func TestService_KnowsACallByItsCallerProcedureAndKey(t *testing.T) {
	t.Parallel()
	r := startWith(t, service.Options{Authenticate: byName(t)})
	for _, call := range []struct{ by, key, verb, body string }{
		{"root", "k", "InsertTasks", `{"tasks":[{"id":"a","action":"mail"}]}`},
		{"root", "kk", "InsertTasks", `{"tasks":[{"id":"b","action":"mail"}]}`},
		{"shop", "k", "InsertTasks", `{"tasks":[{"id":"shop/c","action":"mail"}]}`},
		{"root", "k", "AbortTasks", `{"ids":["a"]}`},
		{"root", "k", "InsertTasks", `{"tasks":[{"id":"a","action":"mail"}]}`},
	} {
		r.postOnce(t, call.by, call.key, call.verb, call.body)
	}
	infos, err := r.store.GetTasks(t.Context(), []stint.TaskID{"a", "b", "shop/c"})
	wantErr(t, "GetTasks", err, nil)
	if infos[0].State != stint.StateAborted {
		t.Errorf("a is %s, want it aborted", infos[0].State)
	}
}

// postOnce makes a call with a key of the caller's.
func (r *running) postOnce(t *testing.T, by, key, verb, body string) {
	t.Helper()
	if status, text := r.sendOnce(t, by, key, "", verb, body); status != http.StatusOK {
		t.Errorf("%s %s by %s with the key %s = %d %s", verb, body, by, key, status, text)
	}
}

// sendOnce is postOnce for a call that may be refused, whose caller may say whether it is repeated.
func (r *running) sendOnce(
	t *testing.T, by, key, repeated, verb, body string,
) (status int, text string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		r.address+"/stint.v1.TaskService/"+verb, strings.NewReader(body))
	wantErr(t, "NewRequest", err, nil)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+by)
	request.Header.Set(wire.KeyHeader, key)
	request.Header.Set(wire.RepeatedHeader, repeated)
	response, err := http.DefaultClient.Do(request)
	wantErr(t, verb, err, nil)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	wantErr(t, verb, err, nil)
	return response.StatusCode, string(answer)
}

// That a call was answered lets its caller have that answer again, and do nothing else: not
// by another request with the same key.
// Proves G135.
func TestService_LetsAnAnsweredCallDoNothingElse(t *testing.T) {
	t.Parallel()
	r := startWith(t, service.Options{Authenticate: byName(t)})
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "shop/mail", Action: "mail"}, {ID: "other", Action: "ship"},
	}), nil)
	for _, call := range []struct{ verb, answered, refused string }{
		{
			"InsertTasks",
			`{"tasks":[{"id":"shop/1","action":"mail"},{"id":"shop/2","action":"mail"}]}`,
			`{"tasks":[{"id":"forged","action":"ship"}]}`,
		},
		{"AbortTasks", `{"ids":["shop/mail"]}`, `{"ids":["other"],"dry_run":true}`},
		{"RetryTasks", `{"ids":["shop/mail"]}`, `{"ids":["other"],"dry_run":true}`},
		{
			"ChangeTasks", `{"ids":["shop/mail"],"to":{"priority":1}}`,
			`{"ids":["other"],"to":{"priority":1},"dry_run":true}`,
		},
		{"DeleteTasks", `{"ids":["shop/mail"]}`, `{"ids":["other"],"dry_run":true}`},
	} {
		key := "of " + call.verb
		r.postOnce(t, "shop", key, call.verb, call.answered)
		status, text := r.sendOnce(t, "shop", key, "false", call.verb, call.refused)
		if status != http.StatusForbidden {
			t.Errorf("%s %s = %d %s, want it refused", call.verb, call.refused, status, text)
		}
	}
	_, err := r.store.GetTasks(t.Context(), []stint.TaskID{"forged"})
	wantErr(t, "GetTasks of a task that may not be inserted", err, stint.ErrTaskNotFound)
}
