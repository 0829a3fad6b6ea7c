package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/verbs"
)

func (p *program) scheduleCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "schedule",
		SuggestFor: []string{"cron", "schedules"},
		Short:      "Insert tasks again and again, at times that a calendar says",
		Long: `Put, list and change schedules, which insert tasks at the times of cron or at
intervals. A schedule is kept in the database; whatever maintains the tables, as every worker and
stint serve do, inserts its tasks when it occurs.`,
		Example: `  stint schedule put --name report --spec '0 8 * * mon-fri' --action report
  stint schedule ls`,
		GroupID: groupOperations,
		Args:    subCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		noted(p.putCommand()), p.scheduleListCommand(), p.nextCommand(),
		noted(p.changing(&cobra.Command{
			Use:   "pause NAME...",
			Short: "Keep schedules from occurring",
			Long: `Keep schedules from occurring until: stint schedule resume. Tasks that were
inserted stay as they are. If one of the schedules does not exist, none is paused.

With --json: paused, the names.`,
			Example: "  stint schedule pause report",
		}, "paused", allVerbs.PauseSchedules)),
		noted(p.changing(&cobra.Command{
			Use:   "resume NAME...",
			Short: "Let paused schedules occur again",
			Long: `End the pauses of schedules. They occur from now on: what they would have been
due for meanwhile is left out. One that is not paused stays as it is, and standard error says so.
If one of the schedules does not exist, none is resumed.

With --json: resumed, the names of those that were paused.`,
			Example: "  stint schedule resume report",
		}, "resumed", allVerbs.ResumeSchedules)),
		noted(p.triggerCommand()),
		noted(p.changing(&cobra.Command{
			Use:        "rm NAME...",
			SuggestFor: []string{"delete", "remove"},
			Short:      "Delete schedules",
			Long: `Delete schedules. Tasks that were inserted stay. If one of the schedules does not
exist, none is deleted.

With --json: deleted, the names.`,
			Example: "  stint schedule rm report",
		}, "deleted", allVerbs.DeleteSchedules)),
	)
	return cmd
}

// putFlags are those of schedules that are put.
type putFlags struct {
	ensure                         bool
	name, spec, zone, action, body string
}

func (p *program) putCommand() *cobra.Command {
	var flags putFlags
	cmd := &cobra.Command{
		Use:        "put [FILE]",
		SuggestFor: []string{"add", "set"},
		Short:      "Add schedules, or change them",
		Long: `Add the schedules of a file, or of standard input (no FILE, or "-"), or change those
with the same names, all or none. With --name, put one schedule with one task, and read nothing.
The file has a JSON object for each schedule, starting on a new line, with these fields:

  name      what the schedule is known by; required
  spec      when it occurs: the five fields of cron, one of @yearly, @monthly, @weekly,
            @daily and @hourly, or "every" and a time, such as "every 90s"; required
  zone      the zone of the fields, such as Europe/Berlin (default UTC)
  tasks     a list of the tasks to insert, each an object as in: stint help insert; required.
            Their IDs become NAME/2026-11-22T08:00:00Z/ID; one that is alone needs no id.
            after, to_signal_after, when and when_any name tasks of the same list; not_before
            and deadline are refused.
  catch_up  what becomes of occurrences that were missed: last (default: the newest one is
            caught up with), skip, or all
  window    how long ago those are at most that are caught up with (default 24h)
  overlap   what becomes of an occurrence while tasks of the one before have not finished:
            allow (default), skip, wait, or abort (those of the one before)
  jitter    tasks start up to that much later
  from, to  times in RFC 3339 before and after which the schedule does not occur
  expire    true makes the next occurrence the deadline of the tasks

What stint schedule ls --json prints may be put again, wherever. A schedule that is added,
or gets other times, occurs from now on, never for the past. A paused one stays paused, and
one that is added is paused if it was when it was printed.

With --json: put, the names; with --ensure ensured.`,
		Example: `  stint schedule put --name report --spec '0 8 * * *' --action report
  stint schedule put schedules.json
  stint schedule ls --json | stint schedule put --database-url postgres://localhost/copy`,
		Args: oneFileAtMost,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.putSchedules(cmd, args, &flags)
		},
	}
	set := cmd.Flags()
	set.BoolVar(&flags.ensure, "ensure", false, "leave schedules that exist as they are")
	set.StringVar(&flags.name, "name", "", "put one schedule with this `name`")
	set.StringVar(&flags.spec, "spec", "", "when it occurs, such as '0 8 * * *' or 'every 90s'")
	set.StringVar(&flags.zone, "zone", "", "the `zone` of --spec (default UTC)")
	set.StringVar(&flags.action, "action", "", "the `action` of its task")
	set.StringVar(&flags.body, "body", "", "the body of its task, a `text`")
	completeBy(cmd, "action", p.actions)
	return cmd
}

