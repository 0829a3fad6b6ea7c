package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) showCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "show ID",
		SuggestFor: []string{"get", "status"},
		Short:      "Show a task, with its body and result",
		Long: `Show everything that the store knows about a task. If the body or the result is
long, or is not text, only its size is shown. Of the tasks that it waits for (predecessors)
and of those that wait for it (dependents), ten each are shown with their states,
unfinished ones first; stint graph draws them all. Of its tries those are shown that the
workers keep (see --keep-tries of stint worker), and its recorded steps. Of a task that is
ready or scheduled it says when that will start. At the end are the
changes that people have made to tasks with this ID (see: stint changes), the latest 20. Of a
task that is not there the command says who has changed it last, if that is known.

With --json, the task (see: stint help json) with its whole body and result, and
predecessors and dependents: lists of tasks without bodies and results, left out if there
are none. In a network of over 10,000 tasks some may be missing, which neighbours_cut says.
history has the ended tries: number, outcome ("completed", "aborted", "returned",
"released", "expired", "cancelled" or "overdue"), actor, owned_at, ended_at, status, log.
It is left out if there is none but the one that ended the task, without a log. steps has
the recorded steps: name, recorded_at, bytes; left out if there are none. changes has what
stint changes prints, the newest first; left out if there are none. start, of a task that is
ready or scheduled, is what stint explain prints.`,
		Example: `  stint show greet/world
  stint show greet/world --json | jq -r .result`,
		GroupID: groupTasks,
		Args:    oneID,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.withTasks(cmd.Context(), func(ctx context.Context, db *database) error {
				id := stint.TaskID(args[0])
				task, err := db.task(ctx, id)
				if err != nil {
					return p.gone(ctx, db, id, err)
				}
				graph, err := db.tasks().Graph(ctx, task.ID)
				if err != nil {
					return err
				}
				history, err := p.history(ctx, db, &task)
				if err != nil {
					return err
				}
				changed, err := p.changesOf(ctx, db, id)
				if err != nil {
					return err
				}
				shown := &shownTask{task, neighboursOf(graph, task.ID), history, changed, nil}
				if task.State == stint.StateReady || task.State == stint.StateScheduled {
					if shown.why, err = p.explained(ctx, db, id); err != nil {
						return err
					}
				}
				return p.printTask(ctx, db, shown)
			})
		},
	}
}

// A shownTask is what show tells of a task.
type shownTask struct {
	task    stint.TaskInfo
	around  neighbours
	history stint.History
	changed []stint.Change
	why     *stint.Explanation // why it does not run, if it is ready or scheduled
}

// start is when the task starts, nil if that is not to be told.
func (s *shownTask) start() *stint.Start {
	if s.why == nil {
		return nil
	}
	return s.why.Start
}

// explained says why a task does not run, nil if it is gone by now.
func (p *program) explained(
	ctx context.Context, db *database, id stint.TaskID,
) (*stint.Explanation, error) {
	why, err := db.tasks().Explain(ctx, id)
	switch {
	case errors.Is(err, stint.ErrTaskNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &why, nil
}

// neighbours are the tasks that a task waits for, and those that wait for it, unfinished ones
// first.
type neighbours struct {
	predecessors, dependents []stint.TaskInfo
	cut                      bool // there may be more
}

// neighboursOf picks a task's neighbours from the network around it. A graph that is cut has the
// nearest tasks, so it lacks neighbours only if there are more of them than it may hold.
func neighboursOf(graph *stint.Graph, id stint.TaskID) neighbours {
	tasks := make(map[stint.TaskID]stint.TaskInfo, len(graph.Tasks))
	for _, task := range graph.Tasks {
		tasks[task.ID] = task
	}
	n := neighbours{cut: graph.Cut}
	for _, dependency := range graph.Dependencies {
		switch id {
		case dependency.Dependent:
			n.predecessors = append(n.predecessors, tasks[dependency.Predecessor])
		case dependency.Predecessor:
			n.dependents = append(n.dependents, tasks[dependency.Dependent])
		}
	}
	for _, list := range [][]stint.TaskInfo{n.predecessors, n.dependents} {
		slices.SortStableFunc(list, func(a, b stint.TaskInfo) int {
			switch unfinished := a.FinishedAt.IsZero(); {
			case unfinished == b.FinishedAt.IsZero():
				return 0
			case unfinished:
				return -1
			}
			return 1
		})
	}
	return n
}

// lines are the neighbours for people.
func (n neighbours) lines(paint display.Painter) []display.Line {
	more := "and %s more"
	if n.cut {
		more = "and at least %s more"
	}
	var lines []display.Line
	add := func(name string, tasks []stint.TaskInfo) {
		named := firstOf(tasks, namedMax, more, func(task stint.TaskInfo) string {
			return fmt.Sprintf("%s (%s)", display.Text(string(task.ID)),
				paint.State(string(task.State)))
		})
		if len(named) > 0 {
			lines = append(lines, display.Line{Name: name, Value: strings.Join(named, "\n")})
		}
	}
	add("predecessors", n.predecessors)
	add("dependents", n.dependents)
	return lines
}

// A shownJSON is what show prints.
type shownJSON struct {
	taskJSON
	Predecessors []taskJSON   `json:"predecessors,omitempty"`
	Dependents   []taskJSON   `json:"dependents,omitempty"`
	Cut          bool         `json:"neighbours_cut,omitempty"`
	History      []tryJSON    `json:"history,omitempty"`
	Steps        []stepJSON   `json:"steps,omitempty"`
	Changes      []changeJSON `json:"changes,omitempty"`
	Start        *startJSON   `json:"start,omitempty"`
}

func (p *program) printTask(ctx context.Context, db *database, s *shownTask) error {
	if p.json {
		return p.printJSON(shownJSON{
			p.newTaskJSON(&s.task), p.tasksJSON(s.around.predecessors),
			p.tasksJSON(s.around.dependents), s.around.cut, triesJSON(s.history.Tries),
			stepsJSON(s.history.Steps), changesJSON(s.changed), newStartJSON(s.start()),
		})
	}
	now, err := db.now(ctx)
	if err != nil {
		return err
	}
	var rows [][]string
	lines := display.Task(&s.task, now, p.painter())
	if s.why != nil {
		if start := s.why.StartText(); start != "" {
			lines = append(lines, display.Line{Name: "start", Value: start})
		}
	}
	lines = append(lines, s.around.lines(p.painter())...)
	lines = append(lines, historyLines(s.history, now)...)
	for _, line := range append(lines, changeLines(s.changed, now)...) {
		// Further lines of a value are put below the first one.
		value := strings.ReplaceAll(line.Value, "\n", "\n\t")
		rows = append(rows, []string{line.Name, value})
	}
	return p.printTable(rows)
}
