//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A terminal is one that the command draws on.
type terminal struct {
	*os.File
	tty    *os.File
	cmd    *exec.Cmd
	before *term.State
	output processes.Buffer
	read   chan struct{} // Closed when there is nothing more to read.
	size   pty.Winsize
}

func startOnTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	return startIgnoring(t, "", nil, env, args...)
}

// startIgnoring has the command inherit that it ignores these signals, as trap names them. Its
// errors go to stderr, or to the terminal if that is nil.
func startIgnoring(
	t *testing.T, signals string, stderr io.Writer, env []string, args ...string,
) *terminal {
	t.Helper()
	x := &terminal{
		cmd:  newCommand(t, append([]string{"TERM=xterm-256color"}, env...), args...),
		read: make(chan struct{}),
		size: pty.Winsize{Rows: 40, Cols: 120},
	}
	file, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	x.File, x.tty = file, tty
	t.Cleanup(func() { file.Close(); tty.Close() })
	x.resize(t)
	if x.before, err = term.GetState(int(tty.Fd())); err != nil {
		t.Fatal(err)
	}
	// The package pty leaves it blocking, and a file that somebody blocks on stays open.
	if err := syscall.SetNonblock(int(file.Fd()), true); err != nil {
		t.Fatal(err)
	}
	if signals != "" {
		script := "trap '' " + signals + `; exec "$0" "$@"`
		x.cmd.Args = append([]string{"sh", "-c", script, x.cmd.Path}, x.cmd.Args[1:]...)
		x.cmd.Path = "/bin/sh"
	}
	x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = tty, tty, tty
	if stderr != nil {
		x.cmd.Stderr = stderr
	}
	x.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(x.read)
		buffer := make([]byte, 1<<16)
		for {
			n, err := file.Read(buffer)
			_, _ = x.output.Write(buffer[:n])
			if err != nil {
				return
			}
		}
	}()
	return x
}

// resize makes the terminal a bit wider, so that all of it is drawn anew.
func (x *terminal) resize(t *testing.T) {
	t.Helper()
	x.size.Cols++
	if err := pty.Setsize(x.tty, &x.size); err != nil {
		t.Fatal(err)
	}
}

// waitFor waits until a text is drawn, behind all that was drawn before.
func (x *terminal) waitFor(t *testing.T, text string) {
	t.Helper()
	from := len(x.output.String())
	looks := 0
	eventually(t, text, func() bool {
		const looksUntilDrawnAnew = 50
		if looks%looksUntilDrawnAnew == 0 {
			x.resize(t)
		}
		looks++
		return strings.Contains(ansi.Strip(x.output.String()[from:]), text)
	})
}

// hangUp closes the window.
func (x *terminal) hangUp() {
	x.tty.Close()
	x.Close()
	<-x.read
}

func (x *terminal) press(t *testing.T, keys string) {
	t.Helper()
	if _, err := x.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// wantExit waits for the end, and checks that the terminal is as it was.
func (x *terminal) wantExit(t *testing.T, want int) {
	t.Helper()
	_ = x.cmd.Wait() // the exit code says it all
	if got := x.cmd.ProcessState.ExitCode(); got != want {
		t.Fatalf("exit code %d, want %d\n%s", got, want, x.output.String())
	}
	after, err := term.GetState(int(x.tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	x.tty.Close()
	<-x.read
	if *after != *x.before {
		t.Errorf("the terminal is left in another mode: %+v, was %+v", after, x.before)
	}
	// The other screen, pastes, and the cursor, which is hidden by being set to l.
	for set, back := range map[string]string{
		"?1049h": "?1049l", "?2004h": "?2004l", "?25l": "?25h",
	} {
		if strings.LastIndex(x.output.String(), set) > strings.LastIndex(x.output.String(), back) {
			t.Errorf("the terminal is left with %s", set)
		}
	}
}

func TestTop_ShowsTasksUntilItIsQuit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "greet/world", Action: "greet"})
	db.insert(t, stint.Task{ID: "greet/moon\x1b[2J", Action: "hail"})
	x := startOnTerminal(t, db.env, "top", "--interval", "100ms")
	x.waitFor(t, "greet")
	owned := db.own(t, "greet")
	x.press(t, "\t")
	x.waitFor(t, "greet/world")
	x.press(t, "\r")
	x.waitFor(t, "lease expires")
	x.waitFor(t, "owns it until")
	db.finish(t, owned, []byte("greetings"))
	x.waitFor(t, "greetings")
	x.press(t, "q")
	x.wantExit(t, 0)
	if strings.Contains(x.output.String(), "moon\x1b") {
		t.Error("an ID reached the terminal as it is")
	}
}

