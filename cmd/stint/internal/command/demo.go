package command

import (
	"context"

	"github.com/spf13/cobra"
)

func (p *program) demoCommand() *cobra.Command {
	var keep bool
	pages := uiSetup{listen: uiListenDefault, demo: true}
	var shown bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See tasks move: a demo of the library in half a minute",
		Long: `Two workers perform a network of a few thousand tasks. Some tasks fail at first, a
branch of the network is aborted, and one of the workers, a process of its own, is killed
while it owns tasks. An action has a limit, another one is paused, and a schedule waits for
the next year. At the end the demo checks that every task of the network ended as it should
have, and exits with 1 otherwise.

The demo works in a schema of its own, which it creates and drops: stint_demo, unless
--schema names another one. It refuses a schema that it did not create.

With --ui it is seen in a browser, too: the demo begins when its page is opened, keeps the
tries of tasks, and the pages stay until Ctrl-C.

With --json: an object for each event, with event, seconds since the beginning and
details of the event; the last one has the event "summary".`,
		Example: `  stint demo
  stint demo --ui
  stint demo --keep && stint ls --schema stint_demo --state aborted
  stint demo --json | jq -c 'select(.event == "handed-on")'`,
		GroupID:           groupTasks,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("schema") {
				p.schema = demoSchemaName
			}
			if !shown {
				return p.demo(cmd.Context(), keep, nil)
			}
			if err := pages.check(); err != nil {
				return err
			}
			return p.demo(cmd.Context(), keep, &pages)
		},
	}
	cmd.Flags().BoolVar(&shown, "ui", false, "show the tasks in a browser meanwhile")
	cmd.Flags().StringVar(&pages.listen, "listen", pages.listen,
		"with --ui: listen at this `address` of this machine")
	cmd.Flags().BoolVar(&keep, "keep", false,
		"leave the tasks in the schema, to look at; the next demo replaces them")
	return cmd
}

// demo plays the demo, with pages that show it unless they are nil.
func (p *program) demo(ctx context.Context, keep bool, pages *uiSetup) error {
	p.quiet = true // the demo leaves nothing behind, and with --keep says where to look
	return p.withDatabase(ctx, func(ctx context.Context, db *database) error {
		return p.withDemoSchema(ctx, db, keep, func(ctx context.Context) error {
			if pages != nil {
				return p.showDemo(ctx, db, *pages, keep)
			}
			return p.playAll(ctx, db, keep, 0)
		})
	})
}
