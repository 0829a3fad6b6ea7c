package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
)

// A change is what a sub-command does to the tasks whose IDs it is given, or that pass its filters.
type change struct {
	verb, done string // such as abort, aborted
	// unchanged says why tasks that were named have stayed as they are; empty if none can.
	unchanged string
	// interrupts says that it may change tasks in progress.
	interrupts bool
	// separate says that tasks are changed each for itself, whatever depends on them.
	separate bool
	// states are those that a filter looks at without --state, also others that it may name.
	states, also []stint.State
	// skip leaves out a task that passes the filters.
	skip func(task *stint.TaskInfo, now time.Time) bool
	do   bulk.Change

	filter   filterFlags
	yes      bool
	batchMax int
	// dryRun says that it is only to say what it would do.
	dryRun bool
}

// errPartly says that a change by filters has stopped on the way.
var errPartly = errors.New("stopped")

// command completes a sub-command that makes the change.
func (c *change) command(p *program, cmd *cobra.Command) *cobra.Command {
	c.batchMax = batchTasksMax
	cmd.Use = c.verb + " [ID...]"
	cmd.GroupID = groupTasks
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		filtered := c.filter.given(cmd)
		switch {
		case filtered && len(args) > 0:
			return errors.New("expected IDs or filters, not both")
		case !filtered && len(args) == 0:
			return errors.New("expected task IDs, or filters such as --action")
		case !filtered:
			for _, id := range args {
				if err := checkID(id); err != nil {
					return err
				}
			}
			return nil
		case !c.yes && !c.dryRun:
			return p.mayAsk()
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return p.changeNamed(cmd.Context(), c, args)
		}
		if p.topology != "" {
			return said(errInput, "filters choose tasks of one database or service; across "+
				"shards, name the tasks")
		}
		filter, err := c.filter.filter(cmd)
		if err != nil {
			return err
		}
		for _, state := range filter.States {
			if !slices.Contains(c.states, state) && !slices.Contains(c.also, state) {
				return said(errInput, "invalid --state %q: there is nothing to %s", state, c.verb)
			}
		}
		if len(filter.States) == 0 {
			filter.States = c.states
		}
		return p.changeFiltered(cmd.Context(), c, filter)
	}
	c.filter.add(p, cmd)
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "only say what the command would do")
	cmd.Flags().BoolVar(&c.yes, "yes", false, "do not ask before changing the tasks of a filter")
	return cmd
}

// changeNamed changes the tasks with the IDs given, all in one transaction.
func (p *program) changeNamed(ctx context.Context, c *change, args []string) error {
	ids := make([]stint.TaskID, len(args))
	for i, arg := range args {
		ids[i] = stint.TaskID(arg)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return p.withTasks(ctx, func(ctx context.Context, db *database) error {
		store, err := c.changer(db)
		if err != nil {
			return err
		}
		affected, err := c.do(ctx, store, ids)
		if err != nil {
			if len(affected.Tasks) > 0 { // on some shards
				err = errors.Join(p.printAffected(c, affected), err)
			}
			return err
		}
		unchanged := slices.DeleteFunc(ids, func(id stint.TaskID) bool {
			_, found := slices.BinarySearch(affected.Tasks, id)
			return found
		})
		return p.printNamed(c, affected, unchanged)
	})
}

// changeFiltered changes the tasks that pass the filters after a question. It is one plan: what
// comes of it does not depend on how the tasks are cut into batches.
func (p *program) changeFiltered(ctx context.Context, c *change, filter stint.Filter) error {
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		tasks, skipped, err := c.find(ctx, db, filter)
		if err != nil {
			return err
		}
		if skipped > 0 {
			fmt.Fprintf(p.stderr, "left out %s aborted because of others: retry these others\n",
				display.Count(int64(skipped), "task"))
		}
		if len(tasks) == 0 {
			p.warnFilter(ctx, db, &filter)
		}
		if c.dryRun {
			return p.tryFiltered(ctx, c, db, filter, tasks)
		}
		if len(tasks) > 0 && !c.yes {
			// Those are changed of which the user was told: not what has begun since.
			if err := p.confirm(ctx, c.question(ctx, db, filter, tasks, p.where(db))); err != nil {
				return err
			}
		}
		if c.yes { // nobody was told in which states they are
			for i := range tasks {
				tasks[i].State = ""
			}
		}
		affected, refusal, err := c.inBatches(ctx, db, filter, tasks, func(done int) {
			fmt.Fprintf(p.stderr, "%s %s of %s\n", c.done, display.Number(int64(done)),
				display.Count(int64(len(tasks)), "task"))
		})
		slices.Sort(affected.Tasks)
		if err != nil && len(affected.Tasks) == 0 {
			return err
		}
		printErr := p.printFiltered(c, affected, len(tasks))
		switch left := len(tasks) - len(affected.Tasks); {
		case err != nil && ctx.Err() == nil:
			err = said(errPartly, "stopped after %s of %s: %v",
				display.Number(int64(len(affected.Tasks))),
				display.Count(int64(len(tasks)), "task"), err)
		case err == nil && refusal != nil:
			err = said(errPartly, "left out %s: %v", display.Count(int64(left), "task"), refusal)
		case err == nil && left > 0:
			by := "by others"
			if db.client != nil { // which cannot tell
				by = "by others, or by this command where an answer was lost"
			}
			fmt.Fprintf(p.stderr, "left out %s, begun or changed meanwhile %s\n",
				display.Count(int64(left), "task"), by)
		}
		return errors.Join(printErr, err)
	})
}

