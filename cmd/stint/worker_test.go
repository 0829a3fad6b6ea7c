//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// work starts a worker with these programs. The test ends it.
func work(t *testing.T, env []string, dir string, flags ...string) *process {
	t.Helper()
	return start(t, newCommand(t, env, append([]string{"worker", "--dir", dir}, flags...)...))
}

// end is Ctrl-C, and the exit code is that of a graceful end.
func (p *process) end(t *testing.T) {
	t.Helper()
	p.interrupt(t)
	p.wantExit(t, 0)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// started waits until a program has written its process ID.
func started(t *testing.T, path string) int {
	t.Helper()
	var pid int
	eventually(t, "a program that has begun", func() bool {
		text, _ := os.ReadFile(path)
		line, whole := strings.CutSuffix(string(text), "\n")
		if !whole {
			return false
		}
		var err error
		if pid, err = strconv.Atoi(line); err != nil {
			t.Fatal(err)
		}
		return true
	})
	return pid
}

func (d *database) wait(t *testing.T, id stint.TaskID) stint.TaskInfo {
	t.Helper()
	task, err := d.store.WaitForTask(testContext(t), id)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func TestWorker_RefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := processes.Write(t, map[string]string{"act": ""})
	for want, args := range map[string][]string{
		"--dir is empty":         {"--dir", ""},
		"/etc/enq/worker.d":      {},
		"no such file":           {"--dir", filepath.Join(dir, "none")},
		"not a directory":        {"--dir", filepath.Join(dir, "act")},
		"no executable file":     {"--dir", t.TempDir()},
		"invalid --actor \"\"":   {"--dir", dir, "--actor", ""},
		"must be 1 to 255 bytes": {"--dir", dir, "--actor", strings.Repeat("x", 256)},
		"--concurrency 0":        {"--dir", dir, "--concurrency", "0"},
		"--concurrency -1":       {"--dir", dir, "--concurrency", "-1"},
		"--timeout 0s":           {"--dir", dir, "--timeout", "0"},
		"--lease 99ms":           {"--dir", dir, "--lease", "99ms"},
		"--lease 24h0m1s":        {"--dir", dir, "--lease", "24h1s"},
		"--grace -1s":            {"--dir", dir, "--grace", "-1s"},
		"or forever":             {"--dir", dir, "--keep-aborted", "never"},
		`--log-level "loud":`:    {"--dir", dir, "--log-level", "loud"},
		"--retry-base 0s":        {"--dir", dir, "--retry-base", "0"},
		"--retry-max 1s":         {"--dir", dir, "--retry-base", "2s", "--retry-max", "1s"},
		"form host:port":         {"--dir", dir, "--metrics", "9464"},
		"beyond this machine":    {"--dir", dir, "--metrics", ":9464"},
		"--metrics, which is":    {"--dir", dir, "--insecure"},
		"unexpected argument":    {"--dir", dir, "more"},
	} {
		env := []string{"STINT_DATABASE_URL=" + nowhere}
		run(t, env, "", append([]string{"worker"}, args...)...).wantExit(t, 2, want)
	}
	run(t, nil, "", "worker", "--dir", dir, "--database-url", nowhere).
		wantExit(t, 4, "127.0.0.1:1")
	db := databaseOn(t, testdb.NewEmpty(t))
	db.run(t, "", "worker", "--dir", dir).wantExit(t, 5, "stint migrate")
}

// A worker behind a pooler has no session, in which alone an actor would be registered.
func TestWorker_KeepsNoSessionIfItOnlyPolls(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	working := work(t, db.env, processes.Write(t, map[string]string{"act": ""}), "--poll-only")
	db.insert(t, stint.Task{ID: "a", Action: "act", PostResult: true})
	if got := db.wait(t, "a"); got.StatusCode != stint.StatusCompleted {
		t.Errorf("the task is %+v", got)
	}
	db.run(t, "", "actors").wantExit(t, 0, "no actors")
	working.end(t)
	run(t, []string{"STINT_SERVER=http://127.0.0.1:1"}, "", "worker", "--poll-only").
		wantExit(t, 2, "--poll-only is for a database")
}

// Proves G120.
func TestWorker_DoesWhatTheExitStatusSays(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	dir := processes.Write(t, map[string]string{
		"later": `[ "$STINT_TRY" -ge 2 ] || { echo not yet >&2; exit 75; }` + "\nprintf done",
		"never": "printf 'no such user\\n\\tas 1234\\n' >&2\nexit 65",
		"slow":  "exec sleep 60",
	})
	working := work(t, db.env, dir, "--timeout", "500ms", "--actor", "me")
	db.insert(t,
		stint.Task{ID: "later", Action: "later", PostResult: true},
		stint.Task{ID: "never", Action: "never", PostResult: true},
		stint.Task{ID: "slow", Action: "slow", MaxTries: 1, PostResult: true},
		stint.Task{ID: "unknown", Action: "unknown"})
	if got := db.wait(t, "later"); got.Tries != 2 || string(got.Result) != "done" {
		t.Errorf("later: %+v, want two tries and a result", got)
	}
	db.run(t, "", "wait", "never").wantExit(t, 7, "cause: returned")
	db.run(t, "", "show", "never").wantExit(t, 0).
		wantOutput(t, "exit status 65\n              no such user\n                  as 1234\n")
	if got := db.wait(t, "slow"); got.AbortCause != stint.CauseTries ||
		!strings.Contains(got.Status, "time-out") {
		t.Errorf("slow: %+v, want it to have used up its try", got)
	}
	if got := db.get(t, "unknown"); got.State != stint.StateReady {
		t.Errorf("a task without a program is %s, want it left to others", got.State)
	}
	db.run(t, "", "actors").wantExit(t, 0).wantOutput(t, "me", "later, never, slow")
	working.end(t)
	db.run(t, "", "actors").wantExit(t, 0, "no actors")
}

// Each program gets a greater number than those before it, from a worker with a database and from
// one with a service, and none that nobody asked for.
// Proves G329.
func TestWorker_FencesItsPrograms(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	server := db.serve(t)
	fences := filepath.Join(t.TempDir(), "fences")
	dir := processes.Write(t, map[string]string{"act": "echo ${STINT_FENCE-none} >>" + fences + `
		[ $STINT_TRY = 2 ]`})
	for i, run := range []struct {
		env  []string
		flag []string
	}{
		{db.env, []string{"--fence"}},
		{[]string{"STINT_SERVER=" + server.address}, []string{"--fence"}},
		{db.env, nil},
	} {
		working := work(t, run.env, dir, append(run.flag, "--retry-base", "1ms")...)
		id := stint.TaskID(strconv.Itoa(i))
		db.insert(t, stint.Task{ID: id, Action: "act", PostResult: true})
		db.wait(t, id)
		working.end(t)
	}
	text, err := os.ReadFile(fences)
	lines := strings.Fields(string(text))
	if err != nil || len(lines) != 6 || lines[4] != "none" || lines[5] != "none" {
		t.Fatalf("the programs have %q, %v, want four numbers and none twice", lines, err)
	}
	before := 0
	for _, line := range lines[:4] {
		fence, err := strconv.Atoi(line)
		if err != nil || fence <= before {
			t.Errorf("the programs have %q: want them to grow", lines)
		}
		before = fence
	}
}

// A program ends by SIGPIPE when nobody reads on, as from a shell: the worker ignores it alone.
func TestWorker_LeavesSIGPIPEToItsPrograms(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	dir := processes.Write(t, map[string]string{
		"endless": "while :; do echo x; done | head -n 1",
	})
	working := work(t, db.env, dir, "--timeout", "20s")
	db.insert(t, stint.Task{ID: "a", Action: "endless", MaxTries: 1, PostResult: true})
	if got := db.wait(t, "a"); got.StatusCode != stint.StatusCompleted ||
		string(got.Result) != "x\n" || got.Status != "" {
		t.Errorf("the task is %+v", got)
	}
	working.end(t)
}

var (
	metricNamed = regexp.MustCompile(`\bstint_[a-z_]+`)
	served      = regexp.MustCompile(`http://[0-9.:]+/metrics`)
)

// The alerts and the dashboard of the documentation work with what a worker serves by itself.
// Proves G113.
func TestWorker_ServesTheMetricsThatAlertsAskFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	dir := processes.Write(t, map[string]string{"good": "true", "bad": "exit 65"})
	db.run(t, "", "limit", "good", "--concurrency", "2").wantExit(t, 0)
	working := work(t, db.env, dir, "--metrics", "127.0.0.1:0")
	db.insert(t, stint.Task{ID: "good", Action: "good", PostResult: true},
		stint.Task{ID: "bad", Action: "bad", PostResult: true})
	db.wait(t, "good")
	db.wait(t, "bad")
	working.says(t, "serving metrics")
	address := served.FindString(working.output.String())
	var text string
	eventually(t, "counts of both", func() bool {
		text = page(t, address, "")
		return strings.Contains(text,
			`stint_worker_performances_total{action="bad",outcome="aborted"} 1`) &&
			strings.Contains(text,
				`stint_worker_performances_total{action="good",outcome="completed"} 1`)
	})
	for _, path := range []string{"alerts.yml", "grafana.json"} {
		asked, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations", path))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range metricNamed.FindAllString(string(asked), -1) {
			if !strings.HasPrefix(name, "stint_service_") && !strings.Contains(text, name) {
				t.Errorf("%s asks for %s, which is not served", path, name)
			}
		}
	}
	if got := page(t, address, "evil.example"); !strings.Contains(got, "only requests for") {
		t.Errorf("a page of another host is told %.100q", got)
	}
	working.end(t)
}