func (p *program) putSchedules(cmd *cobra.Command, args []string, flags *putFlags) error {
	ctx := cmd.Context()
	schedules, refused, err := p.scheduleOfFlags(cmd, args, flags)
	var paused []string
	if err == nil && schedules == nil {
		schedules, paused, refused, err = p.readSchedules(ctx, append(args, "-")[0])
	}
	if err != nil {
		return err
	}
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		put, done := db.store.PutSchedules, "put"
		if flags.ensure {
			put, done = db.store.EnsureSchedules, "ensured"
		}
		var tasks []stint.Task
		for i := range schedules {
			tasks = append(tasks, schedules[i].Tasks...)
		}
		p.warnTasks(ctx, db, tasks)
		paused, err := newOf(ctx, db, paused)
		if err != nil {
			return err
		}
		if err := put(ctx, schedules); err != nil {
			return refused(err)
		}
		if len(paused) > 0 {
			if err := db.store.PauseSchedules(ctx, paused...); err != nil {
				return fmt.Errorf("%q were put, and not paused as in the input: %w", paused, err)
			}
			p.warn([]string{
				display.Count(int64(len(paused)), "new schedule") + " paused, as in the input",
			})
		}
		names := make([]string, len(schedules))
		for i := range schedules {
			names[i] = schedules[i].Name
		}
		return p.printSchedules(done, names)
	})
}

// newOf returns which of some schedules are not there yet.
func newOf(ctx context.Context, db *database, names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	there, err := db.store.ListSchedules(ctx)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(there, func(s stint.ScheduleInfo) bool { return s.Name == name })
	}), err
}

// scheduleOfFlags returns the schedule that flags describe, nil if there are none, and what makes a
// refusal name the flags.
func (p *program) scheduleOfFlags(
	cmd *cobra.Command, args []string, flags *putFlags,
) ([]stint.Schedule, func(error) error, error) {
	given := cmd.Flags().Changed
	switch {
	case !given("name") && !given("spec") && !given("zone") && !given("action") && !given("body"):
		return nil, nil, nil
	case len(args) > 0:
		return nil, nil, said(errInput, "FILE excludes --name, --spec, --zone, --action and --body")
	case !given("name") || !given("spec") || !given("action"):
		return nil, nil, said(errInput, "a schedule by flags needs --name, --spec and --action")
	}
	err := cmp.Or(checkTyped("--name", flags.name), checkTyped("--action", flags.action))
	if err != nil {
		return nil, nil, err
	}
	task := stint.Task{Action: flags.action}
	if given("body") {
		task.Body = []byte(flags.body)
	}
	schedule := stint.Schedule{
		Name: flags.name, Spec: flags.spec, Zone: flags.zone, Tasks: []stint.Task{task},
	}
	refused := func(err error) error {
		var refused *stint.ArgumentError
		if !errors.As(err, &refused) {
			return err
		}
		return said(errInput, "--%s", scheduleField(refused))
	}
	return []stint.Schedule{schedule}, refused, nil
}

