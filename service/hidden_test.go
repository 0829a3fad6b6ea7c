package service_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/service/access"
)

// The principals of these tests may do something with tasks of some actions, of some IDs, or both.
const hiddenGrants = `
ann:
  - verbs: [insert, read-bodies, control, own, answer]
    actions: [mail, "bill*", post, stint.External]
cat:
  - verbs: [insert, read, control, answer]
    actions: [mail, "bill*", post, stint.External]
    ids: ["cat/*"]
  - verbs: [own]
    actions: [post]
eve:
  - verbs: [insert, read-bodies, control, answer]
    actions: ["*"]
    ids: ["eve/*"]
  - verbs: [own]
    actions: [post]
dan:
  - verbs: [insert, control]
    actions: [mail, post, stint.External]
    ids: ["dan/*"]
  - verbs: [own, read]
    actions: [post]
`

// hiddenCallsOf are calls of each procedure, in an order in which they make sense: P is the
// principal, whose tasks are P/1 to P/9. P/hid, aa/hid and the schedule P/secret are of others, or
// not there. TOKEN is that of P/post.
var hiddenCallsOf = []struct{ procedure, request string }{
	{"GetTasks", `{"ids":["P/1","P/hid"]}`},
	{"GetTasks", `{"ids":["P/hid","P/none","P/1"],"found_only":true}`},
	{"GetTasks", `{"ids":["aa/hid"],"found_only":true}`},
	{"GetTasks", `{"ids":["P/1","P/2"]}`},
	{"ListTasks", `{"id_prefix":"P/","actions":["mail"],"limit":2}`},
	{"ListTasks", `{"id_prefix":"P/","actions":["mail"],"limit":2,"after":"P/2"}`},
	{"ListTasks", `{"id_prefix":"P/","actions":["mail","bill1","post"],"limit":50}`},
	{"ListTasks", `{"id_prefix":"P/","actions":["mail"],"newest_first":true,"limit":3}`},
	{"ListTasks", `{"actions":["mail","bill1"],"states":["ready","blocked"],"limit":3}`},
	{"ListTasks", `{"actions":["mail"],"states":["completed"],"limit":1}`},
	{"ListTasks", `{"actions":["mail"],"actor":"w","limit":5}`},
	{"ListTasks", `{"actions":["mail"],"states":["ready"],"after":"0/2000/0/0"}`},
	{"ListTasks", `{"id_prefix":"P/","key":"k"}`},
	{"ListTasks", `{"id_prefix":"P/","actions":["mail"],"body":"$","limit":1}`},
	{"ListTasks", `{"id_prefix":"P/","actions":["mail"],"status":"E","limit":1}`},
	{"ListTasks", `{}`},
	{"ExplainTask", `{"id":"P/1"}`},
	{"ExplainTask", `{"id":"P/3"}`},
	{"ExplainTask", `{"id":"P/hid"}`},
	{"GetHistory", `{"id":"P/1"}`},
	{"GetHistory", `{"id":"P/hid"}`},
	{"GetGraph", `{"id":"P/3"}`},
	{"GetGraph", `{"id":"P/hid"}`},
	{"GetGraph", `{"id":"aa/hid"}`},
	{"GetStats", `{}`},
	{"GetMinutes", `{}`},
	{"GetMinutes", `{"action":"ship"}`},
	{"ListProblems", `{"limit":1}`},
	{"ListProblems", `{"limit":20}`},
	{"ListActors", `{}`},
	{"ListLimits", `{}`},
	{"ListLimits", `{"actions":["mail","ship","post"]}`},
	{"SetLimits", `{"action":"post","limits":{"concurrency":5}}`},
	{"SetLimits", `{"action":"ship","limits":{"concurrency":5}}`},
	{"Pause", `{"actions":["bill1"]}`},
	{"Pause", `{"actions":["ship"]}`},
	{"Resume", `{"actions":["bill1"]}`},
	{"PauseKeys", `{"action":"bill1","keys":["k"]}`},
	{"ResumeKeys", `{"action":"bill1","keys":["k"]}`},
	{"SetWeights", `{"action":"ship","weights":[{"key":"k","weight":2}]}`},
	{"ListSchedules", `{}`},
	{"ListSchedules", `{"names":["P/secret","secret"]}`},
	{"PauseSchedules", `{"names":["P/secret"]}`},
	{"ResumeSchedules", `{"names":["P/secret","secret"]}`},
	{"TriggerSchedule", `{"name":"P/secret"}`},
	{"TriggerSchedule", `{"name":"secret"}`},
	{"DeleteSchedules", `{"names":["secret"]}`},
	{"PutSchedules", `{"schedules":[{"name":"P/own","spec":"@daily",` +
		`"tasks":[{"action":"mail"}]}]}`},
	{"EnsureSchedules", `{"schedules":[{"name":"P/own","spec":"@daily",` +
		`"tasks":[{"action":"mail"}]}]}`},
	{"InsertTasks", `{"tasks":[{"id":"P/n1","action":"mail","after":["P/hid"]}]}`},
	{"InsertTasks", `{"tasks":[{"id":"P/n1","action":"mail","to_signal_after":["P/hid"]}]}`},
	{"InsertTasks", `{"tasks":[{"id":"P/n2","action":"mail","after":["P/2"]}]}`},
	{"InsertTasks", `{"tasks":[{"id":"P/1","action":"mail"}]}`},
	{"EnsureTasks", `{"tasks":[{"id":"P/n3","action":"mail","after":["P/hid"]}]}`},
	{"EnsureTasks", `{"tasks":[{"id":"P/1","action":"mail"},{"id":"P/n4","action":"mail"}]}`},
	{"ReplaceTasks", `{"tasks":[{"id":"P/5","action":"mail"}]}`},
	{"Debounce", `{"task":{"id":"P/d","action":"mail"},"quiet":"3600s","at_most":"3600s"}`},
	{"AddDependencies", `{"dependencies":[{"predecessor":"P/hid","dependent":"P/3"}]}`},
	{"AddDependencies", `{"dependencies":[{"predecessor":"P/2","dependent":"P/hid"}]}`},
	{"AddDependencies", `{"dependencies":[{"predecessor":"P/3","dependent":"P/2"}]}`},
	{"AddDependencies", `{"dependencies":[{"predecessor":"P/post","dependent":"P/2"}]}`},
	{"OwnTasks", `{"actor":"w","session":"5","claim":"CLAIM","max_tasks":1,"actions":["post"],` +
		`"lease":"3600s","text":true}`},
	{"OwnTasks", `{"actor":"w","session":"5","claim":"9","max_tasks":9,"actions":["ship"],` +
		`"lease":"3600s"}`},
	{"ReleaseClaim", `{"actor":"w","claim":"31"}`},
	{"ExtendTasksOwnership", `{"actor":"w","session":"5","lease":"7200s",` +
		`"tasks":[{"id":"P/post","token":"TOKEN"}]}`},
	{"SetStatus", `{"id":"P/post","token":"TOKEN","status":"half"}`},
	{"SetStatus", `{"id":"P/hid","token":"TOKEN","status":"half"}`},
	{"DrawFence", `{"id":"P/post","token":"TOKEN"}`},
	{"DrawFence", `{"id":"P/hid","token":"TOKEN"}`},
	{"GetInputs", `{"id":"P/post","token":"TOKEN"}`},
	{"RecordStep", `{"id":"P/post","token":"TOKEN","name":"s","result":"YQ=="}`},
	{"ListSteps", `{"id":"P/post","token":"TOKEN"}`},
	{"Transact", `{"must_exist":["P/hid"]}`},
	{"Transact", `{"must_exist":["P/1"],"retry":["P/hid"]}`},
	{"Transact", `{"insert":[{"id":"P/n3","action":"mail"}],"abort":["P/4"]}`},
	{"ReturnTasks", `{"returns":[{"id":"P/post","token":"TOKEN","code":"aborted","status":"x"}]}`},
	{"ReturnTasks", `{"returns":[{"id":"P/hid","token":"TOKEN","code":"aborted"}]}`},
	{"ReturnTasks", `{"returns":[{"id":"P/hid","token":"TOKEN","code":"aborted"}],` +
		`"promptly":true}`},
	{"OwnTasks", `{"actor":"w","session":"5","claim":"10","max_tasks":9,"actions":["post"],` +
		`"lease":"3600s","returns":[{"id":"P/hid","token":"TOKEN","code":"aborted"}]}`},
	{"GetInputs", `{"id":"P/hid","token":"TOKEN"}`},
	{"RecordStep", `{"id":"P/hid","token":"TOKEN","name":"s","result":"YQ=="}`},
	{"ListSteps", `{"id":"P/hid","token":"TOKEN"}`},
	{"Transact", `{"hold":[{"id":"P/hid","token":"TOKEN"}]}`},
	{"Transact", `{"return":[{"id":"P/hid","token":"TOKEN","code":"completed"}]}`},
	{"WaitForTasks", `{"ids":["P/hid"],"wait":"0.001s"}`},
	{"WaitForTasks", `{"ids":["P/1","P/post"],"wait":"0.001s"}`},
	{"AbortTasks", `{"ids":["P/hid"]}`},
	{"AbortTasks", `{"ids":["P/2"]}`},
	{"RetryTasks", `{"ids":["P/hid"]}`},
	{"RetryTasks", `{"ids":["P/3"]}`},
	{"RetryTasks", `{"ids":["P/post"]}`},
	{"ChangeTasks", `{"ids":["P/hid"],"to":{"start_now":true}}`},
	{"ChangeTasks", `{"ids":["P/1","P/2"],"to":{"start_now":true,"priority":1}}`},
	{"AnswerTasks", `{"actor":"w","answers":[{"id":"P/hid","code":"completed"}]}`},
	{"AnswerTasks", `{"actor":"w","answers":[{"id":"P/ask","code":"completed"}]}`},
	{"DeleteTasks", `{"ids":["P/hid"]}`},
	{"DeleteTasks", `{"ids":["P/1","P/2"]}`},
	{"PruneTasks", `{"completed":"0s"}`},
	{"CheckStore", `{}`},
	{"InsertShardTasks", `{"tasks":[{"shard":"1","task":{"id":"P/s1","action":"mail"}},` +
		`{"shard":"1","task":{"id":"P/s2","action":"mail","after":["P/s1"]}}]}`},
	{"InsertShardTasks", `{"tasks":[{"shard":"1","task":{"id":"P/s3","action":"mail",` +
		`"after":["P/hid"]}}]}`},
	{"GetShardTasks", `{"tasks":[{"shard":"1","id":"P/1"},{"shard":"1","id":"aa/hid"}]}`},
	{"GetServiceInfo", `{}`},
	{"InsertTasksFrom", `{"tasks":[{"id":"P/f1","action":"mail","after":["P/hid"]}],"last":true}`},
	{"InsertTasksFrom", `{"tasks":[{"id":"P/f1","action":"mail","to_signal_after":["P/hid"]}]}`},
	{"InsertTasksFrom", `{"tasks":[{"id":"P/f1","action":"mail"}]}
		{"tasks":[{"id":"P/f2","action":"mail","after":["P/f1","aa/hid"]}],"last":true}`},
	{"InsertTasksFrom", `{"tasks":[{"id":"P/f1","action":"mail"}]}
		{"tasks":[{"id":"P/6","action":"mail"},{"id":"P/f2","action":"mail"}],"last":true}`},
	{"InsertTasksFrom", `{"tasks":[{"id":"P/f1","action":"mail","to_signal_after":["P/8"]}]}
		{"tasks":[{"id":"P/f2","action":"mail","after":["P/9"],"to_signal_after":["P/f1"]},
		{"id":"P/f3","action":"mail","after":["P/8"],"to_signal_after":["P/9"]}],"last":true}`},
	{"InsertTasksFrom", `{"tasks":[{"id":"P/f1","action":"mail"}]}`},
	{"InsertTasksFrom", `{"tasks":[{"id":"P/f1","action":"ship"}],"last":true}`},
	{"InsertTasksFrom", `{"tasks":[{"id":"P/f1","action":"mail"},{"id":"P/f2","action":"mail",
		"after":["P/f1"]}]} {"tasks":[{"id":"P/f3","action":"post"}],"last":true}`},
	{"Attend", `{"hello":{"actor":"w","session":"5","epoch":"1","actions":["ship"]}}`},
	{"Attend", `{"hello":{"actor":"w","session":"6","epoch":"1","actions":["post"]},
		"held":[{"id":"P/hid","token":"TOKEN"}]}`},
	{"Attend", `{"hello":{"actor":"w","session":"6","epoch":"1","actions":["post"]}}
		{"held":[{"id":"P/1","token":"NOBODY"}]}`},
	{"ListTasks", `{"actions":["mail"],"states":["aborted","ready"],"id_prefix":"P/"}`},
	{"ListChanges", `{}`},
	{"ListChanges", `{"limit":1}`},
	{"ListChanges", `{"actions":["mail"],"limit":2}`},
	{"ListChanges", `{"actions":["post","bill1"],"after":"1/1"}`},
	{"ListChanges", `{"actions":["ship"]}`},
	{"ListChanges", `{"id":"P/2"}`},
	{"ListChanges", `{"id":"P/1","limit":1}`},
	{"ListChanges", `{"id":"P/gone"}`},
	{"ListChanges", `{"id":"aa/gone"}`},
	{"GetEnds", `{"actions":["mail","post"],"wait":"0s"}`},
	{"GetEnds", `{"wait":"0s"}`},
	{"GetEnds", `{"from":"1/1/1","wait":"0s"}`},
	{"ListProblems", `{"limit":3}`},
	{"GetStats", `{}`},
}

