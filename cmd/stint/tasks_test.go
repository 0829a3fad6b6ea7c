//go:build unix

package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestInsert_PrintsTheIDsItMakes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	input := "{\"action\": \"act\"}\n\n{\"id\": \"given\", \"action\": \"act\"}\r\n" +
		"{\"id\": null, \"action\": \"act\"}"
	r := db.run(t, input, "insert").wantExit(t, 0, "inserted 3 tasks")
	made := strings.Fields(r.stdout)
	if len(made) != 2 || made[0] == made[1] {
		t.Fatalf("insert printed %q, want two IDs", r.stdout)
	}
	for _, id := range made {
		if _, err := uuid.Parse(id); err != nil {
			t.Errorf("ID %q: %v", id, err)
		}
		db.run(t, "", "show", id).wantExit(t, 0)
	}
	db.run(t, "", "show", "given").wantExit(t, 0)

	var document struct {
		Inserted int
		NewIDs   []string `json:"new_ids"`
	}
	r = db.run(t, `{"action":"act"}`, "insert", "--json").wantExit(t, 0)
	r.decode(t, &document)
	if document.Inserted != 1 || len(document.NewIDs) != 1 {
		t.Errorf("insert --json printed %s", r.stdout)
	}
	r = db.run(t, "", "insert", "--json").wantExit(t, 0)
	if r.stdout != "{\"inserted\":0,\"new_ids\":[]}\n" {
		t.Errorf("insert --json of nothing printed %s", r.stdout)
	}
}

func TestInsert_TakesEveryField(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	input := `{"id": "first", "action": "act", "to_signal_after": ["all"]}
		{"id": "all", "action": "act", "key": "k", "body": "text", "priority": -7,
		"headers": {"tenant": "acme", "traceparent": "00-1"}, "max_tries": 3,` +
		"\n" + `"not_before": "2999-01-02T03:04:05+01:00", "deadline": "2999-02-03T04:05:06.5Z",` +
		`"post_result": true, "on_abort": "run-anyway", "after": ["last", "first"]}
		{"id": "last", "action": "other"}`
	db.run(t, input, "insert").wantExit(t, 0)
	var got map[string]any
	db.run(t, "", "show", "all", "--json").wantExit(t, 0).decode(t, &got)
	if _, ok := got["inserted_at"]; !ok {
		t.Error("show says nothing of inserted_at")
	}
	delete(got, "inserted_at")
	delete(got, "predecessors")
	delete(got, "dependents")
	want := map[string]any{
		"id": "all", "action": "act", "key": "k", "body": "text", "priority": -7.0,
		"max_tries": 3.0, "not_before": "2999-01-02T02:04:05Z",
		"deadline": "2999-02-03T04:05:06.5Z", "post_result": true, "on_abort": "run-anyway",
		"state": "blocked", "status_code": "pending", "tries": 0.0,
		"headers":            map[string]any{"tenant": "acme", "traceparent": "00-1"},
		"total_dependencies": 2.0, "signals": 0.0,
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("show --json = %v\nwant %v", got, want)
	}
	var why struct{ Missing int }
	db.run(t, "", "explain", "all", "--json").wantExit(t, 0).decode(t, &why)
	if why.Missing != 2 {
		t.Errorf("it waits for %d tasks, want 2", why.Missing)
	}
	db.run(t, "", "show", "all").wantExit(t, 0).
		wantOutput(t, "headers", "tenant: acme\n", "traceparent: 00-1\n")
	listed := db.run(t, "", "ls", "--header", "tenant=acme", "--json").wantExit(t, 0).stdout
	if n := strings.Count(listed, "\n"); n != 1 || !strings.Contains(listed, `"id":"all"`) {
		t.Errorf("ls --header prints %s", listed)
	}
	db.run(t, "", "ls", "--header", "acme").wantExit(t, 2, "invalid --header")
	db.run(t, "", "ls", "--header", "tenant=other").wantExit(t, 0)
}