// readSchedules reads the schedules of a file. It returns the names of those that are paused there,
// too, and what makes a refusal name their lines.
func (p *program) readSchedules(
	ctx context.Context, file string,
) (schedules []stint.Schedule, paused []string, refused func(error) error, err error) {
	text, err := p.read(ctx, file, "schedules, each a JSON object that begins on its own line")
	if err != nil {
		return nil, nil, nil, err
	}
	within := func(err error) error { return fmt.Errorf("%s: %w", sourceOf(file), err) }
	lines := map[string]int{}
	input := newDecoder(bytes.NewReader(text))
	for {
		schedule, line, err := input.nextSchedule()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, nil, within(err)
		}
		if first, twice := lines[schedule.Name]; twice {
			return nil, nil, nil, within(fmt.Errorf("%w: line %d: schedule %q is on line %d, too",
				errInput, line, schedule.Name, first))
		}
		lines[schedule.Name] = line
		schedules = append(schedules, schedule)
	}
	if len(schedules) == 0 {
		return nil, nil, nil, within(fmt.Errorf("%w: there is no schedule", errInput))
	}
	return schedules, input.paused, func(err error) error {
		return refusedSchedule(err, sourceOf(file), lines)
	}, nil
}

func (p *program) scheduleListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "ls [NAME...]",
		Short: "List schedules",
		Long: `List these schedules, or all of them. NEXT is when a schedule occurs next, LAST when
it last inserted tasks; MISSED is how many occurrences nobody was there for and that were not
caught up with, SKIPPED how many were left out because of overlap.

With --json, a schedule to a line, with the fields of: stint help schedule put; and next_at,
last_at, last_ids (of its tasks), missed, skipped, paused_since, changed_at, hidden (if you
may not read all bodies, which are left out then). What does not apply is missing.`,
		Example: `  stint schedule ls
  stint schedule ls report --json | jq -r .next_at`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
				return p.listSchedules(ctx, db, args)
			})
		},
		ValidArgsFunction: p.scheduleNames,
	}
}

func (p *program) listSchedules(ctx context.Context, db *database, names []string) error {
	list, err := db.store.ListSchedules(ctx, names...)
	if err != nil {
		return err
	}
	if p.json {
		return printLines(p, list, newScheduleJSON)
	}
	if len(list) == 0 {
		p.printNone(ctx, db, "no schedules")
		return nil
	}
	now, err := db.now(ctx)
	if err != nil {
		return err
	}
	relative := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return display.Relative(at, now)
	}
	rows := [][]string{{
		"NAME", "SPEC", "ZONE", "NEXT", "LAST", "MISSED", "SKIPPED", "PAUSED",
	}}
	for i := range list {
		info := &list[i]
		rows = append(rows, []string{
			display.Text(info.Name), display.Text(info.Spec), display.Text(info.Zone),
			relative(info.NextAt), relative(info.LastAt), display.Number(info.Missed),
			display.Number(info.Skipped), relative(info.PausedSince),
		})
	}
	return p.printTable(rows)
}

// occurrencesMax is how many occurrences next prints at most.
const occurrencesMax = 1000

func (p *program) nextCommand() *cobra.Command {
	count := 5
	cmd := &cobra.Command{
		Use:   "next NAME",
		Short: "Show when a schedule occurs next",
		Long: `Show the next occurrences of a schedule, in UTC and in its zone. A pause makes no
difference.

With --json: name, zone, next (a list of times).`,
		Example: "  stint schedule next report -n 10",
		Args:    one("the name of one schedule"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 || count > occurrencesMax {
				return said(errInput, "-n must be 1 to %d", occurrencesMax)
			}
			return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
				return p.next(ctx, db, args[0], count)
			})
		},
		ValidArgsFunction: onlyFirst(p.scheduleNames),
	}
	cmd.Flags().IntVarP(&count, "number", "n", count, "show that `many` occurrences")
	return cmd
}

