package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// A performer is a worker in a process of its own, which can be killed.
type performer struct {
	cmd *exec.Cmd
	in  io.Closer

	ended chan struct{} // closed when it has
	err   error         // how it has
}

// An act is the beginning or the end of a performance, as a line of a performer tells it.
type act struct {
	ends   bool
	number int // of the task
	at     time.Time
}

// Marks of lines.
const markBegin, markEnd = "b", "e"

// startPerformer starts one, and calls tell with what it does. It ends when it is told to, or when
// this process ends.
func startPerformer(ctx context.Context, j job, tell func(a act)) (*performer, error) {
	j.Perform = true
	input, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program) //nolint:gosec // It is this program.
	cmd.Env = append(os.Environ(), childVariable+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &performer{cmd: cmd, in: in, ended: make(chan struct{})}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var mark string
			var number int
			var nanos int64
			if _, err := fmt.Sscan(lines.Text(), &mark, &number, &nanos); err == nil {
				tell(act{ends: mark == markEnd, number: number, at: time.Unix(0, nanos)})
			} // else it was killed while it wrote
		}
		p.err = cmd.Wait()
		close(p.ended)
	}()
	_, err = in.Write(append(input, '\n'))
	return p, err
}

// stop lets it end what it does.
func (p *performer) stop() error {
	err := p.in.Close()
	<-p.ended
	return errors.Join(err, p.err)
}

// kill does not.
func (p *performer) kill() error {
	if err := p.cmd.Process.Kill(); err != nil {
		return err
	}
	<-p.ended
	return nil
}

// bePerformer performs until nobody holds the other end of input, and tells all that it does at
// once, so that what it has ended is known if it is killed.
func bePerformer(ctx context.Context, r *run, open opener, input io.Reader, out io.Writer) error {
	s, err := open(ctx, r, disturbedSlots)
	if err != nil {
		return err
	}
	tell := func(mark string, body []byte) {
		number, err := strconv.Atoi(string(body[:len(taskID(0))]))
		if err == nil {
			_, _ = fmt.Fprintln(out, mark, number, now().UnixNano()) // nobody listens: it ends soon
		}
	}
	stop, err := s.work(ctx, func(body []byte) {
		tell(markBegin, body)
		<-time.After(slotWork)
		tell(markEnd, body)
	})
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, input)
	return errors.Join(err, stop(), s.close(ctx))
}