// where says where tasks are.
func (p *program) where(db *database) string {
	if db.client != nil {
		return "of " + db.name()
	}
	return fmt.Sprintf("in the schema %q of %s", p.schema, db.name())
}

// find returns the tasks that pass the filters, each once, and how many it has skipped because they
// were aborted because of others. All are found before any is changed.
func (c *change) find(
	ctx context.Context, db *database, filter stint.Filter,
) (tasks []bulk.Task, skipped int, err error) {
	now, err := db.now(ctx)
	if err != nil {
		return nil, 0, err
	}
	found, err := bulk.Find(ctx, db.store, filter, 0, func(task *stint.TaskInfo) bool {
		skip := c.skip != nil && c.skip(task, now)
		if skip && task.AbortCause == stint.CauseDependency {
			skipped++
		}
		return skip
	}, nil)
	return found.Tasks, skipped, err
}

// inBatches changes tasks batch by batch, and tells between two how many it has changed. The tasks
// because of which a batch is refused are left out of it. Refusal says why.
func (c *change) inBatches(
	ctx context.Context, db *database, filter stint.Filter, tasks []bulk.Task, tell func(done int),
) (all stint.Affected, refusal, err error) {
	batches, err := c.cut(ctx, db, tasks)
	if err != nil {
		return all, nil, err
	}
	for i, batch := range batches {
		if i > 0 {
			tell(len(all.Tasks))
		}
		affected, refused, err := bulk.LeavingOut(ctx, db.store, batch,
			func(ctx context.Context, batch []bulk.Task) (stint.Affected, error) {
				return c.changeBatch(ctx, db, filter, batch)
			})
		if err != nil {
			return all, nil, err
		}
		if len(refused) > 0 {
			refusal = refused[len(refused)-1].Err
		}
		all.Tasks = append(all.Tasks, affected.Tasks...)
		all.Others += affected.Others
		all.InProgress += affected.InProgress
		all.Started += affected.Started
		all.Skipped += affected.Skipped
		all.Later += affected.Later
	}
	return all, refusal, nil
}

