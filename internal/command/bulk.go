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
	"github.com/stint-tasks/stint/internal/readable"
	"github.com/stint-tasks/stint/internal/seen"
)

// batchTasksMax is how many tasks that a filter has found are changed in one transaction: as many
// as most networks have, whose tasks must be retried together.
const batchTasksMax = 10_000

// A change is what a sub-command does to the tasks whose IDs it is given, or that pass its filters.
type change struct {
	verb, done string // such as abort, aborted
	// unchanged says why tasks that were named have stayed as they are; empty if none can.
	unchanged string
	// states are those that a filter looks at without --state, possible those that it may name.
	states, possible []stint.State
	// skip leaves out a task that passes the filters.
	skip func(task *stint.TaskInfo, now time.Time) bool
	do   func(ctx context.Context, store changer, ids []stint.TaskID) (stint.Affected, error)

	filter filterFlags
	yes    bool
}

// errPartly says that a change by filters has stopped on the way.
var errPartly = errors.New("stopped")

// command completes a sub-command that makes the change.
func (c *change) command(p *program, cmd *cobra.Command) *cobra.Command {
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
			return someIDs(cmd, args)
		case !c.yes && !isTerminal(p.stdin):
			return errors.New("there is no terminal to ask for confirmation; give --yes")
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
			if !slices.Contains(c.possible, state) {
				return said(errInput, "invalid --state %q: there is nothing to %s", state, c.verb)
			}
		}
		if len(filter.States) == 0 {
			filter.States = c.states
		}
		return p.changeFiltered(cmd.Context(), c, filter)
	}
	c.filter.add(p, cmd)
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
		affected, err := c.do(ctx, db.tasks(), ids)
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

