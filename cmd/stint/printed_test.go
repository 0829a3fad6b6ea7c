//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A printed command line is one that somebody may copy, and where it stands.
type printed struct{ line, at string }

// helpPages are the words of all sub-commands and topics whose help there is.
func helpPages(t *testing.T, words ...string) (all [][]string) {
	t.Helper()
	text := run(t, nil, "", append([]string{"help"}, words...)...).wantExit(t, 0).stdout
	all = [][]string{words}
	_, text, _ = strings.Cut(text, "\nExamples:\n")
	lists := regexp.MustCompile(`(?m)^(?:[A-Z][A-Za-z ]+):\n((?:  [a-z-]+  +\S.*\n)+)`)
	for _, list := range lists.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(list[1]) {
			name := strings.Fields(line)[0]
			if name != "completion" && name != "help" {
				all = append(all, helpPages(t, append(slices.Clone(words), name)...)...)
			}
		}
	}
	return all
}

// printedByHelp are the examples of the help.
func printedByHelp(t *testing.T) (all []printed) {
	t.Helper()
	for _, words := range helpPages(t) {
		text := run(t, nil, "", append([]string{"help"}, words...)...).stdout
		_, examples, _ := strings.Cut(text, "\nExamples:\n")
		examples, _, _ = strings.Cut(examples, "\n\n")
		examples = strings.ReplaceAll(examples, "\\\n", "")
		for line := range strings.Lines(examples) {
			all = append(all, printed{strings.TrimSpace(line), "help " + strings.Join(words, " ")})
		}
	}
	return all
}

// printedByPages are the command lines to be copied that stand in the templates of the pages.
func printedByPages(t *testing.T) (all []printed) {
	t.Helper()
	files, err := filepath.Glob("../../ui/pages/*.html")
	if err != nil || len(files) == 0 {
		t.Fatal("no templates", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		quoted := regexp.MustCompile(`\{\{template "copy" ("(?:[^"\\]|\\.)*")\}\}`)
		for _, found := range quoted.FindAllStringSubmatch(string(text), -1) {
			var line string
			if _, err := fmt.Sscanf(found[1], "%q", &line); err != nil {
				t.Fatal(err)
			}
			all = append(all, printed{line, filepath.Base(file)})
		}
		mentioned := regexp.MustCompile(`<code>(stint [a-z][^<{]*)</code>`)
		for _, found := range mentioned.FindAllStringSubmatch(string(text), -1) {
			all = append(all, printed{found[1], filepath.Base(file)})
		}
	}
	return all
}

// printedBySources are the commands that errors and hints name, without what they put into them.
func printedBySources(t *testing.T) (all []printed) {
	t.Helper()
	named := regexp.MustCompile(
		`(?:run|with|see|to see [a-z ]+|use|them|limits): ` +
			`(stint [a-z]+(?: [a-z]+)*(?: --[a-z-]+)*)`)
	for _, folder := range []string{"internal/command", "../../internal/doctor", "../../ui"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal("no sources", err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			joined := regexp.MustCompile(`" \+\s*"`).ReplaceAllString(string(text), "")
			for _, found := range named.FindAllStringSubmatch(joined, -1) {
				all = append(all, printed{found[1], filepath.Base(file)})
			}
		}
	}
	return all
}

// copied are the commands of a page as they are copied from it.
func copied(page string) (lines []string) {
	_, main, _ := strings.Cut(page, "<main")
	for _, found := range regexp.MustCompile(`<div class="copy"><code>([^<]*)</code>`).
		FindAllStringSubmatch(main, -1) {
		lines = append(lines, html.UnescapeString(found[1]))
	}
	return lines
}

// A shell runs command lines as somebody would who has copied them.
type shell struct {
	dir     string
	env     []string
	instead map[string]string // what stands for the names of the examples
}

// newShell returns a shell in a directory with the files that command lines name.
func newShell(t *testing.T, d *database) *shell {
	t.Helper()
	sh := &shell{dir: t.TempDir(), env: d.env}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(sh.dir, "migrations"), 0o700))
	must(os.MkdirAll(filepath.Join(sh.dir, "programs"), 0o700))
	must(os.WriteFile(filepath.Join(sh.dir, "programs", "cheer"), []byte("#!/bin/sh\n"), 0o700))
	for name, text := range map[string]string{
		"tasks.jsonl":    `{"id": "from/file", "action": "greet"}` + "\n",
		"schedules.json": `{"name": "put", "spec": "0 8 * * *", "tasks": [{"action": "report"}]}`,
		"grants.yaml":    `mailer: [{verbs: ["*"], actions: ["*"]}]` + "\n",
		"tree.yaml":      `[{"name": "tree", "action": "quick", "value": "world"}]` + "\n",
		"token":          "any", "tokens": "",
		"task.json": `[{"name": "one", "action": "quick", "value": "world"}]` + "\n",
	} {
		must(os.WriteFile(filepath.Join(sh.dir, name), []byte(text), 0o600))
	}
	bin := filepath.Join(sh.dir, "bin")
	must(os.Mkdir(bin, 0o700))
	must(os.Symlink(binary, filepath.Join(bin, "stint")))
	for _, name := range []string{"jq", "dot", "psql"} { // which need not be on this machine
		must(os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\ncat > /dev/null\n"), 0o700))
	}
	sh.env = append(slices.Clone(sh.env), "PATH="+bin+":"+os.Getenv("PATH"))
	return sh
}

