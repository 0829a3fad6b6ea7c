//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestUsage_IsRefusedBeforeAnythingIsDone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{
		{"lst", `there is no sub-command "lst"; did you mean ls? (see: stint --help)`},
		{"cancel a", "did you mean abort?"},
		{"frob", `there is no sub-command "frob" (see: stint --help)`},
		{"ls --stat ready", "unknown flag: --stat; did you mean --state? (see: stint ls --help)"},
		{"worker --leese 1s", "unknown flag: --leese; did you mean --lease?"},
		{"show a -o", "unknown shorthand flag: 'o' in -o (see: stint show --help)"},
		{"ls --database-url mysql://me:secret@db/app", "form postgres://user@host/database"},
		{"ls --database-url localhost", "invalid --database-url 'localhost': must have the form"},
		{"ls --frm", "unknown flag: --frm (see: stint ls --help)"},
		{"ls ready", `unexpected argument "ready" (see: stint ls --help)`},
		{"ls --limit ten", `invalid --limit "ten": must be a whole number`},
		{"ls --limit 10001", "invalid --limit 10001: must be 1 to 10,000"},
		{"ls --json=yes", `invalid --json "yes": must be true or false`},
		{"ls --action=", `invalid --action "": must be 1 to 255 bytes`},
		{"ls --older-than 7", `invalid --older-than "7": must be an age such as 90m`},
		{"ls --state running", `stint: invalid --state "running": must be one of blocked, `},
		{"show", "expected one task ID, got none (see: stint show --help)"},
		{"show a b", "expected one task ID, got 2"},
		{"show " + strings.Repeat("x", 513), `invalid task ID "xx`},
		{"abort", "expected task IDs, or filters such as --action (see: stint abort --help)"},
		{"abort a \xff", `invalid task ID "\xff": must be 1 to 512 bytes of UTF-8`},
		{"wait a --timeout 5", `--timeout "5": must be a time with its unit, such as 90s`},
		{"submit a b", "expected at most one FILE, got 2"},
		{"help lst", "did you mean ls?"},
		{"help migrate stats", "did you mean status?"},
		{"help nope", `there is no sub-command "nope" (see: stint`},
		{"completion bsh", "did you mean bash or zsh?"},
		{"migrate down", `there is no sub-command "down"`},
		{"ls --database-url=", "--database-url is empty"},
		{"ls --schema=", `invalid --schema ""`},
		{"ls --schema " + strings.Repeat("x", 64), "must be 1 to 63 bytes"},
		{"migrate --to -1", "invalid --to -1: this release knows versions 0 to"},
		{"migrate --to 99", "versions 0 to"},
		{"migrate --to new", "must be a whole number"},
		{"migrate --from 1", "--from is for --print-sql"},
		{"migrate --print-sql --from 9", "invalid --from 9: this release knows versions 0 to"},
		{"migrate --print-sql --from 1 --to 0", "limits and the log of changes, and needs --down"},
	} {
		env := []string{"STINT_DATABASE_URL=" + nowhere}
		r := run(t, env, "", strings.Fields(test.args)...).wantExit(t, 2, "stint: ", test.want)
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("%s tells the password: %s", test.args, r.stderr)
		}
	}
	run(t, []string{"STINT_DATABASE_URL=localhost:5432/app"}, "", "ls").wantExit(t, 2,
		"invalid STINT_DATABASE_URL 'localhost:5432/app': must have the form postgres://")
}

func TestHelp_IsThereForEverything(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                         "Usage:",
		"help":                     "stint insert",
		"help insert":              "-h, --help",
		"help migrate status":      "stint migrate status --json",
		"help completion":          "source <(stint completion bash)",
		"__complete help migr":     "migrate\tBring",
		"insert --help":            "body_base64",
		"help exit-codes":          "130  interrupted",
		"help json":                "abort_cause",
		"completion bash":          "__start_stint",
		"--version":                "stint version",
		"version":                  "\nschema version ",
		"version --json":           `"schema":`,
		"__complete ls --state in": "in-progress",
	} {
		run(t, nil, "", strings.Fields(args)...).wantExit(t, 0).wantOutput(t, want)
	}
}

