// Package command is the command stint, from its arguments to its exit code.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/outage"
)

// Run runs the command and returns its exit code, as described by "stint help exit-codes". If ctx
// ends, the command was interrupted. It leaves no server behind, also if it was interrupted.
func Run(
	ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer,
) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr}
	root := p.root()
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		p.completing = true
		plainUsages(root)
	}
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	err = outage.Advise(err)
	code := exitCode(err)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		code = exitInterrupted
		fmt.Fprintln(stderr, "stint: interrupted")
		if !errors.Is(err, context.Canceled) {
			fmt.Fprintf(stderr, "stint: %s\n", display.Lines(err.Error()))
		}
	case code == exitReaderGone:
	case !p.parsed:
		code = exitUsage
		fmt.Fprintf(stderr, "stint: %s (see: %s --help)\n", display.Lines(err.Error()),
			cmd.CommandPath())
	default:
		fmt.Fprintf(stderr, "stint: %s%s\n", display.Lines(err.Error()), p.hint(err))
	}
	return code
}

// Tree is the command with its sub-commands, for those who describe it.
func Tree() *cobra.Command { return (&program{}).root() }

func (p *program) root() *cobra.Command {
	build, _ := debug.ReadBuildInfo()
	root := &cobra.Command{
		Use:   "stint",
		Short: "Manage tasks in PostgreSQL",
		Long: `stint manages the tasks that the Go library stint keeps in PostgreSQL.

Without --database-url and STINT_DATABASE_URL it works on a private PostgreSQL, which
it starts when needed and then stops; a line on standard error says so. Its data is in
your data directory ($XDG_DATA_HOME/stint, else ~/.local/share/stint; on macOS
~/Library/Application Support/stint; for root, if other accounts cannot enter that,
/var/lib/stint), and its tables are created automatically. In your own database, or in
a schema other than stint, create them with: stint migrate

With --server or STINT_SERVER it works over the network, on a service of that address.
What needs the database itself, such as migrate, refuses that.

With --topology or STINT_TOPOLOGY it works across shards, and tasks are named SHARD/ID:
ls, show, explain, graph, stats, errors, top, ui, check, wait, ends, changes (of a task),
abort, change, retry, delete and submit do. If a shard is away, they show the rest, name the
shard on standard error, and exit with code 4.`,
		Example: `  echo '{"id": "greet/world", "action": "greet", "body": "world"}' | stint insert
  stint ls --state ready
  stint show greet/world
  stint explain greet/world
  STINT_DATABASE_URL=postgres://localhost/app stint migrate
  STINT_SERVER=https://tasks.example stint ls --token-file token`,
		Version:       newVersion(build).Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          subCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return p.checkFlags(cmd)
		},
	}
	flags := root.PersistentFlags()
	flags.StringVar(&p.databaseURL, "database-url", "",
		"work on the database at this `URL` (default $STINT_DATABASE_URL, or what the file "+
			"$STINT_DATABASE_URL_FILE holds, else a private one)")
	p.remote.addFlags(root)
	flags.StringVar(&p.topology, "topology", "",
		"work across shards: static:1=`URL`,2=URL, pattern:URL with {shard} in it, or file:PATH, "+
			"of databases or services (default $STINT_TOPOLOGY)")
	flags.StringVar(&p.schema, "schema", schemaDefault, "use the tables in this `schema`")
	flags.BoolVar(&p.json, "json", false, "print JSON (see: stint help json)")
	root.AddGroup(
		&cobra.Group{ID: groupTasks, Title: "Tasks:"},
		&cobra.Group{ID: groupOperations, Title: "Operation:"},
	)
	root.AddCommand(
		p.migrateCommand(), p.insertCommand(), p.debounceCommand(), p.listCommand(),
		p.showCommand(), p.explainCommand(), p.graphCommand(), noted(p.answerCommand()),
		noted(p.abortCommand()), noted(p.changeCommand()), noted(p.retryCommand()),
		noted(p.deleteCommand()), p.changesCommand(), p.waitCommand(), p.endsCommand(),
		p.actorsCommand(), p.statsCommand(), p.errorsCommand(), p.submitCommand(),
		p.workerCommand(), p.demoCommand(), p.demoWorkerCommand(),
		p.serveCommand(), p.uiCommand(), p.tokenCommand(), p.pruneCommand(), p.checkCommand(),
		p.adoptCommand(), p.topCommand(), p.limitsCommand(), noted(p.limitCommand()),
		noted(p.weightCommand()), noted(p.pauseCommand()), noted(p.resumeCommand()),
		p.scheduleCommand(), p.importCommand(), p.exportCommand(), p.versionCommand(),
		p.statementsCommand(), exitCodesTopic(), jsonTopic(),
	)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand(root))
	root.SetHelpCommandGroupID(groupOperations)
	root.SetCompletionCommandGroupID(groupOperations)
	addCompletionCommand(root)
	p.completeRest(root)
	return root
}

func (p *program) checkFlags(cmd *cobra.Command) error {
	const schemaBytesMax = 63
	switch {
	case p.databaseURL == "" && cmd.Flags().Changed("database-url"):
		return errors.New("--database-url is empty; leave it out to use the private PostgreSQL")
	case p.databaseURL != "" && !isDatabaseURL(p.databaseURL):
		return fmt.Errorf("invalid --database-url %s: %s", shownURL(p.databaseURL), wantURL)
	case p.schema == "" || len(p.schema) > schemaBytesMax || strings.ContainsRune(p.schema, 0):
		return fmt.Errorf("invalid --schema %q: must be 1 to %d bytes", p.schema, schemaBytesMax)
	}
	if err := p.remote.check(cmd.Flags()); err != nil {
		return err
	}
	if err := p.checkTopology(cmd); err != nil {
		return err
	}
	// Those who connect look at these.
	if p.databaseURL == "" && p.remote.address == "" && p.topology == "" {
		var err error
		if p.variableURL, err = environmentURL(); err != nil {
			return err
		}
		p.databaseURL, p.remote.address = p.variableURL, os.Getenv(serverVariable)
		p.topology = os.Getenv(topologyVariable)
	}
	p.parsed = true
	return nil
}
