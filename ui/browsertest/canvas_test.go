//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stint-tasks/stint"
)

// mesh is a network in which each task follows two others.
func mesh(tasks int) []stint.Task {
	all := make([]stint.Task, tasks)
	for i := range all {
		all[i] = stint.Task{
			ID: stint.TaskID(fmt.Sprintf("mesh/%d", i)), Action: fmt.Sprintf("action-%d", i%7),
		}
		for _, before := range []int{i - 1 - i*7%40, i - 1 - i*31%200} {
			if before >= 0 {
				all[i].After = append(all[i].After, stint.TaskID(fmt.Sprintf("mesh/%d", before)))
			}
		}
	}
	return all
}

// fan is a task, many that wait for it, and one that waits for all of these.
func fan(tasks int) []stint.Task {
	all := []stint.Task{{ID: "fan/first", Action: "split"}}
	last := stint.Task{ID: "fan/last", Action: "join"}
	for i := range tasks - 2 {
		id := stint.TaskID(fmt.Sprintf("fan/%d", i))
		all = append(all, stint.Task{
			ID: id, Action: "work", After: []stint.TaskID{"fan/first"},
		})
		last.After = append(last.After, id)
	}
	return append(all, last)
}

// The largest network is drawn, and moved.
func TestCanvas_DrawsTenThousandTasks(t *testing.T) {
	s := newScene(t)
	wantNil(t, s.store.InsertTasks(t.Context(), mesh(10_000)))
	tab := open(t, look{})
	begun := time.Now()
	tab.visit(s.url + "/network?id=mesh/5000&show=all")
	tab.await(took + " >= 0")
	t.Logf("the first picture is there after %v, drawn in %d ms", time.Since(begun),
		eval[int](tab, took))
	tab.do(chromedp.Focus("canvas"))
	for name, key := range map[string]string{"larger": "+", "to the left": kb.ArrowLeft} {
		tab.run("delete document.querySelector('.large').dataset.took")
		tab.do(chromedp.KeyEvent(key))
		tab.await(took + " >= 0")
		t.Logf("%s, it is drawn in %d ms", name, eval[int](tab, took))
	}
	tab.wantCalm("a large picture")
}

// took is how many milliseconds it took to draw the picture, undefined until it is drawn.
const took = `Number(document.querySelector(".large")?.dataset.took)`

// colours is how many the picture has.
const colours = `(() => {
	const canvas = document.querySelector("canvas");
	const all = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
	const found = new Set();
	for (let i = 0; i < all.length; i += 4) found.add(all[i] << 16 | all[i + 1] << 8 | all[i + 2]);
	return found.size;
})()`

// pointAtBox moves the mouse over the picture until it is above a box, and says where that is.
const pointAtBox = `(() => {
	const canvas = document.querySelector("canvas"), at = canvas.getBoundingClientRect();
	for (let y = 2; y < at.height; y += 2) {
		for (let x = 2; x < at.width; x += 20) {
			const clientX = at.left + x, clientY = at.top + y;
			canvas.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY }));
			if (canvas.title) return { X: clientX, Y: clientY };
		}
	}
})()`

// A picture on a canvas follows the states of its tasks, and its boxes lead to them.
func TestCanvas_IsAsLiveAsAPage(t *testing.T) {
	s := newScene(t)
	wantNil(t, s.store.InsertTasks(t.Context(), fan(600)))
	tab := open(t, look{dark: true})
	tab.visit(s.url + "/network?id=fan/first&show=all")
	tab.await(took + " >= 0")
	const states = `document.querySelector(".large").dataset.states`
	tab.run("window.before = " + states)
	owned := s.own(t, "split", 1)
	tab.await(states + " !== before")
	s.finish(t, owned)
	tab.await(states + `[0] === "4"`)
	if n := eval[int](tab, colours); n < 3 {
		t.Errorf("the picture has %d colours", n)
	}
	type point struct{ X, Y float64 }
	at := eval[point](tab, pointAtBox)
	tab.do(chromedp.MouseClickXY(at.X, at.Y))
	tab.await(`location.pathname === "/task" &&
		new URLSearchParams(location.search).get("id").startsWith("fan/")`)
	tab.wantCalm("a live picture")
}

// A picture that does not fit has a map, which leads to any part of it; one that fits has none.
func TestMap_LeadsThroughAPicture(t *testing.T) {
	s := newScene(t)
	wantNil(t, s.store.InsertTasks(t.Context(), append(fan(600), steps(50)...)))
	// What differs after a click into the map.
	const scrolled = `document.querySelector(".canvas").scrollLeft`
	const drawn = `document.querySelector(".large canvas").toDataURL()`
	const shown = `document.querySelector(".map")?.hidden === false`
	for name, test := range map[string]struct{ address, differs string }{
		"of elements": {"/network?id=step/0&show=all", scrolled},
		"on a canvas": {"/network?id=fan/first&show=all", drawn},
	} {
		t.Run(name, func(t *testing.T) {
			tab := open(t, look{})
			tab.visit(s.url + test.address)
			tab.await(shown)
			if n := eval[int](tab, strings.Replace(colours, `"canvas"`, `".map"`, 1)); n < 3 {
				t.Errorf("the map has %d colours", n)
			}
			tab.run("window.before = " + test.differs)
			type point struct{ X, Y float64 }
			at := eval[point](tab, `(() => {
				document.querySelector(".framed").scrollIntoView();
				const at = document.querySelector(".map").getBoundingClientRect();
				return { X: at.right - 10, Y: at.top + at.height / 2 };
			})()`)
			tab.do(chromedp.MouseClickXY(at.X, at.Y))
			tab.await(test.differs + " !== before")
			tab.wantCalm("a picture with a map")
			tab.run(`document.querySelector("[data-zoom=fit]").click()`)
			tab.await(`document.querySelector(".map").hidden`)
		})
	}
}
