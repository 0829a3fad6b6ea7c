package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
)

// An EndPage is an answer of [Cluster.Ends].
type EndPage struct {
	// Tasks are those that have ended, shard by shard, those of each in the order of their ends.
	Tasks []TaskInfo

	// Large are those of the tasks that come without their results, which are too long.
	Large []ID

	// Next is the cursor for the next call. It has a place for each shard.
	Next stint.Cursor

	// Until is how far the shards have come that answered, each on its own clock: the earliest of
	// [stint.EndPage.Until]. A shard at whose very beginning the page is does not count.
	Until time.Time

	// Away are the shards that did not say what has ended. Next has the same place for them as
	// before, so nothing of theirs is missed.
	Away []*ShardError
}

const (
	// endsAwayWait is how long a call waits at most if a shard is away: the next call asks that
	// shard anew.
	endsAwayWait = 5 * time.Second

	// endsGrace is how long a call that has something to tell waits for a shard that was away when
	// it was last asked. A store takes a second to find that it has nothing to tell.
	endsGrace = 2 * time.Second
)

// Ends is [stint.Store.Ends] on all shards of a static topology, or on those of a pattern that the
// cursor names or the cluster has used. There is an order only within a shard. The page is as long
// as one of each shard at most. The tasks that the cluster has inserted for itself are told like
// others; [IsOwn] tells.
//
// The cursor has a place for each shard, as in "eu/PLACE~us/PLACE~". A shard that it does not name
// is told from its beginning, so that nothing is missed when a topology grows. A shard that the
// topology lacks keeps its place.
//
// A shard that is away, or does not answer within twenty seconds, is no error: the page names it,
// and has the ends of the others; the call waits no longer than some seconds. When the shard is
// back, it goes on where it was. If all are away, or one of them and from is [stint.EndsNow], that
// is the error. [stint.ErrEndsPruned] comes in a [*ShardError].
func (c *Cluster) Ends(
	ctx context.Context, actions []string, from stint.Cursor, wait time.Duration,
) (EndPage, error) {
	page, err := c.ends(ctx, actions, from, wait)
	if err != nil {
		return EndPage{}, said("ends", err)
	}
	return page, nil
}

