package command

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
)

func (p *program) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "explain ID",
		SuggestFor: []string{"why"},
		Short:      "Say why a task does not run",
		Long: `Say what a task waits for, until when it is scheduled, who owns it until when, how
many tries are left, whether anybody asks for its action, and because of which tasks it
was aborted. With --topology it also asks the shards of the tasks that it waits for.

With --json: task (see: stint help json), missing (how many tasks it waits for),
waits_for (these, 100 at most), because_of (the aborted tasks because of which it was
aborted, 100 at most; left out if there are none), tries_left (left out if there is no
limit), asked_at (when somebody last asked for the action, to half a minute; left out if
nobody has for a week), now.`,
		Example: "  stint explain greet/world",
		GroupID: groupTasks,
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.explain(cmd.Context(), stint.TaskID(args[0]))
		},
	}
}

type explanationJSON struct {
	Task      taskJSON   `json:"task"`
	Missing   int        `json:"missing"`
	WaitsFor  []taskJSON `json:"waits_for"`
	BecauseOf []taskJSON `json:"because_of,omitempty"`
	TriesLeft *int       `json:"tries_left,omitempty"`
	AskedAt   time.Time  `json:"asked_at,omitzero"`
	Now       time.Time  `json:"now"`
}

func (p *program) explain(ctx context.Context, id stint.TaskID) error {
	return p.withTasks(ctx, func(ctx context.Context, db *database) error {
		why, err := db.tasks().Explain(ctx, id)
		if err != nil {
			return err
		}
		if !p.json {
			return p.printf("%s\n", why)
		}
		document := explanationJSON{
			Task: p.newTaskJSON(&why.Task), Missing: why.Missing,
			WaitsFor: p.tasksJSON(why.WaitsFor), BecauseOf: p.tasksJSON(why.BecauseOf),
			AskedAt: utc(why.AskedAt), Now: utc(why.Now),
		}
		if why.TriesLeft >= 0 {
			document.TriesLeft = &why.TriesLeft
		}
		return p.printJSON(document)
	})
}
