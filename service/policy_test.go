package service_test

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/service/access"
)

// shop may do everything with tasks shop/… of the actions mail and bill, but see no bodies. mailer
// owns tasks with the action mail. reader sees all of one action. clerk answers tasks shop/…, and
// agent some tasks as one actor, and others as another. spy inserts and controls tasks of its own,
// and reads all mails. nightly is the beginning of a schedule.
const nightly = `{"name":"shop/nightly","spec":"@daily"`

const grants = `
shop:
  - verbs: [insert, read, control]
    actions: [mail, "bill*"]
    ids: ["shop/*"]
chain:
  - verbs: [insert, read-bodies, control]
    actions: [mail, "bill*"]
    ids: ["shop/*"]
mailer:
  - verbs: [own]
    actions: [mail]
    actors: ["mailer-*"]
carrier:
  - verbs: [own]
    actions: [mail]
biller:
  - verbs: [own]
    actions: [bill]
reader:
  - verbs: [read]
    actions: [mail]
clerk:
  - verbs: [answer]
    actions: [stint.External]
    ids: ["shop/*"]
    actors: ["clerk-*"]
agent:
  - verbs: [answer]
    actions: [stint.External]
    ids: ["shop/*"]
    actors: [ann]
  - verbs: [answer]
    actions: [stint.External]
    ids: ["other/*"]
    actors: [bob]
spy:
  - verbs: [insert, control]
    actions: [spy]
  - verbs: [read-bodies]
    actions: [mail]
keeper:
  - verbs: [read, control]
    actions: ["*"]
half:
  - verbs: [read, control]
    actions: ["*"]
    ids: ["shop/*"]
root:
  - verbs: ["*"]
    actions: ["*"]
`

// byName takes the token for the name of the principal.
func byName(t *testing.T) func(*http.Request) (*access.Principal, error) {
	t.Helper()
	parsed, err := access.Parse([]byte(grants))
	wantErr(t, "Parse", err, nil)
	return func(r *http.Request) (*access.Principal, error) {
		name, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || name == "wrong" {
			return nil, errors.New("the token is not valid")
		}
		return parsed.Principal(name), nil
	}
}

// startGuarded starts a service with a task of each principal's.
func startGuarded(t *testing.T) *running {
	t.Helper()
	r := startSharded(t, service.Options{Authenticate: byName(t)})
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "shop/mail", Action: "mail", Body: []byte("secret"), PostResult: true},
		{ID: "shop/bills", Action: "bills", After: []stint.TaskID{"shop/mail", "other/mail"}},
		{ID: "shop/ship", Action: "ship", PostResult: true},
		{ID: "other/mail", Action: "mail", PostResult: true},
		{ID: "shop/ask", Action: stint.External},
		{ID: "other/ask", Action: stint.External},
	}), nil)
	return r
}

// as returns the service as a principal sees it.
func (r *running) as(name string) *running {
	caller := *r
	caller.token = name
	return &caller
}

const nobodysToken = "0198c2f0-0000-7000-8000-000000000000"

// A task that the caller must not learn of is answered for as one that is not there.
// Proves G136.
func TestService_AnswersForHiddenTasksAsForNone(t *testing.T) {
	t.Parallel()
	r := startGuarded(t)
	for name, calls := range hiddenCalls {
		for _, c := range calls {
			code, got := r.as(c.by).post(t, "TaskService/"+name, c.request)
			if code != http.StatusNotFound {
				t.Errorf("%s by %s: %s = %d %v, want not found", name, c.by, c.request, code, got)
			}
			none := strings.ReplaceAll(c.request, "shop/ship", "shop/none")
			none = strings.ReplaceAll(none, "shop/mail", "shop/none")
			also, want := r.as(c.by).post(t, "TaskService/"+name, none)
			shown := strings.NewReplacer("shop/ship", "shop/none", "shop/mail", "shop/none")
			if got, want := shown.Replace(fmt.Sprint(code, got["message"])),
				fmt.Sprint(also, want["message"]); got != want && name != "AbortTasks" {
				t.Errorf("%s by %s: %s = %s, want %s", name, c.by, c.request, got, want)
			}
		}
	}
}

// streams have tests of their own: see ...IsRefused... below.
var streams = []string{"Attend", "InsertTasksFrom"}

// Every procedure that the descriptors have is allowed to those with a grant and to nobody else.
// Proves G135, G336.
func TestService_AllowsEachProcedureByGrants(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	tested := maps.Clone(calls)
	for _, of := range wire.Services() {
		for i := range of.Methods().Len() {
			name := string(of.Methods().Get(i).Name())
			if slices.Contains(streams, name) {
				continue
			}
			procedure := string(of.Name()) + "/" + name
			cases, ok := tested[name]
			if !ok {
				t.Errorf("%s has no cases here", procedure)
				continue
			}
			delete(tested, name)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				allowsByGrants(t, procedure, cases.allowed, cases.refused)
			})
		}
	}
	if len(tested) > 0 {
		t.Errorf("there are no such procedures: %v", slices.Collect(maps.Keys(tested)))
	}
}