// What a principal is told does not depend on tasks that it must not learn of: the same calls have
// the same answers with and without them, but for times and tokens.
// Proves G136.
func TestService_TellsNothingOfHiddenTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	every := map[string]bool{}
	for _, of := range wire.Services() {
		for i := range of.Methods().Len() {
			every[string(of.Methods().Get(i).Name())] = true
		}
	}
	for _, c := range hiddenCallsOf {
		delete(every, c.procedure)
	}
	if len(every) > 0 {
		t.Errorf("there are no calls of %v", slices.Collect(maps.Keys(every)))
	}
	for _, principal := range testrun.Some([]string{"ann", "cat", "eve", "dan"}) {
		t.Run(principal, func(t *testing.T) {
			t.Parallel()
			alone, beside := startHidden(t), startHidden(t)
			hidden := &hiddenTasks{running: beside, principal: principal}
			hidden.insert(t, 60)
			for _, r := range []*running{alone, beside} {
				r.insertOwn(t, principal)
			}
			hidden.insert(t, 60)
			tokens := map[*running]string{}
			for _, c := range hiddenCallsOf {
				var answers [2]string
				for i, r := range []*running{alone, beside} {
					answers[i] = r.toldOf(t, principal, c.procedure, c.request, tokens)
				}
				if answers[0] != answers[1] {
					t.Errorf("%s %s\nalone:  %s\nbeside: %s", c.procedure, c.request, answers[0],
						answers[1])
				}
				hidden.insert(t, 1)
			}
			hidden.listAll(t, alone)
		})
	}
}

