package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// chaos kills and stops workers and crashes the server, until ctx ends; then all are back. It
// strikes a little less often each time: on a slow machine no long computation would get through.
type chaos struct {
	opts    options
	crew    *crew
	server  *server // nil if it is not to crash.
	journal *journal
	// struck is called when all that is to strike has struck once.
	struck func()
}

// A line is one way of striking, again and again.
type line struct {
	every  time.Duration
	strike func() error
}

// run calls fail if anything does not go as it should.
func (c *chaos) run(ctx context.Context, fail context.CancelCauseFunc) {
	kills := 0
	lines := []line{
		{c.opts.kill, func() error {
			const allEvery = 5
			kills++
			return c.crew.kill(kills%allEvery == 0)
		}},
		{c.opts.pause, func() error { return c.crew.pause(ctx, c.opts.lease+c.opts.lease/2) }},
		{c.opts.crash, c.crash},
	}
	lines = slices.DeleteFunc(lines, func(l line) bool { return l.every == 0 })
	var striking, first sync.WaitGroup
	first.Add(len(lines))
	for _, line := range lines {
		striking.Go(func() {
			once := sync.OnceFunc(first.Done)
			defer once()
			const relief = 20
			for every := line.every; wait(ctx, around(every)); every += every / relief {
				if err := line.strike(); err != nil {
					fail(err)
					return
				}
				once()
			}
		})
	}
	first.Wait()
	c.struck()
	striking.Wait()
}

// crash crashes the server and restarts it a little later, even if ctx ends meanwhile.
func (c *chaos) crash() error {
	const longestAway, crashMax = 300 * time.Millisecond, 30 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), crashMax)
	defer cancel()
	if err := c.journal.write(entry{Kind: crashing, At: time.Now()}); err != nil {
		return err
	}
	if err := c.server.crash(ctx); err != nil {
		return err
	}
	wait(ctx, rand.N(longestAway)) //nolint:gosec // no secret
	if err := c.server.restart(ctx); err != nil {
		return fmt.Errorf("after a crash: %w", err)
	}
	return c.journal.write(entry{Kind: restarted, At: time.Now()})
}

// around is a random time that is pause on average.
func around(pause time.Duration) time.Duration {
	return pause/2 + rand.N(pause) //nolint:gosec // no secret
}

// wait reports false if ctx ends first.
func wait(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}
