package command

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/demo"
)

func (p *program) demoCommand() *cobra.Command {
	var keep bool
	pages := uiSetup{listen: uiListenDefault}
	var shown bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "See tasks move: a demo of the library in half a minute",
		Long: `Two workers perform a network of a few thousand tasks. Some tasks fail at first, a
branch of the network is aborted, and one of the workers, a process of its own, is killed
while it owns tasks. At the end the demo checks that every task ended as it should have,
and exits with 1 otherwise.

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

var errDemo = errors.New("the demo did not end as it should have")

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

// playAll plays the demo and says what came of it.
func (p *program) playAll(ctx context.Context, db *database, keep bool, tries int) error {
	summary, err := p.playDemo(ctx, db, tries)
	if err == nil {
		err = p.printSummary(&summary, keep)
	}
	if err == nil && !summary.OK {
		err = errDemo
	}
	return err
}

// demoOptions are the options of the demo's stores, which keep so many tries of each task. They log
// nothing: the demo kills processes on purpose, and says so.
func demoOptions(schema string, tries int) stint.Options {
	return stint.Options{
		Schema: schema, Logger: slog.New(slog.DiscardHandler),
		History: stint.HistoryOptions{Tries: tries},
	}
}

// playDemo runs the demo and shows its events.
func (p *program) playDemo(
	ctx context.Context, db *database, tries int,
) (_ demo.Summary, err error) {
	store, err := stint.New(db.pool, demoOptions(p.schema, tries))
	if err != nil {
		return demo.Summary{}, err
	}
	defer func() { err = errors.Join(err, store.Close(context.WithoutCancel(ctx))) }()
	second, err := p.demoProcess(db, tries)
	if err != nil {
		return demo.Summary{}, err
	}
	show, stop := p.demoShow()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	summary, err := demo.Run(ctx, demo.Config{
		Store: store, Second: second,
		Tell: func(e demo.Event) {
			if err := show(e); err != nil {
				cancel(err) // the reader of the output has gone
			}
		},
	})
	if err != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	return summary, errors.Join(err, stop())
}

// demoProcess is the worker process that will be killed. Its environment names the database, since
// other users can read the arguments of a process.
func (p *program) demoProcess(db *database, tries int) (*exec.Cmd, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	url := p.databaseURL
	if db.server != nil {
		url = db.server.URL(privateDatabase)
	}
	//nolint:gosec,noctx // It is this program, and ends with its standard input.
	cmd := exec.Command(executable, demoWorkerName, "--schema", p.schema,
		"--keep-tries", strconv.Itoa(tries))
	cmd.Env = append(os.Environ(), urlVariable+"="+url, serverVariable+"=")
	return cmd, nil
}

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

// demoShow returns show, which shows an event of the demo, and stop, which ends the display.
func (p *program) demoShow() (show func(demo.Event) error, stop func() error) {
	nothing := func() error { return nil }
	if p.json {
		return func(e demo.Event) error { return p.printJSON(e) }, nothing
	}
	style := p.demoStyle()
	if !isDrawable(p.stdout) {
		return demo.NewLines(p.stdout, style).Tell, nothing
	}
	screen := demo.NewScreen(p.stdout, style)
	return screen.Tell, screen.Close
}

func (p *program) demoStyle() demo.Style {
	const usual = 100 // columns
	style := demo.Style{Width: usual, Colours: bool(p.painter())}
	if width, _ := terminalSize(p.stdout); width > 0 {
		style.Width = width
	}
	return style
}

// printSummary prints the outcome of the demo, and what to do next.
func (p *program) printSummary(summary *demo.Summary, keep bool) error {
	if p.json {
		return p.printJSON(struct {
			Event string `json:"event"`
			*demo.Summary
		}{"summary", summary})
	}
	text := summary.Text(p.demoStyle())
	if !keep {
		return p.printf("%s\n\nTo keep the tasks and look at them: stint demo --keep\n", text)
	}
	return p.printf(`%s

The tasks are kept. Look at them:
  stint top%[2]s
  stint stats%[2]s
  stint ls%[2]s --state aborted
  stint show%[2]s book/bind
  stint explain%[2]s antarctica/index
  stint graph%[2]s europe/1/page --format svg > network.svg
`, text, p.flagsLine())
}