func startHidden(t *testing.T) *running {
	t.Helper()
	parsed, err := access.Parse([]byte(hiddenGrants))
	wantErr(t, "Parse", err, nil)
	r := startSharded(t, service.Options{
		Authenticate: func(r *http.Request) (*access.Principal, error) {
			name, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			return parsed.Principal(name), nil
		},
	})
	r.reason = "a test"
	return r
}

// insertOwn inserts what is the principal's.
func (r *running) insertOwn(t *testing.T, principal string) {
	t.Helper()
	var tasks []stint.Task
	for i := range 9 {
		id := stint.TaskID(fmt.Sprintf("%s/%d", principal, i+1))
		task := stint.Task{ID: id, Action: "mail", PostResult: true, Key: "k", Body: []byte("b")}
		switch i + 1 {
		case 3:
			task.After = []stint.TaskID{stint.TaskID(principal + "/2")}
		case 6:
			task.Action = "bill1"
		case 7:
			task.NotBefore = time.Now().Add(time.Hour)
		}
		tasks = append(tasks, task)
	}
	tasks = append(tasks,
		stint.Task{ID: stint.TaskID(principal + "/post"), Action: "post", PostResult: true},
		stint.Task{ID: stint.TaskID(principal + "/ask"), Action: stint.External})
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), tasks), nil)
}

