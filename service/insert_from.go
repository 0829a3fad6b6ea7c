package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
)

// silenceMax is how long a client that streams tasks may send nothing. Its transaction is open
// meanwhile, which keeps a connection, and keeps vacuum waiting.
const silenceMax = 30 * time.Second

// InsertTasksFrom inserts the tasks of a stream in one transaction, which no drain ends.
func (t *taskService) InsertTasksFrom(
	ctx context.Context, stream *connect.ClientStream[stintv1.InsertTasksFromRequest],
) (*stintv1.InsertTasksFromResponse, error) {
	if !stream.Receive() {
		return nil, t.brokenOff(stream.Err())
	}
	done, err := callerOf(ctx).stream()
	if err != nil {
		return nil, err
	}
	defer done()
	inserted, err := t.store.InsertTasksFrom(ctx, t.streamed(stream))
	if err != nil {
		return nil, err
	}
	return &stintv1.InsertTasksFromResponse{Inserted: inserted}, nil
}

// streamed yields the tasks of a stream, whose first message has come, up to its last message, and
// an error if it ends before.
func (t *taskService) streamed(
	stream *connect.ClientStream[stintv1.InsertTasksFromRequest],
) iter.Seq2[stint.Task, error] {
	return func(yield func(stint.Task, error) bool) {
		seen := 0
		for more := true; more; more = stream.Receive() {
			message := stream.Msg()
			tasks, err := wire.ToTasks(message.GetTasks())
			if err != nil {
				yield(stint.Task{}, behind(err, seen))
				return
			}
			seen += len(tasks)
			for _, task := range tasks {
				if !yield(task, nil) {
					return
				}
			}
			if message.GetLast() {
				return
			}
		}
		yield(stint.Task{}, t.brokenOff(stream.Err()))
	}
}

// behind adds the number of tasks in earlier messages to the place in an argument's error.
func behind(err error, earlier int) error {
	var argument *stint.ArgumentError
	if !errors.As(err, &argument) {
		return err
	}
	placed := *argument
	placed.Index += earlier
	return &placed
}

// brokenOff is the error of a stream without a last message.
func (t *taskService) brokenOff(err error) error {
	switch {
	case err == nil:
		return connect.NewError(connect.CodeInvalidArgument, errors.New(
			"the stream ended without a last message, so nothing was inserted"))
	case errors.Is(err, os.ErrDeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, fmt.Errorf(
			"the client sent nothing for %v, or took more than %v for all tasks, so nothing was "+
				"inserted: send them faster, or in several calls", t.silence, t.limits.StreamTime))
	}
	return err
}

// impatient limits for how long the clients of a handler may be silent, and how long they may send.
func (s *Service) impatient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &impatientBody{
			r.Body, http.NewResponseController(w), s.silence, now().Add(s.limits.StreamTime),
		}
		next.ServeHTTP(w, r)
	})
}

// An impatientBody is the body of a request whose client may not be silent for long, and may not
// send for ever.
type impatientBody struct {
	io.ReadCloser
	control *http.ResponseController
	silence time.Duration
	end     time.Time
}

// Read lifts the limit again, which would else apply while the service works.
func (b *impatientBody) Read(into []byte) (int, error) {
	until := now().Add(b.silence)
	if b.end.Before(until) {
		until = b.end
	}
	if err := b.control.SetReadDeadline(until); err != nil {
		return 0, fmt.Errorf("limit the time of a client: %w", err)
	}
	n, err := b.ReadCloser.Read(into)
	if err == nil || errors.Is(err, io.EOF) {
		err = cmp.Or(err, b.control.SetReadDeadline(time.Time{}))
	}
	return n, err
}
