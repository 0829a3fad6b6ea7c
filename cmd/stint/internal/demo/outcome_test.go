package demo

import (
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
)

// asPlanned are the tasks of the yearbook, ended as they should.
func asPlanned(t *testing.T) ([]stint.Task, []stint.TaskInfo) {
	t.Helper()
	plan, err := yearbook()
	if err != nil {
		t.Fatal(err)
	}
	ends := outcomes(plan.Tasks)
	infos := make([]stint.TaskInfo, len(plan.Tasks))
	for i, task := range plan.Tasks {
		end := ends[task.ID]
		infos[i] = stint.TaskInfo{
			ID: task.ID, State: end.state, AbortCause: end.cause, Tries: end.tries,
		}
	}
	return plan.Tasks, infos
}

func TestOutcomes_LoseOneFilmAndItsRegion(t *testing.T) {
	t.Parallel()
	planned, ended := asPlanned(t)
	if len(ended) > tasksMax {
		t.Errorf("%d tasks are more than ListTasks returns at once", len(ended))
	}
	var aborted []stint.TaskID
	tries := map[int]int{}
	for _, task := range ended {
		if task.State == stint.StateAborted {
			aborted = append(aborted, task.ID)
			if !strings.HasPrefix(string(task.ID), "antarctica/5/") &&
				task.ID != "antarctica/index" {
				t.Errorf("%q is aborted", task.ID)
			}
		}
		tries[task.Tries]++
	}
	if want := 1 + photosPerFilm + 1 + 1; len(aborted) != want {
		t.Errorf("%d tasks are aborted, want %d: %q", len(aborted), want, aborted)
	}
	if tries[2] < 100 || tries[3] < 20 || tries[4] > 0 {
		t.Errorf("so many take so many tries: %v", tries)
	}
	if got := photosInBook(planned); got != 5*filmsPerRegion*photosPerFilm {
		t.Errorf("there are %d photos in the book", got)
	}
	// All photos, pages and indexes; what the order is followed by waits for the order alone.
	completed, lost := told(planned, bindID)
	want := len(regions()) * (filmsPerRegion*(photosPerFilm+1) + 1)
	if completed+lost != want {
		t.Errorf("the book is told of %d+%d tasks, want %d", completed, lost, want)
	}
	if lost != len(aborted)-1 {
		t.Errorf("the book is told of %d aborted tasks, want all but the scan", lost)
	}
}

func TestCompare_FindsWhatIsNotAsPlanned(t *testing.T) {
	t.Parallel()
	planned, good := asPlanned(t)
	if got := compare(planned, good); len(got) > 0 {
		t.Errorf("problems where there are none: %q", got)
	}
	at := slices.IndexFunc(good, func(task stint.TaskInfo) bool { return task.ID == bindID })
	for want, spoil := range map[string]func([]stint.TaskInfo) []stint.TaskInfo{
		`"book/bind" is aborted dependency`: func(tasks []stint.TaskInfo) []stint.TaskInfo {
			tasks[at].State, tasks[at].AbortCause = stint.StateAborted, stint.CauseDependency
			return tasks
		},
		`"book/bind" took 0 tries, not 1`: func(tasks []stint.TaskInfo) []stint.TaskInfo {
			tasks[at].Tries = 0
			return tasks
		},
		"2509 tasks of 2510": func(tasks []stint.TaskInfo) []stint.TaskInfo {
			return slices.Delete(tasks, at, at+1)
		},
	} {
		got := compare(planned, spoil(slices.Clone(good)))
		if len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("problems are %q, want one: %s", got, want)
		}
	}
}
