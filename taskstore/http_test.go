package taskstore_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/taskstore"
)

// ask returns the status code and the body of an answer.
func ask(tb testing.TB, handler http.Handler, method, target, body string) (int, string) {
	tb.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequestWithContext(tb.Context(), method, target,
		strings.NewReader(body)))
	if got := recorder.Header().Get("Content-Type"); got != "application/json" {
		tb.Errorf("%s %s is answered in %q", method, target, got)
	}
	return recorder.Code, strings.TrimSpace(recorder.Body.String())
}

func wantAnswer(
	tb testing.TB, handler http.Handler, method, target, body string, code int, want string,
) {
	tb.Helper()
	if got, text := ask(tb, handler, method, target, body); got != code || text != want {
		tb.Errorf("%s %s %s = %d %s, want %d %s", method, target, body, got, text, code, want)
	}
}

// shown is a task as the service shows it.
func shown(id int64, group, data string, timeSpec, owner int64) string {
	return fmt.Sprintf(`{"id":%d,"group":%q,"data":%q,"timespec":%d,"ownerid":%d}`,
		id, group, data, timeSpec, owner)
}

func TestHandler_ShowsTasks(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	handler := taskstore.Handler(store)
	wantAnswer(t, handler, "GET", "/groups", "", 200, "[]")
	wantAnswer(t, handler, "GET", "/task/1", "", 404, "null")
	wantAnswer(t, handler, "GET", "/tasks/1,2", "", 200, "[null,null]")
	wantAnswer(t, handler, "GET", "/group/map", "", 200, "[]")

	const at, later = 1388552400000, 4102444800000
	tasks := update(t, store, taskstore.Request{Client: 2624, Adds: []taskstore.Add{
		{Group: "map", Data: []byte("/path/to/<file>:1024:2048"), TimeSpec: at},
		{Group: "map", Data: []byte("\xff"), TimeSpec: later},
		{Group: "a/b//../c d", TimeSpec: at},
	}})
	first := shown(tasks[0].ID, "map", "/path/to/<file>:1024:2048", at, 2624)
	owned := shown(tasks[1].ID, "map", "\ufffd", later, 2624)
	owned = strings.Replace(owned, "\ufffd", `\ufffd`, 1)
	odd := shown(tasks[2].ID, "a/b//../c d", "", at, 2624)
	path := func(kind string, tasks ...taskstore.Task) string {
		return "/" + kind + "/" +
			strings.ReplaceAll(strings.Trim(fmt.Sprint(idsOf(tasks)), "[]"), " ", ",")
	}
	for target, want := range map[string]string{
		"/groups":                                   `["a/b//../c d","map"]`,
		path("task", tasks[0]):                      first,
		path("task", tasks[1]):                      owned,
		path("tasks", tasks[0]):                     "[" + first + "]",
		path("tasks", tasks[1], tasks[0]) + ",99":   "[" + owned + "," + first + ",null]",
		"/group/map":                                "[" + first + "]",
		"/group/map?owned=no":                       "[" + first + "]",
		"/group/map?owned=false&limit=5":            "[" + first + "]",
		"/group/map?owned=0":                        "[" + first + "]",
		"/group/map?owned=1":                        "[" + first + "," + owned + "]",
		"/group/map?owned=yes":                      "[" + first + "," + owned + "]",
		"/group/map?limit=2&owned=true":             "[" + first + "," + owned + "]",
		"/group/map?limit=1":                        "[" + first + "]",
		"/group/map?limit=0&owned=true":             "[]",
		"/group/%6D%61p":                            "[" + first + "]",
		"/group/a/b//../c%20d":                      "[" + odd + "]",
		"/group/a%2Fb%2F%2F%2E%2E%2Fc%20d?limit=10": "[" + odd + "]",
	} {
		wantAnswer(t, handler, "GET", target, "", 200, want)
	}
	for range 2 {
		code, text := ask(t, handler, "GET", "/group/map?limit=1&owned=true", "")
		var list []json.RawMessage
		if err := json.Unmarshal([]byte(text), &list); code != 200 || err != nil || len(list) != 1 {
			t.Errorf("with a limit of 1 the answer is %d %s", code, text)
		}
	}
}

