package command

import (
	"cmp"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
)

// keepFlags say for how long finished tasks are kept, and which ended tries of tasks; and how many
// owners in a row may lose a task.
type keepFlags struct {
	completed, aborted, changes keeping

	tries    int
	triesFor keeping
	losses   int
}

// keepNames are the names of the flags.
func keepNames() []string {
	return []string{
		"keep-completed", "keep-aborted", "keep-changes", "keep-tries", "keep-tries-for",
		"max-losses",
	}
}

func (k *keepFlags) add(cmd *cobra.Command) {
	const day = 24 * time.Hour
	k.completed, k.aborted = keeping{"24h", day}, keeping{"7d", 7 * day}
	k.changes, k.triesFor = keeping{"90d", 90 * day}, keeping{forever, stint.KeepForever}
	flags := cmd.Flags()
	flags.Var(&k.completed, "keep-completed",
		"keep completed tasks for this `age`, such as 90m, 36h, 7d, or "+forever)
	flags.Var(&k.aborted, "keep-aborted", "keep aborted tasks for this `age`, or "+forever)
	flags.Var(&k.changes, "keep-changes",
		"keep the log of changes for this `age`, or "+forever)
	flags.IntVar(&k.tries, "keep-tries", 0,
		"keep the last `n` tries of each task, with their errors and logs, at most 1000")
	flags.Var(&k.triesFor, "keep-tries-for",
		"keep tries for this `age`, such as 90m, 36h, 7d, or "+forever+
			", which is as long as the task")
	flags.IntVar(&k.losses, "max-losses", 3, //nolint:mnd // as of stint.Options
		"abort a task that `n` owners in a row have lost, 3 to 1000, or -1: never")
}

// options are those of a store that keeps what the flags say.
func (k *keepFlags) options() (stint.Options, error) {
	const least, most = 3, 1000
	switch {
	case k.tries < 0, k.tries > most:
		return stint.Options{}, said(errInput, "invalid --keep-tries %d: must be 0 to %d", k.tries,
			most)
	case k.triesFor.retention == stint.KeepNone:
		return stint.Options{}, said(errInput,
			"invalid --keep-tries-for 0: to keep none, leave --keep-tries out")
	case k.losses != stint.UnlimitedLosses && (k.losses < least || k.losses > most):
		return stint.Options{}, said(errInput,
			"invalid --max-losses %d: must be %d to %d, or -1 for any number", k.losses, least,
			most)
	}
	options := stint.Options{
		Retention: stint.Retention{
			Completed: k.completed.retention, Aborted: k.aborted.retention,
			Changes: k.changes.retention,
		},
		History:   stint.HistoryOptions{Tries: k.tries},
		MaxLosses: k.losses,
	}
	if k.triesFor.retention != stint.KeepForever {
		options.History.Age = k.triesFor.retention
	}
	return options, nil
}

// environmentVariable names the environment of the database.
const environmentVariable = "STINT_ENVIRONMENT"

// copyFlags say which database is the original, and whether that matters.
type copyFlags struct {
	environment string
	acts        bool
}

func (c *copyFlags) add(cmd *cobra.Command) {
	addEnvironment(cmd, &c.environment)
	cmd.Flags().BoolVar(&c.acts, "act-in-copies", false,
		"hand out tasks also where the database is a copy (see: stint adopt --help)")
}

// set sets the options that the flags say.
func (c *copyFlags) set(options *stint.Options) {
	options.Environment = cmp.Or(c.environment, os.Getenv(environmentVariable))
	options.ActInCopies = c.acts
}

func addEnvironment(cmd *cobra.Command, environment *string) {
	cmd.Flags().StringVar(environment, "environment", "",
		"the `name` of the environment, such as production, which tells copies of the "+
			"database's files apart (default $"+environmentVariable+")")
}

// addPollOnly adds the flag of what runs for long, and may have a pooler between it and the server.
func addPollOnly(cmd *cobra.Command, pollOnly *bool) {
	cmd.Flags().BoolVar(pollOnly, "poll-only", false,
		"keep no session: for a pooler that gives each transaction another connection")
}