func TestColours_AreForTerminalsAlone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "a", Action: "act"})
	if r := db.run(t, "", "ls"); strings.Contains(r.stdout, "\x1b") {
		t.Errorf("ls into a pipe is coloured: %q", r.stdout)
	}
	const coloured = "\x1b[33mready\x1b[0m"
	if got := onTerminal(t, db.env, "ls"); !strings.Contains(got, coloured) {
		t.Errorf("ls on a terminal printed %q, want %q in it", got, coloured)
	}
	for _, variable := range []string{"NO_COLOR=1", "TERM=dumb"} {
		got := onTerminal(t, append(slices.Clone(db.env), variable), "ls")
		if !strings.Contains(got, "ready") || strings.Contains(got, "\x1b") {
			t.Errorf("ls with %s printed %q", variable, got)
		}
	}
}

func TestInput_FromTerminalsIsAskedFor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	const endOfFile = "\x04"
	got := typed(t, db.env, `{"id": "a", "action": "act"}`+"\n"+endOfFile, "insert")
	if !strings.Contains(got, "type tasks") || !strings.Contains(got, "inserted 1 task") {
		t.Errorf("insert printed %q", got)
	}
	got = typed(t, db.env, "[{name: a, action: act}]\n"+endOfFile, "submit", "-")
	if !strings.Contains(got, "type a list of tasks") || !strings.Contains(got, "NAME") {
		t.Errorf("submit printed %q", got)
	}
	if r := db.run(t, "", "insert").wantExit(t, 0); strings.Contains(r.stderr, "type") {
		t.Errorf("insert without a terminal printed %q", r.stderr)
	}
}

// linesOnDatabase has a line for each sub-command that works on a database.
func linesOnDatabase(t *testing.T) [][]string {
	t.Helper()
	lines := [][]string{
		{"migrate"},
		{"migrate", "up"},
		{"migrate", "status"},
		{"migrate", "functions"},
		{"insert"},
		{"submit", writeFile(t, "- {name: a, action: act}")},
		{"worker", "--dir", processes.Write(t, map[string]string{"act": ""})},
		{"ls"},
		{"show", "a"},
		{"changes"},
		{"ends"},
		{"explain", "a"},
		{"graph", "a"},
		{"wait", "a"},
		{"answer", "a", "--completed"},
		{"abort", "a"},
		{"change", "a", "--start-now"},
		{"retry", "a"},
		{"delete", "a"},
		{"actors"},
		{"errors"},
		{"stats"},
		{"top"},
		{"debounce", "b", "--action", "act", "--quiet", "1s", "--at-most", "1m"},
		{"limits"},
		{"limit", "act", "--concurrency", "1"},
		{"weight", "act", "key=2"},
		{"pause", "act"},
		{"resume", "act"},
		{"schedule", "ls"},
		{"schedule", "put", "--name", "s", "--spec", "@daily", "--action", "act"},
		{"schedule", "next", "s"},
		{"schedule", "trigger", "s"},
		{"schedule", "pause", "s"},
		{"schedule", "resume", "s"},
		{"schedule", "rm", "s"},
		{"prune", "--completed-after", "1d", "--yes"},
		{"import", "river", "--yes"},
		{"export"},
		{"check"},
		{"adopt", "--yes"},
		{"demo"},
		{"serve", "--listen", "127.0.0.1:0"},
		{"ui", "--listen", "127.0.0.1:0"},
	}
	offline := []string{"completion", "help", "statements", "token", "version"}
	for line := range strings.Lines(run(t, nil, "", "__complete", "").wantExit(t, 0).stdout) {
		name, _, found := strings.Cut(line, "\t")
		if found && !slices.Contains(offline, name) &&
			!slices.ContainsFunc(lines, func(args []string) bool { return args[0] == name }) {
			t.Errorf("there is no line of %q", name)
		}
	}
	return lines
}

// runLine runs such a line, with a task as its input, and top on a terminal.
func runLine(t *testing.T, env []string, args ...string) ran {
	t.Helper()
	if args[0] != "top" {
		return run(t, env, `{"action": "act"}`, args...)
	}
	x := startOnTerminal(t, env, args...)
	_ = x.cmd.Wait() // the exit code says it all
	x.tty.Close()
	<-x.read
	return ran{args: args, code: x.cmd.ProcessState.ExitCode(), stderr: x.output.String()}
}

