// Package ends follows the ends of tasks: those behind a place, in the order of their times, once
// no earlier one can become visible any more. The statement list_ends says when that is so. It
// knows of tasks only their keys.
package ends

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/pg"
)

//go:embed sql/*.sql
var files embed.FS

// Statements are those of this package.
//
//nolint:gochecknoglobals // never changes
var Statements = pg.NewStatements(files)

const (
	// How many ends one statement looks at, how many bytes of results and texts make a page, and
	// how long a result is that a page has.
	lookedMax  = 1000
	bytesMax   = 4 << 20
	resultMost = 1 << 20

	// openPause is how long a call waits before it looks again whether those who were writing are
	// over. It doubles each time, up to noisyPause if the call hears of ends meanwhile. A call that
	// waits no longer still gives them openMax.
	openPause  = 5 * time.Millisecond
	noisyPause = 200 * time.Millisecond
	openMax    = time.Second
)

// ErrPruned reports that what ended behind a place was pruned.
var ErrPruned = errors.New("ends behind the cursor have been pruned")

// A Place is where somebody goes on: behind the end with this time and key.
type Place struct {
	At  pgtype.Timestamptz
	Key int64
}

// First is the place before all ends.
func First() Place { return Place{pg.FirstMoment(), -1} }

// Before is the place before all ends of a time and later.
func Before(at time.Time) Place { return Behind(at, -1) }

// Behind is the place behind an end.
func Behind(at time.Time, key int64) Place {
	return Place{pgtype.Timestamptz{Time: at, Valid: true}, key}
}

// IsFirst reports whether the place is before all ends.
func (p Place) IsFirst() bool { return p.At.InfinityModifier != pgtype.Finite }

// Time is the time of the place, zero if it is before all ends.
func (p Place) Time() time.Time {
	if p.IsFirst() {
		return time.Time{}
	}
	return p.At.Time
}

// Cursor is the place as a text. It begins with the version of its form.
func (p Place) Cursor() string {
	if p.IsFirst() {
		return ""
	}
	return fmt.Sprintf("1/%d/%d", p.At.Time.UnixMicro(), p.Key)
}

// ParsePlace reads a cursor; empty is the place before all ends.
func ParsePlace(cursor string) (p Place, ok bool) {
	if cursor == "" {
		return First(), true
	}
	var micros, key int64
	n, err := fmt.Sscanf(cursor, "1/%d/%d", &micros, &key)
	p = Behind(time.UnixMicro(micros), key)
	return p, n == 2 && err == nil && pg.IsStorable(p.At.Time) && p.Cursor() == cursor
}

// A Bound is up to which time all ends are visible, or will never be; and a later time up to which
// they will be, once all transactions that were writing then are over. The zero value knows
// nothing.
type Bound struct {
	mutex       sync.Mutex
	until, next time.Time
	writers     []string
	// moves counts how often next was set.
	moves int64
}

// get returns the bound, for list_ends, and how often the later time was set.
func (b *Bound) get() (until pgtype.Timestamptz, moves int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.until.IsZero() {
		return pg.FirstMoment(), b.moves
	}
	return pgtype.Timestamptz{Time: b.until, Valid: true}, b.moves
}

// saw takes note of the time of a look, and of the transactions that were writing. It moves the
// bound for the looks that begin from now on, and reports whether the one of that look holds: it
// does not if the clock was set back, so it is forgotten. A look that began before the later time
// was set says nothing about those who were writing then.
func (b *Bound) saw(
	bound pgtype.Timestamptz, moves int64, at time.Time, writers []string,
) (holds bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if bound.InfinityModifier == pgtype.Finite && at.Before(bound.Time) {
		b.until, b.next = time.Time{}, time.Time{}
		b.moves++
		return false
	}
	if moves != b.moves || !b.next.IsZero() && slices.ContainsFunc(writers, b.isOld) {
		return true
	}
	b.moves++
	if b.next.After(b.until) {
		b.until = b.next
	}
	if b.next, b.writers = at, writers; len(writers) == 0 && at.After(b.until) {
		b.until = at
	}
	return true
}

// isOld reports whether a transaction may be one of those that are waited for.
func (b *Bound) isOld(writer string) bool {
	return slices.Contains(b.writers, writer) || strings.HasPrefix(writer, "-")
}

// News tells those who wait that tasks may have ended. The zero value is ready for use.
type News struct {
	mutex sync.Mutex
	come  chan struct{}
}

// Next returns a channel that is closed when there are news.
func (n *News) Next() <-chan struct{} {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.come == nil {
		n.come = make(chan struct{})
	}
	return n.come
}

// Come tells all who wait.
func (n *News) Come() {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.come != nil {
		close(n.come)
		n.come = nil
	}
}

