package shards

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/stint-tasks/stint"
)

// A TaskPage is an answer of [Cluster.ListTasks].
type TaskPage struct {
	Tasks []TaskInfo

	// Next is [stint.Filter.After] for the next page; empty if there are no more tasks. There may
	// be a next page even if this one has few tasks, or none.
	Next stint.Cursor

	// Looked is how many tasks the shards read to find Tasks.
	Looked int

	// Away are the shards that did not say what they have: their tasks are missing.
	Away []*ShardError
}

// listedTasksDefault is the limit of a page if the filter has none.
const listedTasksDefault = 100

// ListTasks is [stint.Store.ListTasks] on all shards of a static topology, or on those of a pattern
// that the cluster has used, in the same order. IDs begin with the names of the shards there, as
// [ID.String] writes them, so in the order of IDs one shard follows the other. In the other orders
// the tasks of all shards come together, those of each in the order that they have there; of the
// next tasks of two shards, the one comes first whose state or time does.
//
// [stint.Filter.IDPrefix] is the beginning of such an ID, such as "eu/mail", which asks this shard
// alone; so is [stint.Filter.After] where tasks come in the order of their IDs. The tasks that the
// cluster has inserted for itself are listed like others; [IsOwn] tells.
//
// A shard that is away, or does not answer within twenty seconds, or half of the time that ctx
// leaves, is no error: the page names it, and has the tasks of the others. If the prefix names an
// unknown shard, the error is [ErrUnknownShard].
func (c *Cluster) ListTasks(ctx context.Context, filter stint.Filter) (TaskPage, error) {
	page, err := c.listTasks(ctx, filter)
	if err != nil {
		return TaskPage{}, said("list tasks", err)
	}
	return page, nil
}

func (c *Cluster) listTasks(ctx context.Context, filter stint.Filter) (TaskPage, error) {
	names, prefix, err := c.begunBy(filter.IDPrefix)
	if err != nil {
		return TaskPage{}, err
	}
	filter.IDPrefix = prefix
	if filter.Limit == 0 {
		filter.Limit = listedTasksDefault
	}
	byID := !filter.NewestFirst &&
		(prefix != "" || len(filter.States) == 0 && filter.Actor == "")
	if byID {
		return c.listInTurn(ctx, names, filter)
	}
	return c.listTogether(ctx, names, filter)
}

func notACursor(after stint.Cursor) error {
	return &stint.ArgumentError{
		Argument: "Filter.After", Index: -1, Err: stint.ErrInvalidArgument,
		Problem: fmt.Sprintf("%.80q must be the Next of a page, or shard/task", after),
	}
}

// listInTurn lists shard after shard.
func (c *Cluster) listInTurn(
	ctx context.Context, names []string, filter stint.Filter,
) (page TaskPage, err error) {
	from, after, ok := strings.Cut(string(filter.After), "/")
	if !ok && from != "" {
		return page, notACursor(filter.After)
	}
	names = slices.DeleteFunc(names, func(shard string) bool { return shard < from })
	for i, shard := range names {
		if filter.After = ""; shard == from {
			filter.After = stint.Cursor(after)
		}
		var found stint.TaskPage
		away, err := c.look(ctx, shard, func(ctx context.Context, store Store) (err error) {
			found, err = store.ListTasks(ctx, filter)
			return err
		})
		switch {
		case err != nil:
			return page, err
		case away != nil:
			page.Away = append(page.Away, away)
			continue
		}
		for _, info := range found.Tasks {
			page.Tasks = append(page.Tasks, TaskInfo{shard, info})
		}
		page.Looked += found.Looked
		filter.Limit -= len(found.Tasks)
		switch {
		case found.Next != "":
			page.Next = stint.Cursor(shard+"/") + found.Next
			return page, nil
		case filter.Limit == 0 && i+1 < len(names):
			page.Next = stint.Cursor(names[i+1] + "/")
			return page, nil
		}
	}
	return page, nil
}

// A share is what a shard has for a page.
type share struct {
	shard string
	after stint.Cursor // behind which its tasks begin
	found stint.TaskPage
	taken int  // how many of them the page has
	more  bool // there are others for the next one
	away  *ShardError
}

// listTogether lists the tasks of all shards in one order. A store says where the tasks end that it
// has listed, not where some of them do: so a shard of which a page takes some is asked for these
// once more.
func (c *Cluster) listTogether(
	ctx context.Context, names []string, filter stint.Filter,
) (page TaskPage, err error) {
	shares, err := sharesOf(names, filter.After)
	if err != nil {
		return page, err
	}
	if err := c.listShares(ctx, filter, shares); err != nil {
		return page, err
	}
	together(shares, filter)
	var again []*share
	for _, p := range shares {
		page.Looked += p.found.Looked
		switch left := len(p.found.Tasks) - p.taken; {
		case left == 0:
			p.more = p.found.Next != ""
		case p.taken == 0:
			p.found, p.more = stint.TaskPage{Next: p.after}, true
		default:
			again = append(again, p)
		}
	}
	if err := c.listShares(ctx, filter, again); err != nil {
		return page, err
	}
	for _, p := range again {
		p.more = p.found.Next != ""
	}
	page.Tasks = together(shares, filter)
	for _, p := range shares {
		if p.away != nil {
			page.Away = append(page.Away, p.away)
		}
	}
	page.Next = nextOf(shares)
	return page, nil
}

