// Package duty shares the work that has to be done again and again in a schema among the stores on
// it, so that it is done once and not once for each store.
//
// There is no leader. The store that has done a duty tells the others by a notification, and does
// it the next time, too. The others rest while they hear of it, and do it themselves when they do
// not. So if a store is killed, stopped or cut off, another one goes on within a second or so; and
// a store that hears nothing, since it has no session, does all of its duties. A notification is
// only a hint: no store relies on the others for longer than about thirty intervals of a duty.
package duty

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/pg"
)

// A Duty is one kind of work.
type Duty struct {
	// Name is what stores call the duty when they tell one another of it: one word, the same in all
	// releases. Work is what the log calls it.
	Name, Work string

	// Every is how often it is done.
	Every time.Duration

	// In says, after a look, in how long there is work; nil: there is none. If In itself is nil,
	// the duty is done without a look.
	In func(Found) *time.Duration

	// Do does the work.
	Do func(context.Context) error

	// Terms are the settings of this store on which the work depends, in one word. Suits reports
	// whether this store has nothing left to do when one with the given terms has done the duty;
	// nil: it never has.
	Terms string
	Suits func(terms string) bool
}

// A Config says which duties there are, and how to look and to tell.
type Config struct {
	Logger *slog.Logger
	Duties []Duty

	// Look looks whether there is work for duties that have In. If it finds none, it tells the
	// other stores the news at once, unless they are empty, and reports that.
	Look func(ctx context.Context, news News) (found Found, told bool, err error)

	// Tell tells the other stores news.
	Tell func(ctx context.Context, news News) error
}

// A Roster is the part of one store in the duties.
type Roster struct {
	Config

	from        string // names this store in its news
	looks, told *outage.Log
	changed     chan struct{}
	group       sync.WaitGroup

	mutex sync.Mutex // of what follows, and of all turns
	turns []*turn
	busy  bool // as the last look found
}

// A turn is what a store knows of a duty.
type turn struct {
	Duty

	at      time.Time // when to do it next
	trusted time.Time // until when the store relies on others
	// checks says that the next time is only to see whether others do the duty, as they say; quiet
	// that this time is.
	checks, quiet bool

	running bool
	pause   time.Duration // grows while the duty fails
	outages *outage.Log
}

const (
	// Who does a duty does it somewhat more often than it has to be done, which leaves time for
	// the duty itself and for its news. The others wait for these somewhat longer. In percent of
	// the interval; first is for the first time.
	ownLeast, ownSpread     = 75, 20
	otherLeast, otherSpread = 110, 50
	firstLeast, firstSpread = 75, 50

	// trustedFor is for how many intervals a store relies on others, about.
	trustedFor = 30

	// patience is how long the duties of a round wait for one another.
	patience = 100 * time.Millisecond
)

// NewRoster returns a roster for a store.
func NewRoster(config Config) *Roster {
	r := &Roster{
		Config: config, from: strconv.FormatUint(rand.Uint64(), 36), //nolint:gosec // no secret
		looks:   outage.New(config.Logger, "could not look for work in the background"),
		told:    outage.New(config.Logger, "could not tell other stores of work that is done"),
		changed: make(chan struct{}, 1),
	}
	for _, duty := range config.Duties {
		logger := config.Logger.With(
			slog.String("work", duty.Work), slog.Duration("every", duty.Every))
		r.turns = append(r.turns, &turn{
			Duty: duty, pause: duty.Every,
			outages: outage.New(logger, "work in the background failed, it is tried again soon"),
		})
	}
	return r
}

// Run does the duties when it is time to, until ctx ends.
func (r *Roster) Run(ctx context.Context) {
	defer r.group.Wait()
	r.begin()
	timer := time.NewTimer(r.rest())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.changed:
		case <-timer.C:
			r.round(ctx)
		}
		timer.Reset(r.rest())
	}
}

// begin sets when to do each duty first.
func (r *Roster) begin() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	at := newMoment()
	for _, t := range r.turns {
		t.at, t.trusted = at.in(t.Every, firstLeast, firstSpread), at.trusted(t.Every)
	}
}

// rest is how long it is until there is something to do.
func (r *Roster) rest() time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	rest := time.Hour
	for _, t := range r.turns {
		if !t.running {
			rest = min(rest, time.Until(t.at))
		}
	}
	return rest
}

// round does what it is time for, one duty after the other, so that the store needs one connection
// for it, and tells the others. Duties that take long keep no others waiting, and are told of when
// they are done.
func (r *Roster) round(ctx context.Context) {
	at := newMoment()
	todo, done := r.look(ctx, at, r.due())
	results := make(chan *turn, len(todo))
	late := time.NewTimer(patience)
	defer late.Stop()
	isLate, left := false, len(todo)
	for _, t := range todo {
		r.group.Go(func() {
			if failed := pg.Failed(ctx, t.outages, t.Do(ctx)); r.end(t, at, failed, nil) {
				t = nil
			}
			results <- t
		})
		if isLate {
			continue
		}
		select {
		case t := <-results:
			done = append(done, t)
			left--
		case <-late.C:
			isLate = true
		}
	}
	r.tell(ctx, done...)
	if left > 0 {
		r.group.Go(func() {
			for range left {
				r.tell(ctx, <-results)
			}
		})
	}
}

