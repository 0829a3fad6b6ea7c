//go:build unix

package main

import (
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// page gets a page of a service as a browser does that was given a token, or none.
func (s *server) page(t *testing.T, token, path string) (int, string, http.Header) {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), http.MethodGet, s.address+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.SetBasicAuth("anybody", token)
	}
	response, text := answerTo(t, request)
	return response.StatusCode, text, response.Header
}

// A pageLook is a look at a page: by whom, and what it has and hides.
type pageLook struct {
	token, page string
	code        int
	has, hides  []string
}

func (test pageLook) check(t *testing.T, s *server) {
	t.Helper()
	for range 2 { // the second time it may be an answer that was kept
		code, text, header := s.page(t, test.token, "/ui/"+test.page)
		if code != test.code {
			t.Errorf("%q: %d, want %d:\n%s", test.page, code, test.code, text)
		}
		challenge := header.Get("WWW-Authenticate")
		if asks := strings.HasPrefix(challenge, "Basic "); asks != (code == 401) {
			t.Errorf("%q: %d with the challenge %q", test.page, code, challenge)
		}
		for _, part := range test.has {
			if !strings.Contains(strings.ToLower(text), part) {
				t.Errorf("%q lacks %q:\n%s", test.page, part, text)
			}
		}
		for _, part := range test.hides {
			if strings.Contains(strings.ReplaceAll(text, test.page, ""), part) {
				t.Errorf("%q has %q:\n%s", test.page, part, text)
			}
		}
	}
}

// Pages of a service show each principal what his grants allow, and nothing else in counts, lists,
// orders, links or errors, whoever has looked before.
// Proves G220.
func TestServe_ShowsEachPrincipalHisOwnPages(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	d.insert(t,
		stint.Task{ID: "mail/1", Action: "mail", Body: []byte("dear ann")},
		stint.Task{ID: "pay/1", Action: "pay", Body: []byte("ten euros")},
		stint.Task{ID: "pay/2", Action: "pay", After: []stint.TaskID{"mail/1"}},
		stint.Task{ID: "approve/1", Action: stint.External})
	d.insert(t, stint.Task{ID: "mail/0", Action: "mail"}, stint.Task{ID: "pay/0", Action: "pay"})
	d.run(t, "", "delete", "mail/0", "pay/0", "--by", "ann", "--reason", "twice").wantExit(t, 0)
	dir := t.TempDir()
	path, grants := filepath.Join(dir, "tokens"), filepath.Join(dir, "grants")
	write(t, grants, `
root: [{verbs: [read, read-bodies], actions: ["*"]}]
mailer: [{verbs: [read], actions: ["mail"]}]
shop: [{verbs: [insert], actions: ["*"]}]`)
	root, mailer, shop := d.newToken(t, path, "root"), d.newToken(t, path, "mailer"),
		d.newToken(t, path, "shop")
	s := d.serve(t, "--tokens", path, "--grants", grants)
	for _, test := range []pageLook{
		{root, "", 200, []string{"mail", "pay"}, nil},
		{root, "tasks", 200, []string{"mail/1", "pay/1", "pay/2"}, nil},
		{root, "task?id=mail/1", 200, []string{"dear ann", "pay/2"}, nil},
		{root, "task?id=pay/1", 200, []string{"ten euros"}, nil},
		{mailer, "", 200, []string{"mail"}, []string{"pay", "approve", "Check</a>"}},
		{mailer, "problems", 200, nil, []string{"pay"}},
		{mailer, "actions", 200, []string{"mail"}, []string{"pay"}},
		{mailer, "actors", 200, nil, []string{"pay"}},
		{mailer, "limits", 200, nil, []string{"pay"}},
		{mailer, "schedules", 200, nil, []string{"pay"}},
		{root, "waiting", 200, []string{"approve/1"}, nil},
		{root, "check", 200, []string{"check now"}, nil},
		{mailer, "waiting", 200, []string{"not for you to see"}, []string{"approve", "pay"}},
		{mailer, "check", 403, nil, []string{"pay"}},
		{mailer, "begin-check", 405, nil, []string{"pay"}},
		{mailer, "changes", 200, []string{"mail/0", "ann", "twice"}, []string{"pay"}},
		{mailer, "changes?action=pay", 403, nil, []string{"pay/"}},
		{mailer, "changes?id=pay/0", 200, []string{"no changes"}, []string{"twice"}},
		{mailer, "task?id=mail/0", 404, []string{"by ann", "twice"}, nil},
		{mailer, "task?id=pay/0", 404, nil, []string{"by ann", "twice"}},
		{root, "changes", 200, []string{"mail/0", "pay/0"}, nil},
		{shop, "changes", 403, nil, []string{"mail/0"}},
		{mailer, "tasks", 200, []string{"mail/1"}, []string{"pay"}},
		{mailer, "tasks?action=pay", 403, nil, []string{"pay/"}},
		{mailer, "task?id=mail/1", 200, []string{"mail/1"}, []string{"dear ann", "pay/2"}},
		{mailer, "task?id=pay/1", 404, []string{"no such task"}, []string{"ten euros"}},
		{mailer, "network?id=mail/1", 200, []string{"mail/1"}, []string{"pay/2"}},
		{mailer, "value?id=mail/1&of=body", 403, nil, []string{"dear ann"}},
		{shop, "", 403, []string{"grant of read"}, []string{"mail/1"}},
		{"nonsense", "", 401, nil, []string{"mail/1"}},
		{"", "", 401, nil, []string{"mail/1"}},
	} {
		test.check(t, s)
	}
	write(t, grants, `root: [{verbs: [read], actions: ["mail"]}]`)
	eventually(t, "the new grants", func() bool {
		code, _, _ := s.page(t, mailer, "/ui/")
		return code == http.StatusForbidden
	})
	if code, text, _ := s.page(t, root, "/ui/value?id=pay/1&of=body"); code == http.StatusOK {
		t.Errorf("a grant that is gone still shows %q", text)
	}
	s.stop(t)
	if log := s.output.String(); strings.Contains(log, root) || strings.Contains(log, mailer) {
		t.Error("the log has a token")
	}
}

