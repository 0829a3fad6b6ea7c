//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A way leads from a page by its form to what a change would do.
type way struct{ page, script, do string }

// allOfThem has a form take all tasks that pass the filter of its page.
const allOfThem = `document.querySelector("select[name=of]").value = "all"`

// previews are the ways to some of the previews.
func previews() map[string]way {
	return map[string]way{
		"abort": {"tasks?action=develop", allOfThem, "abort"},
		"retry": {"task?id=export/film-2/photo-15", "", "retry"},
		"delete": {
			"tasks?prefix=export/film-2", `document.querySelector("[data-pick-all]").click()`,
			"delete",
		},
		"change":          {"tasks?action=develop", allOfThem, "change"},
		"run":             {"tasks", allOfThem, "run"},
		"nothing":         {"tasks?prefix=mail", "", "retry"},
		"pause":           {"action?name=mail", "", "pause"},
		"limit":           {"limits", "", "limit"},
		"trigger":         {"schedules", "", "trigger"},
		"delete schedule": {"schedules", "", "delete-schedule"},
		"answer":          {"task?id=order/7/approve", "", "answer"},
	}
}

// lead opens a preview.
func (tab *tab) lead(s *scene, w way) {
	tab.t.Helper()
	tab.visit(s.url + "/" + w.page)
	tab.run(w.script)
	tab.do(chromedp.Click(`main button[name="do"][value="` + w.do + `"]`))
	tab.arrive("/preview")
}

// tabTo presses Tab until an element has the focus.
func (tab *tab) tabTo(selector string) {
	tab.t.Helper()
	const most = 60
	for range most {
		tab.do(chromedp.KeyEvent(kb.Tab))
		if eval[bool](tab, `Boolean(document.activeElement?.matches('`+selector+`'))`) {
			return
		}
	}
	tab.t.Fatalf("Tab does not lead to %s", selector)
}

func (s *scene) state(t *testing.T, id stint.TaskID) stint.State {
	t.Helper()
	found, err := s.store.GetTasks(t.Context(), []stint.TaskID{id})
	wantNil(t, err)
	return found[0].State
}

// Whoever has no mouse finds a failed task, sees what its retry would do, and retries it.
func TestKeys_LeadFromAFailedTaskToItsRetry(t *testing.T) {
	const failed = "export/film-2/photo-15"
	for _, l := range []look{{}, {width: 320, height: 640, dark: true}} {
		s := newScene(t)
		s.fill(t)
		tab := open(t, l)
		tab.visit(s.url + "/tasks?state=aborted&action=develop")
		id := eval[string](tab, `document.querySelector("tbody td.id a").innerText`)
		if s.state(t, stint.TaskID(id)) != stint.StateAborted {
			t.Fatalf("%s is not %s, which failed", id, failed)
		}
		tab.do(chromedp.KeyEvent("j"), chromedp.KeyEvent(kb.Enter))
		tab.arrive("/task")
		tab.await(`document.querySelector(".why")?.innerText.includes("the negative is torn")`)
		tab.tabTo(`button[value="retry"]`)
		tab.do(chromedp.KeyEvent(kb.Enter))
		tab.await(`document.querySelector(".would")?.innerText.startsWith("Retries 1 task")`)
		if got := s.state(t, stint.TaskID(id)); got != stint.StateAborted {
			t.Errorf("the preview has made it %s", got)
		}
		tab.tabTo(`input[name="reason"]`)
		tab.do(chromedp.KeyEvent("it was scanned anew"))
		tab.tabTo(`form[action="change"] button`)
		tab.do(chromedp.KeyEvent(kb.Enter))
		tab.await(`location.pathname === "/changed" && document.querySelector("h1").innerText
			.startsWith("Retried 1 task")`)
		if got := s.state(t, stint.TaskID(id)); got != stint.StateReady {
			t.Errorf("the task is %s", got)
		}
		tab.wantCalm("the way by keys")
	}
}