func (p *program) next(ctx context.Context, db *database, name string, count int) error {
	list, err := db.store.ListSchedules(ctx, name)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return &stint.ScheduleError{Names: []string{name}, Err: stint.ErrScheduleNotFound}
	}
	now, err := db.now(ctx)
	if err != nil {
		return err
	}
	info := &list[0]
	occurrences, err := info.Next(now, count)
	if err != nil {
		return err
	}
	zone, err := time.LoadLocation(info.Zone)
	if err != nil {
		return err
	}
	if p.json {
		next := make([]time.Time, len(occurrences))
		for i, at := range occurrences {
			next[i] = at.UTC()
		}
		return p.printJSON(map[string]any{"name": info.Name, "zone": info.Zone, "next": next})
	}
	if !info.PausedSince.IsZero() {
		fmt.Fprintf(p.stderr,
			"%s is paused: it does not occur before: stint schedule resume %s%s\n",
			display.Text(name), display.Word(name), p.flagsLine())
	}
	if len(occurrences) == 0 {
		fmt.Fprintf(p.stderr, "%s does not occur any more\n", display.Text(name))
		return nil
	}
	rows := [][]string{{"NEXT", "UTC", display.Text(info.Zone)}}
	for _, at := range occurrences {
		rows = append(rows, []string{
			display.Relative(at, now), at.UTC().Format("Mon 2006-01-02 15:04:05Z"),
			at.In(zone).Format("Mon 2006-01-02 15:04:05 -07:00"),
		})
	}
	return p.printTable(rows)
}

func (p *program) triggerCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "trigger NAME",
		SuggestFor: []string{"run", "fire"},
		Short:      "Insert the tasks of a schedule now",
		Long: `Insert the tasks of a schedule now, in addition to its occurrences, also if it is
paused. Prints what their IDs begin with; a task without an ID has that as its own. A
command that is repeated inserts the tasks once more.

With --json: name, id.`,
		Example: `  id=$(stint schedule trigger report)`,
		Args:    one("the name of one schedule"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
				id, err := db.store.TriggerSchedule(ctx, args[0])
				switch {
				case err != nil:
					return err
				case p.json:
					return p.printJSON(map[string]any{"name": args[0], "id": id})
				}
				return p.printf("%s\n", display.Text(string(id)))
			})
		},
		ValidArgsFunction: onlyFirst(p.scheduleNames),
	}
}

// changing completes a sub-command that changes schedules.
func (p *program) changing(
	cmd *cobra.Command, done string,
	do func(store allVerbs, ctx context.Context, names ...string) error,
) *cobra.Command {
	cmd.Args = some("names of schedules")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		names = distinct(names)
		return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
			var idle []string
			if done == "resumed" {
				idle = notPausedSchedules(ctx, db, names)
			}
			if err := do(db.store, ctx, names...); err != nil {
				return err
			}
			for _, name := range idle {
				fmt.Fprintf(p.stderr, "%s was not paused\n", display.Text(name))
			}
			return p.printSchedules(done, without(names, idle))
		})
	}
	cmd.ValidArgsFunction = p.scheduleNames
	return cmd
}

// notPausedSchedules are those of some schedules that are not paused; none if that cannot be found
// out: who may not list them may resume them.
func notPausedSchedules(ctx context.Context, db *database, names []string) (idle []string) {
	list, err := db.store.ListSchedules(ctx, names...)
	for i := range list {
		if err == nil && list[i].PausedSince.IsZero() {
			idle = append(idle, list[i].Name)
		}
	}
	return idle
}

// printSchedules says what was done with schedules.
func (p *program) printSchedules(done string, names []string) error {
	if p.json {
		return p.printJSON(map[string]any{done: names})
	}
	return p.printf("%s %s\n", done, display.Count(int64(len(names)), "schedule"))
}

// scheduleNames offers schedules.
func (p *program) scheduleNames(
	cmd *cobra.Command, args []string, begun string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	var offered []cobra.Completion
	p.lookUp(cmd, func(ctx context.Context, store taskVerbs) error {
		schedules, ok := store.(verbs.Scheduler)
		if !ok { // across shards, there are none
			return nil
		}
		list, err := schedules.ListSchedules(ctx)
		for i := range list {
			name := list[i].Name
			if display.IsPlainWord(name) && strings.HasPrefix(name, begun) &&
				!slices.Contains(args, name) {
				offered = append(offered, cobra.CompletionWithDesc(name, list[i].Spec))
			}
		}
		return err
	})
	return offered, cobra.ShellCompDirectiveNoFileComp
}