// A Page is a call of somebody who follows.
type Page[T any] struct {
	DB     *pg.DB
	Bound  *Bound
	News   *News
	Poll   time.Duration
	Closed error
	// Read reads a task, when it ended, and further columns.
	Read func(pgx.Rows, ...any) (T, time.Time, error)

	// Actions are those of the tasks; nil: all. Place is behind what the page has.
	Actions []string
	Place   Place
	// Tasks are those that have ended, and Large those of them without their results.
	Tasks, Large []T
}

// BeginNow moves the place to this moment.
func (p *Page[T]) BeginNow(ctx context.Context) error {
	look, err := p.look(ctx, 1)
	if err == nil {
		p.Place, p.Tasks, p.Large = Before(look.at), nil, nil
	}
	return err
}

// Wait looks until there are tasks, or the wait is over.
func (p *Page[T]) Wait(ctx context.Context, wait time.Duration) error {
	over, given := time.After(wait), time.After(max(wait, openMax))
	for pause := openPause; ; {
		news := p.News.Next()
		look, err := p.look(ctx, lookedMax)
		if err != nil || len(p.Tasks) > 0 {
			return err
		}
		enough, next, heard := over, pg.Around(p.Poll), news
		switch {
		case look.again:
			enough, next, heard = given, 0, nil
		case look.ahead: // nobody is told when these can be shown
			enough, next, heard = given, pause, nil
			pause = min(2*pause, p.Poll)
		default:
			pause = openPause
		}
		select {
		case <-time.After(next):
		case <-heard:
		case <-enough:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-p.DB.Closing():
			return p.Closed
		}
		select {
		case <-news:
			pause = min(pause, noisyPause)
		default:
		}
	}
}

// A look is what a row of list_ends says besides the task.
type look struct {
	at       time.Time
	writers  []string
	ahead    bool // there are ends that cannot be shown yet
	prunedTo pgtype.Timestamptz
	looked   int
	key      *int64
	last     *bool
	wanted   bool
	large    bool
	again    bool // look again at once
}

// look moves the page on, behind what it has looked at, and gives it the tasks that are wanted.
func (p *Page[T]) look(ctx context.Context, most int) (l look, err error) {
	bound, moves := p.Bound.get()
	began := p.Place
	err = p.DB.WithAnswerLimit().Run(ctx, pg.Step{
		Name: "list_ends",
		Args: []any{began.At, began.Key, p.Actions, bound, most, resultMost, int64(bytesMax)},
		Read: func(rows pgx.Rows) error {
			l, p.Tasks, p.Large, p.Place = look{}, nil, nil, began
			for rows.Next() {
				if err := p.read(rows, &l); err != nil {
					return err
				}
			}
			return rows.Err()
		},
	})
	if err != nil {
		return l, err
	}
	if !p.Bound.saw(bound, moves, l.at, l.writers) || l.at.Before(began.Time()) {
		p.goBack(began, l.at)
		l.again = true
		return l, nil
	}
	if !began.IsFirst() && l.prunedTo.Valid && !l.prunedTo.Time.Before(began.Time()) {
		p.Tasks, p.Large, p.Place = nil, nil, began
		return l, ErrPruned
	}
	moved, _ := p.Bound.get()
	l.again = l.ahead && moved.Time.After(bound.Time)
	switch {
	case l.key != nil && (l.looked == most || !*l.last):
		l.again = true
	case bound.InfinityModifier != pgtype.Finite || !bound.Time.After(began.Time()):
	case began.IsFirst() && l.key == nil && !bound.Time.After(l.prunedTo.Time):
		// It stays at the beginning: what was pruned behind the bound was pruned before.
	default:
		p.Place = Before(bound.Time)
	}
	return l, nil
}

func (p *Page[T]) read(rows pgx.Rows, l *look) error {
	task, at, err := p.Read(rows, &l.at, &l.writers, &l.ahead, &l.prunedTo, &l.looked, &l.key,
		&l.last, &l.wanted, &l.large)
	if err != nil {
		return err
	}
	if l.key != nil {
		p.Place = Behind(at, *l.key)
	}
	if l.wanted {
		p.Tasks = append(p.Tasks, task)
	}
	if l.wanted && l.large {
		p.Large = append(p.Large, task)
	}
	return nil
}

// goBack begins anew after the clock was set back. If that was by as much as the place is ahead, at
// least, what has ended since may be as far behind.
func (p *Page[T]) goBack(began Place, at time.Time) {
	p.Tasks, p.Large, p.Place = nil, nil, began
	if ahead := began.Time().Sub(at); !began.IsFirst() && ahead > 0 {
		p.Place = Before(at.Add(-ahead))
	}
}
