package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/releases"
)

const (
	// late is when something does not come any more.
	late = 2 * time.Minute
	poll = 20 * time.Millisecond
)

// A release is a command that was built.
type release struct {
	Release
	side, binary string // side is old or new
}

func build(ctx context.Context, dir, side, name string) (*release, error) {
	commit, err := releases.Commit(ctx, name)
	if err != nil {
		return nil, err
	}
	source := filepath.Join(dir, side+"-source")
	if err := releases.Extract(ctx, commit, source); err != nil {
		return nil, err
	}
	r := &release{
		Release: Release{Name: name, Commit: commit}, side: side,
		binary: filepath.Join(dir, side),
	}
	if err := releases.Build(ctx, source, r.binary, "-trimpath"); err != nil {
		return nil, err
	}
	said, err := releases.Output(ctx, "", r.binary, "version", "--json")
	if err != nil {
		return nil, err
	}
	return r, json.Unmarshal([]byte(said), &r.Release)
}

// A party is the command of a release, on the tables of a check or on a service.
type party struct {
	*check
	*release
	service *service // nil: on the tables
}

func (p party) command(ctx context.Context, args ...string) *exec.Cmd {
	target := "STINT_SERVER="
	if p.service == nil {
		target = "STINT_DATABASE_URL=" + p.url
		args = append(args, "--schema", p.schema)
	} else {
		target += p.service.url
	}
	cmd := exec.CommandContext(ctx, p.binary, args...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "STINT_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, target, "NO_COLOR=1")
	return cmd
}

// run runs the command to its end.
func (p party) run(
	ctx context.Context, stdin string, args ...string,
) (stdout string, code int, err error) {
	cmd := p.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	if err = cmd.Run(); err != nil {
		err = fmt.Errorf("%s stint %q: %w: %s", p.side, args, err, errs.String())
	}
	return out.String(), cmd.ProcessState.ExitCode(), err
}

// call runs a command that inserts or waits, again while the service does not answer.
func (p party) call(ctx context.Context, stdin string, args ...string) error {
	const exitUnreachable, exitState = 4, 6
	ctx, cancel := context.WithTimeout(ctx, late)
	defer cancel()
	for repeated := false; ; repeated = true {
		_, code, err := p.run(ctx, stdin, args...)
		inserted := repeated && args[0] == "insert" && code == exitState // by the call before
		done := err == nil || inserted
		again := !done && p.service != nil && code == exitUnreachable && ctx.Err() == nil
		p.mutex.Lock()
		p.Calls[p.side]++
		if again {
			p.Repeated++
		} else if !done {
			p.Refused++
		}
		p.mutex.Unlock()
		switch {
		case done:
			return nil
		case !again:
			return err
		}
		if err := pause(ctx); err != nil {
			return err
		}
	}
}

// pause waits a moment before something is looked at again.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(poll):
		return nil
	}
}

// eventually waits until a condition holds.
func eventually(ctx context.Context, what string, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, late)
	defer cancel()
	for {
		if holds, err := condition(); holds || err != nil {
			return err
		}
		if err := pause(ctx); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
}

// A process is a command at work.
type process struct {
	name    string
	cmd     *exec.Cmd
	printed processes.Buffer
	ended   chan struct{}
}

// start starts the command, and waits until it says something.
func (p party) start(
	ctx context.Context, says string, env []string, args ...string,
) (*process, error) {
	// Whoever starts it ends it.
	cmd := p.command(context.WithoutCancel(ctx), args...)
	q := &process{name: p.side + " stint " + args[0], cmd: cmd, ended: make(chan struct{})}
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = &q.printed, &q.printed
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p.processes = append(p.processes, q)
	go func() {
		_ = cmd.Wait() // the exit code says it all
		close(q.ended)
	}()
	return q, eventually(ctx, q.name+" says "+says, func() (bool, error) {
		select {
		case <-q.ended:
			return false, fmt.Errorf("%s ended: %s", q.name, q.printed.String())
		default:
			return strings.Contains(q.printed.String(), says), nil
		}
	})
}

// kill ends the process on the spot.
func (q *process) kill() {
	_ = q.cmd.Process.Kill() // it may have ended
	<-q.ended
}

// stop ends the process as SIGTERM does.
func (q *process) stop() error {
	if err := q.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: %w", q.name, err)
	}
	select {
	case <-q.ended:
	case <-time.After(late):
		return errors.New(q.name + " does not stop")
	}
	if code := q.cmd.ProcessState.ExitCode(); code != 0 {
		return fmt.Errorf("%s: exit code %d: %s", q.name, code, q.printed.String())
	}
	return nil
}

// A service keeps its address when another process takes its place.
type service struct {
	url     string // once there is a process
	process *process
}

func (p party) serve(ctx context.Context) (*service, error) {
	s := &service{url: "http://127.0.0.1:0"}
	return s, p.serveAs(ctx, s)
}

// serveAs starts a process for a service that has none.
func (p party) serveAs(ctx context.Context, s *service) error {
	listen := strings.TrimPrefix(s.url, "http://")
	q, err := p.start(ctx, "msg=serving", nil, "serve", "--listen", listen)
	if err != nil {
		return err
	}
	s.process = q
	found := regexp.MustCompile(` address=(\S+)`).FindStringSubmatch(q.printed.String())
	if found == nil {
		return fmt.Errorf("%s does not say its address: %s", q.name, q.printed.String())
	}
	s.url = found[1]
	return nil
}

// replace stops the process of a service, and starts one of this release in its place.
func (p party) replace(ctx context.Context, s *service) error {
	if err := s.process.stop(); err != nil {
		return err
	}
	return p.serveAs(ctx, s)
}
