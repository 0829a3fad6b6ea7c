// Package changes notes who has changed tasks and settings, when and why, in the transaction of the
// change, and lists it. Callers say who they are by a context; for others nothing is noted. It
// knows tasks by their keys and IDs.
package changes

import (
	"context"
	"embed"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

//go:embed sql/*.sql
var files embed.FS

// Statements are those of this package.
//
//nolint:gochecknoglobals // never changes
var Statements = pg.NewStatements(files)

const (
	// authorBytesMax and reasonBytesMax are where texts are cut.
	authorBytesMax = 255
	reasonBytesMax = 1024

	// NamesMax is how many tasks, keys or schedules a change names.
	NamesMax = 10
)

// An Author is who makes changes, and why.
type Author struct{ Name, Reason string }

// Cut returns the author with texts that can be stored.
func (a Author) Cut() Author {
	return Author{pg.Storable(a.Name, authorBytesMax), pg.Storable(a.Reason, reasonBytesMax)}
}

type key struct{}

// With returns a context in which changes are noted.
func With(ctx context.Context, author Author) context.Context {
	return context.WithValue(ctx, key{}, author)
}

// Of returns the author that a context names.
func Of(ctx context.Context) (author Author, named bool) {
	author, _ = ctx.Value(key{}).(Author)
	return author, author != Author{}
}

// note is what all statements say of a change: a number for it first.
func (a Author) note(verb string) []any {
	a = a.Cut()
	number := rand.Int64N(math.MaxInt64 / 2) //nolint:gosec // it is no secret
	return []any{number, verb, a.Name, pg.NonZero(a.Reason)}
}

// Tasks notes that the author of the context, if it names one, changes tasks, as long as they are
// there, and returns the number of the first row of the note.
func Tasks(
	ctx context.Context, db *pg.DB, verb string, keys []int64,
) (number int64, err error) {
	author, named := Of(ctx)
	if !named || len(keys) == 0 {
		return 0, nil
	}
	slices.Sort(keys)
	err = db.Run(ctx, pg.Step{
		Name: "note_tasks", Args: append(author.note(verb), NamesMax, keys, nil),
		Read: func(rows pgx.Rows) error {
			var one int64
			var first, action string
			_, err := pgx.ForEachRow(rows, []any{&one, &action}, func() error {
				if first == "" || action < first {
					number, first = one, action
				}
				return nil
			})
			return err
		},
	})
	return number, err
}

// Others completes a note by how many others changed with the tasks.
func Others(ctx context.Context, db *pg.DB, number int64, others int) error {
	if number == 0 || others == 0 {
		return nil
	}
	return db.Run(ctx, pg.Step{
		Name: "note_others", Args: []any{number, min(others, math.MaxInt32)},
	})
}

// Schedules notes that the author of the context, if it names one, has changed schedules.
func Schedules(
	ctx context.Context, db *pg.DB, verb string, names []string, detail string,
) error {
	author, named := Of(ctx)
	if !named || len(names) == 0 {
		return nil
	}
	first := names[:min(len(names), NamesMax)]
	return db.Run(ctx, pg.Step{
		Name: "note_change",
		Args: append(author.note(verb), len(names), first, pg.NonZero(detail)),
	})
}

// Note is the step that notes a change together with the steps that make it; none if the context
// names no author. The arguments are those of the statement behind the author's.
func Note(ctx context.Context, statement, verb string, args ...any) []pg.Step {
	author, named := Of(ctx)
	if !named {
		return nil
	}
	return []pg.Step{{Name: statement, Args: append(author.note(verb), args...)}}
}

// A Change is what a row tells.
type Change struct {
	At           time.Time
	By, Reason   string
	Verb, Action string
	Items        int
	Names        []string
	Others       int
	Detail       string
}

// A Place is where a list goes on: behind the change with this time and number.
type Place struct {
	At     time.Time
	Number int64
}

// Cursor is the place as a text.
func (p Place) Cursor() string { return fmt.Sprintf("%d/%d", p.At.UnixMicro(), p.Number) }

// yearMax is one that no change is of.
const yearMax = 9999

// ParsePlace reads a cursor; empty is the place before all changes.
func ParsePlace(cursor string) (p Place, ok bool) {
	if cursor == "" {
		return Place{time.Date(yearMax, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64}, true
	}
	var micros int64
	n, err := fmt.Sscanf(cursor, "%d/%d", &micros, &p.Number)
	p.At = time.UnixMicro(micros)
	return p, n == 2 && err == nil && pg.IsStorable(p.At) && p.Cursor() == cursor
}

const (
	// lookedMax is how many changes one statement looks at, and looksMax how many of these make a
	// page.
	lookedMax = 1000
	looksMax  = 10
)

// List returns the next changes of some actions, or of all if none is named, the newest first, and
// where the list goes on, empty if there are no more.
func List(
	ctx context.Context, db *pg.DB, actions []string, from Place, most int,
) (found []Change, next string, err error) {
	looked := lookedMax
	if len(actions) == 0 {
		actions, looked = nil, min(most+1, lookedMax)
	}
	for range looksMax {
		rows, err := look(ctx, db, actions, from, looked)
		if err != nil {
			return nil, "", err
		}
		for _, row := range rows {
			if row.fits && len(found) == most {
				return found, from.Cursor(), nil
			}
			from = row.place()
			if row.fits {
				found = append(found, row.Change)
			}
		}
		if len(rows) == 0 || !rows[len(rows)-1].last {
			return found, "", nil
		}
	}
	return found, from.Cursor(), nil
}

// A row is a change that a statement has looked at: one that fits, or the last one of many.
type row struct {
	Change
	number     int64
	fits, last bool
}

func (r *row) place() Place { return Place{r.At, r.number} }

func look(
	ctx context.Context, db *pg.DB, actions []string, from Place, looked int,
) (all []row, err error) {
	err = db.Run(ctx, pg.Step{
		Name: "list_changes", Args: []any{from.At, from.Number, looked, actions},
		Read: func(rows pgx.Rows) error {
			all = nil
			var of row
			return of.read(rows, []any{&of.fits, &of.last}, func() { all = append(all, of) })
		},
	})
	return all, err
}

// OfTask returns the next changes of a task, as List does.
func OfTask(
	ctx context.Context, db *pg.DB, id string, from Place, most int,
) (found []Change, next string, err error) {
	var place Place
	err = db.Run(ctx, pg.Step{
		Name: "task_changes", Args: []any{id, from.At, from.Number, most + 1},
		Read: func(rows pgx.Rows) error {
			found, next = nil, ""
			var of row
			return of.read(rows, nil, func() {
				if len(found) == most {
					next = place.Cursor()
					return
				}
				found, place = append(found, of.Change), of.place()
			})
		},
	})
	return found, next, err
}

// read reads rows, each into this one and into what comes behind it.
func (r *row) read(rows pgx.Rows, more []any, then func()) error {
	var action, reason, detail *string
	columns := append([]any{
		&r.number, &r.At, &r.Items, &r.Others, &r.Verb, &r.By, &action, &reason, &detail, &r.Names,
	}, more...)
	_, err := pgx.ForEachRow(rows, columns, func() error {
		slices.Sort(r.Names)
		r.Action, r.Reason, r.Detail = pg.OrZero(action), pg.OrZero(reason), pg.OrZero(detail)
		then()
		r.Names = nil // the next one has an array of its own
		return nil
	})
	return err
}

// Drop is the step that deletes some of the changes that are older than an age. It tells how many
// it has found: unless these are none, there may be more.
func Drop(age time.Duration, found *int64) pg.Step {
	const linesMax, tasksMax = 100, 5000
	return pg.Step{
		Name: "drop_changes", Args: []any{age, linesMax, tasksMax},
		Read: func(rows pgx.Rows) (err error) {
			*found, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
			return err
		},
	}
}
