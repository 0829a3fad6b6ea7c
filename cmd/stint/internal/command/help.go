package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagError says what a flag wants in words that are not those of a parser of Go, and which flag an
// unknown one is like.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		flags := &cobra.Command{} // whose sub-commands have the names of the flags
		cmd.Flags().VisitAll(func(flag *pflag.Flag) {
			flags.AddCommand(&cobra.Command{Use: flag.Name, Run: func(*cobra.Command, []string) {}})
		})
		return fmt.Errorf("%w%s", err, didYouMean(flags, unknown.GetSpecifiedName(), "--"))
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	var want string
	switch flag := invalid.GetFlag(); flag.Value.Type() {
	case "duration":
		want = "must be a time with its unit, such as 90s or 1h30m"
	case "int", "int32":
		want = "must be a whole number"
	case "bool":
		want = "must be true or false, or left out"
	default:
		want = invalid.Unwrap().Error()
	}
	return fmt.Errorf("invalid --%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), want)
}

// helpCommand is like cobra's, but refuses names that there is no help on.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [sub-command or topic]",
		Short: "Show the help of a sub-command, or of a topic",
		Long:  "Show the help of a sub-command, as its flag --help does, or of a topic.",
		Example: `  stint help insert
  stint help exit-codes`,
		Args: func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err != nil {
				return err
			}
			return subCommand(found, rest)
		},
		ValidArgsFunction: func(
			_ *cobra.Command, args []string, _ string,
		) ([]cobra.Completion, cobra.ShellCompDirective) {
			var names []cobra.Completion
			if found, rest, err := root.Find(args); err == nil && len(rest) == 0 {
				for _, cmd := range found.Commands() {
					if !cmd.Hidden {
						names = append(names, cobra.CompletionWithDesc(cmd.Name(), cmd.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			found, _, err := root.Find(args)
			if err != nil {
				return err
			}
			found.InitDefaultHelpFlag() // otherwise the help does not list the flag
			return found.Help()
		},
	}
}

// addCompletionCommand adds cobra's completion command, with help texts of ours.
func addCompletionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() != "completion" {
			continue
		}
		cmd.Short = "Generate a shell completion script"
		cmd.Long = `Print a script with which a shell completes sub-commands, flags and their
values, and IDs, actions and actors as they are in the store. For these it asks the database
that --database-url or STINT_DATABASE_URL names, or the service that --server or STINT_SERVER
names, else the private PostgreSQL if that is running. The help for each shell says how to
load its script.`
		cmd.Example = `  source <(stint completion bash)
  stint completion zsh --help`
		cmd.Args = subCommand
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		for _, shell := range cmd.Commands() {
			shell.Short = "Print the script for " + shell.Name()
			shell.Args = noArguments
		}
	}
}
