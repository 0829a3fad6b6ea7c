package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/readable"
)

func (p *program) abortCommand() *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use:        "abort ID...",
		SuggestFor: []string{"cancel", "kill", "stop"},
		Short:      "Abort tasks, with everything that depends on them",
		Long: `Abort tasks, whatever their state, and then what depends on them, except for what
runs anyway. A task that has finished already stays as it is, and that is no error. If
there is no task of one of the IDs, nothing is aborted.

With --json: aborted, the IDs given.`,
		Example: `  stint abort export/main/end
  stint abort greet/world greet/moon --status "nobody is at home"`,
		GroupID:           groupTasks,
		Args:              someIDs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withTasks(cmd.Context(), args, "aborted",
				func(ctx context.Context, store *stint.Store, ids []stint.TaskID) error {
					return store.AbortTasks(ctx, ids, status)
				})
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "say why, in a `text` for people")
	return cmd
}

func (p *program) retryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry ID...",
		Short: "Try finished tasks again, with what was aborted because of them",
		Long: `Open finished tasks again, with all their tries before them, and with them what was
aborted because of them; but not what another aborted predecessor keeps down. A pending
dependent waits for them again; one that has begun or completed does not. A task that has
not finished stays as it is, and that is no error. If there is no task of one of the IDs,
a predecessor of one was aborted and is not named as well, or tasks would wait for each
other, nothing is changed.

With --json: retried, the IDs given.`,
		Example: `  stint retry export/main/0042
  stint ls --state aborted --json | jq -r 'select(.abort_cause == "tries").id' |
    xargs stint retry`,
		GroupID:           groupTasks,
		Args:              someIDs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withTasks(cmd.Context(), args, "retried",
				func(ctx context.Context, store *stint.Store, ids []stint.TaskID) error {
					return store.RetryTasks(ctx, ids)
				})
		},
	}
}

func (p *program) deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "delete ID...",
		SuggestFor: []string{"rm", "remove"},
		Short:      "Delete tasks",
		Long: `Remove tasks from the store, finished ones included, so that their IDs are free. What
depends on an unfinished one no longer waits for it; a task that then has nothing left
to wait for is deleted too. If one of them is in progress, or there is no task of one
of the IDs, nothing is deleted.

With --json: deleted, the IDs given.`,
		Example:           "  stint delete greet/world",
		GroupID:           groupTasks,
		Args:              someIDs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withTasks(cmd.Context(), args, "deleted",
				func(ctx context.Context, store *stint.Store, ids []stint.TaskID) error {
					return store.DeleteTasks(ctx, ids)
				})
		},
	}
}

// withTasks does something to tasks, and says that it is done.
func (p *program) withTasks(
	ctx context.Context, args []string, done string,
	do func(ctx context.Context, store *stint.Store, ids []stint.TaskID) error,
) error {
	ids := make([]stint.TaskID, len(args))
	for i, arg := range args {
		ids[i] = stint.TaskID(arg)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		if err := do(ctx, db.store, ids); err != nil {
			return err
		}
		if p.json {
			return p.printJSON(map[string][]stint.TaskID{done: ids})
		}
		return p.printf("%s %s\n", done, readable.Count(int64(len(ids)), "task"))
	})
}

func (p *program) waitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until a task has finished",
		Long: `Wait until a task has finished, and show it as show does. The exit code is 0 if it
completed, 7 if it was aborted, and 8 if the time is over before. The task must have
been inserted with post_result. While the database cannot be reached, wait goes on.`,
		Example: `  stint wait sum/2026-11 --timeout 30s
  result=$(stint wait sum/2026-11 --json | jq -r .result)`,
		GroupID:           groupTasks,
		Args:              oneID,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkTimeout(cmd, timeout); err != nil {
				return err
			}
			return p.wait(cmd.Context(), stint.TaskID(args[0]), timeout)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0,
		"give up after that `time`, such as 90s or 1h30m (default: wait for ever)")
	return cmd
}

func (p *program) wait(ctx context.Context, id stint.TaskID, timeout time.Duration) error {
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		var task stint.TaskInfo
		err := within(ctx, timeout, func(ctx context.Context) (err error) {
			task, err = db.store.WaitForTask(ctx, id)
			return err
		})
		if errors.Is(err, errTimedOut) {
			return fmt.Errorf("wait for task: %w: %q after %v", errTimedOut, string(id), timeout)
		}
		if err != nil {
			return err
		}
		if err := p.printTask(ctx, db, &task); err != nil {
			return err
		}
		if task.StatusCode == stint.StatusAborted {
			return fmt.Errorf("%w: %q, cause: %s", errAborted, string(id), task.AbortCause)
		}
		return nil
	})
}

// checkTimeout refuses a flag --timeout that leaves no time.
func checkTimeout(cmd *cobra.Command, timeout time.Duration) error {
	if timeout < 0 || timeout == 0 && cmd.Flags().Changed("timeout") {
		return fmt.Errorf("%w: --timeout %v: want more than nothing", errInput, timeout)
	}
	return nil
}

// within waits for no longer than timeout, unless that is 0. The error is errTimedOut if the time
// was over before.
func within(
	ctx context.Context, timeout time.Duration, wait func(ctx context.Context) error,
) error {
	if timeout == 0 {
		return wait(ctx)
	}
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errTimedOut)
	defer cancel()
	err := wait(waiting)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(waiting), errTimedOut) {
		return errTimedOut
	}
	return err
}
