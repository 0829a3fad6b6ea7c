package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// A lease whose end is nearer than that of all others is not overlooked: an answer may have been on
// its way for most of the lease.
func TestRun_ExpiresALeaseThatIsNearlyOver(t *testing.T) {
	t.Parallel()
	e := newExecution(&Worker{options: Options{Lease: time.Hour, Concurrency: 2}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		e.expireLeases(ctx)
		close(ended)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	begin := func(token stint.Token, left time.Duration) *performance {
		p := &performance{task: &Task{OwnedTask: stint.OwnedTask{Token: token}}}
		p.until = now().Add(left)
		p.ctx, p.end = context.WithCancelCause(t.Context())
		e.hold([]*performance{p}, p.until)
		return p
	}
	long, short := begin(stint.Token{1}, time.Hour), begin(stint.Token{2}, time.Millisecond)
	<-short.ctx.Done()
	if cause := context.Cause(short.ctx); !errors.Is(cause, ErrLeaseExpired) {
		t.Errorf("cause = %v, want %v", cause, ErrLeaseExpired)
	}
	if long.ctx.Err() != nil || e.leaseLeft(long) < time.Minute || e.leaseLeft(short) != 0 {
		t.Error("the other lease expired too")
	}
	if owned := e.owned(); len(owned) != 1 || owned[0].Token != long.task.Token {
		t.Errorf("%d tasks are watched, want that of the other task", len(owned))
	}
}
