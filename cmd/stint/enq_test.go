//go:build unix

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// enqFile is a file of enq's quick start, or of how it runs with Stint.
func enqFile(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join("internal", "tasktree", "testdata", "enq")
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The quick start of enq works with Stint. There are three processes: the server, the worker and
// submit; then two servers, each of which is a shard, with a worker each.
func TestSubmit_RunsTheQuickStartOfEnq(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	script, want := enqFile(t, "quickstart.sh"), enqFile(t, "quickstart.txt")
	for _, name := range []string{"task.json", "tree.json", "tree2.json"} {
		if !strings.Contains(script, "\n"+enqFile(t, name)) {
			t.Errorf("quickstart.sh lacks %s as it is", name)
		}
	}
	// The script has the ports and the database of the first start; a test has others.
	url := "'" + strings.ReplaceAll(testdb.URL(testdb.New(t)), "'", `'\''`) + "'"
	var others []string
	for _, command := range []string{"stint serve ", "stint migrate "} {
		others = append(others, command, "STINT_DATABASE_URL="+url+" "+command)
	}
	for _, port := range []string{"3733", "3734"} {
		_, free, _ := strings.Cut(freePort(t), ":")
		others = append(others, port, free)
	}
	for i := 0; i < len(others); i += 2 {
		if !strings.Contains(script, others[i]) {
			t.Fatalf("quickstart.sh does not name %q", others[i])
		}
	}
	output := runScript(t, strings.NewReplacer(others...).Replace(script))
	uuid := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	without := func(text string) string { return uuid.ReplaceAllString(text, "UUID") }
	if without(output) != without(want) {
		t.Errorf("quickstart.sh printed\n%s\nwant\n%s", output, want)
	}
}

// freePort is an address of this machine that nobody listens at.
func freePort(t *testing.T) string {
	t.Helper()
	var listening net.ListenConfig
	listener, err := listening.Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// runScript runs a shell script that finds stint and jq, and returns what it prints.
func runScript(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Dir(binary)
	if _, err := exec.LookPath("jq"); err != nil { // what it prints of an object's only field
		path += ":" + processes.Write(t, map[string]string{"jq": `
value=$(tr '{,}' '\n\n\n' | sed -n "s/^\"${1##*.}\"://p")
echo "${value:-null}"`})
	}
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.CommandContext(testContext(t), "sh", "-ec", script)
	cmd.Dir = t.TempDir()
	cmd.Env = newCommand(t, []string{"PATH=" + path + ":" + os.Getenv("PATH")}).Env
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what a script that failed leaves behind
	text, readErr := os.ReadFile(output.Name())
	if err != nil || readErr != nil {
		t.Fatalf("%v, %v:\n%s", err, readErr, text)
	}
	return string(text)
}

// The tree whose last task uses results of two shards.
func TestSubmit_RunsTheShardsOfEnq(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	working := work(t, db.env, processes.Write(t, quickstartPrograms))
	r := db.run(t, enqFile(t, "tree2.json"), "submit", "--wait", "--prefix", "t").wantExit(t, 0,
		"1/save completed\n", "2/save completed\n", "3 of 3: 1/email completed\n")
	const names = "NAME     ID\n1/save   t/1/save\n2/save   t/2/save\n1/email  t/1/email\n"
	if !strings.HasPrefix(r.stdout, names) {
		t.Errorf("it printed\n%s\nwant first\n%s", r.stdout, names)
	}
	const link = `{"link":"https://download/for/1234"}`
	email := db.get(t, "t/1/email")
	if want := "[" + link + "," + link + "]\n"; email.Status != want {
		t.Errorf("the program was given %q, want %q", email.Status, want)
	}
	working.end(t)
}
