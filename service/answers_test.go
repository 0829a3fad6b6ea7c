package service_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/service/access"
)

// answering is the address of a service that lets nobody do anything, and takes answers.
func answering(t *testing.T) (store *stint.Store, address string) {
	t.Helper()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(t.Context()) })
	nobody := func(*http.Request) (*access.Principal, error) { return nil, stint.ErrRefused }
	of, err := service.New(pool, store, service.Options{Authenticate: nobody})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(of.Answers())
	t.Cleanup(server.Close)
	return store, server.URL
}

// send sends an answer, and returns the status and the error of what comes back.
func send(t *testing.T, address, kind, body string) (code int, problem string) {
	t.Helper()
	response, err := http.Post(address, kind, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	var document map[string]string
	if err != nil || json.Unmarshal(text, &document) != nil {
		t.Fatalf("the answer is %q, %v", text, err)
	}
	return response.StatusCode, document["error"]
}

const (
	form         = "application/x-www-form-urlencoded"
	jsonDocument = "application/json"
)

// Whoever has the key of a task answers it, by a form or a document, and needs nothing else.
func TestAnswers_NeedNothingButTheKey(t *testing.T) {
	t.Parallel()
	store, address := answering(t)
	key := stint.NewAnswerKey()
	var tasks []stint.Task
	for i := range 4 {
		tasks = append(tasks, stint.Task{
			ID: stint.TaskID(fmt.Sprint("ask/", i)), Action: stint.External, AnswerKey: key,
		})
	}
	if err := store.InsertTasks(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	k := string(key)
	for i, answer := range []struct{ query, kind, body string }{
		{"", form, url.Values{
			"id": {"ask/0"}, "key": {k}, "code": {"completed"}, "status": {"fine"},
			"result": {"42"},
		}.Encode()},
		{"", jsonDocument, `{"id":"ask/1","key":"` + k +
			`","code":"completed","status":"fine","result":"42"}`},
		{"?id=ask/2&key=" + k, form, "code=completed&status=fine&result=42"},
		{"?id=ask/3&key=" + k, jsonDocument, `{"code":"completed","status":"fine","result":"42"}`},
	} {
		code, problem := send(t, address+answer.query, answer.kind, answer.body)
		if code != http.StatusOK || problem != "" {
			t.Errorf("answer %d: %d %s", i, code, problem)
		}
		found, err := store.GetTasks(t.Context(), []stint.TaskID{tasks[i].ID})
		if err != nil || found[0].State != stint.StateCompleted || found[0].Status != "fine" ||
			string(found[0].Result) != "42" || found[0].Actor != "answer" {
			t.Errorf("answer %d: the task is %+v, %v", i, found, err)
		}
		code, problem = send(t, address+answer.query, answer.kind, answer.body)
		if code != http.StatusConflict || !strings.Contains(problem, "answered before") {
			t.Errorf("the same again: %d %s", code, problem)
		}
	}
}

// An answer with a field that there is not, or with one twice, is refused: nothing that somebody
// said is passed over.
func TestAnswers_PassOverNoField(t *testing.T) {
	t.Parallel()
	store, address := answering(t)
	key := stint.NewAnswerKey()
	err := store.InsertTasks(t.Context(), []stint.Task{
		{ID: "ask", Action: stint.External, AnswerKey: key},
	})
	if err != nil {
		t.Fatal(err)
	}
	right := "id=ask&code=completed&key=" + string(key)
	document := `{"id":"ask","code":"completed","key":"` + string(key) + `"`
	for _, answer := range []struct{ query, kind, body, problem string }{
		{"", form, right + "&resutl=42", "no field \"resutl\""},
		{"", form, right + "&code=aborted", "\"code\" is there twice"},
		{"?code=aborted", form, right, "\"code\" is there twice"},
		{"?resutl=42", form, right, "no field \"resutl\""},
		{"?resutl=42", jsonDocument, document + "}", "no field \"resutl\""},
		{"", jsonDocument, document + `,"resutl":"42"}`, "unknown field \"resutl\""},
	} {
		code, problem := send(t, address+answer.query, answer.kind, answer.body)
		if code != http.StatusBadRequest || !strings.Contains(problem, answer.problem) {
			t.Errorf("%s %s: %d %s", answer.query, answer.body, code, problem)
		}
	}
	if code, problem := send(t, address, form, right); code != http.StatusOK {
		t.Errorf("nothing was answered, and yet: %d %s", code, problem)
	}
}

// Who has no key learns nothing, also not which tasks there are.
// Proves G201.
func TestAnswers_TellNothingToThoseWithoutAKey(t *testing.T) {
	t.Parallel()
	store, address := answering(t)
	key := stint.NewAnswerKey()
	err := store.InsertTasks(t.Context(), []stint.Task{
		{ID: "keyed", Action: stint.External, AnswerKey: key},
		{ID: "keyless", Action: stint.External},
		{ID: "done", Action: stint.External, AnswerKey: key},
		{ID: "other", Action: "act"},
		{ID: "waits", Action: stint.External, AnswerKey: key, After: []stint.TaskID{"other"}},
		{ID: "late", Action: stint.External, AnswerKey: key, Deadline: time.Now().Add(-time.Hour)},
	})
	if err != nil {
		t.Fatal(err)
	}
	send(t, address, form, "id=done&code=completed&key="+string(key))
	wrong := string(stint.NewAnswerKey())
	for _, id := range []string{"keyed", "keyless", "done", "other", "waits", "late", "none"} {
		for _, key := range []string{wrong, ""} {
			code, problem := send(t, address, form, "id="+id+"&code=completed&key="+key)
			if code != http.StatusNotFound ||
				problem != "there is no such task, or the key does not fit" {
				t.Errorf("%s with the key %q: %d %s", id, key, code, problem)
			}
		}
	}
	code, problem := send(t, address, form, "id=waits&code=completed&key="+string(key))
	if code != http.StatusTooEarly {
		t.Errorf("a task that waits: %d %s", code, problem)
	}
	code, problem = send(t, address, form, "id=late&code=completed&key="+string(key))
	if code != http.StatusConflict || !strings.Contains(problem, "its deadline has passed") {
		t.Errorf("a task that is past its deadline: %d %s", code, problem)
	}
}

func TestAnswers_RefuseWhatTheyCannotRead(t *testing.T) {
	t.Parallel()
	_, address := answering(t)
	key := string(stint.NewAnswerKey())
	for name, request := range map[string]struct{ kind, body, problem string }{
		"code":    {form, "id=a&key=" + key, "Answer.Code must be completed, aborted or skipped"},
		"pending": {form, "id=a&code=pending&key=" + key, "Answer.Code must be"},
		"short":   {form, "id=a&code=completed&key=k", "Answer.Key must have 16 bytes"},
		"field":   {jsonDocument, `{"id":"a","keys":""}`, "unknown field"},
		"two":     {jsonDocument, `{"id":"a"} {}`, "one JSON object"},
		"xml":     {"text/xml", "<a/>", "a form or a JSON object"},
		"large":   {form, "result=" + strings.Repeat("x", 1<<20), "too large"},
		"form":    {form, "id=%zz", "cannot be read"},
	} {
		code, problem := send(t, address, request.kind, request.body)
		if code != http.StatusBadRequest || !strings.Contains(problem, request.problem) {
			t.Errorf("%s: %d %q, want %q", name, code, problem, request.problem)
		}
	}
	response, err := http.Get(address + "?id=a&code=completed&key=" + key) // as a mail scanner does
	if err != nil || response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET = %v, %v", response, err)
	}
	if err == nil {
		_ = response.Body.Close()
	}
}

// Whoever sends many requests at once, or slowly, keeps no more than a hundred of them in memory.
func TestAnswers_HoldFewRequests(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, address := answering(t)
	r := &running{address: address}
	var slow []net.Conn
	for range 100 {
		conn := r.dial(t)
		slow = append(slow, conn)
		_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: stint\r\nContent-Type: "+form+
			"\r\nContent-Length: 100000\r\nExpect: 100-continue\r\n\r\n")
		wantErr(t, "Write", err, nil)
		response, err := bufio.NewReader(conn).ReadString('\n') // it is being read
		if err != nil || !strings.Contains(response, "100 Continue") {
			t.Fatalf("a request is answered by %q, %v", response, err)
		}
	}
	const whole = "id=a&code=completed&key=0123456789abcdef"
	if code, problem := send(t, address, form, whole); code != http.StatusServiceUnavailable {
		t.Errorf("one more is answered by %d %s", code, problem)
	}
	for _, conn := range slow {
		wantErr(t, "Close", conn.Close(), nil)
	}
	for end := time.Now().Add(patience); ; {
		code, problem := send(t, address, form, whole)
		if code == http.StatusNotFound {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("when they have gone, one is answered by %d %s", code, problem)
		}
	}
}