var changing = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z|[0-9a-f]{8}-[0-9a-f-]{27}` +
	`|sealed:[\w-]+|\d+\.\d+s|"fence":"\d+"`)

// toldOf makes a call, and returns its answer without what changes from call to call.
func (r *running) toldOf(
	t *testing.T, principal, procedure, request string, tokens map[*running]string,
) string {
	t.Helper()
	token := tokens[r]
	if token == "" {
		token = nobodysToken
	}
	request = strings.NewReplacer("P/", principal+"/", "TOKEN", token, "CLAIM", "41", "NOBODY",
		nobodysToken).Replace(request)
	kind := "TaskService/"
	for _, of := range wire.Services() {
		if of.Methods().ByName(protoreflect.Name(procedure)) != nil {
			kind = string(of.Name()) + "/"
		}
	}
	if slices.Contains(streams, procedure) {
		return changing.ReplaceAllString(r.as(principal).stream(t, kind+procedure, request), "…")
	}
	code, answer := r.as(principal).post(t, kind+procedure, request)
	if tasks, ok := answer["tasks"].([]any); ok && procedure == "OwnTasks" && len(tasks) > 0 {
		first, _ := tasks[0].(map[string]any)
		tokens[r], _ = first["token"].(string)
	}
	if actions, ok := answer["actions"].([]any); ok { // stores count tries now and then
		for _, action := range actions {
			if of, ok := action.(map[string]any); ok {
				delete(of, "tries")
			}
		}
	}
	if details, ok := answer["details"].([]any); ok {
		for _, detail := range details {
			if of, ok := detail.(map[string]any); ok {
				delete(of, "value") // the same as debug
			}
		}
	}
	text, err := json.Marshal(answer)
	wantErr(t, "Marshal", err, nil)
	return fmt.Sprint(code, " ", changing.ReplaceAllString(string(text), "…"))
}

// hiddenTasks inserts tasks of others.
type hiddenTasks struct {
	*running
	principal string
	n         int
}

// insert inserts tasks that the principal must not learn of, and lets some of them end.
func (h *hiddenTasks) insert(t *testing.T, n int) {
	t.Helper()
	ctx := t.Context()
	actions := map[string][]string{ // outside of the principal's IDs
		"ann": {"ship", "pack"}, "cat": {"ship", "mail"}, "eve": {"ship", "mail"},
		"dan": {"ship", "mail"},
	}[h.principal]
	var tasks []stint.Task
	if h.n == 0 {
		hid := stint.Task{ID: stint.TaskID(h.principal + "/hid"), Action: "ship", PostResult: true}
		if h.principal == "eve" {
			hid.ID = "eva/hid"
		}
		tasks = append(tasks, hid, stint.Task{ID: "aa/hid", Action: actions[0]})
		for _, name := range []string{"secret", string(hid.ID[:4]) + "secret"} {
			wantErr(t, "PutSchedules", h.store.PutSchedules(ctx, []stint.Schedule{{
				Name: name, Spec: "@daily", Tasks: []stint.Task{{Action: "ship"}},
			}}), nil)
		}
		wantErr(t, "SetLimits", h.store.SetLimits(ctx, "ship", stint.Limits{Concurrency: 7}), nil)
		wantErr(t, "RegisterActor", h.store.RegisterActor(ctx, "w", []string{"ship"}), nil)
	}
	for range n {
		h.n++
		prefix := []string{"a/", "m/", "zz/"}[rand.N(3)]
		action := actions[rand.N(len(actions))]
		if rand.N(2) == 0 && h.principal != "eve" {
			prefix, action = h.principal+"/", "ship"
		}
		task := stint.Task{
			ID: stint.TaskID(fmt.Sprintf("%sx%d", prefix, h.n)), Action: action, Key: "k",
		}
		if len(tasks) > 0 && rand.N(3) == 0 {
			task.After = []stint.TaskID{tasks[rand.N(len(tasks))].ID}
		}
		tasks = append(tasks, task)
	}
	wantErr(t, "InsertTasks", h.store.InsertTasks(ctx, tasks), nil)
	h.changeSome(t, actions[0])
	owned, err := h.store.OwnTasks(ctx, "w", n/3+1, []string{"ship", "pack"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	codes := []stint.StatusCode{stint.StatusCompleted, stint.StatusAborted, stint.StatusPending}
	for i, task := range owned {
		if i > 2 {
			wantErr(t, "ReturnTask", h.store.ReturnTask(ctx, task.ID, task.Token, "hidden failure",
				codes[rand.N(len(codes))]), nil)
		}
	}
}

// changeSome makes changes that are noted: of tasks that are gone afterwards, and of a setting.
func (h *hiddenTasks) changeSome(t *testing.T, action string) {
	t.Helper()
	ctx := stint.WithAuthor(t.Context(), stint.Author{Name: "somebody", Reason: "hidden"})
	gone := []stint.TaskID{"aa/gone", stint.TaskID(h.principal + "/gone")}
	if h.principal == "eve" {
		gone[1] = "eva/gone"
	}
	wantErr(t, "InsertTasks", h.store.InsertTasks(ctx, []stint.Task{
		{ID: gone[0], Action: action}, {ID: gone[1], Action: "ship"},
	}), nil)
	_, err := h.store.DeleteTasks(ctx, gone)
	wantErr(t, "DeleteTasks", err, nil)
	wantErr(t, "PauseKeys", h.store.PauseKeys(ctx, "ship", "hidden"), nil)
	wantErr(t, "ResumeKeys", h.store.ResumeKeys(ctx, "ship", "hidden"), nil)
}

// listAll goes through all pages of lists, of which none has more or less beside hidden tasks.
func (h *hiddenTasks) listAll(t *testing.T, alone *running) {
	t.Helper()
	for _, filter := range []string{
		`"newest_first":true`, `"states":["ready","in-progress","aborted"]`, `"actor":"w"`, ``,
		`"states":["blocked","scheduled","ready"]`,
	} {
		var pages [2][]string
		for i, r := range []*running{alone, h.running} {
			after := ""
			for range 50 {
				request := fmt.Sprintf(`{"actions":["mail","post"],"id_prefix":"%s/","limit":2,`+
					`"after":%q,%s}`, h.principal, after, filter)
				if filter != "" && h.principal == "ann" {
					request = strings.Replace(request, `"id_prefix":"ann/",`, "", 1)
				}
				request = strings.Replace(request, ",}", "}", 1)
				code, page := r.as(h.principal).post(t, "TaskService/ListTasks", request)
				var ids []string
				tasks, _ := page["tasks"].([]any)
				for _, task := range tasks {
					of, _ := task.(map[string]any)
					ids = append(ids, fmt.Sprint(of["id"]))
				}
				pages[i] = append(pages[i], fmt.Sprint(code, ids, page["looked"]))
				if after, _ = page["next"].(string); after == "" {
					break
				}
			}
		}
		if !slices.Equal(pages[0], pages[1]) {
			t.Errorf("pages of %s:\nalone:  %q\nbeside: %q", filter, pages[0], pages[1])
		}
	}
}

// Where tasks of others are linked to a principal's, no answer names them.
// Proves G136.
func TestService_NamesNoHiddenTaskThatIsLinked(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := startHidden(t)
	r.insertOwn(t, "ann")
	ctx := t.Context()
	wantErr(t, "InsertTasks", r.store.InsertTasks(ctx, []stint.Task{
		{ID: "secret/1", Action: "ship"},
		{ID: "secret/2", Action: "ship", After: []stint.TaskID{"ann/2", "secret/1"}},
		{ID: "ann/x", Action: "mail", After: []stint.TaskID{"secret/2"}},
		{ID: "secret/3", Action: "ship", After: []stint.TaskID{"ann/x"}},
		{ID: "ann/y", Action: "mail", After: []stint.TaskID{"secret/1", "ann/x"}},
	}), nil)
	_, err := r.store.AbortTasks(ctx, []stint.TaskID{"secret/1"}, "hidden")
	wantErr(t, "AbortTasks", err, nil)
	for _, c := range []struct{ procedure, request, want string }{
		{"RetryTasks", `{"ids":["ann/x"]}`, "predecessor was aborted"},
		{"RetryTasks", `{"ids":["ann/y"]}`, "predecessor was aborted"},
		{"ExplainTask", `{"id":"ann/x"}`, "dependency"},
		{"GetGraph", `{"id":"ann/x"}`, `cut`},
		{"ListProblems", `{"limit":10}`, ""},
		{"Transact", `{"retry":["ann/x"]}`, "predecessor was aborted"},
	} {
		_, answer := r.as("ann").post(t, "TaskService/"+c.procedure, c.request)
		if text := fmt.Sprint(answer); strings.Contains(text, "secret") ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s %s = %s, want %q", c.procedure, c.request, text, c.want)
		}
	}
	_, err = r.store.RetryTasks(ctx, []stint.TaskID{"secret/1"})
	wantErr(t, "RetryTasks", err, nil)
	for _, request := range []string{
		`{"dependencies":[{"predecessor":"ann/x","dependent":"ann/2"}]}`,
		`{"dependencies":[{"predecessor":"ann/y","dependent":"ann/2"}]}`,
	} {
		_, answer := r.as("ann").post(t, "TaskService/AddDependencies", request)
		if text := fmt.Sprint(answer); strings.Contains(text, "secret") ||
			!strings.Contains(text, `form a cycle: "ann/`) {
			t.Errorf("AddDependencies %s = %s, want a cycle of own tasks", request, text)
		}
	}
	_, answer := r.as("ann").post(t, "TaskService/AbortTasks", `{"ids":["ann/2"]}`)
	if strings.Contains(fmt.Sprint(answer), "others") {
		t.Errorf("AbortTasks = %v, want no count of others", answer)
	}
}

