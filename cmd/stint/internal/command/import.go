package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/jobimport"
	"github.com/stint-tasks/stint/internal/display"
)

// importFlags say what jobs are imported, and as what.
type importFlags struct {
	schema  string
	kinds   []string
	queues  []string
	actions []string
	dryRun  bool
	yes     bool
}

func (p *program) importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Make tasks of the jobs of another queue",
		Long: `Make tasks of the waiting jobs of another queue in the same database.
docs/guides/import.md says what they become, and how to move a live service.`,
		Example: `  stint import river --dry-run
  stint import river --kind email --action email=send-mail --yes
  stint import graphile-worker`,
		GroupID: groupOperations,
		Args:    subCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, source := range jobimport.Sources {
		cmd.AddCommand(p.importFrom(source))
	}
	return cmd
}

func (p *program) importFrom(source jobimport.Source) *cobra.Command {
	given := importFlags{schema: source.Schema}
	workers := `Its workers may run meanwhile: jobs that are in progress stay, and the command says
how many. Run it again for those that fail and wait for another try.`
	if source.Stopped {
		workers = `Stop its workers first, or some jobs are performed twice: a worker begins a job
without a lock on its row.`
	}
	cmd := &cobra.Command{
		Use:   source.Name,
		Short: "Make tasks of the jobs of " + source.Title,
		Long: `Make tasks of the jobs of ` + source.Title + ` that wait, are scheduled, or are due
for another try, and delete these jobs, all in one transaction. Each job is either still
there or a task, also if the command fails. The command says how many jobs there are and
asks for confirmation, unless --yes is given: there is no way back into the other queue.

` + workers + `

A task has the kind of its job as its action, or the one that --action says; its
arguments as its body; as many tries as the job had left; and the ID ` + source.Name + `/JOB
(` + source.Name + `/SCHEMA/JOB with --from-schema). A task has no queue: the command says
of which queues the jobs were. Jobs of paused queues stay unless --queue names them, where
the tables say which are paused. A job that cannot become a task stays, too, and is named.

With --json: imported, the kinds of jobs with queue, action, ready and scheduled; left, the
numbers of jobs that stay, by state; and refused, those of them that cannot become tasks, with
job, kind and problem, and more_refused, their number beyond these. With --dry-run it is
would_import.`,
		Example: `  stint import ` + source.Name + ` --dry-run
  stint import ` + source.Name + ` --kind email --action email=send-mail`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			wanted, err := given.read(source)
			if err != nil {
				return err
			}
			wanted.Progress = p.importProgress()
			return p.withDirectStore(cmd.Context(), p.storeOptions(),
				func(ctx context.Context, db *database) error {
					actions := slices.Collect(maps.Values(wanted.Actions))
					p.warn(unknownActions(ctx, db, true, actions...))
					if !given.yes && !given.dryRun {
						if err := p.confirmImport(ctx, db, wanted); err != nil {
							return err
						}
					}
					return p.importJobs(ctx, db, wanted, given.dryRun)
				})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&given.schema, "from-schema", given.schema, "the `schema` of its tables")
	flags.StringArrayVar(&given.kinds, "kind", nil,
		"import only jobs of this `kind`; may be repeated")
	flags.StringArrayVar(&given.queues, "queue", nil,
		"import only jobs of this `queue`, also if it is paused; may be repeated")
	flags.StringArrayVar(&given.actions, "action", nil,
		"the action of the tasks of a kind, as `KIND=ACTION`; may be repeated")
	flags.BoolVar(&given.dryRun, "dry-run", false, "only say what would be imported")
	flags.BoolVar(&given.yes, "yes", false, "do not ask before importing")
	return cmd
}

func (f *importFlags) read(source jobimport.Source) (jobimport.Import, error) {
	wanted := jobimport.Import{
		Source: source, Kinds: f.kinds, Queues: f.queues, Actions: map[string]string{},
	}
	wanted.Schema = f.schema
	if f.schema == "" || strings.ContainsRune(f.schema, 0) {
		return wanted, said(errInput, "invalid --from-schema %q", f.schema)
	}
	for _, given := range f.actions {
		kind, action, ok := strings.Cut(given, "=")
		if !ok || kind == "" || action == "" {
			return wanted, said(errInput, "invalid --action %q: expected KIND=ACTION", given)
		}
		if _, twice := wanted.Actions[kind]; twice {
			return wanted, said(errInput, "--action has two actions for the kind %q", kind)
		}
		if f.kinds != nil && !slices.Contains(f.kinds, kind) {
			return wanted, said(errInput, "--action names the kind %q, and --kind does not", kind)
		}
		err := cmp.Or(checkNames("action", action), checkTyped("--action", action))
		if err != nil {
			return wanted, err
		}
		wanted.Actions[kind] = action
	}
	return wanted, nil
}

