//go:build unix

package main

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// webPage returns the status of a page, and what it says.
func webPage(t *testing.T, address, host string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		request.Host = host
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// addressIn is the first address of pages that a process has printed.
func addressIn(t *testing.T, p *process) string {
	t.Helper()
	address := regexp.MustCompile(`http://[^/]+/`).FindString(p.output.String())
	if address == "" {
		t.Fatalf("no address in %q", p.output.String())
	}
	return address
}

func TestUI_ShowsTheDatabase(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "mail/7", Action: "mail"})
	showing := start(t, newCommand(t, db.env, "ui", "--listen", "127.0.0.1:0"))
	showing.says(t, "stop with Ctrl-C")
	address := addressIn(t, showing)
	for name, part := range map[string]string{
		"": "mail", "tasks": "mail/7", "task?id=mail%2F7": "nobody asks for", "limits": "No limits",
		"schedules": "No schedules", "changes": "No changes",
	} {
		if code, text := webPage(t, address+name, ""); code != http.StatusOK ||
			!strings.Contains(text, part) {
			t.Errorf("%q: %d, without %q:\n%s", name, code, part, text)
		}
	}
	// Another site may have its name resolved to this machine.
	if code, text := webPage(t, address+"tasks", "evil.example"); code != http.StatusForbidden ||
		strings.Contains(text, "mail/7") {
		t.Errorf("another host gets %d:\n%s", code, text)
	}
	showing.interrupt(t)
	showing.wantExit(t, 0)
}

// A service shows the same through its client.
func TestUI_ShowsAService(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "mail/7", Action: "mail", Body: []byte("the body")})
	s := db.serve(t)
	showing := start(t, newCommand(t, nil, "ui", "--listen", "127.0.0.1:0", "--server", s.address))
	showing.says(t, "stop with Ctrl-C")
	for _, name := range []string{
		"", "problems", "tasks", "task?id=mail/7", "network?id=mail/7", "action?name=mail",
		"actors", "limits", "schedules", "waiting", "check", "changes",
	} {
		if code, text := webPage(t, addressIn(t, showing)+name, ""); code != http.StatusOK {
			t.Errorf("%q: %d\n%s", name, code, text)
		}
	}
	_, text := webPage(t, addressIn(t, showing)+"task?id=mail/7", "")
	if !strings.Contains(text, "the body") {
		t.Errorf("the page of the task lacks its body:\n%s", text)
	}
	showing.interrupt(t)
	showing.wantExit(t, 0)
}

// Tasks of all shards are on one page, under the names that they have across shards, and a shard
// that is away is named.
func TestUI_ShowsShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.insert(t)
	show := func(env []string) *process {
		showing := start(t, newCommand(t, env, "ui", "--listen", "127.0.0.1:0"))
		showing.says(t, "stop with Ctrl-C")
		return showing
	}
	showing := show(s.env)
	for name, part := range map[string]string{
		"": `href="shards"`, "tasks": "us/mail", "task?id=us%2Fmail": "eu/save",
		"problems": "No problems", "shards": `href="shard/us/"`, "check": "Check now",
		"shard/us/task?id=mail": "stint.remote/eu/save", "shard/eu/limits": "No limits",
		"network?id=eu%2Flog": "us/mail", "actors": "No registered actors",
	} {
		if code, text := webPage(t, addressIn(t, showing)+name, ""); code != http.StatusOK ||
			!strings.Contains(text, part) {
			t.Errorf("%q: %d, without %q:\n%s", name, code, part, text)
		}
	}
	showing = show(s.half)
	eventually(t, "a page that names the shard", func() bool {
		_, text := webPage(t, addressIn(t, showing)+"tasks", "")
		return strings.Contains(text, "Shard us is away") && strings.Contains(text, "eu/save")
	})
}

