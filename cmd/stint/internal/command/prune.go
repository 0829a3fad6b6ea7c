package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) pruneCommand() *cobra.Command {
	var completed, aborted age
	dryRun, yes := false, false
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Delete tasks that finished long ago",
		Long: `Delete completed or aborted tasks that finished at least as long ago as the flags
say, which frees their IDs. Skipped tasks go with the aborted ones. Workers do this
automatically, at the ages of their Options.Retention.

The command says how many finished tasks there are and asks for confirmation, unless --yes
is given, as in a crontab.

Afterwards it says how many stay. Besides those that are not old enough, these
are tasks that somebody may still ask for, however old: the predecessors of tasks that
have not completed and, for an hour, tasks with post_result. An aborted task keeps its
predecessors until it is pruned itself, since it may be retried.

The command works in small transactions and may be interrupted: it then says how many
tasks it has pruned (not so with --server), and these are gone. --dry-run prunes in one
transaction and rolls it back: it writes as much and, while it runs, holds up vacuum and
inserts of the same IDs.

With --json: pruned, the number of tasks, and completed and aborted, how many of these
stay, the skipped ones among the aborted; with --dry-run would_prune alone.`,
		Example: `  stint prune --completed-after 1d12h
  stint prune --completed-after 7d --aborted-after 90d --yes
  stint prune --completed-after 0 --dry-run`,
		GroupID: groupOperations,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !completed.given && !aborted.given {
				return said(errInput, "expected --completed-after, --aborted-after or both")
			}
			keep := stint.Retention{
				Completed: completed.retention(), Aborted: aborted.retention(),
				Changes: stint.KeepForever, // which nobody has asked to prune
			}
			options := p.storeOptions()
			options.Retention = keep
			return p.withStoreOf(cmd.Context(), options,
				func(ctx context.Context, db *database) error {
					if !yes && !dryRun {
						if err := p.confirmPrune(ctx, db, completed, aborted); err != nil {
							return err
						}
					}
					return p.prune(ctx, db, keep, dryRun)
				})
		},
	}
	cmd.Flags().Var(&completed, "completed-after",
		"prune tasks that completed that `age` ago, such as 90m, 36h, 7d")
	cmd.Flags().Var(&aborted, "aborted-after", "prune tasks that were aborted that `age` ago")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only say how many tasks would be pruned")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before pruning")
	return cmd
}

// confirmPrune asks whether to prune. It says how many tasks there are of each kind, since how many
// of them are old enough is only known when they are pruned.
func (p *program) confirmPrune(ctx context.Context, db *database, completed, aborted age) error {
	if err := p.mayAsk(); err != nil {
		return err
	}
	done, off, about, err := finishedTasks(ctx, db.store)
	if err != nil {
		return fmt.Errorf("count finished tasks: %w", err)
	}
	var which []string
	for _, kind := range []struct {
		age  age
		n    int64
		name string
	}{{completed, done, "completed"}, {aborted, off, "aborted"}} {
		if kind.age.given {
			which = append(which, fmt.Sprintf("of %s%s those that ended %s ago or earlier",
				about, display.Count(kind.n, kind.name+" task"), display.Span(kind.age.ago)))
		}
	}
	return p.confirm(ctx, "delete "+strings.Join(which, ", and ")+", "+p.where(db))
}

func (p *program) prune(
	ctx context.Context, db *database, keep stint.Retention, dryRun bool,
) error {
	pruned, err := db.prune(ctx, keep, dryRun)
	switch {
	case err != nil && (pruned == 0 || dryRun):
		return err
	case dryRun && p.json:
		return p.printJSON(map[string]int64{"would_prune": pruned})
	case dryRun:
		return p.printf("would prune %s\n", display.Count(pruned, "task"))
	}
	result := map[string]int64{"pruned": pruned}
	text := fmt.Sprintf("pruned %s\n", display.Count(pruned, "task"))
	if err == nil {
		completed, aborted, about, statsErr := finishedTasks(ctx, db.store)
		if statsErr != nil {
			statsErr = fmt.Errorf("count the tasks that stay: %w", statsErr)
			return errors.Join(p.printf("%s", text), statsErr)
		}
		result["completed"], result["aborted"] = completed, aborted
		text += fmt.Sprintf("%s%s completed and %s aborted tasks stay\n", about,
			display.Number(completed), display.Number(aborted))
	}
	if p.json {
		return errors.Join(err, p.printJSON(result))
	}
	return errors.Join(err, p.printf("%s", text))
}

// finishedTasks returns how many tasks have completed and how many were aborted. About is a word
// that says so where these are estimates.
func finishedTasks(
	ctx context.Context, store allVerbs,
) (completed, aborted int64, about string, err error) {
	stats, err := store.Stats(ctx)
	for _, action := range stats.Actions {
		completed, aborted = completed+action.Completed, aborted+action.Aborted+action.Skipped
	}
	if slices.Contains(stats.Estimated, stint.StateCompleted) ||
		slices.Contains(stats.Estimated, stint.StateAborted) {
		about = "about "
	}
	return completed, aborted, about, err
}

// errUndo makes a dry run roll back.
var errUndo = errors.New("dry run")

func (db *database) pruneDry(ctx context.Context) (pruned int64, err error) {
	err = pgx.BeginFunc(ctx, db.pool, func(tx pgx.Tx) (err error) {
		if pruned, err = db.direct.WithTx(tx).Prune(ctx); err != nil {
			return err
		}
		return errUndo
	})
	if errors.Is(err, errUndo) {
		err = nil
	}
	return pruned, err
}

// prune deletes tasks that finished long ago, or only says how many there are.
func (db *database) prune(ctx context.Context, keep stint.Retention, dryRun bool) (int64, error) {
	switch {
	case db.client != nil:
		return db.client.PruneTasks(ctx, keep, dryRun)
	case dryRun:
		return db.pruneDry(ctx)
	}
	return db.direct.Prune(ctx) // whose retention it is
}