// page gets a page; host is what the request says that it is for, if not the address.
func page(t *testing.T, address, host string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWorker_KeepsWhatItIsToldTo(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	dir := processes.Write(t, map[string]string{"good": "true", "bad": "exit 65"})
	working := work(t, db.env, dir, "--keep-completed", "0", "--keep-aborted", "forever")
	db.insert(t, stint.Task{ID: "good", Action: "good"}, stint.Task{ID: "bad", Action: "bad"})
	eventually(t, "the end of both", func() bool {
		ids := db.ids(t)
		return len(ids) == 1 && ids[0] == "bad" && db.get(t, "bad").State == stint.StateAborted
	})
	working.end(t)
}

func TestWorker_SaysWhatHappens(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	long := "head -c 5000 /dev/zero | tr '\\0' x >&2\nexit 65"
	dir := processes.Write(t, map[string]string{"good": "", "bad": long})
	text := work(t, db.env, dir)
	text.says(t, `msg="worker starts"`)
	text.says(t, `actions="[bad good]"`)
	text.end(t)

	working := work(t, db.env, dir, "--json", "--log-level", "debug")
	db.insert(t, stint.Task{ID: "good", Action: "good", PostResult: true},
		stint.Task{ID: "bad", Action: "bad", PostResult: true})
	db.wait(t, "good")
	db.wait(t, "bad")
	working.end(t)
	seen := map[string]bool{}
	for line := range strings.Lines(working.output.String()) {
		var record struct {
			Msg, Task, Error string
			Actions          []string
		}
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		if len(record.Error) > 2000 {
			t.Errorf("the log of a program is logged with %d bytes", len(record.Error))
		}
		seen[record.Msg+" "+record.Task+strings.Join(record.Actions, ",")] = true
	}
	for _, want := range []string{
		"worker starts bad,good", "task begins good", "task completed good", "handler failed bad",
		"worker stops ", "worker has stopped ",
	} {
		if !seen[want] {
			t.Errorf("%q was not logged:\n%s", want, working.output.String())
		}
	}
}

// A task that succeeds is not logged unless that is asked for, one that fails is logged once.
func TestWorker_LogsAsMuchAsItIsToldTo(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := processes.Write(t, map[string]string{"good": "", "bad": "exit 65"})
	for level, want := range map[string][3]bool{
		"": {true, false, true}, "debug": {true, true, true}, "warn": {false, false, true},
		"error": {false, false, false},
	} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			flags := []string{"--log-level", level}
			working := work(t, db.env, dir, flags[:2*min(len(level), 1)]...)
			db.insert(t, stint.Task{ID: "a", Action: "good", PostResult: true},
				stint.Task{ID: "b", Action: "bad", PostResult: true})
			db.wait(t, "a")
			db.wait(t, "b")
			working.end(t)
			said := working.output.String()
			for i, part := range []string{"worker starts", "task=a", "task=b"} {
				if strings.Contains(said, part) != want[i] {
					t.Errorf("whether it logs %q is not %t:\n%s", part, want[i], said)
				}
			}
			if level == "" && strings.Count(said, "task=b") != 1 {
				t.Errorf("the task that failed is not logged once:\n%s", said)
			}
		})
	}
}