// Passwords of a topology are not on pages, wherever they came from.
func TestUI_HidesPasswordsOfShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.insert(t)
	const secret = "s3cret"
	topology := strings.TrimPrefix(s.half[0], "STINT_TOPOLOGY=")
	topology = strings.Replace(topology, nowhere, "postgres://app:"+secret+"@127.0.0.1:1/none", 1)
	for _, test := range []struct {
		env, args []string
		flags     string
	}{
		{[]string{"STINT_TOPOLOGY=" + topology}, nil, ""},
		{nil, []string{"--topology", topology}, " --topology ..."},
	} {
		args := append([]string{"ui", "--listen", "127.0.0.1:0"}, test.args...)
		showing := start(t, newCommand(t, test.env, args...))
		showing.says(t, "stop with Ctrl-C")
		for _, name := range []string{"", "tasks", "task?id=eu%2Fsave", "shards"} {
			code, text := webPage(t, addressIn(t, showing)+name, "")
			if code != http.StatusOK || strings.Contains(text, secret) {
				t.Errorf("stint %q shows the password on %q, or fails: %d\n%s", args, name, code,
					text)
			}
			same := "stint ls --newest" + test.flags + "</code>"
			if name == "tasks" && !strings.Contains(text, same) {
				t.Errorf("stint %q does not show %s:\n%s", args, same, text)
			}
		}
	}
}

// Changes are for those who ask for them.
func TestUI_ChangesIfAllowed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "mail/7", Action: "mail"})
	show := func(env []string, args ...string) *process {
		args = append([]string{"ui", "--listen", "127.0.0.1:0"}, args...)
		showing := start(t, newCommand(t, env, args...))
		showing.says(t, "stop with Ctrl-C")
		return showing
	}
	const offers = `method="post"`
	_, text := webPage(t, addressIn(t, show(db.env))+"task?id=mail/7", "")
	if strings.Contains(text, offers) {
		t.Errorf("without --allow-changes, the page offers changes:\n%s", text)
	}
	showing := show(db.env, "--allow-changes")
	address := addressIn(t, showing)
	_, text = webPage(t, address+"task?id=mail/7", "")
	task := regexp.MustCompile(`name="task" value="([^"]*)"`).FindStringSubmatch(text)
	if !strings.Contains(text, offers) || task == nil {
		t.Fatalf("the page offers nothing:\n%s", text)
	}
	form := url.Values{"do": {"abort"}, "task": {task[1]}, "back": {"./"}}
	preview := webForm(t, address+"preview", form)
	at := regexp.MustCompile(`name="at" value="([^"]*)"`).FindStringSubmatch(preview)
	if !strings.Contains(preview, "Aborts 1 task.") || at == nil {
		t.Fatalf("the preview is\n%s", preview)
	}
	form.Set("at", at[1])
	form.Set("states", "ready")
	form.Set("others", "0")
	form.Set("reason", "no longer needed")
	if told := webForm(t, address+"change", form); !strings.Contains(told, "Aborted 1 task.") {
		t.Errorf("the change is\n%s", told)
	}
	showing.says(t, `reason="no longer needed"`)
	db.run(t, "", "show", "mail/7").wantOutput(t, "no longer needed (aborted by ")
}

// Tasks of shards are changed where they are, by one form.
func TestUI_ChangesShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newSharding(t)
	s.insert(t)
	showing := start(t, newCommand(t, s.env, "ui", "--listen", "127.0.0.1:0", "--allow-changes"))
	showing.says(t, "stop with Ctrl-C")
	address := addressIn(t, showing)
	form := url.Values{"do": {"abort"}, "back": {"./"}}
	for _, id := range []string{"eu%2Fsave", "us%2Fmail"} {
		_, text := webPage(t, address+"task?id="+id, "")
		task := regexp.MustCompile(`name="task" value="([^"]*)"`).FindStringSubmatch(text)
		if task == nil {
			t.Fatalf("the page of %s offers nothing:\n%s", id, text)
		}
		form.Add("task", task[1])
	}
	preview := webForm(t, address+"preview", form)
	at := regexp.MustCompile(`name="at" value="([^"]*)"`).FindStringSubmatch(preview)
	if !strings.Contains(preview, "Aborts 2 tasks") || at == nil {
		t.Fatalf("the preview is\n%s", preview)
	}
	form.Set("at", at[1])
	form.Set("states", "ready,blocked")
	form.Set("others", regexp.MustCompile(`name="others" value="([^"]*)"`).
		FindStringSubmatch(preview)[1])
	form.Set("reason", "")
	if told := webForm(t, address+"change", form); !strings.Contains(told, "Aborted 2 tasks") {
		t.Errorf("the change is\n%s", told)
	}
	s.run(t, "show", "us/mail").wantOutput(t, "aborted")
}

