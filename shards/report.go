package shards

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
)

// A reports batch is of tasks that report to the same shard.
type reports struct {
	tasks []*reporter
}

// A reporter is a task that reports how another one has ended.
type reporter struct {
	owned   stint.OwnedTask
	of      report
	broken  error           // the body cannot be read
	ended   *stint.TaskInfo // nil if the task is gone, or not final
	waits   bool            // it has not ended after all
	outcome stint.Return    // of the reporter itself

	// If the task is gone, code is how it ended, or it was replaced before its end.
	code     stint.StatusCode
	replaced bool
}

// newReports looks up how the tasks have ended that report.
func newReports(ctx context.Context, here Store, owned []stint.OwnedTask) (*reports, error) {
	batch := &reports{tasks: make([]*reporter, len(owned))}
	var ids []stint.TaskID
	for i, task := range owned {
		one := &reporter{owned: task}
		batch.tasks[i] = one
		if one.of, one.broken = unmarshalReport(task); one.broken == nil {
			ids = append(ids, one.of.Task)
		}
	}
	if err := checkBytes(ctx, here, ids); err != nil {
		return batch, err
	}
	found := make(map[stint.TaskID]*stint.TaskInfo, len(ids))
	if err := getSome(ctx, here, ids, found); err != nil {
		return batch, err
	}
	for _, one := range batch.tasks {
		if info := found[one.of.Task]; one.broken == nil && one.isPlain(info) {
			one.ended = info
		}
	}
	return batch, batch.lookClosely(ctx, here, found)
}

// heldBytes is about how many bytes of tasks a relay holds to report them.
const heldBytes = 16 << 20

// checkBytes refuses tasks that are too large together to be held at once, with
// [stint.ErrTooLarge]. Services do it by themselves.
func checkBytes(ctx context.Context, store Store, ids []stint.TaskID) error {
	direct, ok := store.(interface{ Remote() *stint.Remote })
	if !ok || len(ids) <= 1 {
		return nil
	}
	switch bytes, err := direct.Remote().CountBytes(ctx, ids); {
	case err != nil:
		return err
	case bytes > heldBytes:
		return stint.ErrTooLarge
	}
	return nil
}

// getAll looks tasks up, in halves if they are too large together.
func getAll(
	ctx context.Context, store Store, ids []stint.TaskID, found map[stint.TaskID]*stint.TaskInfo,
) error {
	err := getSome(ctx, store, ids, found)
	if errors.Is(err, stint.ErrTooLarge) && len(ids) > 1 {
		half := len(ids) / 2 //nolint:mnd // as it says
		if err := getAll(ctx, store, ids[:half], found); err != nil {
			return err
		}
		return getAll(ctx, store, ids[half:], found)
	}
	return err
}

// getSome looks tasks up. Those that are not there are left out.
func getSome(
	ctx context.Context, store Store, ids []stint.TaskID, found map[stint.TaskID]*stint.TaskInfo,
) error {
	if len(ids) == 0 {
		return nil
	}
	infos, err := store.GetTasks(ctx, ids)
	if err != nil && !errors.Is(err, stint.ErrTaskNotFound) {
		return err
	}
	for i := range infos {
		found[infos[i].ID] = &infos[i]
	}
	return nil
}

// answer is what is said of the task.
func (r *reporter) answer() stint.Answer {
	answer := stint.Answer{ID: r.of.Placeholder, Code: r.code}
	if r.ended != nil {
		answer.Code, answer.Status, answer.Result = r.ended.StatusCode, r.ended.Status,
			r.ended.Result
		if answer.Status == "" && r.ended.AbortCause != "" {
			answer.Status = "aborted: " + string(r.ended.AbortCause)
		}
	}
	return answer
}

// deliver answers the placeholders, as many at once as results allow.
func (b *reports) deliver(ctx context.Context, here Store, c *Cluster, to string) error {
	if err := b.awaitRetries(ctx, here); err != nil {
		return err
	}
	return c.ask(ctx, to, b.deliverAll)
}

// resultBytes is about how many bytes of results an answer takes along.
const resultBytes = 4 << 20

func (b *reports) deliverAll(ctx context.Context, store Store) error {
	var some []*reporter
	size := 0
	answered := map[stint.TaskID]bool{}
	for _, one := range b.tasks {
		if one.broken != nil || one.waits {
			continue
		}
		if answered[one.of.Placeholder] { // by the one that reports again, or the other way round
			one.outcome = stint.Return{Code: stint.StatusPending, Release: true}
			continue
		}
		answered[one.of.Placeholder] = true
		if one.replaced {
			if err := one.letGo(ctx, store); err != nil {
				return err
			}
			continue
		}
		if one.ended != nil {
			if size += len(one.ended.Result); size > resultBytes && len(some) > 0 {
				if err := deliverSome(ctx, store, some); err != nil {
					return err
				}
				some, size = nil, len(one.ended.Result)
			}
		}
		some = append(some, one)
	}
	return deliverSome(ctx, store, some)
}

