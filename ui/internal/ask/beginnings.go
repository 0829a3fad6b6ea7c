package ask

import (
	"context"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// beginningMax is how long a body may be of which a list shows the beginning.
const beginningMax = 2 << 10

// HasBeginnings reports whether bodies can be read without the large ones.
func (a *Store) HasBeginnings() bool {
	_, ok := a.Reader.(remoter)
	return ok
}

// Beginnings are the beginnings of the bodies of tasks as text, in one step. Bodies of more than 2
// KiB are left out.
func (a *Store) Beginnings(
	ctx context.Context, tasks []stint.TaskInfo,
) (map[stint.TaskID]string, error) {
	local, ok := a.Reader.(remoter)
	if !ok || len(tasks) == 0 {
		return nil, nil
	}
	ids := make([]stint.TaskID, len(tasks))
	for i := range tasks {
		ids[i] = tasks[i].ID
	}
	found, _, err := local.Remote().GetSmallTasks(ctx, ids, beginningMax)
	if err != nil && len(found) == 0 {
		return nil, err
	}
	said := make(map[stint.TaskID]string, len(found))
	for i := range found {
		switch body := found[i].Body; {
		case body == nil:
			said[found[i].ID] = ""
		case !utf8.Valid(body):
			said[found[i].ID] = display.Count(int64(len(body)), "byte")
		default:
			said[found[i].ID] = show.Text(show.FirstWords(string(body)))
		}
	}
	return said, nil
}
