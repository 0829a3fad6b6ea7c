package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// Input within these limits is read before anything else is done, so its tasks can name each other
// in any order. Longer input is streamed.
const (
	gatheredTasksMax = 100_000
	gatheredBytesMax = 64 << 20
)

// taskFlags are those of one task.
type taskFlags struct {
	action, key, body string
	headers           []string
	priority          int16
	maxTries          int
	cost              int
}

// add adds the flags; what they are for is said of the action.
func (f *taskFlags) add(p *program, cmd *cobra.Command, action string) {
	flags := cmd.Flags()
	flags.StringVar(&f.action, "action", "", action)
	flags.StringVar(&f.key, "key", "", "its `key`, such as a customer, for limits per key")
	flags.StringVar(&f.body, "body", "", "its body, a `text`")
	flags.StringArrayVar(&f.headers, "header", nil,
		"a header of it, a `name=value` (repeatable)")
	flags.Int16Var(&f.priority, "priority", 0, "its priority, a `number`: higher first")
	flags.IntVar(&f.cost, "cost", 0,
		"what each try takes from limits that are --by-cost, a `number` (default 1)")
	flags.IntVar(&f.maxTries, "max-tries", 0,
		"hand it out that `many` times at most; -1: no limit (default 25)")
	completeBy(cmd, "action", p.actions)
}

// task returns the task with an ID that the flags describe.
func (f *taskFlags) task(cmd *cobra.Command, id string) (stint.Task, error) {
	task := stint.Task{ID: stint.TaskID(id), Action: f.action, Key: f.key}
	if cmd.Flags().Changed("body") {
		task.Body = []byte(f.body)
	}
	task.Priority, task.MaxTries, task.Cost = f.priority, f.maxTries, f.cost
	if f.maxTries < 1 && f.maxTries != stint.UnlimitedTries && cmd.Flags().Changed("max-tries") {
		return task, said(errInput, "invalid --max-tries %d: must be at least 1, or -1: no limit",
			f.maxTries)
	}
	var err error
	if task.Headers, err = readHeaders(f.headers); err != nil {
		return task, err
	}
	if cmd.Flags().Changed("key") {
		if err := cmp.Or(checkNames("key", f.key), checkTyped("--key", f.key)); err != nil {
			return task, err
		}
	}
	return task, checkTyped("--action", f.action)
}

// insertFlags are those of one task, and of its ID.
type insertFlags struct {
	taskFlags
	id      string
	oncePer time.Duration
	ensure  bool
}

// insertText explains the command: %s is how many tasks, and %d how many MiB, are read at once.
const insertText = `Insert tasks, all or none. With --action, insert one task, and read
nothing. Otherwise standard input has a JSON object for each task, starting on a new line,
with these fields:

` + taskFieldsHelp + `
A condition is an object with the fields after, an ID; states, a list of "completed" (the
default), "aborted" and "skipped"; and results, a list of strings: the result of a completed
task must be one of these (default: any).

A field that is null counts as missing. Any other field is refused.

The tasks that these fields name are in the input, in any order, or in the store. An input
of more than %s tasks or %d MiB is not read at once; in it, a task may wait only for earlier
tasks or stored ones, and to_signal_after is refused.

With --ensure, tasks whose IDs are taken are left out, whatever they are like: those that are
there stay as they are, and the others are linked to them. A long input is then inserted in
pieces of this size, each all or none, so it may be repeated as it is. If one fails, those
before it stay inserted, and the command says how many tasks they have.

An action that nothing has, but something nearly, is a warning on standard error.

Prints new IDs on standard output, one to a line, and the number of tasks on standard
error. With --json, one document: inserted (the number of tasks), new_ids, and with --ensure
existing (the IDs of the tasks that were left out).`

