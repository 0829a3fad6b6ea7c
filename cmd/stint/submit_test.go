//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tree.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// field is a shell command that prints a field of the only object of a list on standard input.
func field(name string) string { return `sed 's/.*"` + name + `": *"\{0,1\}\([^"}]*\).*/\1/'` }

// quickstartPrograms are those of a queue whose workers run programs.
var quickstartPrograms = map[string]string{
	"process-user-data": field("uid") + " >&2",
	"save-user-data": "uid=$(" + field("uid") + ")\n" +
		`echo "{\"link\": \"https://download/for/$uid\"}"`,
	"send-mail": "link=$(tr '{' '\\n' | sed '/link/!d' | " + field("link") + ")\n" +
		`echo "sending mail with link" $link >&2`,
}

// quickstarts are a task of one step, whose program prints a user's ID; a tree, in which the link
// that one program prints is mailed by another; and one whose mail has the links of two.
var quickstarts = map[string]struct{ file, stdout, stderr, log string }{
	"one step": {
		file: `[{"name": "mytask", "action": "process-user-data", "value": [{"uid": 1234}]}]`,
		stdout: `NAME    ID
mytask  t/mytask

NAME    STATE      TRIES  STATUS  RESULT
mytask  completed  1      1234
`,
		stderr: "1 of 1: mytask completed\n",
		log:    "status        1234\n",
	},
	"two steps": {
		file: `
- name: save
  action: save-user-data
  value: [{uid: 1234}]
- name: email
  action: send-mail
  value: [{$result: save}]
`,
		stdout: `NAME   ID
save   t/save
email  t/email

NAME   STATE      TRIES  STATUS                                            RESULT
save   completed  1                                                        ` +
			`{"link": "https://download/for/1234"}
email  completed  1      sending mail with link https://download/for/1234
`,
		stderr: "1 of 2: save completed\n2 of 2: email completed\n",
		log:    "sending mail with link https://download/for/1234\n",
	},
	"two branches": {
		file: `
- name: 1/save
  action: save-user-data
  value: [{uid: 1234}]
- name: 2/save
  action: save-user-data
  value: [{uid: 5678}]
- name: 1/email
  action: send-mail
  value: [{$result: 1/save}, {$result: 2/save}]
`,
		stdout: `NAME     ID
1/save   t/1/save
2/save   t/2/save
1/email  t/1/email

NAME     STATE      TRIES  STATUS                                                        RESULT
1/save   completed  1                                                                    ` +
			`{"link": "https://download/for/1234"}
2/save   completed  1                                                                    ` +
			`{"link": "https://download/for/5678"}
1/email  completed  1      sending mail with link https://download/for/1234 https://do…
`,
		stderr: "1 of 3: 1/save completed\n2 of 3: 2/save completed\n" +
			"3 of 3: 1/email completed\n",
		log: "link https://download/for/1234 https://download/for/5678\n",
	},
}

func TestSubmit_RunsTrees(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	dir := processes.Write(t, quickstartPrograms)
	for name, test := range quickstarts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := newDatabase(t)
			working := work(t, db.env, dir, "--concurrency", "1") // one after the other
			r := db.run(t, "", "submit", writeFile(t, test.file), "--wait", "--prefix", "t")
			r.wantExit(t, 0)
			if r.stdout != test.stdout {
				t.Errorf("it printed\n%s\nwant\n%s", r.stdout, test.stdout)
			}
			if r.stderr != test.stderr {
				t.Errorf("its progress was\n%s\nwant\n%s", r.stderr, test.stderr)
			}
			last := strings.Fields(test.stderr)[len(strings.Fields(test.stderr))-2]
			db.run(t, "", "show", "t/"+last).wantExit(t, 0).wantOutput(t, test.log)
			working.end(t)
		})
	}
}