func deliverSome(ctx context.Context, store Store, some []*reporter) error {
	if len(some) == 0 {
		return nil
	}
	answers := make([]stint.Answer, len(some))
	for i, one := range some {
		answers[i] = one.answer()
	}
	verdicts, err := store.AnswerTasks(ctx, clusterActor, answers)
	if err != nil {
		return err
	}
	for i, one := range some {
		if err := one.note(ctx, store, answers[i], verdicts[i]); err != nil {
			return err
		}
	}
	return nil
}

// note decides what becomes of a reporter whose answer was given a verdict.
func (r *reporter) note(
	ctx context.Context, store Store, answer stint.Answer, verdict error,
) error {
	switch {
	case verdict == nil:
		r.outcome.Code = stint.StatusCompleted
	case errors.Is(verdict, stint.ErrTaskNotFound):
		r.outcome.Code = stint.StatusCompleted
	case errors.Is(verdict, stint.ErrTaskBlocked): // the insert is not through there
		r.outcome = stint.Return{Code: stint.StatusPending, RetryAfter: lookAgain}
	case errors.Is(verdict, stint.ErrTaskFinished):
		return r.reopen(ctx, store, answer)
	default:
		return verdict
	}
	return nil
}

// reopen looks at a placeholder that has ended before. If its end was the task's abort, or that it
// was skipped, and the task was retried since and is completed now, the placeholder is retried,
// too, and answered the next time.
func (r *reporter) reopen(ctx context.Context, store Store, answer stint.Answer) error {
	placeholder, err := find(ctx, store, answer.ID)
	switch {
	case err != nil:
		return err
	case placeholder == nil, placeholder.StatusCode == stint.StatusCompleted,
		answer.Code != stint.StatusCompleted:
		r.outcome.Code = stint.StatusCompleted
	case placeholder.StatusCode == stint.StatusAborted &&
		placeholder.AbortCause != stint.CauseReturned &&
		!strings.HasSuffix(string(r.owned.ID), againSuffix): // somebody has cancelled it
		r.outcome.Code = stint.StatusCompleted
	default:
		_, err = store.RetryTasks(ctx, []stint.TaskID{answer.ID})
		switch {
		case errors.Is(err, stint.ErrCycle): // until the tasks that close it have ended
			r.outcome = stint.Return{
				Code: stint.StatusPending, Status: err.Error(), RetryAfter: refusedAgain,
			}
		case err != nil && !errors.Is(err, stint.ErrTaskNotFound):
			return err
		default:
			r.outcome.Code = stint.StatusPending
		}
	}
	return nil
}

// refusedAgain is how long a relay waits until it tries again to retry a placeholder, if that would
// close a cycle: the others of its batch are reported meanwhile.
const refusedAgain = 30 * time.Second

// againSuffix is the end of the ID of a task that reports after a retry.
const againSuffix = "/again"

// awaitRetries inserts, for each task that is to be reported as aborted or skipped, one that is
// aborted or skipped with it: when the task is retried, this one is retried with it, and reports if
// it is completed then. It is there before anything is reported: a retry takes no heed of a task
// that reports at this moment, perhaps to a shard that is away, and a task that nothing waits for
// may be pruned as soon as it has ended.
func (b *reports) awaitRetries(ctx context.Context, here Store) error {
	var tasks []stint.Task
	for _, one := range b.tasks {
		if one.broken != nil || one.waits || one.ended == nil ||
			one.ended.StatusCode == stint.StatusCompleted {
			continue
		}
		tasks = append(tasks, stint.Task{
			ID: one.owned.ID + againSuffix, Action: one.owned.Action, Body: one.owned.Body,
			After: []stint.TaskID{one.of.Task}, MaxTries: stint.UnlimitedTries,
		})
	}
	for len(tasks) > 0 {
		err := here.InsertTasks(ctx, tasks)
		var refused *stint.TaskError
		known := errors.Is(err, stint.ErrTaskExists) || errors.Is(err, stint.ErrTaskNotFound)
		if !known || !errors.As(err, &refused) {
			return err
		}
		tasks = slices.DeleteFunc(tasks, func(task stint.Task) bool {
			return slices.Contains(refused.IDs, task.ID) ||
				slices.Contains(refused.IDs, task.After[0])
		})
	}
	return nil
}

// returns are those of the reporters. If all failed, they are as if they had not been fetched.
func (b *reports) returns(failed bool) []stint.Return {
	all := make([]stint.Return, len(b.tasks))
	for i, one := range b.tasks {
		done := one.outcome
		switch {
		case one.broken != nil:
			done = stint.Return{ // a newer release may understand it
				Code: stint.StatusPending, Status: one.broken.Error(), RetryAfter: lookAgain,
			}
		case done.Code != "":
		case failed:
			done = stint.Return{Code: stint.StatusPending, Release: true}
		default: // it waits
			done = stint.Return{Code: stint.StatusPending, RetryAfter: lookAgain}
		}
		done.ID, done.Token = one.owned.ID, one.owned.Token
		all[i] = done
	}
	return all
}

// unmarshalReport reads the body of a task that reports.
func unmarshalReport(task stint.OwnedTask) (report, error) {
	var of report
	err := json.Unmarshal(task.Body, &of)
	return of, err
}