// The kinds of commands: those that go on until they are stopped, so that it is enough that they
// begin; those that ask somebody, or draw; and those that work on the schema itself.
var (
	goesOn = regexp.MustCompile(
		`^stint (worker|serve|ui|demo|top|submit (.* )?--wait|(check|ends) (.* )?--follow)\b`)
	atScreen = regexp.MustCompile(
		`^stint (top|delete --|retry --|abort --|migrate .*--down|prune|import)`)
	ofSchema = regexp.MustCompile(`^stint (migrate|import)\b|stint migrate`)
)

// excused are failures that are right, by what the output says of them: of this server, of this
// machine, and of databases and tokens that only the example has.
var excused = []string{
	"fsync is off", "address already in use", "there is no token", "no such token",
	"--tls-cert", "no jobs", "has no", "does not exist", "no tables of",
	"There are no", "there are no", "there is nothing to adopt",
	"/etc/enq/worker.d: no such file", "which needs wal_level",
}

// run runs a command line. One that goes on is stopped after a while, and has not failed before.
func (sh *shell) run(t *testing.T, line string) (output string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for example, here := range sh.instead {
		line = strings.ReplaceAll(line, example, here)
	}
	of := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	of.Env, of.Dir = newCommand(t, sh.env).Env, sh.dir
	if strings.Contains(line, "_SERVER=") || strings.Contains(line, "--server") {
		of.Env = slices.DeleteFunc(of.Env, func(variable string) bool {
			return strings.HasPrefix(variable, "STINT_DATABASE_URL=")
		})
	}
	group := func(signal syscall.Signal) {
		if of.Process != nil {
			_ = syscall.Kill(-of.Process.Pid, signal) // it may have ended
		}
	}
	of.Cancel = func() error { group(syscall.SIGKILL); return nil }
	long := goesOn.MatchString(line)
	if long {
		const begins = time.Second
		defer time.AfterFunc(begins, func() { group(syscall.SIGTERM) }).Stop()
	}
	text, err := sh.capture(of, line)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", line, err)
	}
	if code = of.ProcessState.ExitCode(); long && (code == -1 || code >= 128) {
		code = 0
	}
	return text, code
}

