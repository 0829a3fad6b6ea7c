package work

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/stint-tasks/stint"
)

// ends is the verb Ends.
const ends = "Ends"

// A Follower has the verb Ends.
type Follower interface {
	Ends(
		ctx context.Context, actions []string, from stint.Cursor, wait time.Duration,
	) (stint.EndPage, error)
}

// follow follows the ends of tasks from where it, or a process before this one, has come.
func (p *process) follow(ctx context.Context, store Follower) {
	for p.Cursor != "" && ctx.Err() == nil {
		if _, err := Follow(ctx, store, p.journal, p.Cursor); err != nil {
			Pause(ctx, 100*time.Millisecond)
		}
	}
}

// Follow writes a page of ends into a journal, from the cursor in a file on, and then moves that
// on.
func Follow(
	ctx context.Context, store Follower, journal *Journal, path string,
) (page stint.EndPage, err error) {
	cursor, err := os.ReadFile(path) //nolint:gosec // of the round
	if err != nil {
		return page, err
	}
	ctx, cancel := context.WithTimeout(ctx, callMax)
	defer cancel()
	call := Call{Verb: ends, Begin: Instant()}
	page, err = store.Ends(ctx, nil, stint.Cursor(cursor), time.Second)
	if errors.Is(err, context.Canceled) {
		return page, err
	}
	call.Outcome, call.Error = Judge(err)
	for i := range page.Tasks {
		task := &page.Tasks[i]
		call.Items = append(call.Items, Item{
			ID: task.ID, Said: string(task.State), Number: task.FinishedAt.UnixMicro(),
		})
	}
	if err != nil || len(call.Items) > 0 {
		journal.Write(call)
	}
	if err != nil {
		return page, err
	}
	return page, WriteCursor(path, page.Next)
}

// WriteCursor writes a cursor into a file, all of it or nothing.
func WriteCursor(path string, cursor stint.Cursor) error {
	const mode = 0o644
	next := path + ".next"
	if err := os.WriteFile(next, []byte(cursor), mode); err != nil {
		return err
	}
	return os.Rename(next, path)
}
