//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
)

// Times are as the viewer chooses, on all pages from then on.
func TestTimes_AreAsChosen(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	tab := open(t, look{})
	tab.visit(s.url + "/tasks?prefix=mail/")
	const first = `document.querySelector("td.when time").innerText`
	for _, want := range []string{
		` ago$`, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`, `^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$`,
	} {
		if got := eval[string](tab, first); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("the time is %q, want %q", got, want)
		}
		tab.run(`document.querySelector("[data-times]").click()`)
	}
	tab.run(`document.querySelector("[data-times]").click()`)
	tab.visit(s.url + "/tasks?prefix=mail/")
	tab.await(first + `.match(/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$/) !== null`)
	tab.run(`localStorage.removeItem("stint-times")`)
	tab.wantCalm("times")
}

// Where the screen is small, the form is folded, and tasks are on the first screen.
func TestTasks_AreOnTheFirstScreen(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	tab := open(t, look{width: 320, height: 640})
	tab.visit(s.url + "/tasks?prefix=mail/")
	if *picturesIn != "" {
		picture, err := chromedp.Run(tab.ctx, chromedp.CaptureScreenshot())
		wantNil(t, err)
		wantNil(t, os.WriteFile(filepath.Join(*picturesIn, "small.png"), picture, 0o600))
	}
	const top = `document.querySelector("tr[data-key]").getBoundingClientRect().top`
	if at := eval[float64](tab, top); at > 520 {
		t.Errorf("the first task is %v pixels down", at)
	}
	tab.run(`document.querySelector("label.fold").click()`)
	if !eval[bool](tab, `document.querySelector("form.filter").offsetHeight > 0`) {
		t.Error("the form is not unfolded")
	}
	tab.wantCalm("a folded form")
}
