package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/names"
)

func (p *program) pauseCommand() *cobra.Command {
	return p.pausing(&cobra.Command{
		Use:        "pause ACTION...",
		SuggestFor: []string{"stop"},
		Short:      "Stop fetching tasks with an action, or of a key",
		Long: `Stop the fetches of tasks with these actions, by all workers, until: stint resume.
Owners go on with what they own, and tasks may be inserted. With --key, only the tasks of
these keys of one action are not fetched. What nothing has the name of is paused, too,
with a warning on standard error.

With --json: paused, the actions; with --key action, and paused_keys.`,
		Example: `  stint pause mail
  stint pause mail --key customer-7`,
	}, "pause", "paused", allVerbs.Pause, allVerbs.PauseKeys)
}

func (p *program) resumeCommand() *cobra.Command {
	return p.pausing(&cobra.Command{
		Use:        "resume ACTION...",
		SuggestFor: []string{"continue", "unpause"},
		Short:      "Fetch tasks again that were paused",
		Long: `End the pauses of these actions, or, with --key, of these keys of one action. Paused
keys stay paused when their action is resumed, and the other way round. What is not paused
stays as it is, and standard error says so.

With --json: resumed, the actions that were paused; with --key action, and resumed_keys.`,
		Example: `  stint resume mail
  stint resume mail --key customer-7`,
	}, "resume", "resumed", allVerbs.Resume, allVerbs.ResumeKeys)
}

// pausing completes a sub-command that pauses or resumes.
func (p *program) pausing(
	cmd *cobra.Command, verb, done string,
	doActions func(store allVerbs, ctx context.Context, actions ...string) error,
	doKeys func(store allVerbs, ctx context.Context, action string, keys ...string) error,
) *cobra.Command {
	var keys []string
	cmd.GroupID = groupOperations
	cmd.Args = some("actions")
	cmd.RunE = func(cmd *cobra.Command, actions []string) error {
		actions, keys = distinct(actions), distinct(keys)
		if len(keys) > 0 && len(actions) > 1 {
			return said(errInput, "--key is about one action, got %s", number(actions))
		}
		if verb == "pause" {
			err := cmp.Or(checkTyped("action", actions...), checkTyped("--key", keys...))
			if err != nil {
				return err
			}
		}
		return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
			idle, err := p.doubt(ctx, db, verb == "resume", actions, keys)
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

// doubt warns of what is paused although nothing has its name. Of what is resumed it says what is
// not paused, and returns that.
func (p *program) doubt(
	ctx context.Context, db *database, resume bool, actions, keys []string,
) ([]string, error) {
	switch {
	case resume:
		return p.notPaused(ctx, db, actions, keys)
	case len(keys) > 0:
		p.warnAction(ctx, db, actions[0], keys...)
	default:
		p.warn(unknownActions(ctx, db, false, actions...))
	}
	return nil, nil
}

// notPaused says which of the actions, or of the keys of one, are not paused, and which that are
// may have been meant.
func (p *program) notPaused(
	ctx context.Context, db *database, actions, keys []string,
) ([]string, error) {
	list, err := db.store.ListLimits(ctx, actions...)
	if errors.Is(err, stint.ErrRefused) { // who may not read may resume
		return nil, nil
	}
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
	idle := slices.DeleteFunc(slices.Clone(named), func(name string) bool { return paused[name] })
	if len(idle) > 0 && len(keys) == 0 {
		maps.Copy(paused, pausedActions(ctx, db))
	}
	var meant []string
	for name, is := range paused {
		if is {
			meant = append(meant, name)
		}
	}
	for _, name := range idle {
		fmt.Fprintf(p.stderr, "%s was not paused%s\n", display.Text(name),
			names.Meant(names.Near(name, meant)))
	}
	return idle, nil
}

// pausedActions are those that are paused; none if that cannot be found out.
func pausedActions(ctx context.Context, db *database) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, lookedFor)
	defer cancel()
	paused := map[string]bool{}
	stats, err := db.store.Stats(ctx)
	for i := range stats.Actions {
		paused[stats.Actions[i].Action] = err == nil && stats.Actions[i].Paused
	}
	return paused
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
	ofKeys := len(keys) > 0
	changed := without(actions, idle)
	if ofKeys {
		changed = without(keys, idle)
	}
	switch {
	case p.json && ofKeys:
		return p.printJSON(map[string]any{"action": actions[0], done + "_keys": changed})
	case p.json:
		return p.printJSON(map[string]any{done: changed})
	case ofKeys:
		return p.printf("%s %s of %s\n", done, display.Count(int64(len(changed)), "key"),
			display.Text(actions[0]))
	}
	return p.printf("%s %s\n", done, display.Count(int64(len(changed)), "action"))
}