func TestTop_AbortsTheTaskThatWasConfirmed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "greet/world", Action: "greet"},
		stint.Task{ID: "greet/others", Action: "greet", After: []stint.TaskID{"greet/world"}})
	db.own(t, "greet")
	x := startOnTerminal(t, db.env, "top", "--interval", "100ms")
	x.waitFor(t, "greet")
	x.press(t, "\t")
	x.waitFor(t, "greet/world")
	x.press(t, "an")
	x.press(t, "a")
	x.waitFor(t, "abort greet/world and what depends on it? y/n")
	if r := db.run(t, "", "show", "greet/world"); !strings.Contains(r.stdout, "in-progress") {
		t.Fatalf("before it is confirmed the task is\n%s", r.stdout)
	}
	x.press(t, "y")
	x.waitFor(t, "aborted greet/world")
	x.press(t, "q")
	x.wantExit(t, 0)
	for _, id := range []string{"greet/world", "greet/others"} {
		db.run(t, "", "show", id).wantExit(t, 0).wantOutput(t, "aborted")
	}
}

func TestTop_RetriesATaskThatFailed(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "greet/world", Action: "greet"})
	owned := db.own(t, "greet")
	err := db.store.ReturnTask(t.Context(), owned.ID, owned.Token, "no voice", stint.StatusAborted)
	if err != nil {
		t.Fatal(err)
	}
	x := startOnTerminal(t, db.env, "top", "--interval", "100ms")
	x.waitFor(t, "greet")
	x.press(t, "\t")
	x.waitFor(t, "no voice")
	x.press(t, "r")
	x.waitFor(t, "retry greet/world and what was aborted or skipped because of it? y/n")
	x.press(t, "y")
	x.waitFor(t, "retried greet/world")
	x.press(t, "q")
	x.wantExit(t, 0)
	db.run(t, "", "show", "greet/world").wantExit(t, 0).wantOutput(t, "ready")
}

func TestTop_FindsAnyTaskByItsID(t *testing.T) {
	t.Parallel()
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "greet/world", Action: "greet"})
	x := startOnTerminal(t, db.env, "top")
	x.waitFor(t, "greet")
	x.press(t, "\t/gree")
	x.waitFor(t, "filter: gree")
	x.press(t, "\r")
	x.waitFor(t, "greet/world")
	x.press(t, "q")
	x.wantExit(t, 0)
}

func TestTop_IsInterrupted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "greet/world", Action: "greet"})
	for name, interrupt := range map[string]func(x *terminal) error{
		"Ctrl-C": func(x *terminal) error {
			_, err := x.WriteString("\x03")
			return err
		},
		"SIGINT":  func(x *terminal) error { return x.cmd.Process.Signal(syscall.SIGINT) },
		"SIGTERM": func(x *terminal) error { return x.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := startOnTerminal(t, db.env, "top")
			x.waitFor(t, "greet")
			if err := interrupt(x); err != nil {
				t.Fatal(err)
			}
			x.wantExit(t, 130)
			if !strings.Contains(x.output.String(), "stint: interrupted") {
				t.Errorf("it printed %q", x.output.String())
			}
		})
	}
}

