package shards

import (
	"context"

	"github.com/stint-tasks/stint"
)

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
	var some []*reporter
	var ids []stint.TaskID
	for _, one := range b.tasks {
		if one.broken == nil && one.ended == nil {
			some, ids = append(some, one), append(ids, one.owned.ID+againSuffix)
		}
	}
	again := make(map[stint.TaskID]*stint.TaskInfo, len(ids))
	if err := getAll(ctx, here, ids, again); err != nil {
		return err
	}
	for i, one := range some {
		one.judge(found[one.of.Task], again[ids[i]])
	}
	return nil
}

// judge decides how the task of a reporter has ended, by the task that has its ID, by the one that
// reports again, and by what was signalled.
//
// A task that is skipped signals nothing, nor does one that is replaced before its end. They are
// told apart by what is there now: the one that replaced it.
func (r *reporter) judge(info, again *stint.TaskInfo) {
	isAnother := info != nil && info.InsertedAt.After(r.owned.InsertedAt)
	isUntold := r.owned.Completed == 0 && r.owned.Aborted == 0
	switch {
	case isUntold && again == nil && info != nil && (isAnother || info.FinishedAt.IsZero()):
		r.replaced = true // a debounced task is as old as the first one of its ID
	case info != nil && !isAnother && info.FinishedAt.IsZero():
		r.waits = true // it is being retried
	case info != nil && !isAnother:
		r.ended = info
	case again != nil && again.FinishedAt.IsZero():
		r.waits = true // that one knows of the second end
	case again != nil && again.StatusCode != stint.StatusCompleted:
		r.code = again.StatusCode // it has ended with the task
	case isUntold:
		r.code = stint.StatusSkipped
	case r.owned.Completed == 0 && r.owned.Aborted == 1:
		r.code = stint.StatusAborted
	default: // a spontaneous task passes on how many were aborted
		r.code = stint.StatusCompleted
	}
}

// letGo lets the dependents of a placeholder go on as if they had waited for a task of their shard
// that was replaced (R5): they wait for it no longer, and conditions about it are not met. No
// answer can say that, so the placeholder is replaced.
func (r *reporter) letGo(ctx context.Context, store Store) error {
	found, err := find(ctx, store, r.of.Placeholder)
	switch {
	case err != nil:
		return err
	case found == nil || !found.FinishedAt.IsZero():
		r.outcome.Code = stint.StatusCompleted
		return nil
	case found.State == stint.StateBlocked: // the insert is not through there
		r.outcome = stint.Return{Code: stint.StatusPending, RetryAfter: lookAgain}
		return nil
	}
	err = store.ReplaceTasks(ctx, []stint.Task{
		{ID: found.ID, Action: stint.External, Body: found.Body},
	})
	if err != nil {
		return err
	}
	verdicts, err := store.AnswerTasks(ctx, clusterActor, []stint.Answer{
		{ID: found.ID, Code: stint.StatusCompleted},
	})
	if err == nil && !isDone(verdicts[0]) {
		err = verdicts[0]
	}
	if err == nil {
		r.outcome.Code = stint.StatusCompleted
	}
	return err
}