func TestSubmit_TellsWhatWasAborted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	dir := processes.Write(t, map[string]string{
		"good": `[ "$STINT_TRY" = 2 ] || exit 75; cat "$STINT_INPUTS"`,
		"bad":  "echo no such user >&2; exit 65",
	})
	working := work(t, db.env, dir)
	const tree = `
- {name: bad, action: bad}
- {name: never, action: good, after: [bad]}
- {name: all the same, action: good, after: [bad], on_abort: run-anyway}
`
	r := db.run(t, tree, "submit", "-", "--wait", "--prefix", "t").wantExit(t, 7,
		"1 of 3: bad aborted (returned)\n2 of 3: never aborted (dependency)\n"+
			"3 of 3: all the same completed\n",
		`task was aborted: "bad" (returned), "never" (dependency)`)
	r.wantOutput(t, "exit status 65 no such user", `"abort_cause":"returned"`)
	db.run(t, "", "show", "t/bad").wantExit(t, 0).wantOutput(t, "no such user")
	db.run(t, tree, "submit", "-", "--prefix", "t").wantExit(t, 6, `task exists: "t/all the same"`)

	var document struct {
		IDs   map[string]string
		Tasks map[string]struct {
			ID, State, Result string
			Tries             int
		}
	}
	db.run(t, tree, "submit", "-", "--wait", "--json").wantExit(t, 7).decode(t, &document)
	got := document.Tasks["all the same"]
	if len(document.IDs) != 3 || got.ID != document.IDs["all the same"] || got.Tries != 2 ||
		got.State != "completed" || !strings.Contains(got.Result, "no such user") {
		t.Errorf("submit --json printed %+v", document)
	}
	working.end(t)
}

func TestSubmit_PrintsTheIDs(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	const tree = `[{"name": "a", "action": "act"}, {"name": "b", "action": "act", "after": ["a"]}]`
	r := db.run(t, tree, "submit", "-").wantExit(t, 0)
	fields := strings.Fields(r.stdout)
	if len(fields) != 6 || fields[2] != "a" || fields[4] != "b" {
		t.Fatalf("submit printed %s", r.stdout)
	}
	prefix, name, _ := strings.Cut(fields[3], "/")
	if _, err := uuid.Parse(prefix); err != nil || name != "a" || fields[5] != prefix+"/b" {
		t.Errorf("submit printed %s", r.stdout)
	}
	db.run(t, "", "show", fields[5]).wantExit(t, 0).wantOutput(t, "blocked")
	r = db.run(t, tree, "submit", writeFile(t, tree), "--json", "--prefix", "t").wantExit(t, 0)
	if want := `{"ids":{"a":"t/a","b":"t/b"}}` + "\n"; r.stdout != want {
		t.Errorf("submit --json printed %s, want %s", r.stdout, want)
	}
}

