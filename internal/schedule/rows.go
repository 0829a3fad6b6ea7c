package schedule

import (
	"context"
	"embed"
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

// A Row is a schedule as it is kept.
type Row struct {
	Name, Spec, Zone string
	From, To         time.Time // zero: no bound
	// Definition is the rest of the schedule, a document of JSON.
	Definition []byte
	// NextAt is the next occurrence; zero if there is none, or the schedule is paused.
	NextAt  time.Time
	LastAt  time.Time
	LastIDs []string
	// Missed and Skipped are how many occurrences were left out.
	Missed, Skipped int64
	PausedSince     time.Time
	ChangedAt       time.Time
}

// Put adds schedules, or changes those of the same names: these keep their next occurrence if they
// occur as before.
func Put(ctx context.Context, db *pg.DB, rows []Row) error {
	if err := notePut(ctx, db, rows); err != nil {
		return err
	}
	return put(ctx, db, pg.Step{Name: "put_schedules"}, rows)
}

// Ensure adds those of the schedules whose names no schedule has.
func Ensure(ctx context.Context, db *pg.DB, rows []Row) error {
	var added []string
	ensure := pg.Step{Name: "ensure_schedules", Read: func(rows pgx.Rows) (err error) {
		added, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	}}
	if err := put(ctx, db, ensure, rows); err != nil {
		return err
	}
	return changes.Schedules(ctx, db, "EnsureSchedules", added, "")
}

func put(ctx context.Context, db *pg.DB, step pg.Step, rows []Row) error {
	n := len(rows)
	names, specs, zones := make([]string, n), make([]string, n), make([]string, n)
	starts, ends, next := make([]*time.Time, n), make([]*time.Time, n), make([]*time.Time, n)
	definitions := make([]string, n)
	for i := range rows {
		row := &rows[i]
		names[i], specs[i], zones[i] = row.Name, row.Spec, row.Zone
		starts[i], ends[i], next[i] = pg.Moment(row.From), pg.Moment(row.To), pg.Moment(row.NextAt)
		definitions[i] = string(row.Definition)
	}
	step.Args = []any{names, specs, zones, starts, ends, definitions, next}
	return db.Run(ctx, step)
}

// List returns the schedules with these names, or all if none is named, sorted by name.
func List(ctx context.Context, db *pg.DB, names []string) ([]Row, error) {
	const page = 1000
	if len(names) > 0 {
		found, _, err := find(ctx, db, "find_schedules", names)
		return found, err
	}
	var all []Row
	for after, full := "", true; full; {
		found, _, err := find(ctx, db, "list_schedules", after, page)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if full = len(found) == page; full {
			after = found[page-1].Name
		}
	}
	return all, nil
}

// Lock locks the schedules with these names, and returns them sorted by name, with what the
// database's clock shows.
func Lock(ctx context.Context, db *pg.DB, names []string) ([]Row, time.Time, error) {
	return find(ctx, db, "lock_schedules", names)
}

func find(
	ctx context.Context, db *pg.DB, statement string, args ...any,
) (found []Row, now time.Time, err error) {
	err = db.Run(ctx, pg.Step{Name: statement, Args: args, Read: func(rows pgx.Rows) (err error) {
		found, now, err = readRows(rows)
		return err
	}})
	return found, now, err
}

func readRows(rows pgx.Rows) (all []Row, now time.Time, err error) {
	for rows.Next() {
		var row Row
		var start, end, next, last, paused *time.Time
		err := rows.Scan(&row.Name, &row.Spec, &row.Zone, &start, &end, &row.Definition, &next,
			&last, &row.LastIDs, &row.Missed, &row.Skipped, &paused, &row.ChangedAt, &now)
		if err != nil {
			return nil, now, err
		}
		row.From, row.To = pg.OrZero(start), pg.OrZero(end)
		row.NextAt, row.LastAt = pg.OrZero(next), pg.OrZero(last)
		row.PausedSince = pg.OrZero(paused)
		all = append(all, row)
	}
	return all, now, rows.Err()
}

// CountBytes returns how many bytes the schedules with these names have, or all if none is named.
func CountBytes(ctx context.Context, db *pg.DB, names []string) (size int64, err error) {
	err = db.Run(ctx, pg.Step{
		Name: "schedule_bytes", Args: []any{names, len(names) == 0},
		Read: func(rows pgx.Rows) (err error) {
			size, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
			return err
		},
	})
	return size, err
}

// Pause makes schedules have no next occurrence.
func Pause(ctx context.Context, db *pg.DB, names []string) error {
	if err := notePauses(ctx, db, "PauseSchedules", names, true); err != nil {
		return err
	}
	return db.Run(ctx, pg.Step{Name: "pause_schedules", Args: []any{names}})
}

// Resume ends the pauses of schedules, whose next occurrences are given.
func Resume(ctx context.Context, db *pg.DB, names []string, next []*time.Time) error {
	if err := notePauses(ctx, db, "ResumeSchedules", names, false); err != nil {
		return err
	}
	return db.Run(ctx, pg.Step{Name: "resume_schedules", Args: []any{names, next}})
}

// Delete deletes schedules.
func Delete(ctx context.Context, db *pg.DB, names []string) error {
	if err := changes.Schedules(ctx, db, "DeleteSchedules", names, ""); err != nil {
		return err
	}
	return db.Run(ctx, pg.Step{Name: "delete_schedules", Args: []any{names}})
}

// IsOverdue reports whether any schedule is due.
func IsOverdue(ctx context.Context, db *pg.DB) (bool, error) {
	var due int64
	err := db.Run(ctx, pg.Step{Name: "schedule_overdue", Count: func(n int64) { due = n }})
	return due > 0, err
}

// A Place is where a pass through the schedules that are due has come to.
type Place struct {
	at   pgtype.Timestamptz
	name string
}

// Begin is the place before all schedules.
func Begin() Place { return Place{at: pg.FirstMoment()} }

// Place is that of a schedule.
func (r *Row) Place() Place {
	return Place{at: pgtype.Timestamptz{Time: r.NextAt, Valid: true}, name: r.Name}
}

// LockDue locks the next schedule that is due behind a place, is not named by pass, and that nobody
// else works on. It returns it with what the database's clock shows, or nil.
func LockDue(
	ctx context.Context, db *pg.DB, behind Place, pass []string, noWait bool,
) (due *Row, now time.Time, err error) {
	var found []Row
	err = db.Run(ctx, append(pg.LimitWaiting(noWait), pg.Step{
		Name: "due_schedule", Args: []any{behind.at, behind.name, pass},
		Read: func(rows pgx.Rows) (err error) {
			found, now, err = readRows(rows)
			return err
		},
	})...)
	if err != nil || len(found) == 0 {
		return nil, now, err
	}
	return &found[0], now, nil
}

// Advance notes how far a schedule has come: its last occurrence, and the next one.
func (r *Row) Advance(ctx context.Context, db *pg.DB, next time.Time) error {
	return db.Run(ctx, pg.Step{Name: "advance_schedule", Args: []any{
		r.Name, pg.Moment(next), pg.Moment(r.LastAt), r.LastIDs, r.Missed, r.Skipped,
	}})
}
