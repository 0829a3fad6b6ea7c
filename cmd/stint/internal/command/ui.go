package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/ui"
)

// A uiSetup holds the flags of ui.
type uiSetup struct {
	listen       string
	insecure     bool
	allowChanges bool
	demo         bool // it is for the demo, which serves this machine only
}

const uiListenDefault = "127.0.0.1:7331"

func (p *program) uiCommand() *cobra.Command {
	var s uiSetup
	cmd := &cobra.Command{
		Use:        "ui",
		SuggestFor: []string{"web", "dashboard"},
		Short:      "Look at tasks in a browser",
		Long: `Serve pages that show tasks, their networks and the actors that perform them, and
that say why a task does not run. The pages only show, unless --allow-changes is given: then
they offer to insert, abort, retry and delete tasks, to change how they wait, to pause and
resume, to set limits, to trigger and edit schedules and to answer tasks, and say before what
that would do. Each change is logged, and a task that was aborted says by whom: your user
name.

With --topology they show the tasks of all shards together, and each shard on pages of its
own.

Nobody is asked who he is, so it serves this machine only, unless --insecure is given. To
show the pages to others, mount them in a program that knows its users (package ui).

It stops on Ctrl-C, with exit code 0.`,
		Example: `  stint ui
  stint ui --allow-changes
  stint ui --server http://localhost:7330`,
		GroupID:           groupTasks,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.check(); err != nil {
				return err
			}
			if p.json {
				return said(errInput, "ui serves pages and prints nothing; for JSON use: "+
					"stint stats --json")
			}
			return p.ui(cmd.Context(), s)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&s.listen, "listen", uiListenDefault, "listen at this `address`: host:port")
	flags.BoolVar(&s.insecure, "insecure", false,
		"ask nobody who he is, also beyond this machine")
	flags.BoolVar(&s.allowChanges, "allow-changes", false,
		"let everybody who reaches the pages insert and change tasks, limits and schedules")
	return cmd
}

// check refuses what would show tasks to everybody.
func (s *uiSetup) check() error {
	host, err := hostOfFlag("listen", s.listen)
	switch {
	case err != nil, s.insecure, isLoopback(host):
		return err
	case s.demo:
		return said(errInput, "--listen %s reaches beyond this machine, which the demo does not "+
			"serve: name an address of this machine", s.listen)
	}
	return said(errInput, "--listen %s reaches beyond this machine, and nobody is asked who he "+
		"is: give --insecure to show all tasks to everybody", s.listen)
}

// ui serves the pages until ctx ends.
func (p *program) ui(ctx context.Context, s uiSetup) error {
	listening, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer listening.Close() //nolint:errcheck // the server has closed it
	p.waits = true          // nothing is waited for, so no session is needed
	err = p.withTasks(ctx, func(ctx context.Context, db *database) error {
		// What can never be shown is said at once, and not on each page.
		if _, err := db.tasks().ListTasks(ctx, stint.Filter{Limit: 1}); err != nil {
			return err
		}
		handler, err := p.pages(db, s)
		if err != nil {
			return err
		}
		if err := p.printf("http://%s/ shows the tasks of %s; stop with Ctrl-C\n",
			listening.Addr(), db.name()); err != nil {
			return err
		}
		return s.serve(ctx, listening, handler)
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (s *uiSetup) open(ctx context.Context) (net.Listener, error) {
	var listening net.ListenConfig
	listener, err := listening.Listen(ctx, "tcp", s.listen)
	if err != nil {
		return nil, fmt.Errorf("%w; another --listen may be free", err)
	}
	return listener, nil
}

// pages are the pages that show a database.
func (p *program) pages(db *database, s uiSetup) (http.Handler, error) {
	options, err := p.uiOptions("Stint, "+db.name(), db, s.allowChanges)
	if err != nil {
		return nil, err
	}
	options.Check = func(ctx context.Context) ([]ui.Finding, error) {
		return findingsFor(db.check(ctx))
	}
	if db.shards != nil {
		options.Check = nil // that of all shards, which says which did not answer
		return ui.New(db.shards.Merged, options), nil
	}
	return ui.New(db.tasks(), options), nil
}

// findingsFor are findings as pages show them.
func findingsFor(found []doctor.Finding, err error) ([]ui.Finding, error) {
	findings := make([]ui.Finding, len(found))
	for i, f := range found {
		findings[i] = ui.Finding{
			Severity: string(f.Severity), Topic: f.Topic, Text: f.Text, ID: f.ID,
		}
	}
	return findings, err
}

// uiOptions are those of pages, whose changes are the user's.
func (p *program) uiOptions(title string, db *database, changes bool) (ui.Options, error) {
	logger, err := p.logger(logLevels()[1])
	who, flags := userName("stint ui"), strings.TrimSpace(p.flagsLine())
	return ui.Options{
		Title: title, Clock: db.now, Logger: logger,
		CommandFlags: func(*http.Request) string { return flags },
		User:         func(*http.Request) string { return who },
		Authorize: func(_ *http.Request, verb ui.Verb) bool {
			return changes || !verb.Changes()
		},
	}, err
}

// serve serves a handler until ctx ends.
func (s *uiSetup) serve(ctx context.Context, listening net.Listener, pages http.Handler) error {
	const headerMax, stopMax, idleMax = 10 * time.Second, 2 * time.Second, 3 * time.Minute
	if !s.insecure {
		advice := "stint ui --insecure answers others, too"
		if s.demo {
			advice = "the demo answers no others"
		}
		pages = fromThisMachine(pages, advice)
	}
	server := &http.Server{
		Handler: pages, ReadHeaderTimeout: headerMax, IdleTimeout: idleMax,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listening) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopMax)
	defer cancel()
	if err := server.Shutdown(stopping); err != nil {
		return errors.Join(server.Close(), <-ended)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
