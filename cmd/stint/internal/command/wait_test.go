package command

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stint-tasks/stint"
)

// A last look that fails tells nothing of the task.
func TestWait_DoesNotSayWhatItCouldNotSee(t *testing.T) {
	t.Parallel()
	for want, last := range map[string]error{
		`timed out after 1m0s: "a" has not finished`:                       errTimedOut,
		`timed out after 1m0s; whether "a" has finished is not known: EOF`: io.EOF,
	} {
		err := timedOut(time.Minute, "a", last)
		if err.Error() != want || exitCode(err) != exitTimedOut {
			t.Errorf("after %v: %v, exit code %d", last, err, exitCode(err))
		}
	}
}

func TestPoll_GoesOnUntilTheTaskHasFinished(t *testing.T) {
	t.Parallel()
	gone := stint.ErrTaskNotFound
	type answer struct {
		finished bool
		err      error
	}
	for name, test := range map[string]struct {
		answers []answer
		err     error
	}{
		"finished": {[]answer{{true, nil}}, nil},
		"later":    {[]answer{{false, nil}, {false, nil}, {true, nil}}, nil},
		"while cut off": {
			[]answer{{false, nil}, {false, io.EOF}, {false, nil}, {true, nil}}, nil,
		},
		"deleted":         {[]answer{{false, nil}, {false, gone}}, gone},
		"with time to go": {[]answer{{false, nil}, {false, nil}}, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				last := time.Duration(len(test.answers)-1) * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), last+time.Second/2)
				defer cancel()
				looks := 0
				task, err := poll(ctx, func(context.Context) (stint.TaskInfo, error) {
					if at := time.Since(begun); at != time.Duration(looks)*time.Second {
						t.Errorf("look %d comes after %v", looks, at)
					}
					now := test.answers[looks]
					looks++
					if !now.finished {
						return stint.TaskInfo{}, now.err
					}
					return stint.TaskInfo{FinishedAt: time.Now()}, nil
				})
				if !errors.Is(err, test.err) || task.FinishedAt.IsZero() != (test.err != nil) ||
					looks != len(test.answers) {
					t.Errorf("poll = %+v, %v after %d looks", task, err, looks)
				}
			})
		})
	}
}
