// Package jobimport makes tasks of the waiting jobs of other queues in the same database. The
// command import uses it.
package jobimport

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/sqlfile"
)

//go:embed sql/*.sql
var files embed.FS

//go:embed sql/set_row_security.sql
var setRowSecurity string

// Sources are the queues whose jobs can be imported, with the schema that each has by default.
//
//nolint:gochecknoglobals // never changes
var Sources = []Source{
	{Name: "river", Schema: "public", Title: "River"},
	{Name: "gue", Schema: "public", Title: "gue"},
	{Name: "graphile-worker", Schema: "graphile_worker", Title: "Graphile Worker"},
	{Name: "oban", Schema: "public", Title: "Oban"},
	{Name: "goodjob", Schema: "public", Title: "GoodJob", Stopped: true},
	{Name: "pg-boss", Schema: "pgboss", Title: "pg-boss"},
	{Name: "solid-queue", Schema: "public", Title: "Solid Queue"},
	{Name: "que", Schema: "public", Title: "que", Stopped: true},
	{Name: "procrastinate", Schema: "public", Title: "Procrastinate"},
}

// A Source is a queue whose jobs can be imported.
type Source struct {
	Name, Title string
	Schema      string // the one that its tables are in

	// Stopped says that its workers must not run meanwhile: they begin a job without a lock on its
	// row.
	Stopped bool
}

// ErrNoTable reports that there are no jobs of the source in its schema.
var ErrNoTable = errors.New("its tables are not there")

// How many jobs are taken by one statement, and how many bytes of their arguments, about.
const (
	jobsMax  = 10_000
	bytesMax = 16 << 20
)

// An Import says what is imported.
type Import struct {
	Source

	// Kinds are those of the jobs; nil: all.
	Kinds []string
	// Queues are those of the jobs; nil: all that the source has not paused.
	Queues []string
	// Actions are those of the tasks, by the kinds of jobs. Other tasks have the kind for action.
	Actions map[string]string
	// Progress is called with how many were imported so far.
	Progress func(jobs int)
}

// A Kind is how many jobs of a kind and a queue were imported, and as what.
type Kind struct {
	Kind, Queue, Action string
	Ready, Scheduled    int
}

// A Misfit is a job that stays since it cannot become a task, and why.
type Misfit struct {
	Job, Kind, Problem string
}

// Left is how many jobs stay in the table of the source, in a state that has a name there.
type Left struct {
	State string
	Jobs  int64
}

// A Report says what was imported, by kinds, and what stays.
type Report struct {
	Kinds   []Kind
	Left    []Left
	Misfits []Misfit // the first ones; they count among those that are left
	More    int      // misfits than these

	misfits []string // the names of all of them
}

// Jobs is how many jobs were imported.
func (r *Report) Jobs() (n int) {
	for _, kind := range r.Kinds {
		n += kind.Ready + kind.Scheduled
	}
	return n
}

// In imports jobs in a transaction: they are gone from the table of the source, and are tasks of
// the store, if and only if it is committed. The ID of a task is that of the job behind the name of
// the source, such as river/17, and behind the schema of its tables if that is another than by
// default, such as river/jobs/17. A job that cannot become a task stays, and is named.
func (i *Import) In(ctx context.Context, tx pgx.Tx, store *stint.Store) (Report, error) {
	report, err := i.in(ctx, tx, store.WithTx(tx))
	var refused *pgconn.PgError
	if errors.As(err, &refused) && (refused.Code == "42P01" || refused.Code == "3F000") {
		err = fmt.Errorf("%w: %s", ErrNoTable, refused.Message)
	}
	if err != nil {
		return Report{}, fmt.Errorf("import jobs of %s in schema %q: %w", i.Title, i.Schema, err)
	}
	return report, nil
}

func (i *Import) in(ctx context.Context, tx pgx.Tx, store *stint.Store) (Report, error) {
	report, kinds := Report{misfits: []string{}}, map[Kind]*Kind{}
	last, imported := "0", 0
	for {
		jobs, err := i.page(ctx, tx, store, last, &report)
		if err != nil {
			return Report{}, err
		}
		if len(jobs) == 0 {
			break
		}
		for _, job := range jobs {
			last = job.Name
			count(kinds, job, i.task(job).Action)
		}
		imported += len(jobs)
		i.Progress(imported)
	}
	for _, kind := range kinds {
		report.Kinds = append(report.Kinds, *kind)
	}
	slices.SortFunc(report.Kinds, func(a, b Kind) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Queue, b.Queue))
	})
	rows, err := i.query(ctx, tx, "left", i.Kinds, i.Queues)
	if err != nil {
		return Report{}, err
	}
	report.Left, err = pgx.CollectRows(rows, pgx.RowToStructByName[Left])
	return report, err
}

