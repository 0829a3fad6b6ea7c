package service_test

import (
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
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		r.address+"/stint.v1.TaskService/"+verb, strings.NewReader(body))
	wantErr(t, "NewRequest", err, nil)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+by)
	request.Header.Set(wire.KeyHeader, key)
	response, err := http.DefaultClient.Do(request)
	wantErr(t, verb, err, nil)
	wantErr(t, "Close", response.Body.Close(), nil)
	if response.StatusCode != http.StatusOK {
		t.Errorf("%s %s by %s with the key %s = %s", verb, body, by, key, response.Status)
	}
}
