//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stint-tasks/stint"
)

// steps are tasks one after the other.
func steps(tasks int) []stint.Task {
	all := make([]stint.Task, tasks)
	for i := range all {
		all[i] = stint.Task{ID: stint.TaskID(fmt.Sprintf("step/%d", i)), Action: "step"}
		if i > 0 {
			all[i].After = []stint.TaskID{all[i-1].ID}
		}
	}
	return all
}

// From the box of thousands of tasks one comes to a task without a script, on any screen.
func TestGroups_LeadToTheirTasks(t *testing.T) {
	s := newScene(t)
	wantNil(t, s.store.InsertTasks(t.Context(), steps(10_000)))
	for _, l := range []look{
		{width: 1280, height: 900, noScript: true}, {width: 320, height: 640, dark: true},
	} {
		tab := open(t, l)
		tab.visit(s.url + "/network?id=step/9999")
		for boxes := range 5 {
			tab.await(fmt.Sprintf(`document.querySelectorAll(".within a").length === %d`,
				min(boxes, 1)+boxes)) // "all" is one, once there is a box
			if wide := eval[int64](tab, "document.documentElement.scrollWidth"); wide > l.width {
				t.Errorf("%v: the page is %d pixels wide", l, wide)
			}
			many := eval[bool](tab, `document.querySelector("a.box.asked").matches(".many")`)
			tab.do(chromedp.Evaluate[chromedp.Void](
				`document.querySelector("a.box.asked").dispatchEvent(
					new MouseEvent("click", { bubbles: true, cancelable: true }))`))
			if !many {
				break
			}
		}
		tab.await(`location.pathname === "/task" && location.search.includes("step%2F9999")`)
		tab.wantCalm(fmt.Sprintf("the way to a task, %v", l))
	}
}

// hasInk says whether the picture has the colour of words, but for which there is no room.
const hasInk = `(() => {
	const canvas = document.querySelector("canvas"), pen = canvas.getContext("2d");
	const [r, g, b] = getComputedStyle(canvas).getPropertyValue("--ink").match(/\w\w/g);
	const all = pen.getImageData(0, 0, canvas.width, canvas.height).data;
	for (let i = 0; i < all.length; i += 4) {
		if (all[i] === Number("0x" + r) && all[i + 1] === Number("0x" + g) &&
			all[i + 2] === Number("0x" + b)) return true;
	}
	return false;
})()`

// The largest picture has the longest chain of unfinished tasks, as long as there is one.
func TestCanvas_MarksTheLongestChain(t *testing.T) {
	s := newScene(t)
	wantNil(t, s.store.InsertTasks(t.Context(), mesh(1000)))
	for _, dark := range []bool{false, true} {
		tab := open(t, look{dark: dark})
		tab.visit(s.url + "/network?id=mesh/500&show=all")
		tab.await(took + " >= 0")
		tab.wantCalm("a chain in a picture") // to read a picture is what browsers warn of
		tab.do(chromedp.Click(`[data-zoom="fit"]`))
		tab.await(hasInk)
		tab.run(`document.querySelector(".large").dataset.chain = ""`)
		tab.do(chromedp.Click(`[data-zoom="fit"]`))
		tab.await("!" + hasInk)
	}
}
