package command

import (
	"cmp"
	"context"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
)

// noted gives a command that changes something the options that say who does it, and why. The
// change is noted with them.
func noted(cmd *cobra.Command) *cobra.Command {
	var reason string
	cmd.Flags().StringVar(&reason, "reason", "", "why, a `text` for: stint changes, stint show")
	if cmd.Flags().Lookup("by") == nil {
		cmd.Flags().String("by", "", "the `name` of who does it (default: your user name)")
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		author := stint.Author{Name: cmd.Flags().Lookup("by").Value.String(), Reason: reason}
		if author.Name == "" {
			author.Name = userName("stint")
		}
		if status := cmd.Flags().Lookup("status"); status != nil {
			// The reason of an abort is also for those who look at the task.
			author.Reason = cmp.Or(reason, status.Value.String())
			if err := status.Value.Set(cmp.Or(status.Value.String(), reason)); err != nil {
				return err
			}
		}
		cmd.SetContext(stint.WithAuthor(cmd.Context(), author))
		return run(cmd, args)
	}
	return cmd
}

// byUser is a context in which changes are noted with the user of the operating system.
func (*program) byUser(cmd *cobra.Command) context.Context {
	return stint.WithAuthor(cmd.Context(), stint.Author{Name: userName("stint")})
}

// userName is the name of the user who has started the command, or another one if he has none.
func userName(otherwise string) string {
	if who, err := user.Current(); err == nil && who.Username != "" {
		return who.Username
	}
	return otherwise
}