func TestWorker_WaitsAsLongAsItIsToldToBetweenTries(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	dir := processes.Write(t, map[string]string{"bad": "exit 75"})
	working := work(t, db.env, dir, "--retry-base", "2h", "--retry-max", "3h")
	db.insert(t, stint.Task{ID: "a", Action: "bad"})
	eventually(t, "a task that waits for its next try", func() bool {
		return db.get(t, "a").State == stint.StateScheduled
	})
	working.end(t)
	// Between a half and the whole of two hours, some seconds of which may have passed.
	if pause := time.Until(db.get(t, "a").NotBefore); pause < time.Hour-time.Minute ||
		pause > 2*time.Hour {
		t.Errorf("the next try is in %v, want an hour or two", pause)
	}
}

func TestWorker_FinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	dir := processes.Write(t, map[string]string{
		"act": `echo $$ > "$BEGUN"; until [ -e "$BEGUN.go" ]; do sleep 0.01; done; echo done`,
	})
	begun := filepath.Join(t.TempDir(), "begun")
	working := work(t, append(db.env, "BEGUN="+begun), dir, "--concurrency", "1")
	db.insert(t, stint.Task{ID: "first", Action: "act"}, stint.Task{ID: "second", Action: "act"})
	started(t, begun)
	working.interrupt(t)
	working.says(t, "worker stops")
	if err := os.WriteFile(begun+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	working.wantExit(t, 0)
	if got := db.get(t, "first"); got.State != stint.StateCompleted {
		t.Errorf("the task under way is %s, want it completed", got.State)
	}
	if got := db.get(t, "second"); got.State != stint.StateReady || got.Tries != 0 {
		t.Errorf("the next task is %s with %d tries, want it ready", got.State, got.Tries)
	}
}

