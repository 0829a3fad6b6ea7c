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

// goOnWithRest agrees to the preview that a tab shows, and to those of all further pieces.
func (tab *tab) goOnWithRest() {
	tab.t.Helper()
	tab.run(`document.querySelector("[data-rest] input").click();
		document.querySelector("form.agree button:not([type])").click()`)
}

// says waits until a tab shows a text.
func (tab *tab) says(text string) {
	tab.t.Helper()
	tab.await(fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, text))
}

// insertLater inserts tasks of the action "bulk", more than two forms take, that start in an hour.
func (s *scene) insertLater(t *testing.T) (n int) {
	t.Helper()
	n = 20_500
	tasks := make([]stint.Task, n)
	for i := range tasks {
		tasks[i] = stint.Task{
			ID: stint.TaskID(fmt.Sprint("bulk/", i)), Action: "bulk",
			NotBefore: time.Now().Add(time.Hour),
		}
	}
	wantNil(t, s.store.InsertTasks(t.Context(), tasks))
	return n
}

// leadToPriority opens the preview of another priority of all tasks that wait.
func (tab *tab) leadToPriority(s *scene, priority string) {
	tab.t.Helper()
	tab.lead(s, way{"tasks?action=bulk", allOfThem, "change"})
	tab.run(`document.querySelector("input[name=set-priority]").value = "` + priority + `"`)
	tab.do(chromedp.Click(`form.agree button`))
	tab.says("Their priority is " + priority)
}

// withPriority counts the tasks of a priority.
func (s *scene) withPriority(t *testing.T, priority int16) (n int) {
	t.Helper()
	filter := stint.Filter{Actions: []string{"bulk"}, Limit: 1000}
	for {
		page, err := s.store.ListTasks(t.Context(), filter)
		wantNil(t, err)
		for i := range page.Tasks {
			if page.Tasks[i].Priority == priority {
				n++
			}
		}
		if filter.After = page.Next; filter.After == "" {
			return n
		}
	}
}

// What somebody has filled in once holds for all pieces, and what was agreed to is done to all.
func TestChanges_OfHowTasksWaitGoOnByThemselves(t *testing.T) {
	testrun.Long(t)
	s := newScene(t)
	n := s.insertLater(t)
	tab := open(t, look{})
	tab.leadToPriority(s, "5")
	tab.goOnWithRest()
	tab.says("In all pieces together: 20,500 tasks.")
	if got := s.withPriority(t, 5); got != n {
		t.Errorf("%d tasks have the priority, want %d", got, n)
	}
	tab.lead(s, way{"tasks?action=bulk&state=scheduled", allOfThem, "run"})
	tab.goOnWithRest()
	tab.says("In all pieces together: 20,500 tasks.")
	left, err := s.store.ListTasks(t.Context(), stint.Filter{
		States: []stint.State{stint.StateScheduled},
	})
	wantNil(t, err)
	if len(left.Tasks) > 0 {
		t.Errorf("%s still waits for its time", left.Tasks[0].ID)
	}
	tab.wantCalm("changes that go on by themselves")
}

// A piece that is refused, by the pages or by what stands before them, ends it: the page says why,
// and what was done before.
func TestChanges_ThatGoOnSayWhatStoppedThem(t *testing.T) {
	testrun.Long(t)
	s := newScene(t)
	s.insertLater(t)
	tab := open(t, look{})
	for i, stop := range []struct {
		at     string
		answer func(w http.ResponseWriter, r *http.Request) (answered bool)
		says   string
	}{
		{"/preview", func(w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "nobody is in", http.StatusBadGateway)
			return true
		}, "502: nobody is in"},
		{"/preview", func(_ http.ResponseWriter, r *http.Request) bool {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			return false
		}, "was sent by another site"},
		{"/change", func(_ http.ResponseWriter, r *http.Request) bool {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
			return false
		}, "was sent by another site"},
	} {
		var changed atomic.Bool
		proxy := s.behind(t, func(w http.ResponseWriter, r *http.Request) (answered bool) {
			if r.URL.Path == stop.at && changed.Load() {
				return stop.answer(w, r)
			}
			changed.Store(changed.Load() || r.URL.Path == "/change")
			return false
		})
		priority := int16(i + 1)
		tab.leadToPriority(proxy, fmt.Sprint(priority))
		tab.goOnWithRest()
		tab.says(stop.says)
		tab.says("In the pieces before this one, 10,000 tasks were changed.")
		if got := s.withPriority(t, priority); got != 10_000 {
			t.Errorf("%d tasks have the priority", got)
		}
	}
}

// behind is the scene behind a proxy. First hears of each request, and may answer it.
func (s *scene) behind(
	t *testing.T, first func(w http.ResponseWriter, r *http.Request) (answered bool),
) *scene {
	t.Helper()
	at, err := url.Parse(s.url)
	wantNil(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(at)
		r.Out.Host = r.In.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !first(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return &scene{s.store, s.cluster, server.URL}
}

// A second click sends nothing.
func TestChanges_AreSentOnce(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	var sent atomic.Int64
	goOn := make(chan struct{})
	proxy := s.behind(t, func(_ http.ResponseWriter, r *http.Request) (answered bool) {
		if r.URL.Path == "/change" {
			sent.Add(1)
			<-goOn
		}
		return false
	})
	tab := open(t, look{})
	tab.visit(proxy.url + "/tasks?prefix=report/")
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
