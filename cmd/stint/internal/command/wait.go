package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
)

func (p *program) waitCommand() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait until a task has finished",
		Long: `Wait until a task has finished, and show it as show does, without its predecessors
and dependents. The exit code is 0 if it completed or was skipped, which is no failure (the
state tells them apart), 7 if it was aborted, 3 if it was deleted or pruned meanwhile, and 8
if the timeout passes first.

The end of a task that was inserted with post_result is noticed at once. Other tasks are
looked at once a second; one that is pruned as soon as it finishes (--keep-completed 0) may
be missed, and is then not found. While the database cannot be reached, wait continues.`,
		Example: `  stint wait sum/2026-11 --timeout 30s
  result=$(stint wait sum/2026-11 --json | jq -r .result)`,
		GroupID: groupTasks,
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkTimeout(cmd, timeout); err != nil {
				return err
			}
			return p.wait(cmd.Context(), stint.TaskID(args[0]), timeout)
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0,
		"give up after this `time`, such as 90s or 1h30m (default: wait for ever)")
	return cmd
}

func (p *program) wait(ctx context.Context, id stint.TaskID, timeout time.Duration) error {
	p.waits = true
	return p.withTasks(ctx, func(ctx context.Context, db *database) error {
		var task stint.TaskInfo
		err := within(ctx, timeout, func(ctx context.Context) (err error) {
			task, err = db.tasks().WaitForTask(ctx, id)
			if errors.Is(err, stint.ErrNoPostResult) {
				task, err = poll(ctx, func(ctx context.Context) (stint.TaskInfo, error) {
					return db.task(ctx, id)
				})
			}
			return err
		})
		if errors.Is(err, errTimedOut) { // perhaps before the first look
			task, err = lookOnce(ctx, db, id)
			if err != nil && !errors.Is(err, stint.ErrTaskNotFound) {
				return timedOut(timeout, id, err)
			}
		}
		if err != nil {
			return err
		}
		if err := p.printTask(ctx, db, &shownTask{task: task}); err != nil {
			return err
		}
		if task.StatusCode == stint.StatusAborted {
			return fmt.Errorf("%w: %q, cause: %s", errAborted, string(id), task.AbortCause)
		}
		return nil
	})
}

// timedOut says that a task has not finished, or that nobody knows, as the last look has ended.
func timedOut(timeout time.Duration, id stint.TaskID, last error) error {
	if errors.Is(last, errTimedOut) {
		return said(errTimedOut, "timed out after %v: %q has not finished", timeout, string(id))
	}
	return said(errTimedOut, "timed out after %v; whether %q has finished is not known: %v",
		timeout, string(id), last)
}

// lookOnce returns a task that has finished.
func lookOnce(ctx context.Context, db *database, id stint.TaskID) (stint.TaskInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	task, err := db.task(ctx, id)
	if err == nil && task.FinishedAt.IsZero() {
		err = errTimedOut
	}
	return task, err
}

// poll looks at a task once a second until it has finished.
func poll(
	ctx context.Context, look func(ctx context.Context) (stint.TaskInfo, error),
) (stint.TaskInfo, error) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		task, err := look(ctx)
		switch {
		case err == nil && !task.FinishedAt.IsZero():
			return task, nil
		case err != nil && exitCode(err) != exitUnreachable:
			return stint.TaskInfo{}, err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return stint.TaskInfo{}, ctx.Err()
		}
	}
}

// checkTimeout refuses a flag --timeout that leaves no time.
func checkTimeout(cmd *cobra.Command, timeout time.Duration) error {
	if timeout < 0 || timeout == 0 && cmd.Flags().Changed("timeout") {
		return said(errInput, "invalid --timeout %v: must be more than 0", timeout)
	}
	return nil
}

// within waits for no longer than timeout, unless that is 0. The error is errTimedOut if the
// timeout passed before the wait ended.
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