func TestInsert_TakesBodiesOfEveryKind(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	for member, want := range map[string]struct{ body, base64 any }{
		``:                             {nil, nil},
		`, "body": null`:               {nil, nil},
		`, "body": ""`:                 {"", nil},
		`, "body": "\u0000é\n"`:        {"\x00é\n", nil},
		`, "body": {"a": [1, "ü"] }`:   {`{"a": [1, "ü"] }`, nil},
		`, "body": 12345678901234567.`: {nil, nil},
		`, "body": 9007199254740993`:   {"9007199254740993", nil},
		`, "body": false`:              {"false", nil},
		`, "body_base64": "AP8="`:      {nil, "AP8="},
		`, "body_base64": "YWJj"`:      {"abc", nil},
	} {
		id := uuid.NewString()
		r := db.run(t, `{"id": "`+id+`", "action": "act"`+member+`}`, "insert")
		if strings.HasSuffix(member, ".") {
			r.wantExit(t, 2, "line 1, column ")
			continue
		}
		r.wantExit(t, 0)
		var got map[string]any
		db.run(t, "", "show", id, "--json").wantExit(t, 0).decode(t, &got)
		if got["body"] != want.body || got["body_base64"] != want.base64 {
			t.Errorf("%s became %v, want %v", member, got, want)
		}
	}
}

// Proves G118.
func TestInsert_AddsAllOrNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "taken", Action: "act"}, stint.Task{ID: "owned", Action: "own"})
	db.own(t, "own")
	first := `{"id": "new", "action": "act"}` + "\n"
	tests := map[string]struct {
		line string
		code int
		want string
	}{
		"taken":     {`{"id": "taken", "action": "act"}`, 6, `task exists: "taken"`},
		"twice":     {`{"id": "new", "action": "act"}`, 6, `task exists: "new"`},
		"malformed": {`{"id": "a", "action": "act",}`, 2, "line 2, column 29: invalid character"},
		"unknown":   {`{"id": "a", "actoin": "act"}`, 2, `line 2, column 13: unknown field`},
		"dangling":  {`{"id": "a", "action": "act", "after": ["no"]}`, 3, `task not found: "no"`},
		"started": {
			`{"id": "a", "action": "act", "to_signal_after": ["owned"]}`, 6, "task has started",
		},
		"cycle": {`{"id": "a", "action": "act", "after": ["a"]}`, 6, `cycle: "a" -> "a"`},
		"too long": {
			`{"id": "a", "action": "` + strings.Repeat("x", 256) + `"}`, 2,
			"line 2: action bytes: 256 exceeds",
		},
		"negative": {
			`{"id": "a", "action": "act", "max_tries": -2}`, 2, "line 2: max_tries: must be",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := db.run(t, first+test.line, "insert").wantExit(t, test.code, test.want)
			if r.stdout != "" {
				t.Errorf("it printed %q", r.stdout)
			}
		})
	}
	t.Cleanup(func() {
		page, err := db.store.ListTasks(context.WithoutCancel(t.Context()),
			stint.Filter{})
		if err != nil || len(page.Tasks) != 2 {
			t.Errorf("there are %d tasks, %v, want 2", len(page.Tasks), err)
		}
	})
}