// Proves G123.
func TestDatabase_ThatDoesNotAnswerIsNamed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	flag := []string{"--database-url", "postgres://app:secret@127.0.0.1:1/none"}
	for _, args := range linesOnDatabase(t) {
		r := runLine(t, nil, append(args, flag...)...).wantExit(t, 4, "127.0.0.1:1")
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("%q tells the password: %s", args, r.stderr)
		}
	}
	r := run(t, nil, "", "ls", "--database-url", "postgres://app:secret@host:port/none")
	r.wantExit(t, 2)
	if strings.Contains(r.stderr, "secret") {
		t.Errorf("it tells the password: %s", r.stderr)
	}
}

// Proves G123.
func TestDatabase_ThatRefusesThePasswordIsNamed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	url := strings.Replace(serve(t, refusePassword), "sslmode=disable", "sslmode=prefer", 1)
	for _, args := range linesOnDatabase(t) {
		r := runLine(t, []string{url}, args...).wantExit(t, 4, "password authentication failed")
		if strings.Count(r.stderr, "\n") != 1 || strings.Contains(r.stderr, "TLS") {
			t.Errorf("%q does not say in a line what matters: %s", args, r.stderr)
		}
		if strings.Contains(r.stderr, "secret") {
			t.Errorf("%q tells the password: %s", args, r.stderr)
		}
	}
}

func TestDatabase_ThatHangsUpIsNamed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env := []string{serve(t, hangUp)}
	for _, args := range linesOnDatabase(t) {
		runLine(t, env, args...).wantExit(t, 4, "EOF")
	}
}

// serve has a server answer each connection, and returns its address as the environment has it.
func serve(t *testing.T, answer func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			answer(conn)
		}
	}()
	return fmt.Sprintf("STINT_DATABASE_URL=postgres://app:secret@%s/none?sslmode=disable",
		listener.Addr())
}

// hangUp is a server that lets everybody in, and answers nothing.
func hangUp(conn net.Conn) {
	defer conn.Close()
	backend := pgproto3.NewBackend(conn, conn)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if backend.Flush() == nil {
		_, _ = backend.Receive()
	}
}

// refusePassword is a server that asks for a password and takes none.
func refusePassword(conn net.Conn) {
	defer conn.Close()
	backend := pgproto3.NewBackend(conn, conn)
	message, err := backend.ReceiveStartupMessage()
	if _, ok := message.(*pgproto3.SSLRequest); ok {
		if _, err = conn.Write([]byte("N")); err == nil { // it knows no TLS
			_, err = backend.ReceiveStartupMessage()
		}
	}
	if err != nil {
		return
	}
	backend.Send(&pgproto3.AuthenticationCleartextPassword{})
	_ = backend.SetAuthType(pgproto3.AuthTypeCleartextPassword)
	if backend.Flush() != nil {
		return
	}
	if _, err := backend.Receive(); err != nil {
		return
	}
	backend.Send(&pgproto3.ErrorResponse{
		Severity: "FATAL", Code: "28P01",
		Message: `password authentication failed for user "app"`,
	})
	_ = backend.Flush()
}

// Proves G124.
func TestSchema_ThatIsMissingIsNotMade(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := databaseOn(t, testdb.NewEmpty(t))
	for _, args := range linesOnDatabase(t) {
		if args[0] != "migrate" && args[0] != "demo" { // which makes a schema of its own
			runLine(t, db.env, args...).wantExit(t, 5, "stint migrate", `"stint"`)
		}
	}
	db.run(t, "", "migrate", "status").wantExit(t, 5).wantOutput(t, "at version 0")
	db.run(t, "", "migrate").wantExit(t, 0).wantOutput(t, "from version 0 to 2")
	db.run(t, "", "migrate", "up").wantExit(t, 0).wantOutput(t, "already at version 2")
	db.run(t, "", "migrate", "status").wantExit(t, 0).wantOutput(t, "at version 2")
	db.run(t, "", "ls").wantExit(t, 0)
	db.run(t, "", "ls", "--schema", "other").wantExit(t, 5, `"other"`,

		`stint: no Stint tables in schema "other"; create them with: `,
		"stint migrate --schema other")
	db.run(t, "", "migrate", "--schema", "other").wantExit(t, 0)
	db.run(t, `{"action": "act"}`, "insert", "--schema", "other").wantExit(t, 0)
	db.run(t, "", "ls").wantExit(t, 0, "no tasks")
}