// changeBatch changes those tasks that still are as they were when they passed the filters: the
// user may have taken a while to answer.
func (c *change) changeBatch(
	ctx context.Context, db *database, filter stint.Filter, batch []bulk.Task,
) (affected stint.Affected, err error) {
	if db.client != nil {
		seen := db.client.AsSeen(filter.States, bulk.Infos(batch), c.dryRun)
		return c.do(ctx, seen, bulk.IDs(batch))
	}
	if c.dryRun {
		dry := db.direct.DryRun()
		return bulk.Unchanged(ctx, db.direct, dry, filter.States, batch, c.do)
	}
	tx, err := db.pool.BeginTx(ctx, pgx.TxOptions{
		IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite,
	})
	if err != nil {
		return affected, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	store := db.direct.WithTx(tx)
	if affected, err = bulk.Unchanged(ctx, store, store, filter.States, batch, c.do); err != nil {
		return affected, err
	}
	// An interruption does not cut a commit off, so that the report tells all that has changed.
	const commitMax = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitMax)
	defer cancel()
	return affected, tx.Commit(ctx)
}

// mayAsk refuses a command that has to ask where nobody can answer.
func (p *program) mayAsk() error {
	if !isTerminal(p.stdin) {
		return said(errInput, "there is no terminal to ask for confirmation; give --yes")
	}
	return nil
}

// confirm asks the user of a terminal whether to go on.
func (p *program) confirm(ctx context.Context, question string) error {
	fmt.Fprintf(p.stderr, "%s? [y/N] ", question)
	answered := make(chan string, 1)
	go func() { // so that Ctrl-C need not wait for the answer
		line, _ := bufio.NewReader(p.stdin).ReadString('\n') // what there is of it is the answer
		answered <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answered:
		if answer != "y" && answer != "yes" {
			return said(errInput, "nothing was changed")
		}
		return nil
	case <-ctx.Done():
		fmt.Fprintln(p.stderr)
		return ctx.Err()
	}
}

func (p *program) printNamed(c *change, affected stint.Affected, unchanged []stint.TaskID) error {
	if p.json {
		document := c.document(affected)
		if c.unchanged != "" {
			document["unchanged"] = orEmpty(unchanged)
		}
		return p.printJSON(document)
	}
	if err := p.printAffected(c, affected); err != nil || len(unchanged) == 0 {
		return err
	}
	names := firstOf(unchanged, namedMax, "and %s more", func(id stint.TaskID) string {
		return display.Text(string(id))
	})
	_, err := fmt.Fprintf(p.stderr, "%s %s: %s\n",
		display.Count(int64(len(unchanged)), "task"), c.unchanged, strings.Join(names, ", "))
	return err
}

func (p *program) printFiltered(c *change, affected stint.Affected, found int) error {
	if p.json {
		document := c.document(affected)
		document["found"] = found
		return p.printJSON(document)
	}
	return p.printAffected(c, affected)
}

// follows says what else becomes of tasks then.
func follows(affected stint.Affected) string {
	text := ""
	add := func(n int, what string) {
		if n > 0 {
			text += "; " + display.Count(int64(n), "task") + " " + what
		}
	}
	add(affected.Started, "would wait for no others any more, and begin")
	add(affected.Skipped, "would be skipped")
	add(affected.Later, "more would be aborted a second later")
	return text
}

// document is what was changed, for --json.
func (c *change) document(affected stint.Affected) map[string]any {
	name := c.done
	if c.dryRun {
		name = "would_" + c.verb
	}
	document := map[string]any{name: orEmpty(affected.Tasks), "others": affected.Others}
	if c.interrupts {
		document["in_progress"] = affected.InProgress
	}
	if c.dryRun {
		document["started"], document["skipped"] = affected.Started, affected.Skipped
		document["later"] = affected.Later
	}
	return document
}

func (p *program) printAffected(c *change, affected stint.Affected) error {
	said := c.done
	if c.dryRun {
		said = "would " + c.verb
	}
	return p.printf("%s %s%s\n", said, countOf(affected), follows(affected))
}

// countOf says how many tasks are changed.
func countOf(affected stint.Affected) string {
	text := display.Count(int64(len(affected.Tasks)), "task")
	if affected.InProgress > 0 {
		text += ", " + display.Number(int64(affected.InProgress)) + " of them in progress,"
	}
	if affected.Others > 0 {
		text += " and " + display.Count(int64(affected.Others), "dependent")
	}
	return strings.TrimSuffix(text, ",")
}
