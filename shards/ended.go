package shards

import (
	"context"
	"errors"
	"strings"

	"github.com/stint-tasks/stint"
)

// A closeLook is at reporters whose tasks are not in the store as they ended: these are gone, or
// others have their IDs, or they are open, or nothing was signalled of them.
type closeLook struct {
	here  Store
	found map[stint.TaskID]*stint.TaskInfo // the reporters, and those that report again
}

// isPlain reports whether a task is the one that the reporter waited for, and has ended as that was
// signalled to the reporter. A task with the same ID is another one if it is younger than the
// reporter.
func (r *reporter) isPlain(info *stint.TaskInfo) bool {
	if info == nil || info.InsertedAt.After(r.owned.InsertedAt) {
		return false
	}
	switch info.StatusCode {
	case stint.StatusCompleted:
		return r.owned.Completed > 0
	case stint.StatusAborted:
		return r.owned.Aborted > 0
	default:
		return false
	}
}

// lookClosely finds out how the tasks of reporters have ended that are not plain.
func (b *reports) lookClosely(
	ctx context.Context, here Store, found map[stint.TaskID]*stint.TaskInfo,
) error {
	var ids []stint.TaskID
	for _, one := range b.tasks {
		if one.broken == nil && one.ended == nil {
			ids = append(ids, one.owned.ID, one.owned.ID+againSuffix)
		}
	}
	look := closeLook{here, make(map[stint.TaskID]*stint.TaskInfo, len(ids))}
	if err := getAll(ctx, here, ids, look.found); err != nil {
		return err
	}
	for _, one := range b.tasks {
		if one.broken == nil && one.ended == nil {
			if err := look.at(ctx, one, found[one.of.Task]); err != nil {
				return err
			}
		}
	}
	return nil
}

// at looks at a reporter, and at the task that has the ID of its own.
//
// How many edges lead into the reporter tells what has become of its task: the edge of a task that
// has ended stays if that leaves the store, and one that is replaced before takes its edge along,
// and signals nothing. A retry takes the edge, too, if the reporter was owned at that moment; then
// there is one that reports again, and waits for the task.
func (l *closeLook) at(ctx context.Context, r *reporter, info *stint.TaskInfo) error {
	self, again := l.found[r.owned.ID], l.found[r.owned.ID+againSuffix]
	if self == nil { // somebody has deleted it
		r.waits = true
		return nil
	}
	if info != nil && info.InsertedAt.After(r.owned.InsertedAt) {
		info = nil
	}
	gates, err := l.gates(ctx, r)
	if err != nil {
		return err
	}
	edges, completed := self.TotalDependencies-gates, r.owned.Completed-gates
	isUntold := completed <= 0 && r.owned.Aborted == 0
	switch {
	case edges <= 0 && isUntold && again == nil:
		r.code = stint.StatusCompleted // replaced before it ended
	case info != nil && info.FinishedAt.IsZero():
		r.waits = true // it is being retried
	case info != nil:
		r.ended = info
	case again != nil && again.FinishedAt.IsZero():
		r.waits = true // that one knows of the second end
	case again != nil && again.StatusCode != stint.StatusCompleted:
		r.code = again.StatusCode // it has ended with the task
	case isUntold:
		r.code = stint.StatusSkipped
	case completed <= 0 && r.owned.Aborted == 1:
		r.code = stint.StatusAborted
	default: // a spontaneous task passes on how many were aborted
		r.code = stint.StatusCompleted
	}
	return nil
}

// gates returns for how many gates a reporter has waited, besides its task.
func (l *closeLook) gates(ctx context.Context, r *reporter) (gates int, err error) {
	if r.owned.Completed == 0 {
		return 0, nil
	}
	inputs, err := l.here.Inputs(ctx, r.owned)
	if errors.Is(err, stint.ErrInvalidToken) { // somebody else reports
		return 0, nil
	}
	for _, input := range inputs {
		if strings.HasPrefix(string(input.ID), gatePrefix) {
			gates++
		}
	}
	return gates, err
}