// due returns the duties that it is time for. If one of them needs a look, the look is for all that
// need one as often: otherwise each might come to be done by another store, and each of these would
// look. A look that is only a check is only for what others say that they do.
func (r *Roster) due() (due []*turn) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	every, checks := time.Duration(0), true
	for _, t := range r.turns {
		if t.isDue() && t.In != nil {
			every, checks = max(every, t.Every), checks && t.checks
		}
	}
	for _, t := range r.turns {
		joins := t.In != nil && t.Every <= every && !t.running && t.pause == t.Every &&
			(!checks || t.checks)
		if joins || t.isDue() {
			t.running, t.quiet, t.checks = true, t.checks && (checks || t.In == nil), false
			due = append(due, t)
		}
	}
	return due
}

// isDue reports whether it is time for a duty; the mutex is held.
func (t *turn) isDue() bool { return !t.running && time.Until(t.at) <= 0 }

// look looks whether there is work for those of the duties that have In. It returns those that are
// to be done, and those that are done, of which the others are yet to be told.
func (r *Roster) look(
	ctx context.Context, at moment, due []*turn,
) (todo, done []*turn) {
	var asked []*turn
	for _, t := range due {
		if t.In == nil {
			todo = append(todo, t)
		} else {
			asked = append(asked, t)
		}
	}
	if len(asked) == 0 {
		return todo, nil
	}
	found, told, err := r.Look(ctx, r.news(asked))
	failed := pg.Failed(ctx, r.looks, err)
	r.mutex.Lock()
	r.busy = found.Busy
	r.mutex.Unlock()
	for _, t := range asked {
		in := t.In(found)
		switch {
		case failed:
			r.end(t, at, true, nil)
		case in != nil && *in <= 0:
			todo = append(todo, t)
		default:
			r.end(t, at, false, in)
			if !told && found.Without != t.Name {
				done = append(done, t)
			}
		}
	}
	return todo, done
}

// end notes that a duty has been done, or has failed, in a round, and when it is time for it next:
// there is work again in as long as in says, if it is not nil. It returns failed.
func (r *Roster) end(t *turn, at moment, failed bool, in *time.Duration) bool {
	at.Time = now() // it may have taken long
	r.mutex.Lock()
	defer r.mutex.Unlock()
	t.running = false
	t.pause = pg.PauseAfterWork(failed, t.pause, t.Every)
	switch {
	case failed:
		t.at = at.Add(pg.Around(t.pause))
	case t.quiet:
		t.trusted = at.trusted(t.Every)
		t.at = at.in(t.Every, otherLeast, otherSpread)
	default:
		t.trusted = at.trusted(t.Every)
		t.at = at.in(t.Every, ownLeast, ownSpread)
		if in != nil && at.Add(*in).Before(t.at) {
			t.at = at.Add(*in)
		}
	}
	pg.WakeUp(r.changed)
	return failed
}

// Hear takes note of news of this store or another one.
func (r *Roster) Hear(news News) {
	if r == nil || news.from == r.from {
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	at := newMoment()
	for _, t := range r.turns {
		terms, ok := news.done[t.Name]
		if !ok || t.Suits != nil && !t.Suits(terms) {
			continue
		}
		t.at = at.in(t.Every, otherLeast, otherSpread)
		if t.checks = t.at.After(t.trusted); t.checks {
			t.at = t.trusted
		}
	}
}

// news returns what to tell of duties that are done.
func (r *Roster) news(done []*turn) News {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	news := News{from: r.from, Busy: r.busy, done: map[string]string{}}
	for _, t := range done {
		if t != nil && !t.quiet {
			news.done[t.Name] = t.Terms
		}
	}
	return news
}

// tell tells the others of duties that are done; nil stands for one that has failed.
func (r *Roster) tell(ctx context.Context, done ...*turn) {
	if news := r.news(done); len(news.done) > 0 {
		pg.Failed(ctx, r.told, r.Tell(ctx, news))
	}
}

// A moment is when something happens. What follows from it happens at random times, but all
// together: duties that were looked at together are looked at together the next time, too.
type moment struct {
	time.Time

	random float64 // from 0 to 1
}

func newMoment() moment {
	return moment{now(), rand.Float64()} //nolint:gosec // no secret
}

// in returns the time that is a part of an interval later: at least so many percent, and at most so
// many more.
func (m moment) in(interval time.Duration, least, spread float64) time.Time {
	const percent = 100
	return m.Add(time.Duration(float64(interval) * (least + spread*m.random) / percent))
}

// trusted returns until when to rely on others.
func (m moment) trusted(interval time.Duration) time.Time {
	return m.in(trustedFor*interval, firstLeast, firstSpread)
}

// now is for pauses of this process; the database says when a task is due.
func now() time.Time {
	return time.Now() //nolint:forbidigo // as the comment says
}