func TestInsert_StreamsLongInput(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const n = 100_001
	db := newDatabase(t)
	var input strings.Builder
	for i := range n {
		fmt.Fprintf(&input, "{\"id\": \"%06d\", \"action\": \"act\"}\n", i)
	}
	last := `{"id": "last", "action": "act", "after": ["000000"]}`
	count := func() (n int) {
		t.Helper()
		err := db.pool.QueryRow(t.Context(), "SELECT count(*) FROM stint.tasks").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for line, want := range map[string]string{
		"\n[]": "line 100003, column 1: expected an object",
		`{"id": "a", "action": "act", "to_signal_after": ["000000"]}`: "line 100002: to_signal_af",
	} {
		db.run(t, input.String()+line, "insert").wantExit(t, 2, want)
		if got := count(); got != 0 {
			t.Fatalf("%d tasks were inserted before an error", got)
		}
	}
	db.run(t, input.String()+last, "insert").wantExit(t, 0, "inserted 100,002 tasks")
	if got := count(); got != n+1 {
		t.Errorf("there are %d tasks, want %d", got, n+1)
	}
}

func TestList_Filters(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t,
		stint.Task{ID: "a/1", Action: "copy", Body: []byte(`{"n": 7}`)},
		stint.Task{ID: "a/2", Action: "move", Body: []byte("7")},
		stint.Task{ID: "b/1", Action: "own"}, stint.Task{ID: "b/2", Action: "copy,all"},
		stint.Task{ID: "c", Action: "copy", After: []stint.TaskID{"a/1"}},
		stint.Task{ID: "it's", Action: "copy", NotBefore: time.Now().Add(90 * time.Minute)},
	)
	db.own(t, "own")
	tests := map[string][]string{
		"":                                       {"a/1", "a/2", "b/1", "b/2", "c", "it's"},
		"--action copy":                          {"a/1", "c", "it's"},
		"--action move --action copy,all":        {"a/2", "b/2"},
		"--state blocked,scheduled":              {"it's", "c"},
		"--state in-progress":                    {"b/1"},
		"--prefix a/":                            {"a/1", "a/2"},
		"--actor actor":                          {"b/1"},
		"--body $.n==7":                          {"a/1"},
		"--body $ --state ready":                 {"a/1", "a/2"},
		"--limit 2":                              {"a/1", "a/2"},
		"--limit 2 --after a/2":                  {"b/1", "b/2"},
		"--state ready --action copy --limit 10": {"a/1"},
		"--state aborted":                        nil,
		"--older-than 1d":                        nil,
		"--older-than 0 --newer-than 1h --limit 1": {"a/1"},
	}
	for flags, want := range tests {
		r := db.run(t, "", append([]string{"ls", "--json"}, strings.Fields(flags)...)...)
		r.wantExit(t, 0)
		var got []string
		for line := range strings.Lines(r.stdout) {
			var task struct{ ID string }
			if err := json.Unmarshal([]byte(line), &task); err != nil {
				t.Fatal(err)
			}
			got = append(got, task.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("ls %s = %q, want %q", flags, got, want)
		}
	}
	db.run(t, "", "show", "b/1", "--json").wantExit(t, 0).wantOutput(t, `"owned_at":"20`)
	r := db.run(t, "", "ls", "--limit", "6").wantExit(t, 0, `there may be more: --after 'it'\''s'`)
	r.wantOutput(t, "ID    ACTION    STATE        TRIES    WHEN", "begins in 1h", "expires in 5",
		"inserted ")
	db.run(t, "", "ls", "--state", "aborted").wantExit(t, 0, "no tasks")
	for _, args := range [][]string{
		{"--state", "done"},
		{"--limit", "0"},
		{"--older-than", "soon"},
		{"--newer-than", "-1h"},
		{"--limit", "10001"},
		{"--prefix", "\xff"},
		{"--key", ""},
		{"--key", "\xff"},
		{"--body", "$.n = 7"},
		{"--action", ""},
		{"more"},
	} {
		db.run(t, "", append([]string{"ls"}, args...)...).wantExit(t, 2)
	}
}

func TestShow_ShowsAllOfATask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{
		ID: "new\nline", Action: "act", Body: []byte("one\ntwo"), Priority: 5, MaxTries: 2,
		PostResult: true, Key: "customer\t7",
	})
	db.complete(t, "act", []byte{0xff})
	r := db.run(t, "", "show", "new\nline").wantExit(t, 0)
	r.wantOutput(t, `"new\nline"`, "completed", "well done", "1 of 2", "one\n", "two\n",
		"1 byte, not text", "priority", "actor", "finished", "key ", `"customer\t7"`)
	r = db.run(t, "", "show", "new\nline", "--json").wantExit(t, 0)
	r.wantOutput(t, `"id":"new\nline"`, `"result_base64":"/w=="`, `"actor":"actor"`,
		`"key":"customer\t7"`)
}

func TestTasks_UnknownOnesAreNamed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "known", Action: "act"})
	for _, args := range [][]string{
		{"show", "no"},
		{"explain", "no"},
		{"graph", "no"},
		{"wait", "no"},
		{"abort", "known", "no"},
		{"retry", "known", "no"},
		{"delete", "known", "no"},
	} {
		r := db.run(t, "", args...).wantExit(t, 3, `task not found: "no"`)
		if r.stdout != "" {
			t.Errorf("%q printed %q", args, r.stdout)
		}
		args[len(args)-1] = ""
		db.run(t, "", args...).wantExit(t, 2, `invalid task ID "": must be 1 to 512 bytes`)
	}
	db.run(t, "", "ls", "--state", "ready").wantExit(t, 0).wantOutput(t, "known")
}

