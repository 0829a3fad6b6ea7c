//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/stint-tasks/stint"
)

// What changes in the store is seen in the page, and whoever reads there is not disturbed: focus,
// what is selected, typed and opened, and where one has scrolled to, stay.
func TestLive_DisturbsNobody(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	tab := open(t, look{})
	tab.visit(s.url + "/tasks?prefix=mail/")
	tab.run(`
		document.querySelector('a[href="task?id=mail%2f10030"]').focus();
		document.querySelector('input[name=key]').value = "half typed";
		scrollTo(0, 300);
		getSelection().selectAllChildren(document.querySelector('[data-key="mail/10031"] .id'));
	`)
	_, err := s.store.AbortTasks(t.Context(), []stint.TaskID{"mail/10030"}, "no longer needed")
	wantNil(t, err)
	tab.await(`document.querySelector('[data-key="mail/10030"]').innerText.includes("aborted")`)
	for expression, want := range map[string]string{
		"document.activeElement.innerText":                        "mail/10030",
		"document.querySelector('.filter input[name=key]').value": "half typed",
		"getSelection().toString().trim()":                        "mail/10031",
		"String(scrollY)":                                         "300",
	} {
		if got := eval[string](tab, expression); got != want {
			t.Errorf("%s is %q, want %q", expression, got, want)
		}
	}
	tab.wantCalm("a live page")
}

// Whoever may not see a page any more does not go on to see what it had: whether the pages say so,
// or what is before them.
//
// Proves G312.
func TestLive_ForgetsWhatMayNotBeSeen(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	at, err := url.Parse(s.url)
	wantNil(t, err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		var revoked atomic.Bool
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if revoked.Load() {
				http.Error(w, "no", code)
				return
			}
			proxy.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		tab := open(t, look{})
		tab.visit(server.URL + "/task?id=mail/10031")
		tab.await(`document.querySelector("main").innerText.includes("sizes")`)
		revoked.Store(true)
		tab.await(`document.querySelector("main").innerText === "You may not see this any more."`)
		revoked.Store(false)
		tab.await(`document.querySelector("main").innerText.includes("sizes")`)
	}
}

