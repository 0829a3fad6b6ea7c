package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/tasktree"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/shards"
)

// A submission holds the arguments and flags of submit.
type submission struct {
	file, prefix string
	wait         bool
	timeout      time.Duration
}

const submitHelp = `Insert the tasks of a file, or of standard input (no FILE, or "-"), all or none.
The file is YAML or JSON: a list of tasks, each with these fields:

` + tasktree.FieldsHelp + `
Within a value, {$result: NAME} stands for the result of another task of the file; the
task waits for that one. Programs run by stint worker read the result in its place.

  - name: save
    action: save-user-data
    value: [{uid: 1234}]
  - name: email
    action: send-mail
    value: [{$result: save}]

The ID of a task is the prefix, a slash and its name. The default of the prefix is a new
UUID; a prefix of your own makes it safe to submit the file again.

A file may instead have the form of enq, in which these are the same tasks, except that
their names are 1/save and 1/email:

  [{"task_id": {"shard": "1", "id": "save"}, "method": "save-user-data",
    "args": [{"type": "VALUE", "value_json": "eyJ1aWQiOjEyMzR9"}]},
   {"task_id": {"shard": "1", "id": "email"}, "method": "send-mail",
    "args": [{"type": "TASKREF", "task_id": {"shard": "1", "id": "save"}}]}]

The method is the action, and the args are the items of the value. A value_json is JSON in
base64, or JSON. With --topology, or if the service has a topology (see: stint help serve),
a task is performed on its shard; otherwise the shard is only a part of the name.

Prints the name and the ID of each task. With --wait, it then shows progress on standard
error; when all tasks have finished, it prints how each ended and its result. The
exit code is 7 if a task was aborted, and 8 if the timeout passes before all have finished.
Ctrl-C stops the wait; the tasks continue.

With --json: ids, an object with the ID for each name; with --wait, if all have finished,
also tasks, an object with the task for each name (see: stint help json).`

func (p *program) submitCommand() *cobra.Command {
	s := submission{}
	cmd := &cobra.Command{
		Use:   "submit [FILE]",
		Short: "Insert the tasks of a file, which use each other's results",
		Long:  submitHelp,
		Example: `  stint submit tree.yaml --wait --timeout 10m
  id=$(stint submit tree.yaml --json | jq -r .ids.email)
  echo '[{"name": "greet", "action": "greet", "value": "world"}]' | stint submit
  stint submit --wait < task.json`,
		GroupID: groupTasks,
		Args:    oneFileAtMost,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.file = "-"
			if len(args) == 1 {
				s.file = args[0]
			}
			if err := s.check(cmd); err != nil {
				return err
			}
			return p.submit(cmd.Context(), s)
		},
	}
	s.addFlags(cmd)
	return cmd
}

func (s *submission) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&s.wait, "wait", false, "wait until all the tasks have finished")
	flags.DurationVar(&s.timeout, "timeout", 0,
		"give up waiting after this `time`, such as 90s or 1h30m (default: wait for ever)")
	flags.StringVar(&s.prefix, "prefix", "", "begin the IDs with this `text` and a slash")
}

// check refuses flags before anything is done.
func (s *submission) check(cmd *cobra.Command) error {
	switch {
	case s.prefix == "" && cmd.Flags().Changed("prefix"):
		return said(errInput, "--prefix is empty")
	case !s.wait && cmd.Flags().Changed("timeout"):
		return said(errInput, "--timeout needs --wait")
	}
	return checkTimeout(cmd, s.timeout)
}

func (p *program) submit(ctx context.Context, s submission) error {
	text, err := p.read(ctx, s.file, "a list of tasks in YAML or JSON")
	if err != nil {
		return err
	}
	tree, err := tasktree.Parse(text)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", errInput, s.source(), problems(err))
	}
	plan := tree.Plan(s.prefix)
	return p.withTasks(ctx, func(ctx context.Context, db *database) error {
		sharded, err := onShards(ctx, db, plan)
		if err != nil {
			return err
		}
		p.warnTasks(ctx, db, plan.Tasks)
		var source tasktree.Source = db.store
		if sharded != nil {
			source, err = sharded, sharded.insert(ctx)
		} else {
			err = db.store.InsertTasks(ctx, plan.Tasks)
		}
		var refused *stint.ArgumentError
		if errors.As(err, &refused) && refused.Index >= 0 && db.shards == nil {
			return fmt.Errorf("%w: %s: %w", errInput, s.source(),
				plan.At(refused.Index, refusedField(refused)))
		}
		if err != nil {
			return err
		}
		if !s.wait {
			return p.printSubmitted(plan, nil)
		}
		return p.waitForTree(ctx, source, plan, s.timeout)
	})
}

// source names the file in an error.
func (s submission) source() string { return sourceOf(s.file) }