func TestHandler_UpdatesAndClaims(t *testing.T) {
	t.Parallel()
	store, pool := newStore(t)
	handler := taskstore.Handler(store)
	post := func(path, body string, code int) (tasks []taskJSON, text string) {
		t.Helper()
		got, text := ask(t, handler, "POST", path, body)
		var answer struct {
			Tasks []taskJSON
			Error json.RawMessage
		}
		if err := json.Unmarshal([]byte(text), &answer); got != code || err != nil ||
			answer.Tasks == nil || (code == 200) != (string(answer.Error) == "null") {
			t.Fatalf("POST %s %s = %d %s, want %d", path, body, got, text, code)
		}
		return answer.Tasks, text
	}
	before := now(t, pool)
	added, _ := post("/update", `{"clientid": 1643,
		"adds": [{"group": "map", "data": "/path/to/file:1024:2048"},
		         {"id": 17, "group": "map", "data": "/path/to/file:2048:3096", "timespec": 60000},
		         {"group": "other", "timespec": -60000}]}`, 200)
	if len(added) != 3 || added[0].Data != "/path/to/file:1024:2048" || added[0].Group != "map" ||
		added[0].TimeSpec < before || added[0].OwnerID != 1643 || added[1].TimeSpec != 60000 ||
		added[2].TimeSpec < before+60000 || added[0].ID >= added[1].ID {
		t.Errorf("the new tasks are %+v", added)
	}
	changed, _ := post("/update", fmt.Sprintf(`{"clientid": 1643, "updates": [{"id": %d}],
		"deletes": [%d], "depends": [%d, %d]}`,
		added[0].ID, added[1].ID, added[2].ID, added[2].ID), 200)
	if len(changed) != 1 || changed[0].Data != "" || changed[0].Group != "map" ||
		changed[0].ID <= added[2].ID {
		t.Errorf("the new tasks are %+v", changed)
	}
	_, text := post("/update", fmt.Sprintf(`{"clientid": 1, "updates": [{"id": %d}],
		"deletes": [%d, %d], "depends": [9000000000000000000], "adds": [{"group": "g"}]}`,
		added[0].ID, added[1].ID, added[2].ID), 409)
	want := fmt.Sprintf(`{"tasks":[],"error":{"changes":[%d],"deletes":[%d],`+
		`"depends":[9000000000000000000],"owned":[%d]}}`, added[0].ID, added[1].ID, added[2].ID)
	if text != want {
		t.Errorf("the answer is %s, want %s", text, want)
	}

	const claim = `{"clientid": 1532, "group": "map", "duration": 60000}`
	before = now(t, pool)
	claimed, _ := post("/claim", claim, 200)
	if len(claimed) != 1 || claimed[0].OwnerID != 1532 || claimed[0].ID <= changed[0].ID ||
		claimed[0].TimeSpec < before+60000 {
		t.Errorf("the claimed task is %+v", claimed)
	}
	if none, _ := post("/claim", claim, 200); len(none) != 0 {
		t.Errorf("the claimed task is %+v, want none", none)
	}
	_, text = post("/claim", `{"clientid": 1532, "group": "map", "duration": 1,
		"depends": [9000000000000000000]}`, 409)
	if want := `{"tasks":[],"error":{"depends":[9000000000000000000]}}`; text != want {
		t.Errorf("the answer is %s, want %s", text, want)
	}
	wantAnswer(t, handler, "GET", "/groups", "", 200, `["map","other"]`)
}

type taskJSON struct {
	ID, TimeSpec, OwnerID int64
	Group, Data           string
}