// A page that nobody sees asks for nothing, and one that is paused neither.
func TestLive_RestsWhereNobodyLooks(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	var asked atomic.Int64
	at, err := url.Parse(s.url)
	wantNil(t, err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/actors" {
			asked.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	tab := open(t, look{})
	tab.visit(server.URL + "/actors")
	tab.await(`performance.getEntriesByType("resource")
		.filter((e) => e.name.endsWith("/actors")).length > 1`)
	const hide = `Object.defineProperty(document, "hidden", { get: () => %, configurable: true });
		document.dispatchEvent(new Event("visibilitychange")); window.since = performance.now()`
	tab.run(strings.Replace(hide, "%", "true", 1))
	before := asked.Load()
	tab.await("performance.now() - since > 5000")
	if n := asked.Load() - before; n > 1 { // one may have been under way
		t.Errorf("a hidden page asked %d times", n)
	}
	tab.run(strings.Replace(hide, "%", "false", 1))
	before = asked.Load()
	tab.await("performance.now() - since > 3000")
	if n := asked.Load() - before; n < 1 {
		t.Error("a page that is seen again does not ask")
	}
	tab.do(chromedp.KeyEvent("."))
	tab.run("since = performance.now()")
	before = asked.Load()
	tab.await("performance.now() - since > 5000")
	if n := asked.Load() - before; n > 1 {
		t.Errorf("a paused page asked %d times", n)
	}
	tab.run(`document.querySelector("[data-pause]").click()`) // it goes on
	tab.await(`document.getElementById("live").innerText.startsWith("Live.")`)
	tab.run(`document.querySelector("[data-keys]").click()`)
	tab.do(chromedp.KeyEvent("."))
	if got := eval[string](tab, `document.getElementById("live").innerText`); got != "Live." {
		t.Errorf("with keys switched off, a key pauses the page: it says %q", got)
	}
	tab.visit(server.URL + "/tasks") // that is remembered
	tab.await(`document.querySelector("[data-keys]").innerText === "Switch keys on"`)
	tab.run(`document.querySelector("[data-keys]").click()`)
	tab.do(chromedp.KeyEvent("."))
	got := eval[string](tab, `document.getElementById("live").innerText`)
	if !strings.HasPrefix(got, "Paused") {
		t.Errorf("a paused page says %q", got)
	}
}

// Whoever looks at a task that is deleted learns that it is gone.
func TestLive_SaysThatATaskIsGone(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	tab := open(t, look{})
	tab.visit(s.url + "/task?id=alone")
	_, err := s.store.DeleteTasks(t.Context(), []stint.TaskID{"alone"})
	wantNil(t, err)
	tab.await(`document.querySelector("main").innerText.includes("There is no task alone")`)
}

// A page says that it is no longer up to date, and goes on when the store is back.
func TestLive_SaysWhenThereIsNoAnswer(t *testing.T) {
	s := newScene(t)
	var away atomic.Bool
	at, err := url.Parse(s.url)
	wantNil(t, err)
	proxy := httputil.NewSingleHostReverseProxy(at)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	tab := open(t, look{})
	tab.visit(server.URL + "/tasks")
	away.Store(true)
	tab.await(`document.querySelector(".live.stale")?.innerText.includes("No answer")`)
	away.Store(false)
	tab.await(`document.querySelector(".live:not(.stale)")?.innerText.startsWith("Live")`)
}

// Whoever has no mouse finds a failed task, and why it failed.
func TestKeys_LeadFromTheOverviewToTheError(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	tab := open(t, look{})
	tab.visit(s.url + "/problems")
	tab.do(chromedp.KeyEvent("j"), chromedp.KeyEvent(kb.Enter))
	tab.arrive("/task")
	tab.await(`document.querySelector(".why")?.innerText.includes("no route to host")`)
	tab.do(chromedp.KeyEvent("/"))
	tab.await(`document.activeElement.name === "prefix"`)
	tab.run(`document.activeElement.value = ""`) // the driver types what the page has taken
	tab.do(chromedp.KeyEvent("export/book"), chromedp.KeyEvent(kb.Enter))
	tab.await(`location.pathname === "/tasks" &&
		document.querySelector("tbody .id")?.innerText === "export/book"`)
	tab.wantCalm("the way by keys")
}

// A picture can be made smaller and larger, and its boxes lead to their tasks.
func TestNetwork_IsZoomed(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	tab := open(t, look{})
	tab.visit(s.url + "/network?id=export/book&show=all")
	width := `document.getElementById("network").getBoundingClientRect().width`
	whole := eval[float64](tab, width)
	tab.do(chromedp.Click(`[data-zoom="fit"]`))
	if got, most := eval[float64](tab, width), eval[float64](tab,
		`document.querySelector(".canvas").clientWidth`); got > most || got >= whole {
		t.Errorf("the picture is %v wide, of %v", got, most)
	}
	tab.do(chromedp.Click(`[data-zoom="in"]`))
	tab.do(chromedp.KeyEvent("-"))
	tab.await(`performance.getEntriesByType("resource").some((e) => e.name.includes("/network?"))`)
	if got := eval[float64](tab, width); got >= whole {
		t.Errorf("after the page was renewed, the picture is %v wide again", got)
	}
	tab.run(`document.querySelector("a.box").dispatchEvent(
		new MouseEvent("click", { bubbles: true, cancelable: true }))`)
	tab.arrive("/task")
	tab.wantCalm("a picture")
}

// Browsers have few connections for a host: many tabs do not get in each other's way.
func TestTabs_AllLive(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	var tabs []*tab
	for range 8 {
		tab := open(t, look{})
		tab.visit(s.url + "/tasks?prefix=mail/")
		tabs = append(tabs, tab)
	}
	_, err := s.store.AbortTasks(t.Context(), []stint.TaskID{"mail/10030"}, "")
	wantNil(t, err)
	for _, tab := range tabs {
		tab.await(`document.hidden ||
			document.querySelector('[data-key="mail/10030"]').innerText.includes("aborted")`)
	}
}
