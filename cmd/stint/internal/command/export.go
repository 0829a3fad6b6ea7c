package command

import (
	"context"
	_ "embed" // for the statements
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/internal/sqlfile"
)

//go:embed sql/export_order.sql
var exportOrder string

//go:embed sql/export_details.sql
var exportDetails string

// exportFormat is the number of the format. It rises if a program that reads the format has to
// change; new fields are no reason.
const exportFormat = 1

// How many tasks, and how many bytes of bodies and results, are in memory at once, about.
const (
	exportedAtOnce   = 1000
	exportedBytesMax = 16 << 20
)

func (p *program) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "export",
		SuggestFor: []string{"dump", "backup"},
		Short:      "Write all tasks, schedules and limits as JSON lines",
		Long: `Write all that is in the store and that can be inserted elsewhere, as of one
instant: an object to a line, with one of these fields.

  export    the first line: format (1) and at, the instant
  limits    the limits of an action, as stint limits --json prints them
  schedule  a schedule, as stint schedule ls --json prints it
  task      a task that has not ended, as stint insert reads it; it waits only for tasks
            on earlier lines. max_tries is how many tries it has left, at least 1.
  ended     a task that has ended, with the fields of task as it was inserted
  end       the last line: tasks, ended, schedules and limits, the numbers of lines. A file
            without it is cut off.

Beside task and ended is info, what the task has come to: status_code, state, abort_cause,
tries, actor, status, progress, inserted_at, owned_at, lease_until, finished_at, result and
result_base64 (see: stint help json), and waited_for, the IDs of tasks that a task waits for
no more. docs/guides/export.md says what is left out, and how to move to another store.

The command needs the database itself. It only reads; while it runs, vacuum keeps
what it may still see.`,
		Example: `  stint export > all.jsonl
  stint export | jq -c '.task // empty' > tasks.jsonl
  stint export | jq -c '.schedule // empty' > schedules.jsonl`,
		GroupID: groupOperations,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withDirectStore(cmd.Context(), p.storeOptions(), p.export)
		},
	}
}

func (p *program) export(ctx context.Context, db *database) error {
	e := &exporting{program: p, deferred: map[int64]*deferredTask{}}
	err := pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{
		IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly,
	}, func(tx pgx.Tx) error {
		e.tx, e.store = tx, db.direct.WithTx(tx)
		now, err := doctor.Now(ctx, tx)
		if err != nil {
			return err
		}
		err = p.printJSON(map[string]any{
			"export": map[string]any{"format": exportFormat, "at": utc(now)},
		})
		if err != nil {
			return err
		}
		if err := e.settings(ctx); err != nil {
			return err
		}
		if err := e.tasks(ctx); err != nil {
			return err
		}
		return p.printJSON(map[string]exportedCounts{"end": e.counts})
	})
	if err != nil {
		return err
	}
	c := e.counts
	const firstAndLast = 2
	fmt.Fprintf(p.stderr, "wrote %s: %s, of which %s ended; %s, limits of %s\n",
		display.Count(c.Tasks+c.Ended+c.Schedules+c.Limits+firstAndLast, "line"),
		display.Count(c.Tasks+c.Ended, "task"), display.Number(c.Ended),
		display.Count(c.Schedules, "schedule"), display.Count(c.Limits, "action"))
	return nil
}

// An exporting is a call that exports, and how far it is.
type exporting struct {
	*program
	tx     pgx.Tx
	store  *stint.Store // in tx
	counts exportedCounts

	// reached is the key up to which tasks were looked at. Those that wait for others with higher
	// keys are deferred, and those that wait for these.
	reached  int64
	deferred map[int64]*deferredTask

	// keys are the next tasks to write, and bytes is how many they have.
	keys  []int64
	bytes int64
}

// exportedCounts are the numbers of lines.
type exportedCounts struct {
	Tasks     int64 `json:"tasks"`
	Ended     int64 `json:"ended"`
	Schedules int64 `json:"schedules"`
	Limits    int64 `json:"limits"`
}

// A deferredTask is written behind all its predecessors.
type deferredTask struct {
	bytes   int64
	missing int
	waiting []int64 // tasks that wait for this one; of a task that is yet to come, too
	reached bool
}