// Each principal is offered what his grants allow, and the service refuses the rest.
// Proves G222.
func TestServe_OffersWhatGrantsAllow(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	d.insert(t, stint.Task{ID: "mail/1", Action: "mail"}, stint.Task{ID: "pay/1", Action: "pay"})
	dir := t.TempDir()
	path, grants := filepath.Join(dir, "tokens"), filepath.Join(dir, "grants")
	write(t, grants, `
mailer: [{verbs: [control], actions: ["mail"]}, {verbs: [read], actions: ["*"]}]
reader: [{verbs: [read], actions: ["*"]}]`)
	mailer, reader := d.newToken(t, path, "mailer"), d.newToken(t, path, "reader")
	s := d.serve(t, "--tokens", path, "--grants", grants)
	send := func(token, page string, form url.Values) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(testContext(t), http.MethodPost,
			s.address+"/ui/"+page, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth("anybody", token)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, text := answerTo(t, request)
		return response.StatusCode, text
	}
	field := func(text, name string) string {
		found := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(text)
		if found == nil {
			return ""
		}
		return found[1]
	}
	_, text, _ := s.page(t, reader, "/ui/task?id=mail/1")
	if field(text, "do") != "" {
		t.Errorf("a reader is offered changes:\n%s", text)
	}
	for task, part := range map[string]string{"mail/1": "abort", "pay/1": "not yours to change"} {
		_, text, _ := s.page(t, mailer, "/ui/task?id="+task)
		form := url.Values{"do": {"abort"}, "task": {field(text, "task")}, "back": {"./"}}
		if got, text := send(reader, "preview", form); got != 403 {
			t.Errorf("a reader sends a form: %d\n%s", got, text)
		}
		got, text := send(mailer, "preview", form)
		if got != 200 || !strings.Contains(text, part) {
			t.Errorf("the preview of %s: %d, without %q\n%s", task, got, part, text)
		}
		form.Set("at", strconv.FormatInt(time.Now().UnixMicro(), 10))
		form.Set("states", "ready")
		form.Set("others", "0")
		form.Set("reason", "")
		got, text = send(mailer, "change", form)
		if got != 200 || !strings.Contains(text, part) {
			t.Errorf("the change of %s: %d, without %q\n%s", task, got, part, text)
		}
	}
	d.run(t, "", "show", "mail/1").wantOutput(t, "aborted by mailer in the web interface")
	d.run(t, "", "show", "pay/1").wantOutput(t, "ready")
}

// A page does not wait for itself, however few calls a principal may make at once.
func TestServe_ShowsPagesByOneCallAtATime(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.insert(t, stint.Task{ID: "mail/1", Action: "mail"})
	dir := t.TempDir()
	path, grants := filepath.Join(dir, "tokens"), filepath.Join(dir, "grants")
	write(t, grants, `ann: [{verbs: [read, read-bodies], actions: ["*"]}]`)
	token := d.newToken(t, path, "ann")
	s := d.serve(t, "--tokens", path, "--grants", grants, "--max-calls", "1")
	for page, part := range map[string]string{
		"": "mail", "tasks": "mail/1", "task?id=mail/1": "mail/1", "network?id=mail/1": "mail/1",
	} {
		if code, text, _ := s.page(t, token, "/ui/"+page); code != http.StatusOK ||
			!strings.Contains(text, part) {
			t.Errorf("%q: %d, without %q:\n%s", page, code, part, text)
		}
	}
}

// A service that asks nobody who he is shows its pages to this machine.
func TestServe_ShowsThisMachineItsPages(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.insert(t, stint.Task{ID: "mail/1", Action: "mail", Body: []byte("dear ann")})
	s := d.serve(t)
	for path, part := range map[string]string{
		"/ui": "Overview", "/ui/": "Overview", "/ui/task?id=mail/1": "dear ann",
	} {
		if code, text, _ := s.page(t, "", path); code != 200 || !strings.Contains(text, part) {
			t.Errorf("%q: %d, without %q:\n%s", path, code, part, text)
		}
	}
	s.wantCall(t, 403, "localhost", get, "/ui/", "", "Host: evil.example")
}