// page imports the next jobs. Those that the store refuses are put back, and the others are taken
// again without them.
func (i *Import) page(
	ctx context.Context, tx pgx.Tx, store *stint.Store, after string, report *Report,
) (jobs []job, err error) {
	for {
		before := len(report.misfits)
		attempt, err := tx.Begin(ctx) // a savepoint
		if err != nil {
			return nil, err
		}
		err = seeingAll(ctx, attempt, func() (err error) {
			jobs, err = i.take(ctx, attempt, after, report.misfits)
			return err
		})
		if err != nil {
			return nil, errors.Join(err, attempt.Rollback(ctx))
		}
		err = i.insert(ctx, store, jobs, func(j job, problem string) {
			report.refuse(Misfit{Job: j.Name, Kind: j.Kind, Problem: problem})
		})
		if err != nil {
			return nil, errors.Join(err, attempt.Rollback(ctx))
		}
		if len(report.misfits) == before {
			return jobs, attempt.Commit(ctx)
		}
		if err := attempt.Rollback(ctx); err != nil {
			return nil, err
		}
	}
}

// refuse notes a misfit.
func (r *Report) refuse(misfit Misfit) {
	const named = 20
	r.misfits = append(r.misfits, misfit.Job)
	if len(r.Misfits) < named {
		r.Misfits = append(r.Misfits, misfit)
	} else {
		r.More++
	}
}

// insert inserts the tasks of jobs, but for those of which the store says that they cannot be
// tasks. It says so before it asks the database.
func (i *Import) insert(
	ctx context.Context, store *stint.Store, jobs []job, refuse func(j job, problem string),
) error {
	var fit []job
	tasks := make([]stint.Task, 0, len(jobs))
	for _, job := range jobs {
		if job.NotBefore.InfinityModifier == pgtype.Infinity {
			refuse(job, "it never starts: it is scheduled at infinity")
			continue
		}
		fit, tasks = append(fit, job), append(tasks, i.task(job))
	}
	for {
		err := store.InsertTasks(ctx, tasks)
		var refused *stint.ArgumentError
		if !errors.As(err, &refused) || refused.Index < 0 {
			return err
		}
		n := refused.Index
		refuse(fit[n], refused.Argument+": "+refused.Problem)
		fit, tasks = slices.Delete(fit, n, n+1), slices.Delete(tasks, n, n+1)
	}
}

// A job is one that was taken out of the table of a source.
type job struct {
	Name      string
	Kind      string
	Queue     string
	Body      []byte
	Priority  int16
	NotBefore pgtype.Timestamptz
	TriesLeft int
	Key       string
}

func (i *Import) take(
	ctx context.Context, tx pgx.Tx, after string, misfits []string,
) ([]job, error) {
	rows, err := i.query(ctx, tx, "take", i.Kinds, jobsMax, after, bytesMax, misfits, i.Queues)
	if err != nil {
		return nil, err
	}
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByName[job])
	// The database returns them in no order; the order of tasks is that of the call. The names are
	// numbers, or have the same length.
	slices.SortFunc(jobs, func(a, b job) int {
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	return jobs, err
}

func (i *Import) task(j job) stint.Task {
	task := stint.Task{
		ID:     stint.TaskID(i.prefix() + j.Name),
		Action: j.Kind, Body: j.Body, Priority: j.Priority, Key: j.Key,
		MaxTries: j.TriesLeft,
	}
	if action, ok := i.Actions[j.Kind]; ok {
		task.Action = action
	}
	if j.TriesLeft == 0 {
		task.MaxTries = stint.UnlimitedTries
	}
	task.NotBefore = j.NotBefore.Time
	return task
}

// prefix is what the IDs of tasks begin with.
func (i *Import) prefix() string {
	for _, source := range Sources {
		if source.Name == i.Name && source.Schema != i.Schema {
			return i.Name + "/" + i.Schema + "/"
		}
	}
	return i.Name + "/"
}

func count(kinds map[Kind]*Kind, j job, action string) {
	key := Kind{Kind: j.Kind, Queue: j.Queue, Action: action}
	kind := kinds[key]
	if kind == nil {
		kind = &Kind{Kind: j.Kind, Queue: j.Queue, Action: action}
		kinds[key] = kind
	}
	if j.NotBefore.Valid {
		kind.Scheduled++
	} else {
		kind.Ready++
	}
}

// query runs one of the statements about the tables of the source.
func (i *Import) query(ctx context.Context, tx pgx.Tx, what string, args ...any) (pgx.Rows, error) {
	source := strings.ReplaceAll(i.Name, "-", "_")
	file, err := files.ReadFile("sql/" + source + ".sql")
	if err != nil {
		return nil, err
	}
	statement := sqlfile.Split(string(file))[what+"_"+source]
	text := sqlfile.InFull(sqlfile.Statement(statement))
	schema := pgx.Identifier{i.Schema}.Sanitize()
	return tx.Query(ctx, strings.ReplaceAll(text, "source.", schema+"."), args...)
}

// seeingAll calls look while row security hides nothing without an error. Graphile Worker enables
// it for its tables.
func seeingAll(ctx context.Context, tx pgx.Tx, look func() error) error {
	set := sqlfile.InFull(sqlfile.Statement(setRowSecurity))
	if _, err := tx.Exec(ctx, set, "off"); err != nil {
		return err
	}
	if err := look(); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, set, "on")
	return err
}
