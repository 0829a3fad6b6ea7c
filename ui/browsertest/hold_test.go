//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"testing"

	"github.com/stint-tasks/stint"
)

// Where rows are chosen, none comes or goes under the mouse: what is new is announced, and comes
// when it is asked for. What is selected stays so.
func TestLive_HoldsRowsThatAreChosen(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	hold := func(id stint.TaskID) stint.Task { return stint.Task{ID: id, Action: "held"} }
	wantNil(t, s.store.InsertTasks(t.Context(), []stint.Task{
		hold("hold/b"), hold("hold/d"), hold("hold/f"),
	}))
	tab := open(t, look{})
	tab.visit(s.url + "/tasks?prefix=hold/&state=ready")
	tab.run(`document.querySelector('tr[data-key="hold/d"] input').click()`)
	wantNil(t, s.store.InsertTasks(t.Context(), []stint.Task{hold("hold/a"), hold("hold/e")}))
	_, err := s.store.AbortTasks(t.Context(), []stint.TaskID{"hold/b"}, "")
	wantNil(t, err)
	const rows = `[...document.querySelectorAll("tr[data-key]")]
		.map((row) => row.dataset.key).join()`
	const news = `document.querySelector("[data-news] span").innerText`
	tab.await(news + ` === "2 new, 1 no longer in the list"`)
	if got := eval[string](tab, rows); got != "hold/b,hold/d,hold/f" {
		t.Errorf("the rows are %s", got)
	}
	if !eval[bool](tab, `document.querySelector('tr[data-key="hold/b"]').matches(".gone")`) {
		t.Error("the row of a task that is gone does not say so")
	}
	tab.run(`document.querySelector("[data-show]").click()`)
	tab.await(rows + ` === "hold/a,hold/d,hold/e,hold/f"`)
	if eval[string](tab, news) != "" ||
		!eval[bool](tab, `document.querySelector("[data-show]").hidden`) {
		t.Error("what is shown is still announced")
	}
	const selected = `[...document.querySelectorAll("td.pick input:checked")]
		.map((box) => box.closest("tr").dataset.key).join()`
	if got := eval[string](tab, selected); got != "hold/d" {
		t.Errorf("selected is %q", got)
	}
	tab.wantCalm("a list that is held")
}