// capture runs a command and returns what it prints: on a terminal, with somebody who agrees, if it
// needs one.
func (sh *shell) capture(of *exec.Cmd, line string) (string, error) {
	if !atScreen.MatchString(line) {
		of.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		text, err := of.CombinedOutput()
		return string(text), err
	}
	terminal, err := pty.StartWithSize(of, &pty.Winsize{Rows: 40, Cols: 100})
	if err != nil {
		return "", err
	}
	defer terminal.Close()
	if !goesOn.MatchString(line) {
		if _, err := terminal.WriteString("y\n"); err != nil {
			return "", err
		}
	}
	var text bytes.Buffer
	_, _ = io.Copy(&text, terminal) // the error is that the other end was closed
	return text.String(), of.Wait()
}

// Command lines that stand in the help, on pages and in the demo work as they are printed, and
// those that errors and hints name exist.
//
// Proves G313.
func TestPrinted_CommandsWorkAsTheyArePrinted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d, other := newDatabase(t), newDatabase(t)
	sh, schema := newShell(t, d), newShell(t, other)
	drop := func() {
		_, err := other.pool.Exec(t.Context(), "DROP SCHEMA IF EXISTS stint CASCADE")
		if err != nil {
			t.Fatal(err)
		}
	}
	s := d.serve(t)
	for _, of := range []*shell{sh, schema} {
		of.instead = map[string]string{
			"https://tasks.example": s.address, "http://localhost:7330": s.address,
			"postgres://localhost/app":       "'" + testdb.URL(other.pool) + "'",
			"postgres://owner@localhost/app": "'" + testdb.URL(other.pool) + "'",
			"postgres://localhost/copy":      "'" + testdb.URL(other.pool) + "'",
			"/etc/stint/worker.d":            "programs", "$key": "a secret of ours",
		}
	}
	all := append(printedByPages(t), printedByHelp(t)...)
	if len(all) < 120 {
		t.Errorf("only %d commands are known", len(all))
	}
	for _, p := range testrun.Some(all) {
		in := sh
		if ofSchema.MatchString(p.line) {
			in = schema
			if drop(); p.line != "stint migrate --to 1" { // which comes from nothing
				schema.run(t, "stint migrate")
			}
		} else {
			sh.fill(t, d, p.line)
		}
		output, code := in.run(t, p.line)
		if in == schema { // others use it, too
			schema.run(t, "stint migrate")
		}
		isExcused := func(why string) bool { return strings.Contains(output, why) }
		wrong := strings.Contains(output, "unknown") || strings.Contains(output, "--help)")
		if code != 0 && (wrong || !slices.ContainsFunc(excused, isExcused)) {
			t.Errorf("%s prints a command that fails with %d: %s\n%s", p.at, code, p.line, output)
		}
	}
	for _, p := range printedBySources(t) {
		if output, code := sh.run(t, p.line+" --help"); code != 0 {
			t.Errorf("%s names a command that there is not: %s\n%s", p.at, p.line, output)
		}
	}
}