// listShares asks shards for their shares, all at once: for those tasks that the page takes, or for
// as many as it has at most.
func (c *Cluster) listShares(ctx context.Context, filter stint.Filter, shares []*share) error {
	errs := make([]error, len(shares))
	var asking sync.WaitGroup
	for i, p := range shares {
		asking.Go(func() {
			filter := filter
			filter.After, filter.Limit = p.after, cmp.Or(p.taken, filter.Limit)
			p.found = stint.TaskPage{}
			var found stint.TaskPage
			p.away, errs[i] = c.look(ctx, p.shard,
				func(ctx context.Context, store Store) (err error) {
					found, err = store.ListTasks(ctx, filter)
					return err
				})
			if p.away == nil && errs[i] == nil {
				p.found = found
			}
		})
	}
	asking.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// together returns the first tasks of shares, as many as a page has, and notes how many of each
// that are.
func together(shares []*share, filter stint.Filter) (tasks []TaskInfo) {
	for _, p := range shares {
		p.taken = 0
	}
	for len(tasks) < filter.Limit {
		var first *share
		for _, p := range shares {
			if p.taken == len(p.found.Tasks) {
				continue
			}
			if first == nil ||
				isAhead(&p.found.Tasks[p.taken], &first.found.Tasks[first.taken], filter) {
				first = p
			}
		}
		if first == nil {
			break
		}
		tasks = append(tasks, TaskInfo{first.shard, first.found.Tasks[first.taken]})
		first.taken++
	}
	return tasks
}

// isAhead reports whether a task comes ahead of one of another shard, as far as is known of them.
func isAhead(a, b *stint.TaskInfo, filter stint.Filter) bool {
	if filter.NewestFirst {
		return a.InsertedAt.After(b.InsertedAt)
	}
	order := []stint.State{
		stint.StateInProgress, stint.StateReady, stint.StateScheduled, stint.StateBlocked,
		stint.StateAborted, stint.StateSkipped, stint.StateCompleted,
	}
	if a.State != b.State {
		return slices.Index(order, a.State) < slices.Index(order, b.State)
	}
	switch a.State {
	case stint.StateAborted, stint.StateSkipped, stint.StateCompleted:
		return a.FinishedAt.After(b.FinishedAt)
	case stint.StateScheduled:
		return a.NotBefore.Before(b.NotBefore)
	case stint.StateReady:
		if len(filter.Actions) > 0 && (a.Action != b.Action || a.Priority != b.Priority) {
			return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(b.Priority, a.Priority)) < 0
		}
	case stint.StateInProgress, stint.StateBlocked:
	}
	return a.InsertedAt.Before(b.InsertedAt)
}

// placeEnd ends what a cursor of several shards says of one. Neither names nor cursors have it.
const placeEnd = "~"

// placeText is what a cursor of several shards says of one: where that goes on.
func placeText(shard string, next stint.Cursor) string {
	return shard + "/" + string(next) + placeEnd
}

// placesOf are the places in a cursor of several shards; none if it is empty.
func placesOf(cursor stint.Cursor) (places map[string]stint.Cursor, ok bool) {
	places = map[string]stint.Cursor{}
	if cursor == "" {
		return places, true
	}
	text, ok := strings.CutSuffix(string(cursor), placeEnd)
	for place := range strings.SplitSeq(text, placeEnd) {
		shard, next, isPlace := strings.Cut(place, "/")
		ok = ok && isPlace
		places[shard] = stint.Cursor(next)
	}
	return places, ok
}

// nextOf is the cursor for the next page: where each shard goes on. One that is away may be back by
// then.
func nextOf(shares []*share) stint.Cursor {
	var places strings.Builder
	more := false
	for _, p := range shares {
		next := p.found.Next
		if p.away != nil {
			next = p.after
		}
		if p.more || p.away != nil {
			places.WriteString(placeText(p.shard, next))
		}
		more = more || p.more && p.away == nil
	}
	if !more {
		return ""
	}
	return stint.Cursor(places.String())
}

// sharesOf are the shares of a page behind a cursor: of all shards that it names, or of all if it
// is empty.
func sharesOf(names []string, after stint.Cursor) (shares []*share, err error) {
	from, ok := placesOf(after)
	if !ok {
		return nil, notACursor(after)
	}
	for _, shard := range names {
		if next, ok := from[shard]; ok || after == "" {
			shares = append(shares, &share{shard: shard, after: next})
		}
	}
	return shares, nil
}