// The first program does not end by itself, nor by SIGTERM.
const stubborn = `[ ! -e "$BEGUN" ] || exit 0; trap '' TERM; echo $$ > "$BEGUN"
while :; do sleep 0.01; done`

func TestWorker_GivesBackWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, test := range map[string]struct {
		grace string
		twice bool
		code  int
		tries int // that the first fetch has cost
	}{
		"when its grace has passed": {"0", false, 0, 0},
		"at the second Ctrl-C":      {"1h", true, 130, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			dir := processes.Write(t, map[string]string{"act": stubborn})
			begun := filepath.Join(t.TempDir(), "begun")
			env := append(db.env, "BEGUN="+begun)
			working := work(t, env, dir, "--grace", test.grace)
			db.insert(t, stint.Task{ID: "a", Action: "act", PostResult: true})
			pid := started(t, begun)
			working.interrupt(t)
			if test.twice {
				working.says(t, "worker stops")
				working.interrupt(t)
			}
			working.wantExit(t, test.code)
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("the program runs on: %v", err)
			}
			if got := db.get(t, "a"); got.StatusCode != stint.StatusPending ||
				got.Tries != test.tries {
				t.Errorf("the task is %s with %d tries, want it given back", got.State, got.Tries)
			}
			working = work(t, env, dir)
			if got := db.wait(t, "a"); got.State != stint.StateCompleted ||
				got.Tries != test.tries+1 {
				t.Errorf("then it is %s with %d tries, want it completed", got.State, got.Tries)
			}
			working.end(t)
		})
	}
}

