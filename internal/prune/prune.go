// Package prune deletes finished tasks past an age, and what is kept for tasks that are gone.
package prune

import (
	"context"
	"embed"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/pg"
)

//go:embed sql/*.sql
var files embed.FS

// Statements are those of this package.
//
//nolint:gochecknoglobals // never changes
var Statements = pg.NewStatements(files)

const (
	// A store prunes four times within its shortest retention, but within these bounds.
	everyLeast = time.Second
	everyMost  = 30 * time.Second

	// How much one transaction looks at: about this many tasks, or this many predecessors of tasks
	// that are gone.
	tasksMax = 5000
	keysMax  = 1000
	// The transaction before tells how many spans make up that many tasks. This is the least
	// number.
	spansLeast = 16

	// Walks begin anew after a while, to find the tasks that they have missed: after a minute or,
	// if that is longer, after fifty times the time that it took to look at the tasks that stay.
	anew      = time.Minute
	anewShare = 50
)

// Keep says how long finished tasks stay; nil: for ever.
type Keep struct {
	Completed, Aborted *time.Duration
	// Results is for how long tasks with results to post stay at least.
	Results time.Duration
	// Changes is for how long is known who has changed what; nil: for ever.
	Changes *time.Duration
}

// Every is how often to prune.
func (k Keep) Every() time.Duration {
	shortest := everyMost * 4
	for _, age := range []*time.Duration{k.Completed, k.Aborted} {
		if age != nil {
			shortest = min(shortest, *age)
		}
	}
	return min(max(shortest/4, everyLeast), everyMost) //nolint:mnd // as above
}

// Drops reports whether completed and aborted tasks do not stay at all.
func (k Keep) Drops() (completed, aborted bool) {
	return k.Completed != nil && *k.Completed == 0, k.Aborted != nil && *k.Aborted == 0
}

// Terms name the ages.
func (k Keep) Terms() string {
	return terms(longest(k.Completed), longest(k.Aborted), longest(k.Changes))
}

// Suits reports whether a store with the given terms prunes all that this one would.
func (k Keep) Suits(given string) bool { return suits(given, k.Terms()) }

// longest is an age as a number, the greatest one for ever.
func longest(age *time.Duration) int64 {
	if age == nil {
		return math.MaxInt64
	}
	return int64(*age)
}

func terms(numbers ...int64) string {
	var words []string
	for _, number := range numbers {
		words = append(words, strconv.FormatInt(number, 10))
	}
	return strings.Join(words, "/")
}

// suits reports whether none of the given terms is greater than mine.
func suits(given, mine string) bool {
	words, least := strings.Split(given, "/"), strings.Split(mine, "/")
	for i := range least {
		if i >= len(words) {
			return false
		}
		one, err := strconv.ParseInt(words[i], 10, 64)
		other, _ := strconv.ParseInt(least[i], 10, 64) // is a number
		if err != nil || one > other {
			return false
		}
	}
	return true
}

// of is for how long the aborted tasks stay, or the completed ones.
func (k Keep) of(aborted bool) *time.Duration {
	if aborted {
		return k.Aborted
	}
	return k.Completed
}

// A Pruner deletes finished tasks past their retention. It walks from the oldest task on, and the
// next call goes on where the last one stopped. It spares tasks that other tasks may still ask for,
// and looks at them again when those other tasks are gone.
type Pruner struct {
	db   *pg.DB
	keep Keep
	// quiet says that the Pruner does not tell others how far pruning is behind.
	quiet bool
	walks []ageWalk
	spans int64
	// freed are the predecessors of tasks that are gone.
	freed []int64
	// begun is when the walks last began with the oldest tasks. took is how long they have since
	// looked at tasks that stay, until they came to the end, which ended says. told is when the
	// others were last told how far pruning is behind. These times measure pauses of this process;
	// they are no times in the store.
	begun time.Time
	took  time.Duration
	ended bool
	told  time.Time
}

// An ageWalk goes through the completed or the aborted tasks, up to an age.
type ageWalk struct {
	aborted bool
	age     time.Duration
	// at and lo are the place that the walk has reached.
	at pgtype.Timestamptz
	lo int64
}

// New returns a pruner. If quiet, it does not tell others how far pruning is behind.
func New(db *pg.DB, keep Keep, quiet bool) *Pruner {
	p := &Pruner{db: db, keep: keep, quiet: quiet, spans: spansLeast}
	p.rewind()
	return p
}

// rewind makes the walks begin with the oldest tasks. Tasks with PostResult may stay longer: a
// second walk is for them.
func (p *Pruner) rewind() {
	p.walks, p.freed = nil, nil
	for _, aborted := range []bool{false, true} {
		keep := p.keep.of(aborted)
		if keep == nil {
			continue
		}
		first := pg.FirstMoment()
		p.walks = append(p.walks, ageWalk{aborted: aborted, age: *keep, at: first})
		if *keep < p.keep.Results {
			p.walks = append(p.walks,
				ageWalk{aborted: aborted, age: p.keep.Results, at: first})
		}
	}
}

// Some prunes until little is left to prune. While somebody opens tasks again, it waits.
func (p *Pruner) Some(ctx context.Context) error {
	for {
		if time.Since(p.begun) > max(anew, anewShare*p.took) {
			p.rewind()
			p.begun = time.Now() //nolint:forbidigo // a pause of this process
			p.took, p.ended = 0, false
		}
		began := time.Now() //nolint:forbidigo // a pause of this process
		_, done, err := p.All(ctx)
		if err != nil || done && time.Since(began) < everyMost {
			return err
		}
		if done { // much has become old meanwhile
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pg.Around(everyLeast)):
		}
	}
}

