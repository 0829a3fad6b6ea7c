package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"time"
)

// A process is this program as a client or a worker. It ends with its standard input, so it does
// not outlive who started it.
type process struct {
	name  string
	cmd   *exec.Cmd
	input io.WriteCloser
	ended chan struct{} // Closed when err is known.
	err   error
}

func startProcess(name string, stderr io.Writer, args ...string) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Not CommandContext: what is not killed on purpose is to end in order.
	cmd := exec.Command(program, args...) //nolint:gosec // It is this program.
	cmd.Stderr = stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, input: input, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// end asks the process to end, and makes it if that takes long.
func (p *process) end() {
	const endMax = 10 * time.Second
	_ = p.input.Close()
	select {
	case <-p.ended:
	case <-time.After(endMax):
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
}

// goOn tells a client that it may go on.
func (p *process) goOn() {
	_, _ = p.input.Write([]byte{'\n'}) // If it has gone, that is known otherwise.
}

// untilEnd is a context that ends when nothing more can be read, and a channel that is closed when
// something was.
func untilEnd(
	ctx context.Context, input io.Reader,
) (context.Context, <-chan struct{}, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	goOn := make(chan struct{})
	go func() {
		defer cancel()
		if _, err := input.Read(make([]byte, 1)); err != nil {
			return
		}
		close(goOn)
		_, _ = io.Copy(io.Discard, input)
	}()
	return ctx, goOn, cancel
}

// A crew is worker processes of which any may be killed at any moment. Another one then takes its
// place, under a new name.
type crew struct {
	opts    options
	journal *journal
	stderr  io.Writer
	// fail is called when a worker ends by itself.
	fail context.CancelCauseFunc

	mutex   sync.Mutex
	members []*process
	lives   int
}

// start fills all places.
func (c *crew) start() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.members = make([]*process, c.opts.workers)
	return c.fill()
}

// fill starts a worker for each place that is free; the mutex is held.
func (c *crew) fill() error {
	for place, member := range c.members {
		if member != nil {
			continue
		}
		c.lives++
		name := fmt.Sprintf("worker-%d", c.lives)
		member, err := startProcess(name, c.stderr, c.opts.workerArgs(name)...)
		if err != nil {
			return err
		}
		c.members[place] = member
		go func() {
			<-member.ended
			c.mutex.Lock()
			defer c.mutex.Unlock()
			if c.members != nil && c.members[place] == member {
				c.fail(fmt.Errorf("%s ended by itself: %w", member.name, member.err))
			}
		}()
	}
	return nil
}

// kill kills a worker, or all of them at once, and starts others in their places.
func (c *crew) kill(all bool) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var victims []*process
	chosen := rand.N(len(c.members)) //nolint:gosec // no secret
	for place, member := range c.members {
		if all || place == chosen {
			victims = append(victims, member)
			c.members[place] = nil
			if err := c.journal.write(entry{Kind: killing, Victim: member.name}); err != nil {
				return err
			}
		}
	}
	for _, victim := range victims {
		err := victim.cmd.Process.Kill()
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("kill %s: %w", victim.name, err)
		}
	}
	for _, victim := range victims {
		<-victim.ended
		if err := c.journal.write(entry{Kind: died, Victim: victim.name}); err != nil {
			return err
		}
	}
	return c.fill()
}

// pause stops a worker for so long. If it is not killed meanwhile, it comes back as a late owner.
func (c *crew) pause(ctx context.Context, duration time.Duration) error {
	c.mutex.Lock()
	member := c.members[rand.N(len(c.members))] //nolint:gosec // no secret
	c.mutex.Unlock()
	if err := c.journal.write(entry{Kind: pausing, Victim: member.name}); err != nil {
		return err
	}
	err := pause(member.cmd.Process)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", member.name, err)
	}
	wait(ctx, duration)
	err = resume(member.cmd.Process)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("resume %s: %w", member.name, err)
	}
	return nil
}

// end ends all workers.
func (c *crew) end() {
	c.mutex.Lock()
	members := c.members
	c.members = nil
	c.mutex.Unlock()
	var ending sync.WaitGroup
	for _, member := range members {
		if member != nil {
			ending.Go(member.end)
		}
	}
	ending.Wait()
}