func TestTop_GoesOnWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "greet/world", Action: "greet"})
	proxy, env := db.throughProxy(t)
	x := startOnTerminal(t, env, "top", "--interval", "100ms")
	x.waitFor(t, "greet")
	db.goAway(t, proxy)
	x.waitFor(t, "no answer")
	x.waitFor(t, "greet") // as it was
	db.insert(t, stint.Task{ID: "hail/moon", Action: "hail"})
	proxy.Refuse(false)
	x.waitFor(t, "hail")
	x.press(t, "q")
	x.wantExit(t, 0)
}

// throughProxy returns an environment in which the command reaches the database through a proxy.
func (d *database) throughProxy(t *testing.T) (proxy *pgcut.Proxy, env []string) {
	t.Helper()
	proxy = pgcut.New(t, d.pool)
	config := proxy.Pool(t, 1).Config().ConnConfig
	return proxy, []string{fmt.Sprintf(
		"STINT_DATABASE_URL=host=%s port=%d user=%s password='%s' dbname=%s sslmode=disable",
		config.Host, config.Port, config.User, config.Password, config.Database)}
}

// goAway ends the connections of commands, and lets no new ones in.
func (d *database) goAway(t *testing.T, proxy *pgcut.Proxy) {
	t.Helper()
	proxy.Refuse(true)
	d.exec(t, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name = 'stint'`)
}

// Proves G122.
func TestTop_LeavesNoServer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	for _, c := range []struct {
		keys string
		code int
	}{{"q", 0}, {"\x03", 130}} {
		x := startOnTerminal(t, env, "top")
		x.waitFor(t, "no tasks")
		x.press(t, c.keys)
		x.wantExit(t, c.code)
		wantNoServer(t, dir)
	}
}

// A terminal that goes away ends it, whatever signals it has inherited that it ignores: SIGHUP is
// one under nohup, and SIGINT one of what a script starts in the background.
// Proves G122.
func TestTop_EndsWithItsTerminal(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	for _, ignored := range []string{"", "HUP", "INT", "HUP INT QUIT TERM"} {
		var stderr bytes.Buffer
		x := startIgnoring(t, ignored, &stderr, env, "top")
		x.waitFor(t, "no tasks")
		x.hangUp()
		_ = x.cmd.Wait() // the exit code says it all
		if got := x.cmd.ProcessState.ExitCode(); got != 130 {
			t.Errorf("it ignores %q: exit code %d, want 130: %s", ignored, got, &stderr)
		}
		wantNoServer(t, dir)

		x = startIgnoring(t, ignored, nil, env, "top")
		eventually(t, "a server", func() bool { return isLocked(t, dir) })
		x.hangUp() // perhaps before anything is drawn
		_ = x.cmd.Wait()
		wantNoServer(t, dir)
	}
}

func TestTop_NeedsATerminal(t *testing.T) {
	t.Parallel()
	env := []string{"STINT_DATABASE_URL=" + nowhere}
	run(t, env, "", "top").wantExit(t, 2, "terminal", "stint stats")
	run(t, env, "", "top", "--json").wantExit(t, 2, "stint stats --json")
	run(t, env, "", "top", "--interval", "1ms").wantExit(t, 2, "--interval 1ms", "100ms")
	run(t, env, "", "top", "x").wantExit(t, 2)
	x := startOnTerminal(t, append(env, "TERM=dumb"), "top")
	x.wantExit(t, 2)
	x = startOnTerminal(t, env, "top")
	x.wantExit(t, 4)
}

func TestTop_HasNoColoursWithoutThem(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	db := newDatabase(t)
	db.insert(t, stint.Task{ID: "greet/world", Action: "greet"})
	for _, c := range []struct {
		env      string
		coloured bool
	}{{"NO_COLOR=", true}, {"NO_COLOR=1", false}} {
		x := startOnTerminal(t, append([]string{c.env}, db.env...), "top")
		x.waitFor(t, "greet")
		x.press(t, "q")
		x.wantExit(t, 0)
		if got := strings.Contains(x.output.String(), "\x1b[33m"); got != c.coloured {
			t.Errorf("with %s it is coloured: %v", c.env, got)
		}
	}
}