// importProgress says now and then how many jobs were imported.
func (p *program) importProgress() func(jobs int) {
	const every = 100_000
	next := every
	return func(jobs int) {
		if jobs >= next {
			next += every
			fmt.Fprintf(p.stderr, "%s so far, in a transaction that is not committed yet\n",
				display.Count(int64(jobs), "job"))
		}
	}
}

// confirmImport asks whether to import what a dry run has found.
func (p *program) confirmImport(
	ctx context.Context, db *database, wanted jobimport.Import,
) error {
	if err := p.mayAsk(); err != nil {
		return err
	}
	report, err := p.takeJobs(ctx, db, wanted, true)
	if err != nil {
		return err
	}
	return p.confirm(ctx, fmt.Sprintf("make tasks %s of %s of %s, and delete these from the "+
		"schema %q", p.where(db),
		display.Count(int64(report.Jobs()), "job"), wanted.Title, wanted.Schema))
}

func (p *program) importJobs(
	ctx context.Context, db *database, wanted jobimport.Import, dryRun bool,
) error {
	report, err := p.takeJobs(ctx, db, wanted, dryRun)
	if err != nil {
		return err
	}
	if p.json {
		return p.printImportJSON(&report, dryRun)
	}
	return p.printImport(wanted.Title, &report, dryRun)
}

// takeJobs imports jobs in one transaction, which a dry run undoes.
func (p *program) takeJobs(
	ctx context.Context, db *database, wanted jobimport.Import, dryRun bool,
) (report jobimport.Report, err error) {
	err = pgx.BeginTxFunc(ctx, db.pool, pgx.TxOptions{
		IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite,
	}, func(tx pgx.Tx) (err error) {
		report, err = wanted.In(ctx, tx, db.direct)
		if err == nil && dryRun {
			err = errUndo
		}
		return err
	})
	switch {
	case errors.Is(err, errUndo):
		err = nil
	case errors.Is(err, jobimport.ErrNoTable):
		err = said(errInput, "%v; name their schema by --from-schema", err)
	case errors.Is(err, stint.ErrTaskExists):
		err = fmt.Errorf("%w: nothing was imported; were these jobs imported before?", err)
	}
	return report, err
}

func (p *program) printImport(title string, report *jobimport.Report, dryRun bool) error {
	verb := "imported"
	if dryRun {
		verb = "would import"
	}
	err := p.printf("%s %s of %s\n", verb, display.Count(int64(report.Jobs()), "job"), title)
	if len(report.Kinds) > 0 {
		err = errors.Join(err, p.printTable(kindRows(report.Kinds)))
	}
	for _, misfit := range report.Misfits {
		err = errors.Join(err, p.printf("left, since it cannot become a task: job %s (%s): %s\n",
			display.Text(misfit.Job), display.Text(misfit.Kind), display.Text(misfit.Problem)))
	}
	if report.More > 0 {
		err = errors.Join(err, p.printf("and %s more\n", display.Number(int64(report.More))))
	}
	if len(report.Left) == 0 {
		return err
	}
	left := make([]string, len(report.Left))
	for i, of := range report.Left {
		left[i] = display.Number(of.Jobs) + " " + display.Text(of.State)
	}
	return errors.Join(err, p.printf("left there: %s\n", strings.Join(left, ", ")))
}

// kindRows are a table of kinds, with their queues where there are others than the usual one.
func kindRows(kinds []jobimport.Kind) [][]string {
	queues := slices.ContainsFunc(kinds, func(kind jobimport.Kind) bool {
		return kind.Queue != "" && kind.Queue != "default"
	})
	rows := [][]string{{"KIND", "QUEUE", "ACTION", "READY", "SCHEDULED"}}
	for _, kind := range kinds {
		rows = append(rows, []string{
			display.Text(kind.Kind), display.Text(kind.Queue), display.Text(kind.Action),
			display.Number(int64(kind.Ready)), display.Number(int64(kind.Scheduled)),
		})
	}
	for i := range rows {
		if !queues {
			rows[i] = slices.Delete(rows[i], 1, 2)
		}
	}
	return rows
}

func (p *program) printImportJSON(report *jobimport.Report, dryRun bool) error {
	type kind struct {
		Kind      string `json:"kind"`
		Queue     string `json:"queue,omitempty"`
		Action    string `json:"action"`
		Ready     int    `json:"ready"`
		Scheduled int    `json:"scheduled"`
	}
	kinds := make([]kind, len(report.Kinds))
	for i, k := range report.Kinds {
		kinds[i] = kind(k)
	}
	left := map[string]int64{}
	for _, l := range report.Left {
		left[l.State] = l.Jobs
	}
	name := "imported"
	if dryRun {
		name = "would_import"
	}
	type misfit struct {
		Job     string `json:"job"`
		Kind    string `json:"kind"`
		Problem string `json:"problem"`
	}
	misfits := make([]misfit, len(report.Misfits))
	for i, m := range report.Misfits {
		misfits[i] = misfit(m)
	}
	return p.printJSON(map[string]any{
		name: kinds, "left": left, "refused": misfits, "more_refused": report.More,
	})
}
