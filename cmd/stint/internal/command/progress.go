package command

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/tasktree"
	"github.com/stint-tasks/stint/internal/display"
)

// progress returns show, which shows on standard error how far the tasks of a plan are, given what
// the store knows of them, and end, which is called at the end. It shows bars on a terminal,
// otherwise lines.
func (p *program) progress(plan *tasktree.Plan) (show func(tasks []stint.TaskInfo), end func()) {
	// Without a known size no bar is drawn.
	if columns, rows := terminalSize(p.stderr); isDrawable(p.stderr) && columns > 0 && rows > 0 {
		return p.progressBars(plan)
	}
	return p.progressLines(plan), func() {}
}

// progressLines prints a line for each task that has finished.
func (p *program) progressLines(plan *tasktree.Plan) func(tasks []stint.TaskInfo) {
	told := make([]bool, len(plan.Tasks))
	finished := 0
	return func(tasks []stint.TaskInfo) {
		var news []int
		for i := range tasks {
			if !told[i] && !tasks[i].FinishedAt.IsZero() {
				told[i] = true
				news = append(news, i)
			}
		}
		slices.SortStableFunc(news, func(a, b int) int {
			return tasks[a].FinishedAt.Compare(tasks[b].FinishedAt)
		})
		for _, i := range news {
			finished++
			how := string(tasks[i].State)
			if cause := tasks[i].AbortCause; cause != "" {
				how += " (" + string(cause) + ")"
			}
			fmt.Fprintf(p.stderr, "%s of %s: %s %s\n", display.Number(int64(finished)),
				display.Number(int64(len(tasks))), display.Text(plan.Names[i]), how)
		}
	}
}

// An actionBar shows how many tasks with an action have finished.
type actionBar struct {
	*mpb.Bar
	// beside is the text at the right of the bar.
	beside atomic.Pointer[string]
	// These count the tasks that show was called with.
	finished, inProgress, aborted, skipped int64
}

// progressBars shows a bar for each action.
func (p *program) progressBars(
	plan *tasktree.Plan,
) (show func(tasks []stint.TaskInfo), end func()) {
	const nameRunesMax = 30
	var actions []string
	total := map[string]int64{}
	for i := range plan.Tasks {
		action := plan.Tasks[i].Action
		if total[action] == 0 {
			actions = append(actions, action)
		}
		total[action]++
	}
	container := mpb.New(mpb.WithOutput(p.stderr))
	bars := make(map[string]*actionBar, len(actions))
	for _, action := range actions {
		bar := &actionBar{}
		bar.beside.Store(new(string))
		bar.Bar = container.AddBar(total[action],
			mpb.PrependDecorators(
				decor.Name(display.Cut(action, nameRunesMax), decor.WCSyncSpaceR),
				decor.Any(func(s decor.Statistics) string {
					return display.Number(s.Current) + " of " + display.Number(s.Total)
				}, decor.WCSyncWidth)),
			mpb.AppendDecorators(
				decor.Any(func(decor.Statistics) string { return *bar.beside.Load() },
					decor.WCSyncWidthR)))
		bars[action] = bar
	}
	show = func(tasks []stint.TaskInfo) {
		for i := range tasks {
			bars[plan.Tasks[i].Action].count(&tasks[i])
		}
		for _, bar := range bars {
			bar.show()
		}
	}
	end = func() {
		for _, bar := range bars {
			bar.Abort(false) // no effect on one that is full
		}
		container.Wait()
	}
	return show, end
}

func (b *actionBar) count(task *stint.TaskInfo) {
	switch task.State {
	case stint.StateInProgress:
		b.inProgress++
	case stint.StateCompleted:
		b.finished++
	case stint.StateAborted:
		b.finished++
		b.aborted++
	case stint.StateSkipped:
		b.finished++
		b.skipped++
	case stint.StateBlocked, stint.StateScheduled, stint.StateReady:
	}
}

// show shows the counts and sets them to zero.
func (b *actionBar) show() {
	var parts []string
	if b.inProgress > 0 {
		parts = append(parts, display.Number(b.inProgress)+" in progress")
	}
	if b.aborted > 0 {
		parts = append(parts, display.Number(b.aborted)+" aborted")
	}
	if b.skipped > 0 {
		parts = append(parts, display.Number(b.skipped)+" skipped")
	}
	beside := strings.Join(parts, ", ")
	b.beside.Store(&beside)
	b.SetCurrent(b.finished)
	b.finished, b.inProgress, b.aborted, b.skipped = 0, 0, 0, 0
}