func allowsByGrants(t *testing.T, procedure string, allowed, refused []call) {
	t.Helper()
	r := startGuarded(t)
	if len(refused) > 0 {
		refused = append(refused, call{"nobody", allowed[0].request})
	}
	before := fmt.Sprint(r.list(t))
	for _, c := range refused {
		status, answer := r.as(c.by).post(t, procedure, c.request)
		if status != http.StatusForbidden || answer["code"] != "permission_denied" ||
			!strings.Contains(fmt.Sprint(answer["message"]), fmt.Sprintf("%q may not", c.by)) {
			t.Errorf("%s by %s: %s = %d %v, want a refusal", procedure, c.by, c.request, status,
				answer)
		}
	}
	if after := fmt.Sprint(r.list(t)); after != before {
		t.Errorf("refused calls have changed %s to %s", before, after)
	}
	for _, token := range []string{"", "wrong"} {
		status, answer := r.as(token).post(t, procedure, allowed[0].request)
		if status != http.StatusUnauthorized || answer["code"] != "unauthenticated" {
			t.Errorf("%s with token %q = %d %v, want unauthenticated", procedure, token, status,
				answer)
		}
	}
	for _, c := range allowed {
		status, answer := r.as(c.by).post(t, procedure, c.request)
		if status == http.StatusForbidden || status == http.StatusUnauthorized ||
			status >= http.StatusInternalServerError {
			t.Errorf("%s by %s: %s = %d %v, want no refusal", procedure, c.by, c.request, status,
				answer)
		}
	}
}

func (r *running) list(t *testing.T) []stint.TaskInfo {
	t.Helper()
	page, err := r.store.ListTasks(t.Context(), stint.Filter{})
	wantErr(t, "ListTasks", err, nil)
	return page.Tasks
}

// Answers have nothing of tasks that the caller must not see, and bodies only for those who may
// read them.
func TestService_ShowsWhatMayBeSeen(t *testing.T) {
	t.Parallel()
	r := startGuarded(t)
	wantErr(t, "Pause", r.store.Pause(t.Context(), "mail", "ship"), nil)
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), []stint.Task{{
		ID: "shop/paid", Action: "bill", When: []stint.Condition{
			{After: "shop/mail", Results: []string{"approved"}}, {After: "other/ask"},
		},
	}}), nil)
	for _, c := range []struct{ by, procedure, request, want, hidden string }{
		{"shop", "GetTasks", `{"ids":["shop/mail"]}`, "shop/mail", "c2VjcmV0"},
		{"root", "GetTasks", `{"ids":["shop/mail"]}`, "c2VjcmV0", "nothing"},
		{"shop", "ExplainTask", `{"id":"shop/bills"}`, `"missing":2`, "other/mail"},
		{"shop", "ExplainTask", `{"id":"shop/bills"}`, "shop/mail", "other/mail"},
		{"root", "ExplainTask", `{"id":"shop/bills"}`, "other/mail", "nothing"},
		{"shop", "GetGraph", `{"id":"shop/bills"}`, `"predecessor":"shop/mail"`, "other/mail"},
		{"shop", "GetGraph", `{"id":"shop/bills"}`, `"cut":true`, "other/mail"},
		{"root", "GetGraph", `{"id":"shop/bills"}`, `"predecessor":"other/mail"`, "cut"},
		{"shop", "GetGraph", `{"id":"shop/paid"}`, `"after":"shop/mail"`, "approved"},
		{"shop", "GetGraph", `{"id":"shop/paid"}`, `"hidden":true`, "approved"},
		{"shop", "GetTasks", `{"ids":["shop/mail"]}`, `"hidden":true`, "c2VjcmV0"},
		{"root", "GetTasks", `{"ids":["shop/mail"]}`, "shop/mail", "hidden"},
		{"shop", "GetServiceInfo", `{}`, `"now"`, "reads_all"},
		{"root", "GetServiceInfo", `{}`, `"reads_all":true`, "nothing"},
		{"shop", "GetGraph", `{"id":"shop/paid"}`, `"after":"shop/mail"`, "other"},
		{"root", "GetGraph", `{"id":"shop/paid"}`, `"results":["approved"]`, "hidden"},
		{"shop", "GetStats", `{}`, "{", "mail"},
		{"reader", "GetStats", `{}`, `"action":"mail"`, "ship"},
		{"reader", "ListTasks", `{}`, "other/mail", "ship"},
		{"reader", "ListActors", `{}`, "{", "mailer"},
		{"reader", "ListLimits", `{}`, `"action":"mail"`, "ship"},
		{"shop", "ListLimits", `{}`, "{", "mail"},
		{"root", "ListLimits", `{}`, `"action":"ship"`, "nothing"},
	} {
		status, text := r.as(c.by).send(t, "TaskService/"+c.procedure, "application/json",
			strings.NewReader(c.request))
		got := strings.ReplaceAll(string(text), " ", "")
		if status != http.StatusOK || !strings.Contains(got, c.want) ||
			strings.Contains(got, c.hidden) {
			t.Errorf("%s by %s = %d %s, want %s and not %s", c.procedure, c.by, status, got, c.want,
				c.hidden)
		}
	}
}