// A caller who guesses the ID of a task that it must not learn of, in a text of its request that
// need not be a name, is not told by an error that it has guessed right.
// Proves G136.
func TestService_ConfirmsNoGuessOfAHiddenTask(t *testing.T) {
	t.Parallel()
	r := startHidden(t)
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "eve/x", Action: "mail"},
		{ID: "secret", Action: "ship", After: []stint.TaskID{"eve/x"}},
		{ID: "eve/y", Action: "mail", After: []stint.TaskID{"secret"}},
	}), nil)
	const cycle = `{"depend":[{"predecessor":"eve/y","dependent":"eve/x"}],`
	for _, guess := range []string{
		`"insert":[{"id":"eve/n","action":"mail","text":"secret"}]}`,
		`"insert":[{"id":"eve/n","action":"mail","key":"secret"}]}`,
		`"abort":["eve/x"],"abort_status":"secret"}`,
		`"return":[{"id":"secret","token":"` + nobodysToken + `","code":"completed"}]}`,
	} {
		_, answer := r.as("eve").post(t, "TaskService/Transact", cycle+guess)
		if text := fmt.Sprint(answer); strings.Contains(text, "secret") ||
			!strings.Contains(text, "form a cycle") {
			t.Errorf("Transact with %s = %s, want a cycle without the guess", guess, text)
		}
	}
}

