package command

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/internal/readable"
)

func (p *program) pauseCommand() *cobra.Command {
	return p.pausing(&cobra.Command{
		Use:        "pause ACTION...",
		SuggestFor: []string{"stop"},
		Short:      "Stop handing out tasks with an action, or of a key",
		Long: `Stop the hand-outs of tasks with these actions, by all workers, until: stint resume.
Owners go on with what they own, and tasks may be inserted. With --key, only the tasks of
these keys of one action are not handed out.

With --json: paused, the actions; with --key action, and paused_keys.`,
		Example: `  stint pause mail
  stint pause mail --key customer-7`,
	}, "pause", "paused", func(ctx context.Context, store verbs, actions, keys []string) error {
		if len(keys) > 0 {
			return store.PauseKeys(ctx, actions[0], keys...)
		}
		return store.Pause(ctx, actions...)
	})
}

func (p *program) resumeCommand() *cobra.Command {
	return p.pausing(&cobra.Command{
		Use:        "resume ACTION...",
		SuggestFor: []string{"continue", "unpause"},
		Short:      "Hand out tasks again that were paused",
		Long: `End the pauses of these actions, or, with --key, of these keys of one action. Paused
keys stay paused when their action is resumed, and the other way round. What is not paused
stays as it is.

With --json: resumed, the actions; with --key action, and resumed_keys.`,
		Example: `  stint resume mail
  stint resume mail --key customer-7`,
	}, "resume", "resumed", func(ctx context.Context, store verbs, actions, keys []string) error {
		if len(keys) > 0 {
			return store.ResumeKeys(ctx, actions[0], keys...)
		}
		return store.Resume(ctx, actions...)
	})
}

// pausing completes a sub-command that pauses or resumes.
func (p *program) pausing(
	cmd *cobra.Command, verb, done string,
	do func(ctx context.Context, store verbs, actions, keys []string) error,
) *cobra.Command {
	var keys []string
	cmd.GroupID = groupOperations
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return errors.New("expected actions, got none")
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, actions []string) error {
		if len(keys) > 0 && len(actions) > 1 {
			return said(errInput, "--key is about one action, got %s", number(actions))
		}
		return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
			if err := do(ctx, db.store, actions, keys); err != nil {
				return err
			}
			return p.printPaused(done, actions, keys)
		})
	}
	cmd.ValidArgsFunction = p.actions
	cmd.Flags().StringArrayVar(&keys, "key", nil,
		verb+" only tasks of this `key` of the action (repeatable)")
	return cmd
}

func (p *program) printPaused(done string, actions, keys []string) error {
	switch {
	case p.json && len(keys) > 0:
		return p.printJSON(map[string]any{"action": actions[0], done + "_keys": keys})
	case p.json:
		return p.printJSON(map[string]any{done: actions})
	case len(keys) > 0:
		return p.printf("%s %s of %s\n", done, readable.Count(int64(len(keys)), "key"),
			readable.Text(actions[0]))
	default:
		return p.printf("%s %s\n", done, readable.Count(int64(len(actions)), "action"))
	}
}