// Proves G118.
func TestSubmit_RefusesMalformedInput(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	const one, long = "- {name: a, action: b", "bbbbbbbb"
	for file, want := range map[string]string{
		"":                         "standard input: no tasks",
		"[]":                       "standard input: line 1, column 1: no tasks",
		"{}":                       "standard input: line 1, column 1: expected a list of tasks",
		`[{"name": "a",, }]`:       "standard input: line 1, column ",
		"- name: a\n  action: [b]": "standard input: line 2, column 11: expected text, got a list",
		"- name: a\n  actoin: b": "standard input: 2 problems\n" +
			"  line 2, column 3: unknown field \"actoin\"\n" +
			"  line 1, column 3: missing field \"action\"\n",
		strings.Repeat("- 1\n", 12): "line 10, column 3: expected a task, got \"1\"\n" +
			"  and 2 more",
		one + ", value: {$result: c}}":                          "column 41: no task is named",
		one + ", after: [a]}":                                   `"a" -> "a"`,
		one + "}\n- {name: a, action: b}":                       "line 2, column 10: name \"a\"",
		one + "}\n---\n- {name: c, action: d}":                  "second document: a file",
		one + ", deadline: today}":                              "column 34: expected a time",
		one + "}\n- {name: \xff, action: b}":                    "line 2, column 10: invalid",
		"\n" + one + strings.Repeat(long, 32) + "}":             "column 3: action bytes: 257",
		"- {method: a, name: b}":                                "column 15: field \"name\" does",
		"- {action: a, name: " + strings.Repeat(long, 64) + "}": "line 1, column 3: id bytes: 549",
	} {
		r := db.run(t, file, "submit", "-").wantExit(t, 2, "stint: invalid input: ", want)
		if r.stdout != "" {
			t.Errorf("%q: it printed %q", file, r.stdout)
		}
	}
	good := writeFile(t, "- {name: a, action: b}")
	for want, args := range map[string][]string{
		"standard input: no tasks":         {},
		"tree.yaml.no":                     {good + ".no"},
		"is a directory":                   {filepath.Dir(good)},
		"--prefix is":                      {good, "--prefix", ""},
		"needs --wait":                     {good, "--timeout", "1s"},
		"invalid --timeout -1s":            {good, "--wait", "--timeout", "-1s"},
		`--timeout "soon": must be a time`: {good, "--wait", "--timeout", "soon"},
		"id: must be valid UTF-8":          {good, "--prefix", "\xff"},
	} {
		db.run(t, "", append([]string{"submit"}, args...)...).wantExit(t, 2, want)
	}
	if got := db.ids(t); len(got) != 0 {
		t.Errorf("these were inserted: %q", got)
	}
	run(t, nil, "", "submit", good, "--database-url", nowhere).wantExit(t, 4, "127.0.0.1:1")
}

func TestSubmit_GivesUpWaiting(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	file := writeFile(t, "- {name: slow, action: slow}")
	args := []string{"submit", file, "--wait", "--prefix"}
	r := db.run(t, "", append(args, "text", "--timeout", "10ms")...)
	r.wantExit(t, 8, "stint: timed out after 10ms: 1 of 1 task not finished")
	r.wantOutput(t, "text/slow")
	r = db.run(t, "", append(args, "json", "--timeout", "10ms", "--json")...).wantExit(t, 8)
	if want := `{"ids":{"slow":"json/slow"}}` + "\n"; r.stdout != want {
		t.Errorf("submit --json printed %q, want %q", r.stdout, want)
	}
	waiting := start(t, newCommand(t, db.env, append(args, "stopped")...))
	waiting.says(t, "stopped/slow")
	waiting.interrupt(t)
	waiting.wantExit(t, 130)
	for _, id := range []stint.TaskID{"text/slow", "json/slow", "stopped/slow"} {
		if got := db.get(t, id); got.State != stint.StateReady {
			t.Errorf("%s is %s, want it ready", id, got.State)
		}
	}
}

func TestSubmit_IsInterruptedWhileItReads(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	cmd := newCommand(t, db.env, "submit", "-")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	submitting := start(t, cmd)
	// More than a pipe holds: when all is written, some of it was read.
	if _, err := stdin.Write([]byte(strings.Repeat("# not yet\n", 100_000))); err != nil {
		t.Fatal(err)
	}
	submitting.interrupt(t)
	submitting.wantExit(t, 130)
}

func TestSubmit_DrawsBarsOnTerminals(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	working := work(t, db.env, processes.Write(t, map[string]string{"good": "", "other": ""}))
	tree := writeFile(t, `
- {name: a, action: good}
- {name: b, action: good, after: [a]}
- {name: c, action: other, after: [b]}
`)
	got := onTerminal(t, db.env, "submit", tree, "--wait")
	for _, want := range []string{"good  2 of 2 [====", "other 1 of 1 [====", "\x1b[32mcompleted"} {
		if !strings.Contains(got, want) {
			t.Errorf("on a terminal it printed %q, want %q in it", got, want)
		}
	}
	got = onTerminal(t, append(db.env, "TERM=dumb"), "submit", tree, "--wait")
	if !strings.Contains(got, "3 of 3: c completed\r\n") || strings.Contains(got, "\x1b") {
		t.Errorf("on a dumb terminal it printed %q", got)
	}
	working.end(t)
}
