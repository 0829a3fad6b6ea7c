package programs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/worker"
)

// exitDataError is the exit status, EX_DATAERR of sysexits.h, of a program that finds that no
// further try will help.
const exitDataError = 65

var errTooMuch = errors.New("more on standard output than a result may have")

// perform performs a task by running the program of its action.
func (d *Directory) perform(ctx context.Context, task *worker.Task) (worker.Result, error) {
	d.running.Add(1) // Close waits for it
	defer d.running.Done()
	inputs, err := task.Inputs(ctx) // also of skipped predecessors, which the task does not count
	if err != nil {
		return worker.Result{}, err
	}
	return d.run(ctx, task, fromShards(inputs))
}

// run runs the program of a task with these inputs.
func (d *Directory) run(
	ctx context.Context, task *worker.Task, inputs []stint.Input,
) (worker.Result, error) {
	d.running.Add(1)
	defer d.running.Done()
	path, err := d.program(task.Action)
	if err != nil {
		return worker.Result{}, err
	}
	body, err := resolve(task.Body, inputs)
	switch {
	case errors.Is(err, errLargeBody):
		return worker.Result{}, worker.Abort(err)
	case err != nil:
		return worker.Result{}, err // a newer worker may understand it
	}
	files, err := os.MkdirTemp("", "stint-task-*")
	if err != nil {
		return worker.Result{}, err
	}
	defer os.RemoveAll(files) //nolint:errcheck // nothing depends on it
	inputsPath, spentPath := filepath.Join(files, "inputs.json"), filepath.Join(files, "spent")
	if err := writeInputs(inputsPath, inputs); err != nil {
		return worker.Result{}, fmt.Errorf("write inputs: %w", err)
	}

	cmd := exec.Command(path) //nolint:gosec,noctx // to run it is the purpose; it is ended below
	cmd.Env = append(os.Environ(),
		"STINT_TASK_ID="+string(task.ID), "STINT_TASK_TOKEN="+task.Token.String(),
		"STINT_ACTION="+task.Action, "STINT_TRY="+strconv.Itoa(task.Try),
		"STINT_INPUTS="+inputsPath, "STINT_SPENT="+spentPath)
	cmd.Env = append(append(cmd.Env, headerVariables(task.Headers)...), d.Env...)
	if d.Fence {
		fence, err := task.Fence(ctx)
		if err != nil {
			return worker.Result{}, err
		}
		cmd.Env = append(cmd.Env, "STINT_FENCE="+strconv.FormatInt(fence, 10))
	}
	ownGroup(cmd)
	e := &execution{
		Directory: d, cmd: cmd, log: safely.NewTail(statusBytesMax),
		tooMuch: make(chan struct{}), exited: make(chan struct{}), drained: make(chan struct{}),
	}
	err = e.run(ctx, body)
	e.readSpent(spentPath, task)
	return e.outcome(err)
}

// headerVariables are the headers of a task as variables of the environment: each by a name of ours
// and, so that programs find the trace where OpenTelemetry says, those of a trace by their own.
func headerVariables(headers map[string]string) []string {
	var variables []string
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		variable := strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		variables = append(variables, "STINT_HEADER_"+variable+"="+headers[name])
		switch name {
		case "traceparent", "tracestate", "baggage":
			variables = append(variables, variable+"="+headers[name])
		}
	}
	return variables
}

// An execution is one run of a program.
type execution struct {
	*Directory
	cmd *exec.Cmd

	output bytes.Buffer
	log    *safely.Tail
	// tooMuch is closed when there is more output than a result may have.
	tooMuch chan struct{}
	// exited is closed when the program has exited; exit is its error then.
	exited chan struct{}
	exit   error
	// drained is closed when standard output and standard error have been read to their ends.
	drained chan struct{}
}

// outcome is what becomes of the task of a program that ended with err.
func (e *execution) outcome(err error) (worker.Result, error) {
	if err == nil {
		result := worker.Result{Status: e.log.Text(statusBytesMax)}
		if e.output.Len() > 0 {
			result.Bytes = e.output.Bytes()
		}
		return result, nil
	}
	var exit *exec.ExitError
	end := &endError{how: err, log: e.log}
	if wasEnded := new(ended); !errors.As(err, &wasEnded) {
		end.how = explained(err, e.cmd.Path)
	}
	if errors.Is(err, errTooMuch) ||
		errors.As(err, &exit) && exit.ExitCode() == exitDataError {
		return worker.Result{}, worker.Abort(end)
	}
	return worker.Result{}, end
}