// All prunes the tasks that are old when it begins, and returns how many. It leaves tasks that
// become old meanwhile to the next pass: otherwise it would never end while tasks finish all the
// time. It stops, and is not done, if somebody opens tasks again meanwhile, since these may ask for
// finished tasks.
func (p *Pruner) All(ctx context.Context) (pruned int64, done bool, err error) {
	began := time.Now() //nolint:forbidigo // a pause of this process
	lost := int64(0)
	steps := []pg.Step{
		{Name: "forget_asked"},
		{Name: "forget_minutes"},
		{Name: "forget_unattended"},
		dropLosses(&lost),
	}
	old := int64(0)
	if p.keep.Changes != nil {
		steps = append(steps, changes.Drop(*p.keep.Changes, &old))
	}
	if err := p.db.Run(ctx, steps...); err != nil {
		return 0, false, err
	}
	for lost > 0 {
		if err := p.db.Run(ctx, dropLosses(&lost)); err != nil {
			return 0, false, err
		}
	}
	for old > 0 {
		if err := p.db.Run(ctx, steps[len(steps)-1]); err != nil {
			return 0, false, err
		}
	}
	if len(p.walks) == 0 {
		return 0, true, p.forget(ctx)
	}
	for next := 0; next < len(p.walks) || len(p.freed) > 0; {
		var walk *ageWalk
		if len(p.freed) == 0 {
			walk = &p.walks[next]
		}
		since := time.Since(began)
		answer, err := p.pruneSome(ctx, walk, since)
		if err != nil || !answer.kept {
			return pruned, false, err
		}
		pruned += answer.pruned
		if looked := max(answer.walked, 1); !p.ended && answer.pruned < looked {
			took := time.Since(began) - since
			p.took += took / time.Duration(looked) * time.Duration(looked-answer.pruned)
		}
		if walk != nil && answer.walked == 0 {
			next++
		}
		if answer.overdue != nil && min(since, time.Since(p.told)) > everyLeast {
			if err := p.tell(ctx, *answer.overdue+since); err != nil {
				return pruned, false, err
			}
		}
	}
	p.ended = true
	return pruned, true, p.tell(ctx, 0)
}

// tell notes how far pruning is behind. It does not in the caller's transaction, which would keep
// others from noting it.
func (p *Pruner) tell(ctx context.Context, behind time.Duration) error {
	p.told = time.Now() //nolint:forbidigo // a pause of this process
	if p.quiet || p.db.InTx() {
		return nil
	}
	return p.db.Run(ctx, pg.Step{Name: "note_pruning", Args: []any{behind}})
}

// dropLosses deletes losses of tasks that are gone. It looks at some of them, and moves last to the
// last one; to 0 if it has come to the end.
func dropLosses(last *int64) pg.Step {
	after := *last
	return pg.Step{
		Name: "drop_losses", Args: []any{after, keysMax},
		Read: func(rows pgx.Rows) error {
			var looked int64
			var reached *int64
			*last = 0
			_, err := pgx.ForEachRow(rows, []any{&looked, &reached}, func() error {
				if looked == keysMax {
					*last = *reached
				}
				return nil
			})
			return err
		},
	}
}

// forget deletes the note of how far pruning is behind, if the stores that pruned once no longer
// do.
func (p *Pruner) forget(ctx context.Context) error {
	if p.quiet {
		return nil
	}
	return p.db.Run(ctx, pg.Step{Name: "forget_pruning"})
}

// A result is the outcome of a transaction that prunes. Kept is not set if it did nothing,
// since somebody opens tasks again.
type result struct {
	kept           bool
	walked, pruned int64
	at             pgtype.Timestamptz
	lo             *int64
	overdue        *time.Duration
	freed          []int64
	prunedTo       pgtype.Timestamptz
}

func (a *result) read(rows pgx.Rows) error {
	for rows.Next() { // there is one
		err := rows.Scan(
			&a.walked, &a.at, &a.lo, &a.pruned, &a.overdue, &a.freed, &a.prunedTo)
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// pruneSome takes a walk further, up to the tasks that were old when the pass began, as long ago as
// since says. Without a walk it looks at freed tasks.
func (p *Pruner) pruneSome(
	ctx context.Context, walk *ageWalk, since time.Duration,
) (result, error) {
	keys := p.freed[max(0, len(p.freed)-keysMax):]
	prune := pg.Step{Name: "prune_finished"}
	walked := ageWalk{}
	args := []any{nil}
	if walk != nil {
		walked, args, keys = *walk, []any{walk.aborted}, nil
	}
	upTo := min(walked.age, math.MaxInt64-since) + since
	prune.Args = append(args, walked.at, walked.lo, upTo, p.spans, tasksMax, keys,
		p.keep.Completed, p.keep.Aborted, p.keep.Results)
	var answer result
	err := p.db.Transact(ctx, func(db *pg.DB) error {
		answer = result{}
		err := db.Run(ctx, pg.Step{
			Name: "try_keep_ends", NoPlanner: true,
			Read: func(rows pgx.Rows) error {
				var err error
				answer.kept, err = pgx.CollectOneRow(rows, pgx.RowTo[bool])
				return err
			},
		})
		if err != nil || !answer.kept {
			return err
		}
		prune.Read = answer.read
		if err := db.Run(ctx, prune); err != nil || !answer.prunedTo.Valid {
			return err
		}
		return db.Run(ctx, pg.Step{Name: "note_pruned", Args: []any{answer.prunedTo}})
	})
	if err != nil || !answer.kept {
		return answer, err
	}
	if answer.lo != nil {
		walk.at, walk.lo = answer.at, *answer.lo
		p.spans = min(max(2*answer.walked, spansLeast), tasksMax)
	}
	p.freed = append(p.freed[:len(p.freed)-len(keys)], answer.freed...)
	return answer, nil
}
