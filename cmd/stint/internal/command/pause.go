package command

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/internal/display"
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
	}, "pause", "paused", verbs.Pause, verbs.PauseKeys)
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
	}, "resume", "resumed", verbs.Resume, verbs.ResumeKeys)
}

// pausing completes a sub-command that pauses or resumes.
func (p *program) pausing(
	cmd *cobra.Command, verb, done string,
	doActions func(store verbs, ctx context.Context, actions ...string) error,
	doKeys func(store verbs, ctx context.Context, action string, keys ...string) error,
) *cobra.Command {
	var keys []string
	cmd.GroupID = groupOperations
	cmd.Args = some("actions")
	cmd.RunE = func(cmd *cobra.Command, actions []string) error {
		actions, keys = distinct(actions), distinct(keys)
		if len(keys) > 0 && len(actions) > 1 {
			return said(errInput, "--key is about one action, got %s", number(actions))
		}
		return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
			idle, err := notPaused(ctx, db.store, verb == "resume" && !p.json, actions, keys)
			if err != nil {
				return err
			}
			if len(keys) > 0 {
				err = doKeys(db.store, ctx, actions[0], keys...)
			} else {
				err = doActions(db.store, ctx, actions...)
			}
			if err != nil {
				return toldAll(err)
			}
			return p.printPaused(done, actions, keys, idle)
		})
	}
	cmd.ValidArgsFunction = p.actions
	cmd.Flags().StringArrayVar(&keys, "key", nil,
		verb+" only tasks of this `key` of the action (repeatable)")
	return cmd
}

// notPaused returns which of the actions, or of the keys of one, are not paused, if that is asked.
func notPaused(
	ctx context.Context, store verbs, asked bool, actions, keys []string,
) ([]string, error) {
	if !asked {
		return nil, nil
	}
	list, err := store.ListLimits(ctx, actions...)
	if err != nil {
		return nil, err
	}
	paused := map[string]bool{}
	for _, l := range list {
		if len(keys) > 0 && l.KeysOrMore {
			return nil, nil // those that are not listed may be paused
		}
		for key := range l.PausedKeys {
			paused[key] = len(keys) > 0
		}
		if len(keys) == 0 {
			paused[l.Action] = !l.PausedSince.IsZero()
		}
	}
	named := actions
	if len(keys) > 0 {
		named = keys
	}
	return slices.DeleteFunc(slices.Clone(named), func(name string) bool {
		return paused[name]
	}), nil
}

// distinct returns the names in their order, each once.
func distinct(names []string) []string {
	var once []string
	for _, name := range names {
		if !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}

// printPaused says what is paused or resumed, but for the idle ones, which were not paused.
func (p *program) printPaused(done string, actions, keys, idle []string) error {
	for _, name := range idle {
		if _, err := fmt.Fprintf(p.stderr, "%s was not paused\n", display.Text(name)); err != nil {
			return err
		}
	}
	switch {
	case p.json && len(keys) > 0:
		return p.printJSON(map[string]any{"action": actions[0], done + "_keys": keys})
	case p.json:
		return p.printJSON(map[string]any{done: actions})
	case len(keys) > 0:
		return p.printf("%s %s of %s\n", done, display.Count(int64(len(keys)-len(idle)), "key"),
			display.Text(actions[0]))
	default:
		return p.printf("%s %s\n", done, display.Count(int64(len(actions)-len(idle)), "action"))
	}
}
