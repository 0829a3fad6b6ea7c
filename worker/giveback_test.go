package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

func newReturning() *returning { return &returning{landing: make(chan struct{}, 1)} }

func returnOf(resultBytes int) *performance {
	return &performance{ret: stint.Return{Result: make([]byte, resultBytes)}}
}

func TestReturning_TakesTogetherWhatGathers(t *testing.T) {
	t.Parallel()
	g := newReturning()
	for i, lead := range []bool{true, false, true, false} {
		if i == 2 { // somebody's lock holds the first one up
			g.departed = g.departed.Add(-2 * heldUpAfter)
		}
		if g.join(returnOf(0)) != lead {
			t.Errorf("join %d: lead = %v", i, !lead)
		}
	}
	if n := len(g.next()); n != 4 {
		t.Errorf("%d go together, want 4", n)
	}
	if _, underWay := g.landings(); underWay != 2 {
		t.Errorf("%d under way, want 2", underWay)
	}
	if n := len(g.next()); n != 0 {
		t.Errorf("%d go together, want none left", n)
	}
	if _, underWay := g.landings(); underWay != 1 {
		t.Errorf("%d under way, want one done", underWay)
	}
	select {
	case <-g.landing:
	default:
		t.Error("who is done does not say so")
	}
	if n := len(g.next()); n != 0 {
		t.Errorf("%d go together, want none left", n)
	}
	if !g.join(returnOf(0)) {
		t.Error("want one to lead in the place of those that are done")
	}
}

func TestReturning_LimitsWhatGoesTogether(t *testing.T) {
	t.Parallel()
	g := newReturning()
	const kib = 1 << 10
	for range 2 * returnedTogetherMax {
		g.join(returnOf(0))
	}
	g.join(returnOf(2 * returnedTogetherMax * kib)) // too large for any company
	g.join(returnOf(100 * kib))
	for i, want := range []int{returnedTogetherMax, returnedTogetherMax, 1, 1, 0} {
		if n := len(g.next()); n != want {
			t.Errorf("call %d: %d together, want %d", i, n, want)
		}
	}
}

// A lease whose end is nearer than that of all others is not overlooked: an answer may have been on
// its way for most of the lease.
func TestRun_ExpiresALeaseThatIsNearlyOver(t *testing.T) {
	t.Parallel()
	r := newRun(&Worker{options: Options{Lease: time.Hour, Concurrency: 2}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		r.expireLeases(ctx)
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
		r.hold([]*performance{p}, p.until)
		return p
	}
	long, short := begin(stint.Token{1}, time.Hour), begin(stint.Token{2}, time.Millisecond)
	<-short.ctx.Done()
	if cause := context.Cause(short.ctx); !errors.Is(cause, ErrLeaseExpired) {
		t.Errorf("cause = %v, want %v", cause, ErrLeaseExpired)
	}
	if long.ctx.Err() != nil || r.leaseLeft(long) < time.Minute || r.leaseLeft(short) != 0 {
		t.Error("the other lease expired too")
	}
	if owned := r.owned(); len(owned) != 1 || owned[0].Token != long.task.Token {
		t.Errorf("%d tasks are watched, want that of the other task", len(owned))
	}
}