// That an ID is taken is all that whoever may insert tasks with it is told.
// Proves G136.
func TestInsertTasks_SaysOnlyThatAnIDIsTaken(t *testing.T) {
	t.Parallel()
	r := startHidden(t)
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "cat/hid", Action: "ship", Body: []byte("secret")}, {ID: "other", Action: "mail"},
	}), nil)
	for _, c := range []struct{ procedure, request string }{
		{"InsertTasks", `{"tasks":[{"id":"cat/hid","action":"mail"}]}`},
		{"ReplaceTasks", `{"tasks":[{"id":"cat/hid","action":"mail"}]}`},
		{"Debounce", `{"task":{"id":"cat/hid","action":"mail"},"quiet":"1s","at_most":"1s"}`},
		{"Transact", `{"insert":[{"id":"cat/hid","action":"mail"}]}`},
		{"InsertTasks", `{"tasks":[{"id":"other","action":"mail"}]}`},
	} {
		code, answer := r.as("cat").post(t, "TaskService/"+c.procedure, c.request)
		text := fmt.Sprint(answer)
		if code == http.StatusOK || strings.Contains(text, "ship") ||
			strings.Contains(text, ":ready") || strings.Contains(text, "c2VjcmV0") {
			t.Errorf("%s %s = %d %s", c.procedure, c.request, code, text)
		}
		if strings.Contains(c.request, "other") {
			none := strings.Replace(c.request, "other", "none", 1)
			_, want := r.as("cat").post(t, "TaskService/"+c.procedure, none)
			if got := strings.Replace(text, "other", "none", 1); got != fmt.Sprint(want) {
				t.Errorf("%s = %s, of an ID that is free %v", c.request, got, want)
			}
		}
	}
}

// The errors of a stream name tasks that it names, as those of other calls do, and no others.
func TestInsertTasksFrom_NamesWhatItsMessagesName(t *testing.T) {
	t.Parallel()
	r := startHidden(t)
	wantErr(t, "InsertTasks", r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "hid", Action: "ship"},
	}), nil)
	for by, id := range map[string]string{"ann": "hid", "cat": "cat/none", "eve": "eve/none"} {
		messages := fmt.Sprintf(`{"tasks":[{"id":"%s/a","action":"mail","after":[%q]}]}
			{"tasks":[{"id":"%s/b","action":"mail"}],"last":true}`, by, id, by)
		if by == "cat" { // who may not read bodies
			messages = strings.Replace(messages, "after", "to_signal_after", 1)
		}
		answer := r.as(by).stream(t, "TaskService/InsertTasksFrom", messages)
		if !strings.Contains(answer, fmt.Sprintf(`"ids":[%q],"total":"1"`, id)) {
			t.Errorf("%s: InsertTasksFrom = %s, want an error that names %q", by, answer, id)
		}
	}
}
