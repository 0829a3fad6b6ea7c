package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/stint-tasks/stint"
)

// now is the time on the clock of the machine, which all replicas share: the harness wants what the
// clients see.
func now() time.Time { return time.Now() } //nolint:forbidigo // See above.

// A producer inserts tasks.
type producer struct {
	settings
	store *stint.Store
	seen  *tally
	log   *slog.Logger

	name    string // of this process, for IDs
	next    int    // number of the next task
	padding []byte
}

func newProducer(s settings, store *stint.Store, seen *tally, log *slog.Logger) *producer {
	p := &producer{settings: s, store: store, seen: seen, log: log, name: uuid.NewString()[:8]}
	p.padding = bytes.Repeat([]byte("x"), max(0, s.bodyBytes-len(newBody(now(), nil))))
	return p
}

// run inserts until ctx ends.
func (p *producer) run(ctx context.Context, tokens io.Reader) error {
	if p.paced {
		return p.runPaced(ctx, tokens)
	}
	beat := time.NewTicker(p.batchWait)
	defer beat.Stop()
	due := credit{at: now()}
	for {
		select {
		case <-beat.C:
		case <-ctx.Done():
			return nil
		}
		n := 0
		if p.mode == depthTarget {
			n = p.depth - p.seen.waiting()
		} else {
			rate := p.rateNow()
			p.seen.target(rate)
			n = due.take(now(), rate)
		}
		for ; n > 0; n -= p.batchMost {
			p.insert(ctx, min(n, p.batchMost))
		}
	}
}

// A credit is what is due at a rate: it follows from the clock, so what a long insert delays is
// made good for.
type credit struct {
	at    time.Time
	tasks float64
}

// take returns how many tasks have become due.
func (c *credit) take(at time.Time, perSecond float64) int {
	c.tasks += perSecond * at.Sub(c.at).Seconds()
	c.at = at
	whole := int(c.tasks)
	c.tasks -= float64(whole)
	return whole
}

// runPaced inserts as many tasks as each line asks for, such as "ENQUEUE 20".
func (p *producer) runPaced(ctx context.Context, tokens io.Reader) error {
	p.seen.target(float64(p.rate))
	counts := make(chan int)
	go func() {
		defer close(counts)
		for lines := bufio.NewScanner(tokens); lines.Scan(); {
			n, ok := parseToken(lines.Text())
			if !ok {
				p.log.Warn("no token", "line", lines.Text())
				continue
			}
			select {
			case counts <- n:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case n, ok := <-counts:
			if !ok { // nobody paces any more; what there is is performed
				<-ctx.Done()
				return nil
			}
			p.insert(ctx, n)
		case <-ctx.Done():
			return nil
		}
	}
}

func parseToken(line string) (n int, ok bool) {
	_, err := fmt.Sscanf(line, "ENQUEUE %d", &n)
	return n, err == nil && n > 0
}

// retryWait is how long an insert waits after a failure, before it is tried again.
const retryWait = 100 * time.Millisecond

// insert inserts n tasks in one call, which is repeated until it succeeds or ctx ends: with the
// same IDs, so that nothing is inserted twice where only the answer was lost.
func (p *producer) insert(ctx context.Context, n int) {
	tasks := make([]stint.Task, n)
	actions := p.actions()
	for i := range tasks {
		p.next++
		tasks[i] = stint.Task{
			ID:     stint.TaskID(p.name + "-" + strconv.Itoa(p.next)),
			Action: actions[p.next%len(actions)],
			Body:   newBody(now(), p.padding),
		}
	}
	for {
		err := p.store.InsertTasks(ctx, tasks)
		if err == nil || errors.Is(err, stint.ErrTaskExists) {
			p.seen.inserted(n)
			return
		}
		if ctx.Err() != nil {
			return
		}
		p.log.Warn("insert again", "error", err)
		select {
		case <-time.After(retryWait):
		case <-ctx.Done():
			return
		}
	}
}

// newBody is the body of a task: when it was inserted, so that all replicas can tell how long ago
// that is, and a padding.
func newBody(at time.Time, padding []byte) []byte {
	return append(fmt.Appendf(nil, "%019d ", at.UnixNano()), padding...)
}

// insertedAt is the time in a body.
func insertedAt(body []byte) (time.Time, error) {
	digits, _, _ := bytes.Cut(body, []byte(" "))
	nanos, err := strconv.ParseInt(string(digits), 10, 64)
	return time.Unix(0, nanos), err
}