// ended is the error of a program that was told to end. Its exit status does not count.
type ended struct {
	cause error
	exit  error
}

func (e *ended) Error() string {
	if e.exit == nil {
		return e.cause.Error()
	}
	return e.cause.Error() + ": " + e.exit.Error()
}

func (e *ended) Unwrap() error { return e.cause }

// run runs the program until it has ended, on its own or because ctx ends.
func (e *execution) run(ctx context.Context, body []byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	streams, err := e.start(body)
	if err != nil {
		return err
	}
	select {
	case <-e.exited:
		err = e.exit
	case <-e.tooMuch:
	case <-ctx.Done():
		cause := context.Cause(ctx)
		e.end(cause)
		err = &ended{cause: cause, exit: e.exit}
	case <-e.closing:
		e.end(worker.ErrStopping)
		err = &ended{cause: worker.ErrStopping, exit: e.exit}
	}
	// The processes that hold the standard streams are in the group, so this ends them, unless they
	// have left the group. While the group has members, no other group can get its number; when it
	// has none, it takes long until another group gets it.
	kill(e.cmd)
	<-e.exited
	within(stopGrace, e.drained)
	streams.close()
	<-e.drained
	select {
	case <-e.tooMuch:
		return fmt.Errorf("%w: %d bytes", errTooMuch, e.resultBytesMax)
	default:
		return err
	}
}

// dead reports whether the worker dies together with the program.
func (e *execution) dead() bool {
	select {
	case <-e.Dead:
		return true
	default:
		return false
	}
}

// end tells the program to end, and makes it end when its grace is over, or at once if the worker
// dies with it.
func (e *execution) end(cause error) {
	if e.dead() {
		kill(e.cmd)
		<-e.exited
		return
	}
	grace := e.killGrace
	if errors.Is(cause, worker.ErrStopping) {
		grace = min(grace, stopGrace)
	}
	timer, look := time.NewTimer(grace), time.NewTicker(lookEvery)
	defer timer.Stop()
	defer look.Stop()
	terminate(e.cmd)
	exited := e.exited
	for over := false; !over && (exited != nil || alive(e.cmd)); {
		select {
		case <-exited:
			exited = nil
		case <-look.C:
		case <-timer.C:
			over = true
		case <-e.closing:
			over = true
		}
	}
	kill(e.cmd)
	<-e.exited
}

// within waits until done is closed, but no longer than d.
func within(d time.Duration, done <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// streams are our ends of a program's standard streams.
type streams []*os.File

func (s streams) close() {
	for _, file := range s {
		_ = file.Close() // to end whoever uses it
	}
}

// start starts the program, and the goroutines that feed it and read from it.
func (e *execution) start(body []byte) (_ streams, err error) {
	var ours, theirs streams
	defer func() {
		theirs.close()
		if err != nil {
			ours.close()
		}
	}()
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		if i == 0 {
			r, w = w, r
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	e.cmd.Stdin, e.cmd.Stdout, e.cmd.Stderr = theirs[0], theirs[1], theirs[2]
	if err := e.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_, _ = ours[0].Write(body) // a program need not read it
		_ = ours[0].Close()
	}()
	var reading sync.WaitGroup
	reading.Go(func() { e.readOutput(ours[1]) })
	reading.Go(func() { _, _ = io.Copy(e.log, ours[2]) }) // until nobody writes, or closed
	go func() {
		reading.Wait()
		close(e.drained)
	}()
	go func() {
		e.exit = e.cmd.Wait()
		close(e.exited)
	}()
	return ours, nil
}

// readOutput reads standard output until nobody writes any more, it is closed, or there is too
// much.
func (e *execution) readOutput(from io.Reader) {
	limit := int64(e.resultBytesMax)
	n, _ := io.Copy(&e.output, io.LimitReader(from, limit+1))
	if n > limit {
		close(e.tooMuch)
	}
}
