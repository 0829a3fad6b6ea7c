package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/worker"
)

// Work is the second worker, in a process of its own: it performs tasks until its standard input
// ends, at the latest when the process that started it ends.
func Work(ctx context.Context, store *stint.Store, actor stint.ActorID, stdin io.Reader) error {
	silent := &agency{failed: func(*worker.Task) {}, lost: func(error) {}}
	w, err := silent.newWorker(store, actor, actionDevelop)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	return w.Run(ctx)
}

// A process is a worker that can be killed.
type process struct {
	actor stint.ActorID
	cmd   *exec.Cmd
	stdin io.Closer
	said  bytes.Buffer // Its standard error; complete when it has ended.
	ended chan struct{}
	err   error // Known when it has ended.
}

func startProcess(actor stint.ActorID, cmd *exec.Cmd) (*process, error) {
	p := &process{actor: actor, cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &p.said
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", actor, err)
	}
	go func() {
		defer close(p.ended)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// kill kills the process without a warning, and returns when it is gone.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill %s: %w", p.actor, err)
	}
	<-p.ended
	return nil
}

// early is the error of a process that ended before it was killed.
func (p *process) early() error {
	select {
	case <-p.ended:
		return errors.Join(fmt.Errorf("%s ended by itself: %w", p.actor, p.err),
			errors.New(p.said.String()))
	default:
		return nil
	}
}

// end asks the process to end, and kills it if that takes long.
func (p *process) end() {
	const endMax = 5 * time.Second
	_ = p.stdin.Close() // it may have been killed
	late := time.NewTimer(endMax)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
		_ = p.cmd.Process.Kill() // it may have ended at last
		<-p.ended
	}
}