// fill has the database hold what command lines name, whatever others have made of it.
func (sh *shell) fill(t *testing.T, d *database, line string) {
	t.Helper()
	ctx := t.Context()
	schedules, err := d.store.ListSchedules(ctx)
	var names []string
	for _, schedule := range schedules {
		names = append(names, schedule.Name)
	}
	err = errors.Join(err, d.store.DeleteSchedules(ctx, names...))
	tasks := []stint.Task{
		{ID: "greet/world", Action: "greet"},
		{ID: "greet/moon", Action: "greet"},
		{ID: "export/main/end", Action: "export"},
		{ID: "export/main/0042", Action: "export"},
		{ID: "sum/2026-11", Action: "total", PostResult: true},
		{ID: "mail/7", Action: "mail"},
		{ID: "mail/9", Action: "mail"},
		{ID: "report/7", Action: "report"},
		{ID: "order/7/approve", Action: stint.External},
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range tasks {
		_, err := d.store.DeleteTasks(ctx, []stint.TaskID{tasks[i].ID})
		if err != nil && !errors.Is(err, stint.ErrTaskNotFound) {
			t.Fatal(err)
		}
	}
	if strings.Contains(line, "STINT_ANSWER_KEY=") {
		tasks[len(tasks)-1].AnswerKey = "a secret of ours"
	}
	if strings.Contains(line, "stint insert") { // which inserts the first, or the last
		tasks = tasks[1 : len(tasks)-1]
	}
	d.insert(t, tasks...)
	if _, err := d.store.AbortTasks(ctx, []stint.TaskID{"export/main/0042"}, ""); err != nil {
		t.Fatal(err)
	}
	owned, err := d.store.OwnTasks(ctx, "totaller", 1, []string{"total"}, time.Minute)
	if err != nil || len(owned) != 1 {
		t.Fatal(owned, err)
	}
	err = errors.Join(
		d.store.ReturnTask(ctx, "sum/2026-11", owned[0].Token, "", stint.StatusCompleted),
		d.store.PutSchedules(ctx, []stint.Schedule{
			{Name: "report", Spec: "0 8 * * *", Tasks: []stint.Task{{Action: "report"}}},
		}))
	if err != nil {
		t.Fatal(err)
	}
}

// What pages show to be copied works as it is, whichever schema they show: also that of the demo.
//
// Proves G313.
func TestPrinted_PagesNameTheirSchema(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	sh := newShell(t, d)
	const name = "it's other"
	d.run(t, "", "migrate", "--schema", name).wantExit(t, 0)
	d.run(t, `{"id": "a b", "action": "it's", "key": "k"}
{"id": "behind", "action": "mail", "after": ["a b"]}`, "insert", "--schema", name).wantExit(t, 0)
	showing := start(t, newCommand(t, d.env, "ui", "--listen", "127.0.0.1:0", "--schema", name))
	showing.says(t, "http://")
	address := regexp.MustCompile(`http://\S+/`).FindString(showing.output.String())
	wantCopied(t, sh, []string{
		"task?id=a+b", "tasks?prefix=a", "network?id=behind", "action?name=it%27s", "check",
		"limits", "schedules", "changes", "actors", "tasks?prefix=nothing",
	}, func(page string) string {
		request, err := http.NewRequestWithContext(testContext(t), http.MethodGet,
			address+page, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, text := answerTo(t, request)
		return text
	})
}

// The same holds for the pages of a service: what is copied from them works on the service.
//
// Proves G313.
func TestPrinted_PagesNameTheirService(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabase(t)
	d.insert(t, stint.Task{ID: "a b", Action: "it's", Key: "k"},
		stint.Task{ID: "behind", Action: "mail", After: []stint.TaskID{"a b"}},
		stint.Task{ID: "-dashed", Action: "mail"})
	s := d.serve(t)
	sh := newShell(t, d)
	wantCopied(t, sh, []string{
		"task?id=a+b", "tasks?prefix=a", "network?id=behind", "action?name=it%27s", "check",
		"limits", "schedules", "changes", "actors", "tasks?prefix=nothing", "task?id=-dashed",
		"network?id=-dashed", "tasks?body=%24.a+%3D%3D+1+%7C%7C+%24.b+%3D%3D+2",
	}, func(page string) string {
		_, text, _ := s.page(t, "", "/ui/"+page)
		for _, line := range copied(text) {
			isOfService := strings.Contains(line+" ", " --server "+s.address+" ")
			if strings.Contains(line, "stint ") != isOfService {
				t.Errorf("%s does not name the service: %s", page, line)
			}
		}
		return text
	})
	s.stop(t)
}

// wantCopied runs what is copied from pages.
func wantCopied(t *testing.T, sh *shell, pages []string, text func(page string) string) {
	t.Helper()
	seen := 0
	for _, page := range pages {
		for _, line := range copied(text(page)) {
			seen++
			if strings.HasPrefix(line, "stint answer order/7/approve --completed") {
				continue
			}
			output, code := sh.run(t, line)
			if code != 0 && !strings.Contains(output, "fsync is off") {
				t.Errorf("%s has a command that fails with %d: %s\n%s", page, code, line, output)
			}
		}
	}
	if seen < 10 {
		t.Errorf("the pages have %d commands", seen)
	}
}
