package command

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// completeWith lets shells complete the values of a flag.
func completeWith(cmd *cobra.Command, flag string, values []string) {
	completeBy(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

func completeBy(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	err := cmd.RegisterFlagCompletionFunc(flag, complete)
	cobra.CheckErr(err) // there is no such flag, which any test would find
}

// onlyFirst completes the first argument alone.
func onlyFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(
		cmd *cobra.Command, args []string, begun string,
	) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, begun)
	}
}

// completeRest lets shells complete the arguments that are IDs. It keeps them from offering files
// for all other arguments and values of flags, except those that are files.
func (p *program) completeRest(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		p.completeRest(sub)
	}
	switch {
	case strings.HasSuffix(cmd.Use, " ID"):
		cmd.ValidArgsFunction = onlyFirst(p.taskIDs)
	case strings.HasSuffix(cmd.Use, " [ID...]"):
		cmd.ValidArgsFunction = p.taskIDs
	case cmd.ValidArgsFunction == nil && !strings.HasSuffix(cmd.Use, " [FILE]"):
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(flag *pflag.Flag) {
			_, known := cmd.GetFlagCompletionFunc(flag.Name)
			if !known && len(flag.Annotations) == 0 && flag.NoOptDefVal == "" {
				completeBy(cmd, flag.Name, cobra.NoFileCompletions)
			}
		})
	}
}

// plainUsages takes the quotes, by which the help knows the name of a value, from the texts of all
// flags, since shells show these texts as they are.
func plainUsages(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		plainUsages(sub)
	}
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
		flags.VisitAll(func(flag *pflag.Flag) {
			flag.Usage = strings.ReplaceAll(flag.Usage, "`", "")
		})
	}
}

// taskIDs offers IDs of tasks that begin as the user has begun.
func (p *program) taskIDs(
	cmd *cobra.Command, args []string, begun string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	const offeredMax = 50
	var offered []cobra.Completion
	p.lookUp(cmd, func(ctx context.Context, store taskVerbs) error {
		page, err := store.ListTasks(ctx, stint.Filter{IDPrefix: begun, Limit: offeredMax})
		for _, task := range page.Tasks {
			id := string(task.ID)
			if display.IsPlainWord(id) && !slices.Contains(args, id) {
				offered = append(offered, cobra.CompletionWithDesc(id, string(task.State)))
			}
		}
		return err
	})
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// actions offers the actions of the tasks in the store.
func (p *program) actions(
	cmd *cobra.Command, _ []string, begun string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	var offered []cobra.Completion
	p.lookUp(cmd, func(ctx context.Context, store taskVerbs) error {
		stats, err := store.Stats(ctx)
		for _, a := range stats.Actions {
			if display.IsPlainWord(a.Action) && strings.HasPrefix(a.Action, begun) {
				offered = append(offered, a.Action)
			}
		}
		return err
	})
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// actorNames offers the actors that live.
func (p *program) actorNames(
	cmd *cobra.Command, _ []string, begun string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	var offered []cobra.Completion
	p.lookUp(cmd, func(ctx context.Context, store taskVerbs) error {
		actors, err := store.ListActors(ctx)
		for _, actor := range actors {
			name := string(actor.Actor)
			if display.IsPlainWord(name) && strings.HasPrefix(name, begun) {
				offered = append(offered, name)
			}
		}
		return err
	})
	return offered, cobra.ShellCompDirectiveNoFileComp
}

// lookUp calls look with a store, for a shell that completes a word while its user waits. It gives
// up soon, starts no server, and says nothing of what goes wrong.
func (p *program) lookUp(
	cmd *cobra.Command, look func(ctx context.Context, store taskVerbs) error,
) {
	const longest = 2 * time.Second
	ctx, cancel := context.WithTimeout(cmd.Context(), longest)
	defer cancel()
	work := func(ctx context.Context, db *database) error { return look(ctx, db.tasks()) }
	options := p.storeOptions()
	// Without an answer there is nothing to offer.
	if p.topology != "" {
		_ = p.withShards(ctx, work)
		return
	}
	if remote, err := p.onService(); err == nil && remote {
		_ = p.withService(ctx, options.Logger, work)
		return
	}
	_ = p.withDatabase(ctx, func(ctx context.Context, db *database) error {
		options.Schema = p.schema
		if err := db.open(options); err != nil {
			return err
		}
		return work(ctx, db)
	})
}
