//go:build unix

package system

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// restAfter is how long a process that was killed stays away, unless somebody restarts it.
const restAfter = time.Second

// A Process is one that uses the tasks: this program with another job, or a program in another
// language. It is started again when it ends, until it is stopped.
type Process struct {
	// Kind is worker, loops, operator, waiter, service, client, shard, python or typescript.
	Kind string
	// Name is unique in a round.
	Name string
	// Address is the host and port of the service, for its process.
	Address string
	// Env are further variables of the environment of the next start.
	Env []string

	// Make makes the command of the start with a number, from 1 on. A file for its standard error
	// is closed here.
	Make func(number int) *exec.Cmd
	// Said is told each line that the process writes to its standard output.
	Said func(line string)

	mutex    sync.Mutex
	number   int
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	orders   []string // what it was told, for the next one
	gone     chan struct{}
	stopping bool
	deaths   int
}

// Start starts the process.
func (p *Process) Start() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.start()
}

func (p *Process) start() error {
	p.number++
	cmd := p.Make(p.number)
	cmd.Env = append(cmd.Environ(), p.Env...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	if file, ok := cmd.Stderr.(*os.File); ok && file != os.Stderr {
		_ = file.Close() // the process has it
	}
	p.cmd, p.stdin, p.gone = cmd, stdin, make(chan struct{})
	for _, order := range p.orders {
		_, _ = fmt.Fprintln(stdin, order) // whoever waits for it learns of its end
	}
	go p.tend(cmd, stdout, p.gone)
	return nil
}

// tend reads what the process says until it has ended, and starts it again after a while.
func (p *Process) tend(cmd *exec.Cmd, stdout io.Reader, gone chan struct{}) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if p.Said != nil {
			p.Said(lines.Text())
		}
	}
	_ = cmd.Wait() // how it ended, its standard error tells
	p.mutex.Lock()
	if !p.stopping {
		p.deaths++
	}
	close(gone)
	p.mutex.Unlock()
	<-time.After(restAfter)
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.gone == gone && !p.stopping {
		if err := p.start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// PID is the number of the process that runs, or ran last.
func (p *Process) PID() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Kill kills the process. It is started again after a second.
func (p *Process) Kill() error { return p.signal(syscall.SIGKILL) }

// Freeze stops the process where it is.
func (p *Process) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw lets it go on.
func (p *Process) Thaw() error { return p.signal(syscall.SIGCONT) }

// signal sends a signal to the process, if it runs.
func (p *Process) signal(signal syscall.Signal) error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.cmd == nil || isClosed(p.gone) {
		return nil
	}
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %v to %s: %w", signal, p.Name, err)
	}
	return nil
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Restart kills the process and starts it again at once.
func (p *Process) Restart(ctx context.Context) error {
	if err := p.Kill(); err != nil {
		return err
	}
	p.mutex.Lock()
	gone := p.gone
	p.mutex.Unlock()
	if gone != nil {
		select {
		case <-gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.stopping || p.gone != gone {
		return nil // it was started meanwhile
	}
	return p.start()
}

// Order tells the process something, and whoever follows it.
func (p *Process) Order(line string) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.orders = append(p.orders, line)
	if p.stdin != nil && !isClosed(p.gone) {
		_, _ = fmt.Fprintln(p.stdin, line) // one that has gone is told when it is there again
	}
}

// Deaths is how often the process ended without having been stopped.
func (p *Process) Deaths() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.deaths
}

// Stop closes the standard input of the process, which tells it to end, and kills it if it does not
// until ctx ends. It reports whether it has ended by itself.
func (p *Process) Stop(ctx context.Context) bool {
	p.mutex.Lock()
	p.stopping = true
	gone := p.gone
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	p.mutex.Unlock()
	if gone == nil {
		return true
	}
	_ = p.Thaw()
	select {
	case <-gone:
		return true
	case <-ctx.Done():
		_ = p.Kill()
		<-gone
		return false
	}
}
