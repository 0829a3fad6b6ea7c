//go:build unix

package main

import (
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// completions are what a shell is offered for the last word of a line, without the texts beside.
func completions(t *testing.T, env []string, words ...string) []string {
	t.Helper()
	r := run(t, env, "", append([]string{"__completeNoDesc"}, words...)...).wantExit(t, 0)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	const noFiles = ":4"
	if last := lines[len(lines)-1]; last != noFiles {
		t.Errorf("%q: the directive is %s, want %s", words, last, noFiles)
	}
	if want := "Completion ended with directive: ShellCompDirectiveNoFileComp\n"; r.stderr != want {
		t.Errorf("%q: it says %q", words, r.stderr)
	}
	return lines[:len(lines)-1]
}

// newStoreToComplete returns a database with something to offer.
func newStoreToComplete(t *testing.T) *database {
	t.Helper()
	db := newDatabase(t)
	tasks := []stint.Task{
		{ID: "job/1", Action: "copy"},
		{ID: "job/2", Action: "copy"},
		{ID: "other", Action: "cut"},
		{ID: "job/has spaces", Action: "has spaces"},
		{ID: "job/$(evil)", Action: "copy"},
		{ID: "--json", Action: "copy"},
	}
	for _, name := range []string{"a", "b"} {
		for range 100 {
			tasks = append(tasks, stint.Task{
				ID: stint.TaskID("many/" + strings.Repeat(name, len(tasks))), Action: "many",
			})
		}
	}
	db.insert(t, tasks...)
	if err := db.store.RegisterActor(t.Context(), "worker-1", []string{"none"}); err != nil {
		t.Fatal(err)
	}
	return db
}

func TestComplete_OffersWhatIsInTheStore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newStoreToComplete(t)
	for line, want := range map[string]string{
		"show j":                      "job/1 job/2",
		"show job/1 j":                "",
		"abort job/1 j":               "job/2",
		"retry o":                     "other",
		"delete x":                    "",
		"explain job/2":               "job/2",
		"graph o":                     "other",
		"wait o":                      "other",
		"ls j":                        "",
		"ls --prefix job":             "job/1 job/2",
		"ls --after o":                "other",
		"ls --action c":               "copy cut",
		"ls --action copy --action c": "copy cut",
		"insert --action m":           "many",
		"ls --actor w":                "worker-1",
		"ls --state re":               "ready",
		"ls --state ready,": "ready,blocked ready,scheduled ready,in-progress " +
			"ready,completed ready,aborted ready,skipped",
		"ls --state ready,blocked,c": "ready,blocked,completed",
		"ls --state=aborted,re":      "aborted,ready",
		"ls --older-than 1":          "",
		"ls --schema s":              "",
		"graph a --format s":         "dot mermaid svg",
		"worker --log-level d":       "debug info warn error",
		"stats c":                    "",
		"limits c":                   "copy cut",
		"limit cu":                   "cut",
		"limit cut c":                "",
		"weight cu":                  "cut",
		"pause cut co":               "copy",
		"resume m":                   "many",
	} {
		got := completions(t, db.env, strings.Split(line, " ")...)
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q offers %q, want %q", line, got, want)
		}
	}
	if got := completions(t, db.env, "show", "many/"); len(got) != 50 {
		t.Errorf("it offers %d IDs, want 50", len(got))
	}
	flag := "--database-url"
	if isRemote() {
		flag = "--server"
	}
	_, url, _ := strings.Cut(db.env[0], "=")
	if got := completions(t, nil, "show", flag, url, "job/2"); len(got) != 1 {
		t.Errorf("with %s it offers %q", flag, got)
	}
	run(t, db.env, "", "__complete", "show", "job/1").wantExit(t, 0).wantOutput(t, "job/1\tready\n")
	run(t, db.env, "", "__complete", "submit", "").wantExit(t, 0).wantOutput(t, ":0\n")
	r := run(t, db.env, "", "__complete", "ls", "--a").wantExit(t, 0)
	r.wantOutput(t, "--action\tonly tasks with this action (repeatable)\n")
	if strings.Contains(r.stdout, "`") {
		t.Errorf("there are quotes in %s", r.stdout)
	}
}

// Nor does it say what is wrong, or wait for an answer: it is asked while somebody types.
func TestComplete_IsSilentWithoutADatabase(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	silent := serve(t, func(net.Conn) {})
	for name, env := range map[string][]string{
		"nowhere":   {"STINT_DATABASE_URL=" + nowhere},
		"no schema": databaseOn(t, testdb.NewEmpty(t)).env,
		"refusing":  {serve(t, refusePassword)}, "silent": {silent}, "private": env,
	} {
		for _, words := range []string{"show a", "ls --action a", "ls --actor a"} {
			line := strings.Fields(words)
			if got := completions(t, env, line...); len(got) != 0 {
				t.Errorf("%s: %q offers %q", name, line, got)
			}
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("Stat(%s) = %v, want no private server", dir, err)
	}
}

func TestComplete_StartsNoPrivateServer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	run(t, env, `{"id": "a", "action": "act"}`, "insert").wantExit(t, 0)
	if got := completions(t, env, "show", "a"); len(got) != 0 {
		t.Errorf("it offers %q, though no server is running", got)
	}
	working := work(t, env, processes.Write(t, map[string]string{"none": ""}))
	working.says(t, "worker starts")
	if got := completions(t, env, "show", "a"); !slices.Equal(got, []string{"a"}) {
		t.Errorf("it offers %q, want what is in the running server", got)
	}
	working.end(t)
	wantNoServer(t, dir)
}
