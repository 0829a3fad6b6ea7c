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
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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
}

// A Source is a queue whose jobs can be imported.
type Source struct {
	Name, Title string
	Schema      string // the one that its tables are in
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
	// Actions are those of the tasks, by the kinds of jobs. Other tasks have the kind for action.
	Actions map[string]string
	// Progress is called with how many were imported so far.
	Progress func(jobs int)
}

// A Kind is how many jobs of a kind were imported, and as what.
type Kind struct {
	Kind, Action     string
	Ready, Scheduled int
}

// Left is how many jobs stay in the table of the source, in a state that has a name there.
type Left struct {
	State string
	Jobs  int64
}

// A Report says what was imported, by kinds, and what stays.
type Report struct {
	Kinds []Kind
	Left  []Left
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
// the source, such as river/17.
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
	kinds := map[string]*Kind{}
	last, imported := "0", 0
	for {
		var jobs []job
		err := seeingAll(ctx, tx, func() (err error) {
			jobs, err = i.take(ctx, tx, last)
			return err
		})
		if err != nil {
			return Report{}, err
		}
		if len(jobs) == 0 {
			break
		}
		tasks := make([]stint.Task, len(jobs))
		for n, job := range jobs {
			tasks[n] = i.task(job)
			last = job.Name
			count(kinds, job, tasks[n].Action)
		}
		if err := store.InsertTasks(ctx, tasks); err != nil {
			return Report{}, err
		}
		imported += len(jobs)
		i.Progress(imported)
	}
	report := Report{}
	for _, kind := range kinds {
		report.Kinds = append(report.Kinds, *kind)
	}
	slices.SortFunc(report.Kinds, func(a, b Kind) int { return strings.Compare(a.Kind, b.Kind) })
	rows, err := i.query(ctx, tx, "left", i.Kinds)
	if err != nil {
		return Report{}, err
	}
	report.Left, err = pgx.CollectRows(rows, pgx.RowToStructByName[Left])
	return report, err
}

// A job is one that was taken out of the table of a source.
type job struct {
	Name      string
	Kind      string
	Body      []byte
	Priority  int16
	NotBefore *time.Time
	TriesLeft int
	Key       string
}

func (i *Import) take(ctx context.Context, tx pgx.Tx, after string) ([]job, error) {
	rows, err := i.query(ctx, tx, "take", i.Kinds, jobsMax, after, bytesMax)
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
		ID:     stint.TaskID(i.Name + "/" + j.Name),
		Action: j.Kind, Body: j.Body, Priority: j.Priority, Key: j.Key,
		MaxTries: j.TriesLeft,
	}
	if action, ok := i.Actions[j.Kind]; ok {
		task.Action = action
	}
	if j.TriesLeft == 0 {
		task.MaxTries = stint.UnlimitedTries
	}
	if j.NotBefore != nil {
		task.NotBefore = *j.NotBefore
	}
	return task
}

func count(kinds map[string]*Kind, j job, action string) {
	kind := kinds[j.Kind]
	if kind == nil {
		kind = &Kind{Kind: j.Kind, Action: action}
		kinds[j.Kind] = kind
	}
	if j.NotBefore != nil {
		kind.Scheduled++
	} else {
		kind.Ready++
	}
}

// query runs one of the statements about the tables of the source.
func (i *Import) query(ctx context.Context, tx pgx.Tx, what string, args ...any) (pgx.Rows, error) {
	name := what + "_" + strings.ReplaceAll(i.Name, "-", "_")
	file, err := files.ReadFile("sql/" + name + ".sql")
	if err != nil {
		return nil, err
	}
	text := sqlfile.InFull(sqlfile.Statement(string(file)))
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
