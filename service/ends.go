package service

import (
	"context"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/access"
)

// mayFollow returns an error unless the principal may read the tasks whose ends it asks for.
func (a *asking) mayFollow(r *stintv1.GetEndsRequest) error {
	asked := &stintv1.ListTasksRequest{Actions: r.GetActions()}
	err := a.mayList(asked)
	r.Actions = asked.GetActions()
	return err
}

const (
	// endsLookMax is how long a call may look in all likelihood besides its wait: the store gives
	// those who are writing a second.
	endsLookMax = 2 * time.Second
	endsWaitMax = waitMax - endsLookMax
)

// GetEnds returns what has ended. The cursor of a caller who must not learn of some tasks is
// sealed, since it may be the place of one of these.
func (t *taskService) GetEnds(
	ctx context.Context, r *stintv1.GetEndsRequest,
) (*stintv1.GetEndsResponse, error) {
	wait, err := waitOf(r.GetWait(), endsWaitMax)
	if err != nil {
		return nil, err
	}
	from := stint.Cursor(r.GetFrom())
	sealed := !callerOf(ctx).principal.MayAll(access.Read)
	if sealed && from != stint.EndsNow {
		if from, err = t.seal.opened(ctx, "from", from); err != nil {
			return nil, err
		}
	}
	// The store is given more time than it may wait: its answer says how far it has come.
	wait = min(wait, endsWaitMax)
	var page stint.EndPage
	over, err := t.waiting(ctx, wait+endsLookMax, func(ctx context.Context) (err error) {
		page, err = t.store.Ends(ctx, r.GetActions(), from, wait)
		return err
	})
	switch {
	case over && from == stint.EndsNow:
		return nil, stint.ErrClosed // the client asks another service
	case over: // the service drains, or the store is slow
		return &stintv1.GetEndsResponse{Next: r.GetFrom()}, nil
	case err != nil:
		return nil, err
	case sealed && page.Next != "":
		if page.Next, err = t.seal.sealed(ctx, page.Next); err != nil {
			return nil, err
		}
	}
	return wire.FromEnds(page, r.GetText()), nil
}