// badRequests are requests with how they are refused.
var badRequests = []struct {
	method, target, body string
	code                 int
	part                 string
}{
	{"GET", "/", "", 404, "no such path"},
	{"GET", "/nothing", "", 404, "no such path"},
	{"GET", "/groups/", "", 404, "no such path"},
	{"GET", "/task", "", 404, "no such path"},
	{"POST", "/update/", "{}", 404, "no such path"},
	{"POST", "/groups", "", 405, "must be GET"},
	{"DELETE", "/task/1", "", 405, "must be GET"},
	{"GET", "/update", "", 405, "must be POST"},
	{"GET", "/task/", "", 400, "digits only"},
	{"GET", "/task/+1", "", 400, "digits only"},
	{"GET", "/task/-1", "", 400, "digits only"},
	{"GET", "/task/1x", "", 400, "digits only"},
	{"GET", "/task/1,2", "", 400, "digits only"},
	{"GET", "/task/9223372036854775808", "", 400, "digits only"},
	{"GET", "/tasks/1,", "", 400, "digits only"},
	{"GET", "/tasks/1,,2", "", 400, "digits only"},
	{"GET", "/tasks/" + strings.Repeat("1,", 10_000) + "1", "", 413, "10000"},
	{"GET", "/group/", "", 400, "must not be empty"},
	{"GET", "/group/%ff", "", 400, "UTF-8"},
	{"GET", "/group/%00", "", 400, "NUL"},
	{"GET", "/group/%00?limit=0", "", 400, "NUL"},
	{"GET", "/group/" + strings.Repeat("g", 256), "", 413, "255"},
	{"GET", "/group/g?limit=", "", 400, "limit"},
	{"GET", "/group/g?limit=-1", "", 400, "limit"},
	{"GET", "/group/g?limit=1&limit=2", "", 400, "twice"},
	{"GET", "/group/g?limit=2147483648", "", 400, "limit"},
	{"GET", "/group/g?owned=maybe", "", 400, "owned"},
	{"GET", "/group/g?owned=", "", 400, "owned"},
	{"GET", "/group/g?order=id", "", 400, "unknown"},
	{"GET", "/group/g?owned=%zz", "", 400, "query"},
	{"POST", "/update", "", 400, "JSON object"},
	{"POST", "/update", "null", 400, "JSON object"},
	{"POST", "/update", "[]", 400, "JSON object"},
	{"POST", "/update", "{", 400, "body"},
	{"POST", "/update", "{}", 400, "clientid"},
	{"POST", "/update", `{"clientid":1}{}`, 400, "nothing behind"},
	{"POST", "/update", `{"clientid":1} x`, 400, "nothing behind"},
	{"POST", "/update", `{"clientid":"1"}`, 400, "clientid"},
	{"POST", "/update", `{"clientid":1.5}`, 400, "clientid"},
	{"POST", "/update", `{"clientid":9223372036854775808}`, 400, "clientid"},
	{"POST", "/update", `{"clientid":1,"add":[]}`, 400, "unknown field"},
	{"POST", "/update", `{"clientid":1,"adds":[{"group":"g","ownerid":2}]}`, 400, "ownerid"},
	{"POST", "/update", `{"clientid":1,"adds":[{"data":"d"}]}`, 400, "adds.group"},
	{"POST", "/update", `{"clientid":1,"adds":[null]}`, 400, "adds.group"},
	{"POST", "/update", `{"clientid":1,"updates":[{"id":1,"group":"g"}]}`, 400, "group"},
	{"POST", "/update", `{"clientid":1,"updates":[{"data":"d"}]}`, 400, "updates"},
	{"POST", "/update", `{"clientid":1,"updates":[{"id":1},{"id":1}]}`, 400, "already"},
	{"POST", "/update", `{"clientid":1,"deletes":[1],"depends":[1]}`, 400, "already"},
	{"POST", "/update", `{"clientid":1,"deletes":["1"]}`, 400, "deletes"},
	{"POST", "/update", "{\"clientid\":1,\"adds\":[{\"group\":\"\xff\"}]}", 400, "UTF-8"},
	{"POST", "/update", `{"clientid":1,"adds":[{"group":"\u0000"}]}`, 400, "NUL"},
	{"POST", "/update", `{"clientid":1,"adds":[{"group":"g","data":"` +
		strings.Repeat("d", 1<<20+1) + `"}]}`, 413, "adds.data"},
	{"POST", "/update", `{"clientid":` + strings.Repeat(" ", 32<<20), 413, "body"},
	{"POST", "/claim", `{"clientid":1,"group":"g"}`, 400, "duration"},
	{"POST", "/claim", `{"clientid":1,"group":"g","duration":-60000}`, 400, "duration"},
	{"POST", "/claim", `{"clientid":1,"group":"g","duration":9223372036854775807}`, 400, "ten"},
	{"POST", "/claim", `{"clientid":1,"duration":60000}`, 400, "group"},
	{"POST", "/claim", `{"group":"g","duration":60000}`, 400, "clientid"},
	{"POST", "/claim", `{"clientid":1,"group":"g","duration":1,"limit":1}`, 400, "unknown"},
}