func TestExplain_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "first", Action: "act"},
		stint.Task{ID: "second", Action: "act", MaxTries: 3, After: []stint.TaskID{"first"}})
	r := db.run(t, "", "explain", "second").wantExit(t, 0)
	r.wantOutput(t, "\"second\" is blocked: it waits for 1\n  \"first\" (ready)",
		"tries left: 3 of 3")
	var why struct {
		Task     struct{ State string }
		WaitsFor []struct{ ID string } `json:"waits_for"`
		Missing  int
		Tries    int `json:"tries_left"`
		Now      time.Time
	}
	db.run(t, "", "explain", "second", "--json").wantExit(t, 0).decode(t, &why)
	if why.Task.State != "blocked" || why.Missing != 1 || why.Tries != 3 ||
		why.WaitsFor[0].ID != "first" || why.Now.IsZero() {
		t.Errorf("explain --json = %+v", why)
	}
}

func TestExplain_SaysBecauseOfWhom(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "first", Action: "act"},
		stint.Task{ID: "second", Action: "act", After: []stint.TaskID{"first"}})
	r := db.run(t, "", "explain", "second", "--json").wantExit(t, 0)
	if strings.Contains(r.stdout, "because_of") {
		t.Errorf("of a task that waits, explain --json printed %s", r.stdout)
	}
	db.run(t, "", "abort", "first").wantExit(t, 0)
	r = db.run(t, "", "explain", "second").wantExit(t, 0)
	r.wantOutput(t, "\"second\" was aborted at 2",
		"Z: a predecessor was aborted\n  \"first\" (aborted: it was cancelled)\n")
	var why struct {
		BecauseOf []struct {
			ID    string
			Cause string `json:"abort_cause"`
		} `json:"because_of"`
	}
	db.run(t, "", "explain", "second", "--json").wantExit(t, 0).decode(t, &why)
	if len(why.BecauseOf) != 1 || why.BecauseOf[0].ID != "first" ||
		why.BecauseOf[0].Cause != "cancelled" {
		t.Errorf("explain --json = %+v", why)
	}
}

func TestGraph_DrawsTheNetwork(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "first", Action: "act"},
		stint.Task{ID: "second", Action: "act", After: []stint.TaskID{"first"}})
	db.run(t, "", "graph", "first").wantExit(t, 0).wantOutput(t, "digraph tasks {", "n0 -> n1")
	db.run(t, "", "graph", "first", "--format", "mermaid").wantExit(t, 0).
		wantOutput(t, "flowchart LR", "n0 --> n1")
	r := db.run(t, "", "graph", "second", "--json").wantExit(t, 0)
	r.wantOutput(t, `"dependencies":[{"predecessor":"first","dependent":"second"}],"cut":false`)
	db.run(t, "", "graph", "first", "--format", "png").wantExit(t, 2,
		`invalid --format "png": must be dot, mermaid or svg`)
}

func TestGraph_DrawsAPicture(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	hostile := stint.TaskID("<b>&\"'\x1b]\u202e" + strings.Repeat("long", 100))
	db.insert(t, stint.Task{ID: hostile, Action: "act", MaxTries: 3},
		stint.Task{
			ID: "second", Action: "act", After: []stint.TaskID{hostile},
			OnAbort: stint.RunAnyway,
		})
	db.own(t, "act")
	r := db.run(t, "", "graph", "second", "--format", "svg").wantExit(t, 0)
	r.wantOutput(t, "<svg ", ">in-progress</text>", ">1 of 3 tries</text>", ">second</text>",
		`class="anyway"`, `class="asked"`, "</svg>\n")
	elements := map[string]int{}
	for decoder := xml.NewDecoder(strings.NewReader(r.stdout)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v\n%s", err, r.stdout)
		}
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	if elements["title"] != 3 || elements["b"] != 0 {
		t.Errorf("the elements are %v", elements)
	}
	if again := db.run(t, "", "graph", "second", "--format", "svg"); again.stdout != r.stdout {
		t.Error("the same network is drawn differently")
	}
}