// problems returns the errors that are joined in err as one, each on a line of its own if there are
// several.
func problems(err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return err
	}
	errs := joined.Unwrap()
	if len(errs) == 1 {
		return errs[0]
	}
	lines := firstOf(errs, namedMax, "and %s more", error.Error)
	return fmt.Errorf("%s\n  %s", display.Count(int64(len(errs)), "problem"),
		strings.Join(lines, "\n  "))
}

// A submittedJSON is what submit prints.
type submittedJSON struct {
	IDs   map[string]stint.TaskID `json:"ids"`
	Tasks map[string]taskJSON     `json:"tasks,omitempty"`
}

// printSubmitted prints the IDs of tasks. As JSON it also prints the tasks in infos.
func (p *program) printSubmitted(plan *tasktree.Plan, infos map[string]stint.TaskInfo) error {
	ids := p.shownIDs(plan)
	if !p.json {
		rows := [][]string{{"NAME", "ID"}}
		for i, name := range plan.Names {
			id := display.Text(string(ids[i]))
			rows = append(rows, []string{display.Text(name), id})
		}
		return p.printTable(rows)
	}
	document := submittedJSON{
		IDs:   make(map[string]stint.TaskID, len(plan.Names)),
		Tasks: make(map[string]taskJSON, len(infos)),
	}
	for i, name := range plan.Names {
		document.IDs[name] = ids[i]
	}
	for name, info := range infos {
		info.ID = document.IDs[name]
		document.Tasks[name] = p.newTaskJSON(&info)
	}
	return p.printJSON(document)
}

// shownIDs are how other sub-commands name the tasks of a plan.
func (p *program) shownIDs(plan *tasktree.Plan) []stint.TaskID {
	ids := make([]stint.TaskID, len(plan.Tasks))
	for i, task := range plan.Tasks {
		ids[i] = task.ID
	}
	if p.topology != "" {
		for i, task := range plan.OnShards() {
			ids[i] = stint.TaskID(shards.ID{Shard: task.Shard, Task: task.Task.ID}.String())
		}
	}
	return ids
}

// waitForTree prints the IDs of tasks and, when all have finished, how they ended. As JSON it
// prints both at the end, in one document, and the IDs also if the wait fails.
func (p *program) waitForTree(
	ctx context.Context, store tasktree.Source, plan *tasktree.Plan, timeout time.Duration,
) error {
	if !p.json {
		if err := p.printSubmitted(plan, nil); err != nil {
			return err
		}
	}
	var infos map[string]stint.TaskInfo
	unfinished := len(plan.Tasks)
	show, end := p.progress(plan)
	err := within(ctx, timeout, func(ctx context.Context) (err error) {
		infos, err = plan.Wait(ctx, store, func(tasks []stint.TaskInfo) {
			unfinished = 0
			for i := range tasks {
				if tasks[i].FinishedAt.IsZero() {
					unfinished++
				}
			}
			show(tasks)
		})
		return err
	})
	end()
	if errors.Is(err, errTimedOut) {
		err = said(errTimedOut, "timed out after %v: %s of %s not finished", timeout,
			display.Number(int64(unfinished)), display.Count(int64(len(plan.Tasks)), "task"))
	}
	if p.json {
		err = errors.Join(err, p.printSubmitted(plan, infos))
	} else if err == nil {
		err = p.printResults(plan, infos)
	}
	if err != nil {
		return err
	}
	return abortedError(plan, infos)
}

func (p *program) printResults(plan *tasktree.Plan, infos map[string]stint.TaskInfo) error {
	paint := p.painter()
	rows := [][]string{{"NAME", paint.State("STATE"), "TRIES", "STATUS", "RESULT"}}
	for _, name := range plan.Names {
		task := infos[name]
		rows = append(rows, []string{
			display.Text(name), paint.State(string(task.State)), display.Tries(&task),
			display.FirstWords(task.Status),
			strings.ReplaceAll(display.Content(task.Result), "\n", "\n\t\t\t\t"),
		})
	}
	if err := p.printf("\n"); err != nil {
		return err
	}
	return p.printTable(rows)
}

// abortedError returns an error that names the aborted tasks, or nil if there are none.
func abortedError(plan *tasktree.Plan, infos map[string]stint.TaskInfo) error {
	names := slices.DeleteFunc(slices.Clone(plan.Names), func(name string) bool {
		return infos[name].StatusCode != stint.StatusAborted
	})
	if len(names) == 0 {
		return nil
	}
	named := firstOf(names, namedMax, "and %s more", func(name string) string {
		return fmt.Sprintf("%q (%s)", name, infos[name].AbortCause)
	})
	return fmt.Errorf("%w: %s", errAborted, strings.Join(named, ", "))
}