// Proves G124.
func TestSchema_ThatIsNewerIsLeftAlone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.exec(t, "UPDATE stint.stint_schema_version SET version = 99")
	db.run(t, "", "ls").wantExit(t, 0)
	r := db.run(t, "", "migrate", "status").wantExit(t, 0)
	r.wantOutput(t, "99", "this release is made for 2")
	db.exec(t, "UPDATE stint.supported SET since = 98")
	db.run(t, "", "ls").wantExit(t, 5, "version 99", "98 and up")
	db.run(t, "", "migrate", "status").wantExit(t, 5, "98 and up")
	for _, args := range [][]string{
		{"migrate"}, {"migrate", "up"}, {"migrate", "--to", "0", "--down"},
	} {
		db.run(t, "", args...).wantExit(t, 5, "newer", "99")
	}
	if r := db.run(t, "", "migrate", "status", "--json"); !strings.Contains(r.stdout, `:99,`) {
		t.Errorf("migrate status --json = %s", r.stdout)
	}
}

// privateHome returns a new data directory, as the environment has it, and where the private server
// keeps its files. The account of a server that root starts can reach it.
func privateHome(t *testing.T) (env []string, dir string) {
	t.Helper()
	home, err := os.MkdirTemp("", "stint-home-") //nolint:usetesting // those are closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(home); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"XDG_DATA_HOME=" + home}, filepath.Join(home, "stint", "postgres")
}

// wantNoServer checks that no process of the server is left.
func wantNoServer(t *testing.T, dir string) {
	t.Helper()
	if isLocked(t, dir) {
		t.Error("a server is left")
	}
}

// isLocked reports whether there is a process of the server: each holds this lock.
func isLocked(t *testing.T, dir string) bool {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, "server.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil && !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Fatal(err)
	}
	return err != nil
}

func TestPrivate_MigratesAndKeepsItsTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	var both [2]*process // at once, so both find the database missing
	for i := range both {
		cmd := newCommand(t, env, "insert")
		cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"id": "%d", "action": "act"}`, i))
		both[i] = start(t, cmd)
	}
	for _, p := range both {
		p.wantExit(t, 0)
	}
	wantNoServer(t, dir)
	run(t, env, "", "ls").wantExit(t, 0).wantOutput(t, "\n0 ", "\n1 ")
	run(t, env, "", "migrate").wantExit(t, 0).wantOutput(t, "already")
	run(t, env, "", "ls", "--schema", "stnt").wantExit(t, 5, "stint migrate --schema stnt")
	wantNoServer(t, dir)

	// Somebody reads no further: head, or a pager that was left.
	cmd := newCommand(t, env, "ls", "--json")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	cmd.Stdout = write
	err = cmd.Run()
	write.Close()
	if got := cmd.ProcessState.ExitCode(); got != 141 {
		t.Errorf("ls into a closed pipe: exit code %d, want 141, %v", got, err)
	}
	wantNoServer(t, dir)
}

// Proves G122.
func TestPrivate_LeavesNoServerWhenInterrupted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	run(t, env, `{"id": "slow", "action": "slow", "post_result": true}`, "insert").wantExit(t, 0)
	waiting := start(t, newCommand(t, env, "wait", "slow"))
	joinUntilWaiting(t, dir)
	waiting.interrupt(t)
	waiting.wantExit(t, 130)
	wantNoServer(t, dir)
	run(t, env, "", "show", "slow").wantExit(t, 0).wantOutput(t, "ready")
}

func TestPrivate_IsNamed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const named = "using the private PostgreSQL; " +
		"--database-url or STINT_DATABASE_URL names another\n"
	env, _ := privateHome(t)
	r := run(t, env, `{"id": "a", "action": "act"}`, "insert").wantExit(t, 0)
	if want := named + "inserted 1 task\n"; r.stderr != want {
		t.Errorf("insert says %q, want %q", r.stderr, want)
	}
	r = run(t, env, "", "ls", "--json").wantExit(t, 0)
	if r.stderr != named || !strings.HasPrefix(r.stdout, "{") {
		t.Errorf("ls --json says %q, and prints %q", r.stderr, r.stdout)
	}
	for _, args := range [][]string{{"--help"}, {"ls", "--limit", "0"}} {
		if r := run(t, env, "", args...); strings.Contains(r.stderr, "private") {
			t.Errorf("%q says %q, though it uses no database", args, r.stderr)
		}
	}
	working := work(t, env, processes.Write(t, map[string]string{"none": ""}), "--json")
	working.says(t, `"database":"the private PostgreSQL"`)
	working.end(t)
	if strings.Contains(working.output.String(), named) {
		t.Errorf("the log of a worker is no JSON: %s", working.output.String())
	}
	db := newDatabase(t)
	if r := db.run(t, "", "ls").wantExit(t, 0); strings.Contains(r.stderr, "private") {
		t.Errorf("ls in a database of one's own says %q", r.stderr)
	}
}

// Ctrl-C while initdb runs, which does not end by itself here.
func TestPrivate_LeavesNoServerWhenInterruptedInInitdb(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	programs, running := slowPrograms(t)
	starting := start(t, newCommand(t, append(env, "STINT_PG_BIN="+programs), "ls"))
	eventually(t, "initdb", func() bool { _, err := os.Stat(running); return err == nil })
	starting.interrupt(t)
	starting.wantExit(t, 130)
	wantNoServer(t, dir)
	run(t, env, "", "ls").wantExit(t, 0, "no tasks")
}

// slowPrograms returns a directory of PostgreSQL's programs whose initdb makes a file, and then
// runs until it is ended.
func slowPrograms(t *testing.T) (dir, running string) {
	t.Helper()
	env, home := privateHome(t)
	run(t, env, "", "ls").wantExit(t, 0)
	text, err := os.ReadFile(filepath.Join(home, "data", "postmaster.opts"))
	if err != nil {
		t.Fatal(err)
	}
	postgres, _, _ := strings.Cut(string(text), " ")
	dir = filepath.Join(home, "slow")
	running = filepath.Join(dir, "running")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // the server's account is another one for root
		t.Fatal(err)
	}
	if err := os.Symlink(postgres, filepath.Join(dir, "postgres")); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n>'%s'\nexec sleep 600\n", running)
	if err := os.WriteFile(filepath.Join(dir, "initdb"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, running
}

// Ctrl-C while the server starts, which never ends here: it waits for more to recover.
func TestPrivate_LeavesNoServerWhenInterruptedInItsStart(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	run(t, env, "", "ls").wantExit(t, 0)
	makeStandby(t, dir, "hot_standby = off")
	starting := start(t, newCommand(t, env, "ls"))
	eventually(t, "a server that recovers", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
		return strings.Contains(string(text), "standby")
	})
	starting.interrupt(t)
	starting.wantExit(t, 130)
	wantNoServer(t, dir)
	if err := os.Remove(filepath.Join(dir, "data", "standby.signal")); err != nil {
		t.Fatal(err)
	}
	run(t, env, "", "ls").wantExit(t, 0, "no tasks")
}

// makeStandby has the private server, which is not running, start as a standby.
func makeStandby(t *testing.T, dir, settings string) {
	t.Helper()
	for name, text := range map[string]string{
		"standby.signal": "", "postgresql.auto.conf": settings + "\n",
	} {
		file, err := os.OpenFile(filepath.Join(dir, "data", name),
			os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(file.Chmod(0o666), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// joinUntilWaiting uses the private server, together with the command, until that waits.
func joinUntilWaiting(t *testing.T, dir string) {
	t.Helper()
	server, err := localpg.Start(testContext(t), localpg.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	conn, err := pgx.Connect(testContext(t), server.URL("stint"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	eventually(t, "a command that waits", func() bool {
		var n int
		if err := conn.QueryRow(t.Context(), waitersQuery).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
}