// Proves G134.
func TestHandler_RefusesBadRequests(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	handler := taskstore.Handler(store)
	for _, test := range badRequests {
		code, text := ask(t, handler, test.method, test.target, test.body)
		var answer struct {
			Tasks []taskJSON
			Error struct{ Bugs []string }
		}
		err := json.Unmarshal([]byte(text), &answer)
		if code != test.code || err != nil || answer.Tasks == nil || len(answer.Error.Bugs) != 1 ||
			!strings.Contains(answer.Error.Bugs[0], test.part) {
			t.Errorf("%s %.60s %.60s = %d %.200s, want %d with a bug %q",
				test.method, test.target, test.body, code, text, test.code, test.part)
		}
	}
	wantAnswer(t, handler, "GET", "/groups", "", 200, "[]")
}

func TestHandler_NamesTheMethod(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	recorder := httptest.NewRecorder()
	taskstore.Handler(store).ServeHTTP(recorder,
		httptest.NewRequestWithContext(t.Context(), "PUT", "/claim", nil))
	if got := recorder.Header().Get("Allow"); recorder.Code != 405 || got != "POST" {
		t.Errorf("PUT /claim = %d, allowed is %q", recorder.Code, got)
	}
}

// HEAD is GET without a body, and a service may be below a path.
func TestHandler_WorksBehindAServer(t *testing.T) {
	t.Parallel()
	store, _ := newStore(t)
	add(t, store, "a/b", "x")
	mux := http.NewServeMux()
	mux.Handle("/store/", http.StripPrefix("/store", taskstore.Handler(store)))
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, method := range []string{"GET", "HEAD"} {
		request, err := http.NewRequestWithContext(t.Context(), method,
			server.URL+"/store/group/a%2Fb", nil)
		wantErr(t, "NewRequest", err, nil)
		response, err := http.DefaultClient.Do(request)
		wantErr(t, method, err, nil)
		body, err := readAll(response)
		if err != nil || response.StatusCode != 200 || strings.Contains(body, `"x"`) !=
			(method == "GET") {
			t.Errorf("%s = %d %s, %v", method, response.StatusCode, body, err)
		}
	}
}

// What the database says stays here.
func TestHandler_DoesNotRepeatWhatTheDatabaseSays(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	handler := taskstore.Handler(openStore(t, testdb.NewEmpty(t), taskstore.Options{}))
	wantAnswer(t, handler, "GET", "/groups", "", 500, `{"tasks":[],"error":{"bugs":`+
		`["the database failed: the request may or may not have taken effect"]}}`)
}

// No request makes the handler panic, or the database fail, or an answer that is not JSON.
// Proves G134.
func FuzzHandler(f *testing.F) {
	for _, seed := range [][4]string{
		{"GET", "/groups", "", ""},
		{"GET", "/task/1", "", ""},
		{"GET", "/tasks/1,2,9223372036854775807", "", ""},
		{"GET", "/group/a/../b", "limit=1&owned=yes", ""},
		{"HEAD", "/group/\x00\xff", "limit=99999999999&owned", ""},
		{"POST", "/update", "", `{"clientid":1,"adds":[{"group":"g","data":"\ud800\u0000"}]}`},
		{"POST", "/update", "", `{"clientid":1,"updates":[{"id":1,"timespec":-1}],"deletes":[2]}`},
		{"POST", "/claim", "", `{"clientid":1,"group":"g","duration":1,"depends":[1,1,2]}`},
		{"POST", "/claim", "", `{"clientid":1,"duration":9223372036854775807,"group":"` + "\xc3"},
		{"", "", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	store, _ := newStore(f)
	handler := taskstore.Handler(store)
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		request := httptest.NewRequestWithContext(t.Context(), "GET", "/", strings.NewReader(body))
		request.Method, request.URL.Path, request.URL.RawQuery = method, path, query
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, request)
		switch recorder.Code {
		case 200, 400, 404, 405, 409, 413:
		default:
			t.Errorf("%q %q %q %q = %d", method, path, query, body, recorder.Code)
		}
		if !json.Valid(recorder.Body.Bytes()) {
			t.Errorf("%q %q %q %q = %q", method, path, query, body, recorder.Body)
		}
	})
}