// webForm sends a form, and returns the page to which that leads.
func webForm(t *testing.T, address string, form url.Values) string {
	t.Helper()
	request, err := http.NewRequestWithContext(testContext(t), http.MethodPost, address,
		strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, text := answerTo(t, request)
	return text
}

// answerTo sends a request, and returns the answer with its text.
func answerTo(t *testing.T, request *http.Request) (*http.Response, string) {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

func TestUI_ShowsNobodyElse(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.run(t, "", "ui", "--listen", ":0").wantExit(t, 2, "beyond this machine", "--insecure")
	db.run(t, "", "ui", "--listen", "nonsense").wantExit(t, 2, "host:port")
	db.run(t, "", "ui", "--json").wantExit(t, 2, "stint stats --json")
	db.run(t, "", "demo", "--ui", "--listen", ":0").wantExit(t, 2, "beyond this machine, which",
		"name an address of this machine")
}

// The demo waits for somebody who looks, and then shows how the tasks of a killed worker go on.
func TestDemo_IsSeenInABrowser(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := databaseOn(t, testdb.NewEmpty(t))
	playing := start(t, newCommand(t, db.env, "demo", "--ui", "--listen", "127.0.0.1:0"))
	playing.says(t, "the demo begins when you look")
	address := addressIn(t, playing)
	if strings.Contains(playing.output.String(), "inserted") {
		t.Error("the demo has begun without anybody who looks")
	}
	webPage(t, address, "")
	for _, part := range []string{
		"aborted antarctica/5/scan", "killed worker-2", "is bound and", "stays until Ctrl-C",
	} {
		playing.says(t, part)
		wantAgreedOverview(t, address)
	}
	wantListed(t, address, map[string]int{"aborted": 53, "ready": 12, "in-progress": 0})
	for name, part := range map[string]string{
		"limits":                             `<td class="n">6</td>`,
		"schedules":                          "next-yearbook",
		"changes":                            "the agency has six scanners",
		"problems":                           "aborted since tasks that they depend on were",
		"tasks?prefix=antarctica/5/scan":     "the film is lost",
		"task?id=antarctica/index":           "It began with",
		"network?id=book/bind":               "2,510 tasks",
		"tasks?actor=worker-2&state=aborted": "No such tasks",
	} {
		if code, text := webPage(t, address+name, ""); code != http.StatusOK ||
			!strings.Contains(text, part) {
			t.Errorf("%q: %d, without %q:\n%s", name, code, part, text)
		}
	}
	playing.interrupt(t)
	playing.wantExit(t, 0)
	db.wantNoDemo(t)
}

// wantAgreedOverview checks that the overview of the demo says that something needs attention as
// long as it does, and what.
func wantAgreedOverview(t *testing.T, address string) {
	t.Helper()
	_, page := webPage(t, address, "")
	said := strings.Join(strings.Fields(tags.ReplaceAllString(page, "")), " ")
	for _, part := range []string{
		"ship was paused ", " by ann (“the couriers are on strike”): 12 tasks ready.",
		"1 limited, 1 paused", "1 running, the next ",
	} {
		if !strings.Contains(said, part) {
			t.Errorf("the overview does not say %q:\n%s", part, said)
		}
	}
	// What was aborted with another task is no error, and is said apart.
	if figures(page)["aborted"] > 0 && !strings.Contains(said, "develop: 50 tasks") {
		t.Errorf("the overview does not say what was aborted:\n%s", said)
	}
	for _, part := range []string{"Nothing, as far", "Nobody maintains", "No registered actor"} {
		if strings.Contains(said, part) {
			t.Errorf("the overview says %q:\n%s", part, said)
		}
	}
}

// wantListed checks that the overview counts as many tasks in these states as their lists have.
func wantListed(t *testing.T, address string, want map[string]int) {
	t.Helper()
	_, page := webPage(t, address, "")
	for state, n := range want {
		_, list := webPage(t, address+"tasks?size=200&state="+state, "")
		counted, listed := figures(page)[state], strings.Count(list, "<tr data-key=")
		if counted != n || listed != n {
			t.Errorf("%s: %d counted, %d listed, want %d", state, counted, listed, n)
		}
	}
}

var (
	tags = regexp.MustCompile(`<[^>]*>`)
	tile = regexp.MustCompile(
		`<a class="tile ([a-z-]+).*?<span class="figure">(?:<abbr.*?</abbr>)?(\d+)</span>`)
)

// figures are how many tasks an overview says to be in each state, where it is less than 1,000.
func figures(page string) map[string]int {
	found := map[string]int{}
	for _, one := range tile.FindAllStringSubmatch(page, -1) {
		found[one[1]], _ = strconv.Atoi(one[2]) // digits
	}
	return found
}
