// Package top is a live view of tasks on a terminal: a model that bubbletea runs, which looks at a
// [Source] again and again, and turns what it sees into frames.
package top

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	tea "charm.land/bubbletea/v2"
)

// ErrInterrupted is the error of [Run] when somebody typed Ctrl-C, or the terminal has gone.
var ErrInterrupted = errors.New("interrupted")

// Options is how the view looks.
type Options struct {
	// Database says to people which database it is.
	Database string

	// Interval is how long to wait after a read before the next one.
	Interval time.Duration

	// Colours says that frames have colours. Otherwise they are plain text.
	Colours bool
}

// answerMax is how long the view waits for an answer of the source.
const answerMax = 10 * time.Second

// Run shows the view until the user quits, and leaves the terminal as it was. It returns when no
// question to the source is under way any more. The error is [ErrInterrupted], the error of the
// terminal, or the error of ctx.
func Run(ctx context.Context, source Source, options Options, in io.Reader, out io.Writer) error {
	questions := &questions{}
	asking, stop := context.WithCancel(ctx)
	defer questions.end()
	defer stop()
	ask := func(question func(ctx context.Context) tea.Msg) tea.Cmd {
		return func() tea.Msg {
			if !questions.begin() {
				return nil
			}
			defer questions.underWay.Done()
			ctx, cancel := context.WithTimeout(asking, answerMax)
			defer cancel()
			return question(ctx)
		}
	}
	viewing, end := context.WithCancelCause(ctx)
	defer end(nil)
	if file, ok := in.(*os.File); ok {
		in = &terminal{file, end}
	}
	_, err := tea.NewProgram(newModel(source, options, ask), tea.WithContext(viewing),
		tea.WithInput(in), tea.WithOutput(out), tea.WithoutSignalHandler()).Run()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, tea.ErrInterrupted), errors.Is(context.Cause(viewing), ErrInterrupted),
		errors.Is(err, syscall.EIO): // so says a terminal that has gone, whoever asks it first
		return ErrInterrupted
	}
	return err
}

// A terminal that has gone ends the view. Nothing else is sure to end it: bubbletea takes the end
// of its input for a user who does not type, and SIGHUP does not come if it is ignored, as under
// nohup.
type terminal struct {
	*os.File
	end context.CancelCauseFunc
}

func (t *terminal) Read(p []byte) (int, error) {
	n, err := t.File.Read(p)
	if err != nil {
		t.end(ErrInterrupted)
	}
	return n, err
}

// The questions are the questions to the source that are under way. Bubbletea does not wait for
// them.
type questions struct {
	mutex    sync.Mutex
	ended    bool
	underWay sync.WaitGroup
}

// begin reports whether one more may be asked.
func (q *questions) begin() bool {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if !q.ended {
		q.underWay.Add(1)
	}
	return !q.ended
}

// end waits for those under way, and lets no others begin.
func (q *questions) end() {
	q.mutex.Lock()
	q.ended = true
	q.mutex.Unlock()
	q.underWay.Wait()
}
