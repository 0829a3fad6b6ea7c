package service

import (
	"context"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/headers"
)

const (
	// lookMax is for how long a page is looked for where the caller does not say how long it waits,
	// and lookShare the share of the time that it waits.
	lookMax   = 25 * time.Second
	lookShare = 0.7

	// listedDefault and listedMax are how many tasks a page has, as with the store.
	listedDefault, listedMax = 100, 10_000

	// listedBytesMax is how many bytes the statuses and headers of a page have.
	listedBytesMax = 8 << 20
)

// listHidden lists a page of the tasks that pass a filter for a caller who must not learn of the
// others, which the store passes over. So the page depends on none of them: it ends where it is
// full or where there are no more tasks, however many others lie between; its cursor is the ID of
// its last task, or sealed; and there is a next page only if that has a task. A look that takes too
// long ends the page, too. That tells of the others no more than the time that it takes.
func (s *Service) listHidden(ctx context.Context, filter stint.Filter) (stint.TaskPage, error) {
	var err error
	byID := !filter.NewestFirst &&
		(filter.IDPrefix != "" || len(filter.States) == 0 && filter.Actor == "")
	if !byID || isSealed(filter.After) { // else it is an ID
		if filter.After, err = s.seal.opened(ctx, "after", filter.After); err != nil {
			return stint.TaskPage{}, err
		}
	}
	limit := filter.Limit
	if limit == 0 {
		limit = listedDefault
	}
	if limit < 0 || limit > listedMax { // the store says why not
		return s.store.ListTasks(ctx, filter)
	}
	look := &hiddenLook{store: s.store, filter: filter, until: lookUntil(ctx)}
	if err := look.fill(ctx, limit); err != nil {
		return stint.TaskPage{}, err
	}
	page := stint.TaskPage{Tasks: look.tasks, Looked: len(look.tasks)}
	more, err := look.goesOn(ctx)
	if err != nil || !more {
		return page, err
	}
	if n := len(page.Tasks); byID && n > 0 {
		page.Next = stint.Cursor(page.Tasks[n-1].ID)
		return page, nil
	}
	page.Next, err = s.seal.sealed(ctx, look.next)
	return page, err
}

// lookUntil is when to end a page that is not full.
func lookUntil(ctx context.Context) time.Time {
	left := lookMax
	if ends, limited := ctx.Deadline(); limited {
		left = min(left, time.Duration(float64(ends.Sub(now()))*lookShare))
	}
	return now().Add(left)
}

// A hiddenLook collects the tasks of a page.
type hiddenLook struct {
	store  *stint.Store
	filter stint.Filter
	until  time.Time

	tasks []stint.TaskInfo
	bytes int
	next  stint.Cursor // behind tasks
}

// fill collects tasks until there are enough, or no more.
func (l *hiddenLook) fill(ctx context.Context, limit int) error {
	for {
		l.filter.Limit = limit - len(l.tasks)
		page, err := l.store.ListTasks(ctx, l.filter)
		if err != nil {
			return err
		}
		fit := 0
		for ; fit < len(page.Tasks); fit++ {
			of := &page.Tasks[fit]
			bytes := l.bytes + len(of.Status) + headers.Size(of.Headers)
			if bytes > listedBytesMax && len(l.tasks)+fit > 0 {
				break
			}
			l.bytes = bytes
		}
		switch {
		case fit == len(page.Tasks):
		case fit == 0: // the page ends ahead of these
			return nil
		default: // to learn where it ends, they are listed again
			l.filter.Limit = fit
			if page, err = l.store.ListTasks(ctx, l.filter); err != nil {
				return err
			}
			l.tasks, l.next = append(l.tasks, page.Tasks...), page.Next
			return nil
		}
		l.tasks, l.next = append(l.tasks, page.Tasks...), page.Next
		if l.next == "" || len(l.tasks) == limit || now().After(l.until) {
			return nil
		}
		l.filter.After = l.next
	}
}

// goesOn reports whether there is a task behind those that were collected, as far as there is time
// to find out.
func (l *hiddenLook) goesOn(ctx context.Context) (bool, error) {
	filter := l.filter
	filter.After, filter.Limit = l.next, 1
	for filter.After != "" && now().Before(l.until) {
		page, err := l.store.ListTasks(ctx, filter)
		if err != nil || len(page.Tasks) > 0 {
			return true, err
		}
		filter.After = page.Next
	}
	return filter.After != "", nil
}
