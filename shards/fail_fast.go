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

const (
	// cancelledEvery is how often a relay looks for placeholders that nothing needs any more.
	cancelledEvery = time.Second
	// lately is for how long a transaction may have been under way that has aborted one. A walk
	// through all of them finds the others.
	lately    = 10 * time.Second
	walkEvery = 10 * time.Minute
	// walkShare is how much longer the pause between two walks is than a walk, at least.
	walkShare = 50
	// abortedFirst and abortedMax are how many aborted tasks a look asks for, first and then.
	abortedFirst, abortedMax = 20, 1000
)

// isUnneeded reports whether a placeholder was aborted since only an aborted task with FailFast
// needed it. Nobody has said then how the task has ended that it stands for.
func isUnneeded(info stint.TaskInfo) bool {
	_, stands := StandsFor(info.ID)
	return stands && info.AbortCause == stint.CauseCancelled &&
		strings.HasPrefix(info.Status, `only "`)
}

// A canceller takes the aborts of placeholders that nothing needs to the shards of their tasks: it
// aborts the tasks that would report, and these have FailFast, so that what only they need is
// aborted there in turn.
type canceller struct {
	cluster *Cluster
	shard   string
	since   time.Time // what was aborted earlier is done, but for what was not committed
	done    map[stint.TaskID]time.Time
	// walked is when the last walk began, and took how long it took, by the clock of this process.
	walked time.Time
	took   time.Duration
}

func (r *relay) cancel(ctx context.Context, shard string) {
	of := &canceller{cluster: r.cluster, shard: shard, done: map[stint.TaskID]time.Time{}}
	r.repeated(ctx, shard, func(Store) error {
		// A service may not let this relay look at all tasks. Its own relay does it then.
		if err := of.keepUp(ctx); err != nil && !isNotAllowed(err) {
			return err
		}
		select {
		case <-time.After(cancelledEvery):
		case <-ctx.Done():
		}
		return nil
	})
}

// keepUp looks at what was aborted lately, and now and then at everything.
func (k *canceller) keepUp(ctx context.Context) error {
	if time.Since(k.walked) < max(walkEvery, walkShare*k.took) {
		return k.look(ctx)
	}
	began := time.Now() //nolint:forbidigo // in this process, for its pauses
	since := k.since
	k.since = time.Time{}
	err := k.look(ctx)
	k.took = time.Since(began)
	if err != nil {
		k.since = since
		return err
	}
	k.walked = began
	return nil
}

// look goes through the tasks that were aborted since the last look, the latest first.
func (k *canceller) look(ctx context.Context) error {
	filter := stint.Filter{States: []stint.State{stint.StateAborted}, Limit: abortedFirst}
	var latest time.Time
	until := k.since.Add(-lately)
	var unneeded []stint.TaskID
	for over := false; !over; {
		page, err := k.list(ctx, filter)
		if err != nil {
			return err
		}
		if latest.IsZero() && len(page.Tasks) > 0 {
			latest = page.Tasks[0].FinishedAt
		}
		if k.since.IsZero() && len(filter.Actions) == 0 { // the first look goes to all there are
			filter.Actions, filter.Limit = []string{stint.External}, abortedMax
			over = len(page.Tasks) == 0
			continue
		}
		for _, info := range page.Tasks {
			if over = info.FinishedAt.Before(until); over {
				break
			}
			if isUnneeded(info) && !k.done[info.ID].Equal(info.FinishedAt) {
				unneeded = append(unneeded, info.ID)
				k.done[info.ID] = info.FinishedAt
			}
		}
		filter.After, filter.Limit = page.Next, abortedMax
		over = over || page.Next == ""
	}
	if err := k.pass(ctx, unneeded); err != nil {
		for _, id := range unneeded {
			delete(k.done, id)
		}
		return err
	}
	k.since = latest
	for id, at := range k.done {
		if at.Before(latest.Add(-lately)) {
			delete(k.done, id)
		}
	}
	return nil
}

func (k *canceller) list(
	ctx context.Context, filter stint.Filter,
) (page stint.TaskPage, err error) {
	err = k.cluster.ask(ctx, k.shard, func(ctx context.Context, store Store) (err error) {
		page, err = store.ListTasks(ctx, filter)
		return err
	})
	return page, err
}