func TestWorker_ASecondSIGTERMIsNoHurry(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	dir := processes.Write(t, map[string]string{
		"act": `echo $$ > "$BEGUN"; until [ -e "$BEGUN.go" ]; do sleep 0.01; done`,
	})
	begun := filepath.Join(t.TempDir(), "begun")
	working := work(t, append(db.env, "BEGUN="+begun), dir)
	db.insert(t, stint.Task{ID: "a", Action: "act", PostResult: true})
	started(t, begun)
	for range 2 {
		if err := working.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		working.says(t, "worker stops")
	}
	if err := os.WriteFile(begun+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	working.wantExit(t, 0)
	if got := db.wait(t, "a"); got.State != stint.StateCompleted {
		t.Errorf("the task is %s, want it completed", got.State)
	}
}

// Proves G121.
func TestWorker_ThatIsKilledLosesNoTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	dir := processes.Write(t, map[string]string{"act": stubborn})
	begun := filepath.Join(t.TempDir(), "begun")
	env := append(db.env, "BEGUN="+begun)
	killed := work(t, env, dir, "--lease", "24h")
	db.insert(t, stint.Task{ID: "a", Action: "act", PostResult: true})
	orphan := started(t, begun)
	t.Cleanup(func() { _ = syscall.Kill(-orphan, syscall.SIGKILL) })
	// Only a worker that is present is noticed when it dies.
	eventually(t, "an actor", func() bool {
		actors, err := db.store.ListActors(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(actors) == 1
	})
	heir := work(t, env, dir)
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed.wantExit(t, -1)
	if got := db.wait(t, "a"); got.State != stint.StateCompleted || got.Tries != 2 {
		t.Errorf("the task is %s with %d tries, want it completed", got.State, got.Tries)
	}
	heir.end(t)
}

// Proves G121.
func TestWorker_LosesItsProgramWithItsTask(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	dir := processes.Write(t, map[string]string{
		"act": `trap 'echo bye > "$BEGUN.bye"; exit' TERM; echo $$ > "$BEGUN"
			while :; do sleep 0.01; done`,
	})
	begun := filepath.Join(t.TempDir(), "begun")
	working := work(t, append(db.env, "BEGUN="+begun), dir, "--lease", "1s")
	db.insert(t, stint.Task{ID: "a", Action: "act", PostResult: true})
	started(t, begun)
	db.run(t, "", "abort", "a").wantExit(t, 0)
	eventually(t, "the end of the program", func() bool { return exists(begun + ".bye") })
	working.end(t)
}

func TestPrivate_IsSharedByWorkerAndSubmit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	working := work(t, env, processes.Write(t, map[string]string{"greet": "echo hello, $(cat)"}),
		"--log-level", "debug")
	r := run(t, env, `[{"name": "one", "action": "greet", "value": 1}]`, "submit", "-", "--wait")
	r.wantExit(t, 0, "1 of 1: one completed").wantOutput(t, "hello, 1")
	working.says(t, "task completed")
	working.end(t)
	wantNoServer(t, dir)
	run(t, env, "", "ls").wantExit(t, 0).wantOutput(t, "/one", "completed")
}
