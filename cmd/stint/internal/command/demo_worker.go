package command

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/demo"
)

const demoWorkerName = "demo-worker"

// demoWorkerCommand is the other process of the demo. Ctrl-C reaches it too, but the demo decides
// when it ends.
func (p *program) demoWorkerCommand() *cobra.Command {
	tries := 0
	cmd := &cobra.Command{
		Use:    demoWorkerName,
		Short:  "Perform tasks for stint demo, which starts this",
		Hidden: true,
		Args:   noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := context.WithoutCancel(cmd.Context())
			return p.withDatabase(ctx, func(ctx context.Context, db *database) error {
				if err := db.open(demoOptions(p.schema, tries)); err != nil {
					return err
				}
				return demo.Work(ctx, db.direct, demo.SecondActor, p.stdin)
			})
		},
	}
	cmd.Flags().IntVar(&tries, "keep-tries", 0, "keep the last `n` tries of each task")
	return cmd
}

// demoOptions are the options of the demo's stores, which keep so many tries of each task. They log
// nothing: the demo kills processes on purpose, and says so.
func demoOptions(schema string, tries int) stint.Options {
	return stint.Options{
		Schema: schema, Logger: slog.New(slog.DiscardHandler),
		History: stint.HistoryOptions{Tries: tries},
	}
}