// A bearer sends a token with each request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// clientOf returns a client of a principal.
func (r *running) clientOf(t *testing.T, name string) *client.Client {
	t.Helper()
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	next := &http.Transport{Protocols: protocols}
	t.Cleanup(next.CloseIdleConnections)
	return testservice.Client(t, r.address,
		client.Options{HTTPClient: &http.Client{Transport: bearer{name, next}}})
}

// A stream is refused by its last message too, and nothing of it is inserted.
func TestInsertTasksFrom_IsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	r := startGuarded(t)
	before := len(r.list(t))
	tasks := func(yield func(stint.Task, error) bool) {
		for i := range 5000 {
			id := stint.TaskID(fmt.Sprintf("shop/%d", i))
			if i == 4999 {
				id = "other/1"
			}
			if !yield(stint.Task{ID: id, Action: "mail"}, nil) {
				return
			}
		}
	}
	_, err := r.clientOf(t, "shop").InsertTasksFrom(t.Context(), tasks)
	wantErr(t, "InsertTasksFrom", err, stint.ErrRefused)
	if after := len(r.list(t)); after != before {
		t.Errorf("%d tasks were inserted", after-before)
	}
	n, err := r.clientOf(t, "root").InsertTasksFrom(t.Context(), tasks)
	if err != nil || n != 5000 {
		t.Errorf("InsertTasksFrom = %d, %v", n, err)
	}
}

// A stream does not take effect if its caller may not insert any more when it ends.
func TestInsertTasksFrom_IsRefusedOnceTheTokenIsGone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	known := byName(t)
	var gone atomic.Bool
	r := startSharded(t, service.Options{
		Authenticate: func(r *http.Request) (*access.Principal, error) {
			if gone.Load() {
				return nil, errors.New("the token is not valid")
			}
			return known(r)
		},
	})
	const n = 5000 // in more than one message
	_, err := r.clientOf(t, "shop").InsertTasksFrom(t.Context(),
		func(yield func(stint.Task, error) bool) {
			for i := range n {
				gone.Store(i == n-1)
				id := stint.TaskID(fmt.Sprintf("shop/%d", i))
				if !yield(stint.Task{ID: id, Action: "mail"}, nil) {
					return
				}
			}
		})
	wantErr(t, "InsertTasksFrom", err, stint.ErrRefused)
	gone.Store(false)
	if left := r.list(t); len(left) > 0 {
		t.Errorf("%d tasks were inserted", len(left))
	}
}

// Whoever may let tasks wait for one another in a single message may do so in several.
func TestInsertTasksFrom_IsJudgedWhereverItIsCut(t *testing.T) {
	t.Parallel()
	r := startGuarded(t)
	const n = 1500 // more than the client sends in one message
	tasks := func(name string, last stint.TaskID) iter.Seq2[stint.Task, error] {
		first := stint.TaskID("shop/" + name)
		return func(yield func(stint.Task, error) bool) {
			for i := range n {
				task := stint.Task{ID: first, Action: "mail", PostResult: true}
				switch i {
				case 0:
				case n - 1:
					task.ID, task.After = first+"/last", []stint.TaskID{first, last}
				default:
					task.ID = stint.TaskID(fmt.Sprintf("%s/%d", first, i))
					task.After = []stint.TaskID{first}
				}
				if !yield(task, nil) {
					return
				}
			}
		}
	}
	for _, by := range []string{"shop", "chain"} {
		c := r.clientOf(t, by)
		_, err := c.InsertTasksFrom(t.Context(), tasks(by, stint.TaskID("shop/"+by+"/1")))
		wantErr(t, "InsertTasksFrom", err, nil)
		_, err = c.InsertTasksFrom(t.Context(), tasks(by+"2", "other/mail"))
		wantErr(t, "InsertTasksFrom after another's task", err, stint.ErrRefused)
	}
}

func TestAttend_IsRefusedForOthersActors(t *testing.T) {
	t.Parallel()
	r := startGuarded(t)
	wantErr(t, "RegisterActor", r.clientOf(t, "mailer").RegisterActor(t.Context(), "mailer-1",
		[]string{"mail"}), nil)
	for name, actor := range map[string]stint.ActorID{"mailer": "other", "shop": "mailer-1"} {
		err := r.clientOf(t, name).RegisterActor(t.Context(), actor, []string{"mail"})
		wantErr(t, "RegisterActor of another actor", err, stint.ErrRefused)
	}
	actors, err := r.store.ListActors(t.Context())
	if err != nil || len(actors) != 1 || actors[0].Actor != "mailer-1" {
		t.Errorf("ListActors = %+v, %v, want mailer-1", actors, err)
	}
}
