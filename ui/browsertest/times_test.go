//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/ui"
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

// So are the hours and marks of the last day, where the viewer is.
func TestTimes_OfTheDayAreAsChosen(t *testing.T) {
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(t.Context()))) })
	_, err = pool.Exec(t.Context(), `INSERT INTO stint.minutes (minute, since, until, all_tries,
			all_retries, completed, failed, ready, estimated, action)
		SELECT date_trunc('minute', now(), 'UTC'), now() - interval '1 min', now(), 1, 0, 7, 0, 1,
		       false, ''`)
	wantNil(t, err)
	wantNil(t, store.InsertTasks(t.Context(), []stint.Task{{ID: "a", Action: "mail"}}))
	wantNil(t, store.RegisterActor(t.Context(), "worker-1", []string{"mail"}))
	server := httptest.NewServer(ui.New(store, ui.Options{}))
	t.Cleanup(server.Close)
	tab := open(t, look{})
	_, err = chromedp.Call(tab.ctx, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kolkata"}) // 5:30 later than UTC
	wantNil(t, err)
	tab.visit(server.URL + "/")
	for _, form := range []string{"15:04 UTC", "15:04", "15:04 UTC"} { // ago, local, UTC
		var shown []struct{ At, Text string }
		wantNil(t, json.Unmarshal([]byte(eval[string](tab, `JSON.stringify(
			[...document.querySelectorAll(".day time")].map((time) =>
				({At: time.dateTime, Text: time.textContent})))`)), &shown))
		if len(shown) != 3 { // since when, a mark and an hour
			t.Fatalf("the times of the day are %+v", shown)
		}
		for _, one := range shown {
			at, err := time.Parse(time.RFC3339, one.At)
			wantNil(t, err)
			if form == "15:04" {
				at = at.Add(5*time.Hour + 30*time.Minute)
			}
			if want := at.Format(form); one.Text != want {
				t.Errorf("%s is shown as %q, want %q", one.At, one.Text, want)
			}
		}
		tab.run(`document.querySelector("[data-times]").click()`)
	}
	tab.run(`localStorage.removeItem("stint-times")`)
	tab.wantCalm("times of the day")
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