func (p *program) insertCommand() *cobra.Command {
	var given insertFlags
	cmd := &cobra.Command{
		Use:        "insert",
		SuggestFor: []string{"add", "enqueue"},
		Short:      "Insert tasks, given as JSON on standard input, or one task by flags",
		Long:       fmt.Sprintf(insertText, display.Number(gatheredTasksMax), gatheredBytesMax>>20),
		Example: `  stint insert --action greet --body world
  stint insert --action report --id report/tenant-7 --once-per 24h
  echo '{"id": "greet/world", "action": "greet", "body": "world"}' | stint insert
  id=$(echo '{"action": "sum", "body": [1, 2], "post_result": true}' | stint insert)
  stint insert < tasks.jsonl
  stint insert --ensure --json < tasks.jsonl | jq .existing`,
		GroupID: groupTasks,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("action") {
				return p.insertByFlags(cmd, &given)
			}
			for _, flag := range []string{
				"id", "key", "body", "header", "priority", "cost", "max-tries", "once-per",
			} {
				if cmd.Flags().Changed(flag) {
					return said(errInput, "--%s needs --action", flag)
				}
			}
			return p.insert(cmd.Context(), given.ensure)
		},
	}
	given.add(p, cmd, "insert one task with this `action`")
	flags := cmd.Flags()
	flags.StringVar(&given.id, "id", "", "its `ID` (default: a new UUID, which is printed)")
	flags.DurationVar(&given.oncePer, "once-per", 0,
		"refuse it unless it is the first with --id in a `period` such as 24h, from 1970 on in UTC")
	flags.BoolVar(&given.ensure, "ensure", false, "leave out tasks whose IDs are taken")
	return cmd
}

func (p *program) insertByFlags(cmd *cobra.Command, given *insertFlags) error {
	changed := cmd.Flags().Changed
	task, err := given.task(cmd, given.id)
	if err != nil {
		return err
	}
	if changed("once-per") {
		switch {
		case given.id == "":
			return said(errInput, "--once-per needs --id")
		case given.oncePer <= 0:
			return said(errInput, "--once-per must be positive")
		}
		now := time.Now() //nolint:forbidigo // only says which period it is: see OncePer
		task.ID = stint.OncePer(task.ID, now, given.oncePer)
	}
	return p.insertOne(cmd.Context(), task, changed("id"), given.ensure)
}

// insertOne inserts a task that was given by flags, with a new ID unless it was named.
func (p *program) insertOne(ctx context.Context, task stint.Task, named, ensure bool) error {
	if err := checkNames("action", task.Action); err != nil {
		return err
	}
	var made []stint.TaskID
	if named {
		if err := checkID(string(task.ID)); err != nil {
			return said(errInput, "--id: %v", err)
		}
	} else {
		task.ID = stint.TaskID(uuid.NewString())
		made = append(made, task.ID)
	}
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		p.warnTasks(ctx, db, []stint.Task{task})
		done := insertion{named: made, ensured: ensure}
		if err := done.insert(ctx, db, []stint.Task{task}); err != nil {
			return err
		}
		return p.printInserted(done)
	})
}

// An insertion is what became of tasks to insert.
type insertion struct {
	inserted int64
	named    []stint.TaskID // new ones
	ensured  bool           // so some may have been left out
	existing []stint.TaskID // those that were
}

// insert inserts tasks, and counts them.
func (i *insertion) insert(ctx context.Context, db *database, tasks []stint.Task) (err error) {
	var existing []stint.TaskID
	if i.ensured {
		existing, err = db.store.EnsureTasks(ctx, tasks)
	} else {
		err = db.store.InsertTasks(ctx, tasks)
	}
	if err == nil {
		i.inserted += int64(len(tasks) - len(existing))
		i.existing = append(i.existing, existing...)
	}
	return err
}

// stopped is the error of an insertion that fails. If pieces of it are in, it says how many tasks
// these have, and no exit code that it leads to says that nothing was changed.
func (i *insertion) stopped(ctx context.Context, err error) error {
	if err == nil || i.inserted == 0 {
		return err
	}
	kind := err
	switch exitCode(err) {
	case exitUsage, exitNotFound, exitRefused, exitNotAllowed:
		kind = errPartly
	}
	if ctx.Err() != nil {
		kind = errInterrupted
	}
	return said(kind, "stopped after inserting %s: %v", display.Count(i.inserted, "task"), err)
}

