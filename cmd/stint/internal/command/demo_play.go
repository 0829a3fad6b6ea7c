package command

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/demo"
)

var errDemo = errors.New("the demo did not end as it should have")

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
	cmd.Env = append(os.Environ(), urlVariable+"="+url, urlFileVariable+"=",
		serverVariable+"=", topologyVariable+"=")
	return cmd, nil
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
		return p.printf("%s\n\nTo keep the tasks and look at them: stint demo --keep%s\n", text,
			p.flagsBeside(demoSchemaName))
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
