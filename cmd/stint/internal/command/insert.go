package command

import (
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
}

// add adds the flags; what they are for is said of the action.
func (f *taskFlags) add(p *program, cmd *cobra.Command, action string) {
	flags := cmd.Flags()
	flags.StringVar(&f.action, "action", "", action)
	flags.StringVar(&f.key, "key", "", "its `key`, such as a customer, for limits per key")
	flags.StringVar(&f.body, "body", "", "its body, a `text`")
	flags.StringArrayVar(&f.headers, "header", nil,
		"a header of it, a `name=value` (repeatable)")
	completeBy(cmd, "action", p.actions)
}

// task returns the task with an ID that the flags describe.
func (f *taskFlags) task(cmd *cobra.Command, id string) (stint.Task, error) {
	task := stint.Task{ID: stint.TaskID(id), Action: f.action, Key: f.key}
	if cmd.Flags().Changed("body") {
		task.Body = []byte(f.body)
	}
	var err error
	if task.Headers, err = readHeaders(f.headers); err != nil {
		return task, err
	}
	if cmd.Flags().Changed("key") {
		return task, checkNames("key", f.key)
	}
	return task, nil
}

// insertFlags are those of one task, and of its ID.
type insertFlags struct {
	taskFlags
	id      string
	oncePer time.Duration
}

func (p *program) insertCommand() *cobra.Command {
	var given insertFlags
	cmd := &cobra.Command{
		Use:        "insert",
		SuggestFor: []string{"add", "enqueue"},
		Short:      "Insert tasks, given as JSON on standard input, or one task by flags",
		Long: fmt.Sprintf(`Insert tasks, all or none. With --action, insert one task, and read
nothing. Otherwise standard input has a JSON object for each task, starting on a new line,
with these fields:

  id               a string; if it is left out, a new UUID, which is printed
  action           a string, the name of the procedure to perform; the only required field
  key              a string by which tasks of the action are grouped, such as a customer;
                   limits per key count by it
  body             its parameters: a string, or any other JSON, whose text is the body
  body_base64      the same, as bytes in base64
  headers          an object of strings, which say something about the task, such as of
                   which trace it is a part
  priority         a whole number, higher first (default 0)
  max_tries        how many times the task is handed out at most (default 25; -1: no
                   limit)
  not_before       a time in RFC 3339, before which the task is not handed out
  deadline         a time at which the task is aborted unless it has finished
  answer_key       what must come with the answer to a task whose action is stint.External:
                   16 bytes or more that cannot be guessed (see: stint help answer)
  post_result      true lets others wait for the task, and keeps it for at least an hour
  on_abort         what to do when a task that this one waits for is aborted:
                   "abort-too" (the default) or "run-anyway"
  fail_fast        true aborts what only this task needs when this one is aborted
  after            a list of the IDs of tasks that this one waits for
  to_signal_after  a list of the IDs of tasks that wait for this one

A field that is null counts as missing. Any other field is refused.

The tasks that after and to_signal_after name are in the input, in any order, or in the
store. An input of more than %s tasks or %d MiB is not read at once; in it, after may
name only earlier tasks or stored ones, and to_signal_after is refused.

Prints new IDs on standard output, one to a line, and the number of tasks on standard
error. With --json, one document: inserted (the number of tasks), new_ids.`,
			display.Number(gatheredTasksMax), gatheredBytesMax>>20),
		Example: `  stint insert --action greet --body world
  stint insert --action report --id report/tenant-7 --once-per 24h
  echo '{"id": "greet/world", "action": "greet", "body": "world"}' | stint insert
  id=$(echo '{"action": "sum", "body": [1, 2], "post_result": true}' | stint insert)
  stint insert < tasks.jsonl`,
		GroupID: groupTasks,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("action") {
				return p.insertByFlags(cmd, &given)
			}
			for _, flag := range []string{"id", "key", "body", "header", "once-per"} {
				if cmd.Flags().Changed(flag) {
					return said(errInput, "--id, --key, --body, --header and "+
						"--once-per need --action")
				}
			}
			return p.insert(cmd.Context())
		},
	}
	given.add(p, cmd, "insert one task with this `action`")
	flags := cmd.Flags()
	flags.StringVar(&given.id, "id", "", "its `ID` (default: a new UUID, which is printed)")
	flags.DurationVar(&given.oncePer, "once-per", 0,
		"refuse it unless it is the first with --id in a `period` such as 24h, from 1970 on in UTC")
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
	return p.insertOne(cmd.Context(), task, changed("id"))
}

// insertOne inserts a task that was given by flags, with a new ID unless it was named.
func (p *program) insertOne(ctx context.Context, task stint.Task, named bool) error {
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
		if err := db.store.InsertTasks(ctx, []stint.Task{task}); err != nil {
			return err
		}
		return p.printInserted(1, made)
	})
}

// An inputTask is a task, or an error, that the reader of standard input passes on.
type inputTask struct {
	task stint.Task
	err  error
}

func (p *program) insert(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p.prompt("tasks, each a JSON object that begins on its own line")
	tasks := newDecoder(p.stdin)
	input := tasks.inBackground(ctx)
	gathered, all, err := gather(ctx, input)
	if err != nil {
		return err
	}
	var inserted int64
	err = p.withStore(ctx, func(ctx context.Context, db *database) error {
		if all {
			inserted = int64(len(gathered))
			return db.store.InsertTasks(ctx, gathered)
		}
		var err error
		inserted, err = db.store.InsertTasksFrom(ctx, rest(ctx, gathered, input))
		return err
	})
	var refused *stint.ArgumentError
	if errors.As(err, &refused) && refused.Index >= 0 {
		return fmt.Errorf("%w: line %d: %s", errInput, tasks.lineOf(refused.Index),
			refusedField(refused))
	}
	if err != nil {
		return err
	}
	return p.printInserted(inserted, tasks.named)
}

// refusedField says what is wrong with a field of a task. It names the field as the input does.
func refusedField(refused *stint.ArgumentError) string {
	names := strings.NewReplacer(
		"Task.ID", "id", "Task.Action", "action", "Task.Key", "key",
		"Task.Body", "body", "Task.Headers", "headers", "Task.MaxTries", "max_tries",
		"Task.OnAbort", "on_abort", "Task.NotBefore", "not_before", "Task.Deadline", "deadline",
		"Task.After", "after", "Task.ToSignalAfter", "to_signal_after",
	)
	return names.Replace(refused.Argument + ": " + refused.Problem)
}

func (p *program) printInserted(inserted int64, named []stint.TaskID) error {
	if p.json {
		return p.printJSON(struct {
			Inserted int64          `json:"inserted"`
			NewIDs   []stint.TaskID `json:"new_ids"`
		}{inserted, orEmpty(named)})
	}
	fmt.Fprintf(p.stderr, "inserted %s\n", display.Count(inserted, "task"))
	var ids strings.Builder
	for _, id := range named {
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

// rest yields the tasks gathered and then the rest of the input.
func rest(
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