// settings writes limits and schedules.
func (e *exporting) settings(ctx context.Context) error {
	limits, err := e.store.ListLimits(ctx)
	if err != nil {
		return err
	}
	for i := range limits {
		e.counts.Limits++
		if limits[i].KeysOrMore {
			fmt.Fprintf(e.stderr, "action %s has more paused keys and weights than are written\n",
				display.Quote(limits[i].Action))
		}
		err := e.printJSON(map[string]limitsJSON{"limits": newLimitsJSON(&limits[i])})
		if err != nil {
			return err
		}
	}
	schedules, err := e.store.ListSchedules(ctx)
	if err != nil {
		return err
	}
	for i := range schedules {
		e.counts.Schedules++
		err := e.printJSON(map[string]scheduleJSON{"schedule": newScheduleJSON(&schedules[i])})
		if err != nil {
			return err
		}
	}
	return nil
}

// tasks writes all tasks, each behind those that it waits for.
func (e *exporting) tasks(ctx context.Context) error {
	type next struct {
		Key, Bytes int64
		WaitsFor   []int64
	}
	for {
		rows, err := e.query(ctx, exportOrder, e.reached, exportedAtOnce)
		if err != nil {
			return err
		}
		page, err := pgx.CollectRows(rows, pgx.RowToStructByName[next])
		if err != nil {
			return err
		}
		for _, task := range page {
			e.reached = task.Key
			if e.isDeferred(task.Key, task.Bytes, task.WaitsFor) {
				continue
			}
			if err := e.add(ctx, task.Key, task.Bytes); err != nil {
				return err
			}
		}
		if len(page) < exportedAtOnce {
			break
		}
	}
	for key, task := range e.deferred { // of a cycle, which stint check names
		if task.reached {
			e.keys = append(e.keys, key)
		}
	}
	return e.flush(ctx)
}

// isDeferred reports whether a task waits for one that is not written, and notes it then.
func (e *exporting) isDeferred(key, bytes int64, waitsFor []int64) bool {
	missing := 0
	for _, before := range waitsFor {
		of := e.deferred[before]
		if of == nil && before <= e.reached {
			continue
		}
		if of == nil {
			of = &deferredTask{}
			e.deferred[before] = of
		}
		of.waiting = append(of.waiting, key)
		missing++
	}
	if missing == 0 {
		return false
	}
	task := e.deferred[key]
	if task == nil {
		task = &deferredTask{}
		e.deferred[key] = task
	}
	task.bytes, task.missing, task.reached = bytes, missing, true
	return true
}

// add writes a task later, and then those that have waited only for it.
func (e *exporting) add(ctx context.Context, key, bytes int64) error {
	ready := []int64{key}
	for len(ready) > 0 {
		key := ready[0]
		ready = ready[1:]
		if task := e.deferred[key]; task != nil {
			delete(e.deferred, key)
			if task.reached {
				bytes = task.bytes
			}
			for _, dependent := range task.waiting {
				of := e.deferred[dependent]
				if of.missing--; of.missing == 0 {
					ready = append(ready, dependent)
				}
			}
		}
		e.keys, e.bytes = append(e.keys, key), e.bytes+bytes
		if len(e.keys) == exportedAtOnce || e.bytes >= exportedBytesMax {
			if err := e.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush writes the tasks that were added.
func (e *exporting) flush(ctx context.Context) error {
	if len(e.keys) == 0 {
		return nil
	}
	rows, err := e.query(ctx, exportDetails, e.keys)
	if err != nil {
		return err
	}
	details, err := pgx.CollectRows(rows, pgx.RowToStructByName[exportedDetails])
	if err != nil {
		return err
	}
	ids := make([]stint.TaskID, len(details))
	for i := range details {
		ids[i] = details[i].ID
	}
	infos, err := e.store.GetTasks(ctx, ids)
	if err != nil {
		return err
	}
	for i := range infos { // one by one, since JSON may be much longer than bytes
		line := e.newExportedJSON(&infos[i], &details[i])
		if line.Task != nil {
			e.counts.Tasks++
		} else {
			e.counts.Ended++
		}
		if err := e.printJSON(line); err != nil {
			return err
		}
	}
	e.keys, e.bytes = nil, 0
	return nil
}

func (e *exporting) query(ctx context.Context, file string, args ...any) (pgx.Rows, error) {
	text := sqlfile.InFull(sqlfile.Statement(file))
	schema := pgx.Identifier{e.store.Schema()}.Sanitize()
	return e.tx.Query(ctx, strings.ReplaceAll(text, "stint.", schema+"."), args...)
}
