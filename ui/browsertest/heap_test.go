//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// heap is how many bytes the page holds.
func (tab *tab) heap() float64 {
	tab.t.Helper()
	_, err := chromedp.Call(tab.ctx, heapprofiler.CollectGarbage, cdp.Empty{})
	wantNil(tab.t, err)
	usage, err := chromedp.Call(tab.ctx, runtime.GetHeapUsage, cdp.Empty{})
	wantNil(tab.t, err)
	return usage.UsedSize + usage.EmbedderHeapUsedSize + usage.BackingStorageSize
}

// watch counts what changes in the page, but for times.
const watch = `window.seen = 0;
	new MutationObserver((all) => {
		seen += all.filter((one) => one.target.nodeName !== "TIME").length;
	}).observe(document.querySelector("main"), {
		subtree: true, childList: true, attributes: true, characterData: true,
	})`

var openFor = flag.Duration("open", 0, "keep the page of the largest network open for so long")

// A page that is open for long, while tasks go on, holds no more than at first.
func TestLive_DoesNotGrow(t *testing.T) {
	testrun.Long(t)
	// A page that was not let go would be 16 MiB each time; what is aborted has a line more.
	const most, growth = 100 << 20, 8 << 20
	s := newScene(t)
	wantNil(t, s.store.InsertTasks(t.Context(), mesh(10_000)))
	wantNil(t, s.store.InsertTasks(t.Context(), fan(600)))
	rounds := testrun.Rounds(40)

	for i, page := range []string{
		"/tasks?prefix=fan/&size=1000", "/network?id=fan/first", "/network?id=mesh/5000&show=all",
	} {
		tab := open(t, look{})
		tab.visit(s.url + page)
		tab.run(watch)
		first, begun := 0.0, time.Now()
		isLargest := strings.Contains(page, "mesh")
		for round := 0; round < rounds || isLargest && time.Since(begun) < *openFor; round++ {
			tab.run("seen = 0")
			for _, network := range []string{"fan", "mesh"} {
				id := stint.TaskID(fmt.Sprintf("%s/%d", network, 590-i*rounds-round))
				_, err := s.store.AbortTasks(t.Context(), []stint.TaskID{id}, "")
				wantNil(t, err)
			}
			tab.await("seen > 0")
			switch {
			case round == 1:
				first = tab.heap()
			case *openFor > 0 && round%30 == 0:
				t.Logf("%s holds %.1f MiB after %v", page, tab.heap()/(1<<20), time.Since(begun))
			}
		}
		last := tab.heap()
		t.Logf("%s holds %.1f MiB, and %.1f at last", page, first/(1<<20), last/(1<<20))
		if last > most || last > first+growth {
			t.Errorf("%s held %.0f bytes, and %.0f at last", page, first, last)
		}
	}
}