func (c *Cluster) ends(
	ctx context.Context, actions []string, from stint.Cursor, wait time.Duration,
) (page EndPage, err error) {
	start := stint.Cursor("")
	if from == stint.EndsNow {
		start, from, wait = from, "", 0
	}
	places, ok := placesOf(from)
	if !ok {
		return page, badPlaces("must be the Next of a page")
	}
	f := c.newFollowing(ctx, actions, wait)
	defer f.stopWaiting()
	defer f.stopBrief()
	names := c.known()
	for name := range places {
		_, err := c.topology.URL(name)
		if err == nil && !slices.Contains(names, name) { // of a pattern
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return page, badPlaces("must name shards, as in eu/~us/~, since the topology is a pattern")
	}
	slices.Sort(names)
	var parts []*endsPart
	var asking sync.WaitGroup
	for _, name := range names {
		part := &endsPart{shard: name}
		part.page.Next = cmp.Or(places[name], start)
		parts = append(parts, part)
		asking.Go(func() { f.ask(part) })
	}
	asking.Wait()
	return joinedEnds(places, parts, start == stint.EndsNow)
}

func badPlaces(problem string) error {
	return &stint.ArgumentError{
		Argument: "from", Index: -1, Problem: problem, Err: stint.ErrInvalidArgument,
	}
}

// An endsPart is what a shard has for a page.
type endsPart struct {
	shard string
	page  stint.EndPage
	away  *ShardError
	err   error
}

// A following is a call of [Cluster.Ends].
type following struct {
	cluster *Cluster
	ctx     context.Context //nolint:containedctx // of the one call
	actions []string
	wait    time.Duration

	// waiting ends when the shards need wait no longer that have nothing to tell, and brief when
	// those need answer no longer that were away before.
	waiting, brief         context.Context //nolint:containedctx // as above
	stopWaiting, stopBrief context.CancelFunc
}

func (c *Cluster) newFollowing(
	ctx context.Context, actions []string, wait time.Duration,
) *following {
	f := &following{cluster: c, ctx: ctx, actions: actions, wait: wait}
	f.waiting, f.stopWaiting = context.WithCancel(ctx)
	f.brief, f.stopBrief = context.WithCancel(ctx)
	return f
}

// ask asks a shard, first without waiting: so each shard gets on in each call, however much the
// others have to tell.
func (f *following) ask(p *endsPart) {
	p.away, p.err = f.look(p)
	switch {
	case p.err != nil:
		f.stopWaiting()
		f.stopBrief()
		return
	case p.away != nil:
		time.AfterFunc(endsAwayWait, f.stopWaiting)
		return
	case len(p.page.Tasks) == 0 && f.wait > 0:
		p.away, p.err = f.await(p)
	}
	f.stopWaiting()
	time.AfterFunc(endsGrace, f.stopBrief)
}

// look asks a shard for what it has to tell already.
func (f *following) look(p *endsPart) (away *ShardError, err error) {
	ctx := f.ctx
	if _, away := f.cluster.endsAway.Load(p.shard); away {
		ctx = f.brief
	}
	before := p.page.Next
	away, err = f.cluster.look(ctx, p.shard, func(ctx context.Context, store Store) error {
		page, err := store.Ends(ctx, f.actions, before, min(f.wait, 0))
		if err == nil {
			p.page = page
		}
		return err
	})
	if err != nil && ctx.Err() != nil && f.ctx.Err() == nil {
		away, err = &ShardError{p.shard, noAnswer(err, endsGrace)}, nil
	}
	if away != nil {
		f.cluster.endsAway.Store(p.shard, true)
	} else if err == nil {
		f.cluster.endsAway.Delete(p.shard)
	}
	if away != nil && errors.Is(away, stint.ErrEndsPruned) {
		return nil, away
	}
	return away, err
}

// await waits until a shard has something to tell, or another one has.
func (f *following) await(p *endsPart) (away *ShardError, err error) {
	err = f.cluster.ask(f.waiting, p.shard, func(ctx context.Context, store Store) error {
		page, err := store.Ends(ctx, f.actions, p.page.Next, f.wait)
		if err == nil {
			p.page = page
		}
		return err
	})
	switch {
	case err == nil, f.waiting.Err() != nil && f.ctx.Err() == nil:
		return nil, nil
	case f.ctx.Err() != nil:
		return nil, f.ctx.Err()
	case errors.Is(err, stint.ErrEndsPruned), errors.Is(err, stint.ErrClosed),
		!errors.As(err, &away):
		return nil, err
	}
	return away, nil
}

// joinedEnds joins what the shards have, and moves their places on.
func joinedEnds(
	places map[string]stint.Cursor, parts []*endsPart, isNow bool,
) (page EndPage, err error) {
	var errs []error
	for _, p := range parts {
		errs = append(errs, p.err)
		places[p.shard] = p.page.Next
		if p.away != nil {
			page.Away = append(page.Away, p.away)
			continue
		}
		for _, info := range p.page.Tasks {
			page.Tasks = append(page.Tasks, TaskInfo{p.shard, info})
		}
		for _, id := range p.page.Large {
			page.Large = append(page.Large, ID{p.shard, id})
		}
		if until := p.page.Until; !until.IsZero() &&
			(page.Until.IsZero() || until.Before(page.Until)) {
			page.Until = until
		}
	}
	if err := cmp.Or(errors.Join(errs...), awayError(page.Away, len(parts), isNow)); err != nil {
		return EndPage{}, err
	}
	var next strings.Builder
	for _, shard := range slices.Sorted(maps.Keys(places)) {
		next.WriteString(placeText(shard, places[shard]))
	}
	page.Next = stint.Cursor(next.String())
	return page, nil
}

// awayError is the error of a page that the shards that are away leave nothing of.
func awayError(away []*ShardError, of int, isNow bool) error {
	if len(away) < of && !isNow {
		return nil
	}
	var errs []error
	for _, one := range away {
		errs = append(errs, one)
	}
	if len(away) > 0 && isNow {
		errs = append(errs, fmt.Errorf("from %s, all shards must answer", stint.EndsNow))
	}
	return errors.Join(errs...)
}