func TestGraph_SaysThatTheNetworkGoesOn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	tasks := make([]stint.Task, 10_000)
	last := stint.Task{ID: "last", Action: stint.Spontaneous}
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprint(i)), Action: "act"}
		last.After = append(last.After, tasks[i].ID)
	}
	db.insert(t, append(tasks, last)...)
	r := db.run(t, "", "graph", "last", "--format", "svg").wantExit(t, 0, "the network goes on")
	r.wantOutput(t, "The network goes on; these are the 10,000 tasks that are nearest.",
		`class="asked"`, ">last</text>")
}

func TestAbort_AbortsWhatDependsOnIt(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "first", Action: "act"},
		stint.Task{ID: "second", Action: "act", After: []stint.TaskID{"first"}})
	r := db.run(t, "", "abort", "first", "first", "--status", "no need").wantExit(t, 0)
	r.wantOutput(t, "aborted 1 task and 1 dependent\n")
	db.run(t, "", "show", "first").wantOutput(t, "cancelled", "no need")
	db.run(t, "", "show", "second").wantOutput(t, "aborted", "dependency")
	db.insert(t, stint.Task{ID: "third", Action: "act"})
	r = db.run(t, "", "abort", "first", "second", "third").wantExit(t, 0,
		"2 tasks had finished already: first, second\n")
	r.wantOutput(t, "aborted 1 task\n")
	r = db.run(t, "", "abort", "first", "--json").wantExit(t, 0)
	r.wantOutput(t, `{"aborted":[],"in_progress":0,"others":0,"unchanged":["first"]}`)
	db.run(t, "", "abort").wantExit(t, 2)
}

func TestRetry_OpensWhatWasAborted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "first", Action: "act"},
		stint.Task{ID: "second", Action: "act", After: []stint.TaskID{"first"}})
	db.run(t, "", "abort", "first").wantExit(t, 0)
	db.run(t, "", "retry", "second").wantExit(t, 6,
		`predecessor was aborted: "first"; name that one`)
	db.run(t, "", "retry", "first").wantExit(t, 0).
		wantOutput(t, "retried 1 task and 1 dependent\n")
	db.run(t, "", "show", "first").wantOutput(t, "ready")
	db.run(t, "", "show", "second").wantOutput(t, "blocked")
	r := db.run(t, "", "retry", "second", "--json").wantExit(t, 0)
	r.wantOutput(t, `{"others":0,"retried":[],"unchanged":["second"]}`)
	db.run(t, "", "retry").wantExit(t, 2)
}

func TestDelete_RefusesWhatIsInProgress(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "owned", Action: "own"}, stint.Task{ID: "ready", Action: "act"})
	db.own(t, "own")
	db.run(t, "", "delete", "ready", "owned").wantExit(t, 6,
		`task is in progress: "owned"; abort it first`)
	db.run(t, "", "delete", "ready").wantExit(t, 0).wantOutput(t, "deleted 1 task\n")
	if got := db.ids(t); !slices.Equal(got, []stint.TaskID{"owned"}) {
		t.Errorf("there are %q, want the owned one", got)
	}
	db.run(t, "", "delete", "ready").wantExit(t, 3)
	db.insert(t, stint.Task{ID: "ready", Action: "act"})
	r := db.run(t, "", "delete", "ready", "--json").wantExit(t, 0)
	r.wantOutput(t, `{"deleted":["ready"],"others":0}`)
}

