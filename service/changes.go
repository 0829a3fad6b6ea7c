package service

import (
	"context"
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/access"
)

// mayListChanges returns an error unless the principal may read the tasks that changes are of. What
// became of one task depends on the action that it had, which the answer leaves out if need be.
func (a *asking) mayListChanges(r *stintv1.ListChangesRequest) error {
	if r.GetId() == "" {
		asked := &stintv1.ListTasksRequest{Actions: r.GetActions()}
		err := a.mayList(asked)
		r.Actions = asked.GetActions()
		return err
	}
	if !a.principal.MayEver(access.Read, r.GetId()) {
		return a.mayNot("%s task %q", access.Read, r.GetId())
	}
	return nil
}

func (t *taskService) ListChanges(
	ctx context.Context, r *stintv1.ListChangesRequest,
) (*stintv1.ListChangesResponse, error) {
	filter := stint.ChangeFilter{
		ID: stint.TaskID(r.GetId()), Actions: r.GetActions(), After: stint.Cursor(r.GetAfter()),
		Limit: int(r.GetLimit()),
	}
	list := t.store.ListChanges
	if by := callerOf(ctx).principal; !by.MayAll(access.Read) {
		list = t.listHiddenChanges
	}
	page, err := list(ctx, filter)
	if err != nil {
		return nil, err
	}
	return wire.FromChanges(page), nil
}

// listHiddenChanges lists a page of changes for a caller who must not learn of some tasks. It says
// nothing of the others that changed with tasks, and its cursor not how many changes there are. Of
// one task it has as many changes as one answer of the store, which are the newest.
func (t *taskService) listHiddenChanges(
	ctx context.Context, filter stint.ChangeFilter,
) (page stint.ChangePage, err error) {
	if filter.After, err = t.seal.opened(ctx, "after", filter.After); err != nil {
		return page, err
	}
	by, id, most := callerOf(ctx).principal, string(filter.ID), filter.Limit
	if filter.ID != "" {
		const all = 1000
		filter.Limit = all
	}
	if page, err = t.store.ListChanges(ctx, filter); err != nil {
		return page, err
	}
	for i := range page.Changes {
		page.Changes[i].Others = 0
	}
	if filter.ID == "" {
		if page.Next != "" {
			page.Next, err = t.seal.sealed(ctx, page.Next)
		}
		return page, err
	}
	page.Next = ""
	page.Changes = slices.DeleteFunc(page.Changes, func(c stint.Change) bool {
		return !by.May(access.Read, c.Action, id)
	})
	if most > 0 {
		page.Changes = page.Changes[:min(len(page.Changes), most)]
	}
	for i := range page.Changes {
		page.Changes[i].Items, page.Changes[i].Names = 1, []string{id}
	}
	return page, nil
}
