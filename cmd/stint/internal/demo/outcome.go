package demo

import (
	"context"
	"fmt"
	"strconv"

	"github.com/stint-tasks/stint"
)

// A Summary is the outcome of the story.
type Summary struct {
	// OK says that there are no Problems: every task has ended as it should have, and the tables
	// agree with one another.
	OK       bool     `json:"ok"`
	Problems []string `json:"problems"`

	// Tasks is how many tasks the yearbook has. States, Causes and Tries count them by their
	// states, by why they were aborted, and by how often they were fetched.
	Tasks  int                         `json:"tasks"`
	States Counts                      `json:"states"`
	Causes map[stint.AbortCause]int    `json:"causes"`
	Tries  map[stint.State]map[int]int `json:"tries"`
	// Failures are how many tries ended with an error, and HandedOn how many with the death of
	// their owner.
	Failures int `json:"failures"`
	HandedOn int `json:"handed_on"`
	// Photos is how many photos are in the book.
	Photos int `json:"photos"`

	// Seconds is how many seconds passed until the book was printed.
	Seconds        float64 `json:"seconds"`
	TasksPerSecond float64 `json:"tasks_per_second"`
	// Noticed and Taken are how many seconds after the kill the first task of the killed worker was
	// no longer its own, and the last one had another owner.
	Noticed float64 `json:"noticed_seconds"`
	Taken   float64 `json:"taken_seconds"`

	// The two rates are for tasks without any work.
	SprintTasks        int     `json:"sprint_tasks"`
	InsertedPerSecond  float64 `json:"inserted_per_second"`
	PerformedPerSecond float64 `json:"performed_per_second"`
}

// An outcome is how a task should end.
type outcome struct {
	state stint.State
	cause stint.AbortCause
	// tries is how many tries the task takes at least; if its owner dies, it takes one more at
	// most.
	tries int
}

// outcomes returns how all tasks should end. Each task must come after the tasks that it waits for.
// The lost scan is cancelled, tasks that depend on an aborted task are aborted unless they run
// anyway, and all others complete.
func outcomes(tasks []stint.Task) map[stint.TaskID]outcome {
	ends := map[stint.TaskID]outcome{}
	for _, task := range tasks {
		end := outcome{
			state: stint.StateCompleted, tries: 1 + failures(task.ID, task.Action),
		}
		if task.Action == stint.Spontaneous {
			end.tries = 0 // nobody owns it
		}
		if task.ID == lostScan() {
			end = outcome{state: stint.StateAborted, cause: stint.CauseCancelled, tries: 1}
		}
		for _, predecessor := range task.After {
			aborted := ends[predecessor].state == stint.StateAborted
			if aborted && task.OnAbort == stint.AbortToo {
				end = outcome{state: stint.StateAborted, cause: stint.CauseDependency}
			}
		}
		ends[task.ID] = end
	}
	return ends
}

// told returns how many of the tasks before a task have completed and were aborted, as its owner is
// told. A join stands for the tasks that it waited for.
func told(tasks []stint.Task, id stint.TaskID) (completed, aborted int) {
	definitions := map[stint.TaskID]*stint.Task{}
	for i := range tasks {
		definitions[tasks[i].ID] = &tasks[i]
	}
	ends := outcomes(tasks)
	var visit func(id stint.TaskID)
	visit = func(id stint.TaskID) {
		for _, predecessor := range definitions[id].After {
			switch {
			case definitions[predecessor].Action == stint.Spontaneous:
				visit(predecessor)
			case ends[predecessor].state == stint.StateAborted:
				aborted++
			default:
				completed++
			}
		}
	}
	visit(id)
	return completed, aborted
}

// photosInBook counts the photos of the regions whose index was made.
func photosInBook(tasks []stint.Task) int {
	photos, ends := 0, outcomes(tasks)
	for _, name := range regions() {
		if ends[indexID(name)].state == stint.StateCompleted {
			photos += filmsPerRegion * photosPerFilm
		}
	}
	return photos
}

// compare names the tasks that have not ended as they should have.
func compare(planned []stint.Task, tasks []stint.TaskInfo) []string {
	problems := []string{}
	ends := outcomes(planned)
	if len(tasks) != len(planned) {
		problems = append(problems, fmt.Sprintf("there are %d tasks of %d",
			len(tasks), len(planned)))
	}
	for _, task := range tasks {
		want := ends[task.ID]
		switch {
		case task.State != want.state || task.AbortCause != want.cause:
			problems = append(problems, fmt.Sprintf("%q is %s %s, not %s %s",
				string(task.ID), task.State, task.AbortCause, want.state, want.cause))
		case task.Tries < want.tries:
			problems = append(problems, fmt.Sprintf("%q took %d tries, not %d",
				string(task.ID), task.Tries, want.tries))
		}
	}
	return problems
}

// summarise looks at what has become of the tasks.
func (s *story) summarise(ctx context.Context) (Summary, error) {
	sum := Summary{
		Tasks: len(s.plan.Tasks), States: Counts{}, Causes: map[stint.AbortCause]int{},
		Tries: map[stint.State]map[int]int{}, Seconds: s.printed.Seconds(),
		TasksPerSecond: float64(len(s.plan.Tasks)) / s.printed.Seconds(),
		Noticed:        s.noticed.Seconds(), Taken: s.handedOn.Seconds(),
		SprintTasks:        s.sprinted.Tasks,
		InsertedPerSecond:  float64(s.sprinted.Tasks) / s.sprinted.Inserted,
		PerformedPerSecond: float64(s.sprinted.Tasks) / s.sprinted.Performed,
	}
	tasks, err := s.Store.GetTasks(ctx, s.plan.IDs())
	if err != nil {
		return sum, err
	}
	sum.Problems = compare(s.plan.Tasks, tasks)
	for _, task := range tasks {
		sum.count(&task)
		if task.ID == bindID {
			sum.judge(s.plan.Tasks, &task)
		}
	}
	sum.HandedOn = s.taken
	sum.Failures -= s.taken
	wrong, err := s.Store.Check(ctx)
	for _, finding := range wrong {
		sum.Problems = append(sum.Problems, finding.String())
	}
	sum.OK = len(sum.Problems) == 0
	return sum, err
}

// count counts a task.
func (sum *Summary) count(task *stint.TaskInfo) {
	sum.States[task.State]++
	if task.AbortCause != "" {
		sum.Causes[task.AbortCause]++
	}
	if sum.Tries[task.State] == nil {
		sum.Tries[task.State] = map[int]int{}
	}
	sum.Tries[task.State][task.Tries]++
	if task.State == stint.StateCompleted && task.Tries > 0 {
		sum.Failures += task.Tries - 1
	}
}

// judge looks at the bound book.
func (sum *Summary) judge(planned []stint.Task, book *stint.TaskInfo) {
	if want := bound(told(planned, bindID)); book.Status != want {
		sum.Problems = append(sum.Problems, fmt.Sprintf("the book was %s, not %s",
			book.Status, want))
	}
	var err error
	sum.Photos, err = strconv.Atoi(string(book.Result))
	if want := photosInBook(planned); err != nil || sum.Photos != want {
		sum.Problems = append(sum.Problems, fmt.Sprintf("the book has %q photos, not %d",
			book.Result, want))
	}
}