// pass aborts what would report to placeholders, unless it has ended or is needed again.
func (k *canceller) pass(ctx context.Context, ids []stint.TaskID) error {
	found := map[stint.TaskID]*stint.TaskInfo{}
	err := k.cluster.ask(ctx, k.shard, func(ctx context.Context, store Store) error {
		return getAll(ctx, store, ids, found)
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, info := range found {
		if !isUnneeded(*info) {
			continue
		}
		report, err := reportTo(info)
		if err == nil {
			err = k.abort(ctx, report, info)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// reportTo returns the task that reports to a placeholder.
func reportTo(info *stint.TaskInfo) (ID, error) {
	var p placeholder
	err := json.Unmarshal(info.Body, &p)
	return ID{p.Shard, p.Report}, err
}

func (k *canceller) abort(ctx context.Context, report ID, info *stint.TaskInfo) error {
	return k.cluster.ask(ctx, report.Shard, func(ctx context.Context, store Store) error {
		found, err := find(ctx, store, report.Task)
		if err != nil || found == nil || !found.FinishedAt.IsZero() {
			return err
		}
		_, err = store.AbortTasks(ctx, []stint.TaskID{report.Task}, info.Status)
		if err != nil && !errors.Is(err, stint.ErrTaskNotFound) {
			return err
		}
		now, err := findAt(ctx, k.cluster, ID{k.shard, info.ID})
		if err != nil || now == nil || !now.FinishedAt.IsZero() {
			return err
		}
		return reopen(ctx, store, []stint.TaskID{report.Task}) // it was retried meanwhile
	})
}

// reopen opens tasks that report, as far as they have ended.
func reopen(ctx context.Context, store Store, ids []stint.TaskID) error {
	found := map[stint.TaskID]*stint.TaskInfo{}
	if err := getAll(ctx, store, ids, found); err != nil {
		return err
	}
	var ended []stint.TaskID
	for id, info := range found {
		if !info.FinishedAt.IsZero() {
			ended = append(ended, id)
		}
	}
	if len(ended) == 0 {
		return nil
	}
	_, err := store.RetryTasks(ctx, ended)
	if errors.Is(err, stint.ErrTaskNotFound) {
		return nil
	}
	return err
}

// cutEdges returns the placeholders around tasks that were aborted since nothing needed them,
// though the tasks that they stand for are not aborted, or are among those named; and the tasks
// that report to these. To retry the tasks means to retry them. If a call has done only the first,
// the placeholders are open, and the tasks that report have ended: these are returned, too.
func (c *Cluster) cutEdges(
	ctx context.Context, ids []ID,
) (placeholders, reporters []ID, err error) {
	n, isNamed := c.newNetwork(), map[ID]bool{}
	for _, id := range ids {
		isNamed[id] = true
	}
	for _, id := range ids {
		if _, known := n.tasks[id]; known {
			continue
		}
		if _, err := n.around(ctx, id); err != nil {
			return nil, nil, err
		}
	}
	for id, info := range n.tasks {
		if n.isSilent(id) {
			reporters = append(reporters, id)
			continue
		}
		of, _ := StandsFor(id.Task)
		behind, known := n.tasks[of]
		if !isUnneeded(info) || !known || behind.AbortCause != "" && !isNamed[of] {
			continue
		}
		stored, err := findAt(ctx, c, id)
		if err != nil {
			return nil, nil, err
		}
		if stored == nil || !isUnneeded(*stored) {
			continue
		}
		reporter, err := reportTo(stored)
		if err != nil {
			return nil, nil, err
		}
		placeholders, reporters = append(placeholders, id), append(reporters, reporter)
	}
	return placeholders, reporters, nil
}

// isSilent reports whether a task that reports has ended, though the placeholder is open and
// nothing else will report to that.
func (n *network) isSilent(id ID) bool {
	if !strings.HasPrefix(string(id.Task), reportPrefix) || n.tasks[id].FinishedAt.IsZero() ||
		strings.HasSuffix(string(id.Task), againSuffix) {
		return false
	}
	again, known := n.tasks[ID{id.Shard, id.Task + againSuffix}]
	if known && again.FinishedAt.IsZero() {
		return false
	}
	return slices.ContainsFunc(n.beside[id], func(stands ID) bool {
		info, known := n.tasks[stands]
		_, isPlaceholder := StandsFor(stands.Task)
		return isPlaceholder && known && info.FinishedAt.IsZero()
	})
}