// An inputTask is a task, or an error, that the reader of standard input passes on.
type inputTask struct {
	task stint.Task
	err  error
}

func (p *program) insert(ctx context.Context, ensure bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.prompt("tasks, each a JSON object that begins on its own line")
	tasks := newDecoder(p.stdin)
	input := tasks.inBackground(ctx)
	gathered, all, err := gather(ctx, input)
	if err != nil {
		return err
	}
	done := insertion{ensured: ensure}
	before := 0 // of the tasks of a piece
	err = p.withStore(ctx, func(ctx context.Context, db *database) error {
		p.warnTasks(ctx, db, gathered)
		for !all && ensure {
			if err := done.insert(ctx, db, gathered); err != nil {
				return err
			}
			before += len(gathered)
			var err error
			if gathered, all, err = gather(ctx, input); err != nil {
				return err
			}
		}
		if all {
			return done.insert(ctx, db, gathered)
		}
		inserted, err := db.store.InsertTasksFrom(ctx, tasksFrom(ctx, gathered, input))
		if err == nil {
			done.inserted = inserted
		}
		return err
	})
	var refused *stint.ArgumentError
	if errors.As(err, &refused) && refused.Index >= 0 {
		err = fmt.Errorf("%w: line %d: %s", errInput, tasks.lineOf(before+refused.Index),
			refusedField(refused))
	}
	if err != nil {
		return done.stopped(ctx, err)
	}
	done.named = tasks.named
	return p.printInserted(done)
}

func (p *program) printInserted(done insertion) error {
	if p.json {
		printed := struct {
			Inserted int64           `json:"inserted"`
			NewIDs   []stint.TaskID  `json:"new_ids"`
			Existing *[]stint.TaskID `json:"existing,omitempty"`
		}{Inserted: done.inserted, NewIDs: orEmpty(done.named)}
		if done.ensured {
			printed.Existing = new(orEmpty(done.existing))
		}
		return p.printJSON(printed)
	}
	fmt.Fprintf(p.stderr, "inserted %s\n", display.Count(done.inserted, "task"))
	const shown = 10
	for i, id := range done.existing {
		if i == shown {
			fmt.Fprintf(p.stderr, "and %s that were there; --json names all\n",
				display.Count(int64(len(done.existing)-shown), "other task"))
			break
		}
		fmt.Fprintf(p.stderr, "left out %q, which was there\n", string(id))
	}
	var ids strings.Builder
	for _, id := range done.named {
		ids.WriteString(string(id) + "\n")
	}
	return p.printf("%s", ids.String())
}

// inBackground reads the tasks in a goroutine, so that Ctrl-C need not wait for the next line. When
// ctx ends, the goroutine ends, at the latest after the next line.
func (d *decoder) inBackground(ctx context.Context) <-chan inputTask {
	input := make(chan inputTask)
	go func() {
		defer close(input)
		for {
			task, err := d.next()
			if errors.Is(err, io.EOF) {
				return
			}
			select {
			case input <- inputTask{task, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return input
}

// gather reads tasks up to the limits, and reports whether it has read all tasks.
func gather(ctx context.Context, input <-chan inputTask) ([]stint.Task, bool, error) {
	var tasks []stint.Task
	bytes := 0
	for len(tasks) < gatheredTasksMax && bytes < gatheredBytesMax {
		select {
		case next, more := <-input:
			if !more || next.err != nil {
				return tasks, true, next.err
			}
			tasks = append(tasks, next.task)
			bytes += len(next.task.Body) + len(next.task.ID)
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
	return tasks, false, nil
}

// tasksFrom yields the tasks gathered and then the rest of the input.
func tasksFrom(
	ctx context.Context, gathered []stint.Task, input <-chan inputTask,
) iter.Seq2[stint.Task, error] {
	return func(yield func(stint.Task, error) bool) {
		for _, task := range gathered {
			if !yield(task, nil) {
				return
			}
		}
		for {
			select {
			case next, more := <-input:
				if !more || !yield(next.task, next.err) {
					return
				}
			case <-ctx.Done():
				yield(stint.Task{}, ctx.Err())
				return
			}
		}
	}
}