func TestWait_TellsHowTheTaskEnded(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "good", Action: "good", PostResult: true},
		stint.Task{ID: "bad", Action: "bad", PostResult: true},
		stint.Task{ID: "slow", Action: "slow", PostResult: true},
		stint.Task{ID: "silent", Action: "silent"})
	waiting := start(t, newCommand(t, db.env, "wait", "good", "--timeout", "1m"))
	db.waitForWaiter(t)
	db.complete(t, "good", []byte("42"))
	waiting.wantExit(t, 0)
	r := db.run(t, "", "wait", "good", "--json").wantExit(t, 0)
	r.wantOutput(t, `"result":"42"`, `"state":"completed"`)
	db.run(t, "", "abort", "bad").wantExit(t, 0)
	db.run(t, "", "wait", "bad").wantExit(t, 7, `"bad", cause: cancelled`).
		wantOutput(t, "aborted")
	db.run(t, "", "wait", "slow", "--timeout", "10ms").wantExit(t, 8,
		`stint: timed out after 10ms: "slow" has not finished`)
	db.run(t, "", "wait", "silent", "--timeout", "10ms").wantExit(t, 8, "timed out")
	db.run(t, "", "wait", "good", "--timeout", "1ns").wantExit(t, 0)
	db.run(t, "", "wait", "bad", "--timeout", "1ns").wantExit(t, 7)
	db.run(t, "", "wait", "none", "--timeout", "1ns").wantExit(t, 3)
	for _, timeout := range []string{"0", "-1s", "soon"} {
		db.run(t, "", "wait", "good", "--timeout", timeout).wantExit(t, 2)
	}
}

func TestActors_AreThoseThatLive(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.run(t, "", "actors").wantExit(t, 0, "no actors")
	err := db.store.RegisterActor(t.Context(), "worker-1", []string{"own", "other"})
	if err != nil {
		t.Fatal(err)
	}
	db.run(t, "", "actors").wantExit(t, 0).wantOutput(t, "ACTOR", "worker-1", "other, own")
	var actor struct {
		Actor   string
		Actions []string
		Since   time.Time
	}
	db.run(t, "", "actors", "--json").wantExit(t, 0).decode(t, &actor)
	if actor.Actor != "worker-1" || len(actor.Actions) != 2 || actor.Since.IsZero() {
		t.Errorf("actors --json = %+v", actor)
	}
}

func TestStats_CountsTasksByActionAndState(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	if r := db.run(t, "", "stats").wantExit(t, 0, "no tasks\n"); r.stdout != "" {
		t.Errorf("stats of nothing printed %q", r.stdout)
	}
	err := db.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "copy"},
		{ID: "b", Action: "copy"},
		{ID: "c", Action: "report", After: []stint.TaskID{"a", "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	db.run(t, "", "stats").wantExit(t, 0).wantOutput(t,
		"ACTION  BLOCKED  SCHEDULED  READY ",
		"\ncopy          0          0      2 ",
		"\nreport        1          0      0 ")
	var stats struct {
		Actions []struct {
			Action  string
			Ready   *int
			Blocked *int
			Oldest  *float64 `json:"oldest_ready_seconds"`
		}
		Estimated []string
	}
	db.run(t, "", "stats", "--json").wantExit(t, 0).decode(t, &stats)
	if len(stats.Actions) != 2 || *stats.Actions[0].Ready != 2 || *stats.Actions[1].Blocked != 1 ||
		stats.Actions[1].Ready == nil || *stats.Actions[1].Ready != 0 ||
		stats.Actions[0].Oldest == nil || stats.Actions[1].Oldest != nil ||
		stats.Estimated == nil || len(stats.Estimated) > 0 {
		t.Errorf("stats --json = %+v", stats)
	}
	db.run(t, "", "stats", "copy").wantExit(t, 2, "copy")
}

func TestErrors_CountsTasksByTheirErrors(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "silent", Action: "act"})
	db.run(t, "", "abort", "silent").wantExit(t, 0)
	db.run(t, "", "errors").wantExit(t, 0, "no errors were said\n", "stint ls --state aborted\n")
	db.insert(t, stint.Task{ID: "a", Action: "act"})
	ctx := t.Context()
	owned, err := db.store.OwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %v, %v", owned, err)
	}
	err = db.store.ReturnTask(ctx, "a", owned[0].Token, "disk full", stint.StatusAborted)
	if err != nil {
		t.Fatalf("ReturnTask = %v", err)
	}
	db.run(t, "", "errors").wantExit(t, 0).wantOutput(t,
		"TASKS  ACTION  ERROR      EXAMPLE\n1      act     disk full  a\n")
	db.run(t, "", "errors", "--json").wantExit(t, 0).wantOutput(t,
		`{"action":"act","tasks":1,"error":"disk full","example":"a"}`)
}