// Without the script, forms do the same.
func TestChanges_NeedNoScript(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	tab := open(t, look{noScript: true})
	tab.visit(s.url + "/task?id=alone")
	tab.do(chromedp.Click(`main button[value="abort"]`))
	tab.do(chromedp.Click(`form[action="change"] button`))
	tab.do(chromedp.WaitVisible(`main .change`))
	eventually(t, func() bool { return s.state(t, "alone") == stint.StateAborted })
	tab.wantCalm("forms without script")
}

// Of more tasks than a form takes, the script goes on piece by piece, and says how far it is, until
// nothing is left or somebody stops it.
func TestChanges_GoOnByThemselves(t *testing.T) {
	testrun.Long(t)
	const piece, n = 10_000, 30_500
	s := newScene(t)
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{ID: stint.TaskID(fmt.Sprint("bulk/", i)), Action: "bulk"}
	}
	wantNil(t, s.store.InsertTasks(t.Context(), tasks))
	ready := func() int64 {
		n, _, err := stint.CountReady(t.Context(), s.store, "bulk")
		wantNil(t, err)
		return n
	}
	tab := open(t, look{})
	for _, one := range []way{
		{"tasks?action=bulk&state=ready", allOfThem, "abort"},
		{"tasks?action=bulk&state=aborted", allOfThem, "retry"},
	} {
		tab.lead(s, one)
		script := `document.querySelector("[data-rest] input").click();
			document.querySelector("form.agree button:not([type])").click();`
		if one.do == "retry" { // it is stopped
			script += `document.querySelector("[data-stop]").click()`
		}
		tab.run(script)
		tab.await(`document.querySelector("main").innerText.includes("In all pieces together")`)
		left := ready()
		if one.do == "abort" && left != 0 || one.do == "retry" && left != piece {
			t.Errorf("after %s, %d are ready", one.do, left)
		}
	}
	tab.wantCalm("changes that go on by themselves")
}

// A second click sends nothing.
func TestChanges_AreSentOnce(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	var sent atomic.Int64
	goOn := make(chan struct{})
	at, err := url.Parse(s.url)
	wantNil(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(at)
		r.Out.Host = r.In.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/change" {
			sent.Add(1)
			<-goOn
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	tab := open(t, look{})
	tab.visit(server.URL + "/tasks?prefix=report/")
	tab.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("x"), chromedp.KeyEvent("j"),
		chromedp.KeyEvent("x"))
	tab.do(chromedp.Click(`main button[value="abort"]`))
	tab.await(`document.querySelector(".would")?.innerText.startsWith("Aborts 2 tasks")`)
	tab.run(`const button = document.querySelector('form[action="change"] button');
		button.click(); button.click(); button.click()`)
	eventually(t, func() bool { return sent.Load() > 0 })
	close(goOn)
	tab.arrive("/changed")
	if n := sent.Load(); n != 1 {
		t.Errorf("the form was sent %d times", n)
	}
	tab.wantCalm("a form with three clicks")
}

// What somebody has selected stays so while the list is renewed.
func TestLive_KeepsWhatIsSelected(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	tab := open(t, look{})
	tab.visit(s.url + "/tasks?prefix=mail/")
	tab.run(`document.querySelector('[data-key="mail/10031"] input').click();
		document.querySelector("select[name=of]").value = "all"`)
	_, err := s.store.AbortTasks(t.Context(), []stint.TaskID{"mail/10030"}, "no longer needed")
	wantNil(t, err)
	tab.await(`document.querySelector('[data-key="mail/10030"]').innerText.includes("aborted")`)
	if got := eval[string](tab, `[...document.querySelectorAll("td.pick :checked")]
		.map((box) => box.closest("tr").dataset.key).join() +
		document.querySelector("select[name=of]").value`); got != "mail/10031all" {
		t.Errorf("selected is %q", got)
	}
	if strings.Contains(eval[string](tab, "location.href"), "preview") {
		t.Error("the page has gone")
	}
}

// eventually waits until ok returns true.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	const every, longest = 50 * time.Millisecond, 20 * time.Second
	tick, late := time.NewTicker(every), time.After(longest)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it has not happened")
		}
	}
}