// changeFiltered changes the tasks that pass the filters, in batches, after a question.
func (p *program) changeFiltered(ctx context.Context, c *change, filter stint.Filter) error {
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		tasks, skipped, err := c.find(ctx, db, filter)
		if err != nil {
			return err
		}
		if skipped > 0 {
			fmt.Fprintf(p.stderr, "left out %s aborted because of others: retry these others\n",
				readable.Count(int64(skipped), "task"))
		}
		if len(tasks) > 0 && !c.yes {
			question := fmt.Sprintf("%s %s %s", c.verb,
				readable.Count(int64(len(tasks)), "task"), p.where(db))
			if err := p.confirm(ctx, question); err != nil {
				return err
			}
		}
		affected, refusal, err := c.inBatches(ctx, db, filter, tasks)
		if err != nil && len(affected.Tasks) == 0 {
			return err
		}
		printErr := p.printFiltered(c, affected, len(tasks))
		switch left := len(tasks) - len(affected.Tasks); {
		case err != nil && ctx.Err() == nil:
			err = said(errPartly, "stopped after %s of %s: %v",
				readable.Number(int64(len(affected.Tasks))),
				readable.Count(int64(len(tasks)), "task"), err)
		case err == nil && refusal != nil:
			err = said(errPartly, "left out %s: %v", readable.Count(int64(left), "task"), refusal)
		case err == nil && left > 0:
			by := "by others"
			if db.client != nil { // which cannot tell
				by = "by others, or by this command where an answer was lost"
			}
			fmt.Fprintf(p.stderr, "left out %s, changed meanwhile %s\n",
				readable.Count(int64(left), "task"), by)
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

// A foundTask is a task as it was when it passed the filters.
type foundTask struct {
	id                 stint.TaskID
	inserted, finished time.Time
}

// find returns the tasks that pass the filters, each once, and how many it has skipped because they
// were aborted because of others.
func (c *change) find(
	ctx context.Context, db *database, filter stint.Filter,
) (tasks []foundTask, skipped int, err error) {
	const pageTasksMax = 1000
	now, err := db.now(ctx)
	if err != nil {
		return nil, 0, err
	}
	filter.Limit = pageTasksMax
	for {
		page, err := db.store.ListTasks(ctx, filter)
		if err != nil {
			return nil, 0, err
		}
		for i := range page.Tasks {
			task := &page.Tasks[i]
			switch {
			case c.skip == nil || !c.skip(task, now):
				tasks = append(tasks, foundTask{task.ID, task.InsertedAt, task.FinishedAt})
			case task.AbortCause == stint.CauseDependency:
				skipped++
			}
		}
		if page.Next == "" {
			break
		}
		filter.After = page.Next
	}
	byID := func(a, b foundTask) int { return strings.Compare(string(a.id), string(b.id)) }
	slices.SortFunc(tasks, byID)
	same := func(a, b foundTask) bool { return a.id == b.id }
	return slices.CompactFunc(tasks, same), skipped, nil
}

// inBatches changes tasks batch by batch. The tasks because of which a batch is refused are left
// out of it. They are tried again as long as that changes any: a task whose aborted predecessor is
// in a later batch can be retried then. Refusal says why tasks were left out in the end.
func (c *change) inBatches(
	ctx context.Context, db *database, filter stint.Filter, tasks []foundTask,
) (all stint.Affected, refusal, err error) {
	var left []foundTask
	change := func(batch []foundTask) error {
		for {
			affected, err := c.changeBatch(ctx, db, filter, batch)
			if err == nil {
				all.Tasks = append(all.Tasks, affected.Tasks...)
				all.Others += affected.Others
				return nil
			}
			refused, findErr := refusedBy(ctx, db.store, err)
			if findErr != nil {
				return findErr
			}
			var rest []foundTask
			for _, task := range batch {
				if refused[task.id] {
					left = append(left, task)
				} else {
					rest = append(rest, task)
				}
			}
			if len(rest) == len(batch) {
				return err
			}
			batch, refusal = rest, err
		}
	}
	for before := -1; len(tasks) > 0 && len(all.Tasks) > before; tasks = left {
		before, left, refusal = len(all.Tasks), nil, nil
		for batch := range slices.Chunk(tasks, batchTasksMax) {
			if err := change(batch); err != nil {
				return all, nil, err
			}
		}
	}
	return all, refusal, nil
}

// refusedBy returns the tasks because of which a change was refused: those that the error names or,
// where it names aborted predecessors, their dependents.
func refusedBy(
	ctx context.Context, store verbs, err error,
) (map[stint.TaskID]bool, error) {
	refused := map[stint.TaskID]bool{}
	var named *stint.TaskError
	if !errors.As(err, &named) {
		return refused, nil
	}
	for _, id := range named.IDs {
		if !errors.Is(err, stint.ErrPredecessorAborted) {
			refused[id] = true
			continue
		}
		graph, err := store.Graph(ctx, id)
		if err != nil {
			return nil, err
		}
		for _, dependency := range graph.Dependencies {
			if dependency.Predecessor == id {
				refused[dependency.Dependent] = true
			}
		}
	}
	return refused, nil
}

// changeBatch changes those tasks that still are as they were when they passed the filters: the
// user may have taken a while to answer.
func (c *change) changeBatch(
	ctx context.Context, db *database, filter stint.Filter, batch []foundTask,
) (affected stint.Affected, err error) {
	infos, ids := make([]stint.TaskInfo, len(batch)), make([]stint.TaskID, len(batch))
	for i, task := range batch {
		ids[i] = task.id
		infos[i] = stint.TaskInfo{
			ID: task.id, InsertedAt: task.inserted, FinishedAt: task.finished,
		}
	}
	if db.client != nil {
		return c.do(ctx, guarded{db.client, filter.States, infos}, ids)
	}
	options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	err = pgx.BeginTxFunc(ctx, db.pool, options, func(tx pgx.Tx) error {
		store := db.direct.WithTx(tx)
		still, err := seen.Still(ctx, store, filter.States, infos)
		if err != nil || len(still) == 0 {
			return err
		}
		affected, err = c.do(ctx, store, still)
		return err
	})
	return affected, err
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
		document := map[string]any{c.done: orEmpty(affected.Tasks), "others": affected.Others}
		if c.unchanged != "" {
			document["unchanged"] = orEmpty(unchanged)
		}
		return p.printJSON(document)
	}
	if err := p.printAffected(c, affected); err != nil || len(unchanged) == 0 {
		return err
	}
	const shown = 10
	names := make([]string, 0, shown)
	for _, id := range unchanged[:min(shown, len(unchanged))] {
		names = append(names, readable.Text(string(id)))
	}
	if more := len(unchanged) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %s more", readable.Number(int64(more))))
	}
	_, err := fmt.Fprintf(p.stderr, "%s %s: %s\n",
		readable.Count(int64(len(unchanged)), "task"), c.unchanged, strings.Join(names, ", "))
	return err
}

func (p *program) printFiltered(c *change, affected stint.Affected, found int) error {
	if p.json {
		return p.printJSON(map[string]any{
			c.done: orEmpty(affected.Tasks), "others": affected.Others, "found": found,
		})
	}
	return p.printAffected(c, affected)
}

func (p *program) printAffected(c *change, affected stint.Affected) error {
	text := c.done + " " + readable.Count(int64(len(affected.Tasks)), "task")
	if affected.Others > 0 {
		text += " and " + readable.Count(int64(affected.Others), "dependent")
	}
	return p.printf("%s\n", text)
}

// orEmpty makes a list that JSON shows as [] instead of null.
func orEmpty(ids []stint.TaskID) []stint.TaskID {
	if ids == nil {
		return []stint.TaskID{}
	}
	return ids
}
