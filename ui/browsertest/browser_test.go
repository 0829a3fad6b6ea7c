package browsertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestMain(m *testing.M) {
	code := testdb.Run(m)
	if browser.close != nil {
		browser.close()
	}
	os.Exit(code)
}

// browser is the one that all tests share, since it takes seconds to start.
var browser struct {
	once  sync.Once
	ctx   context.Context //nolint:containedctx // it is the browser
	close func()
	err   error
}

// needed names the variable of the environment without which tests are skipped where there is no
// browser.
const needed = "STINT_TEST_PROGRAMS"

func startBrowser(t *testing.T) context.Context {
	t.Helper()
	browser.once.Do(func() {
		var path string
		if path, browser.err = testrun.Browser(); browser.err != nil {
			return
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
			chromedp.NoSandbox, chromedp.Flag("hide-scrollbars", true))
		allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
		ctx, end := chromedp.NewContext(allocated)
		browser.close = func() {
			end()
			release()
		}
		browser.ctx, browser.err = ctx, chromedp.Do(ctx)
	})
	switch {
	case browser.err == nil:
	case os.Getenv(needed) == "" && browser.ctx == nil:
		t.Skipf("no browser: %v; with %s set, this fails", browser.err, needed)
	default:
		t.Fatal(browser.err)
	}
	return browser.ctx
}

// A look is how somebody looks at pages.
type look struct {
	dark, noScript bool
	sharp          bool  // two pixels of the screen for each of the page
	width, height  int64 // default: 1280 x 900
}

func (l look) String() string {
	text := "light"
	if l.dark {
		text = "dark"
	}
	if l.noScript {
		text += ", without script"
	}
	return fmt.Sprintf("%s, %d pixels wide", text, l.width)
}

// A tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // it is the tab

	mutex      sync.Mutex
	complaints []string
}

const tabMax = 30 * time.Minute

// open opens a tab, which is closed with the test.
func open(t *testing.T, l look) *tab {
	t.Helper()
	if l.width == 0 {
		l.width, l.height = 1280, 900
	}
	ctx, end := chromedp.NewContext(startBrowser(t))
	t.Cleanup(end)
	wantNil(t, chromedp.Do(ctx)) // which opens it
	ctx, cancel := context.WithTimeout(ctx, tabMax)
	t.Cleanup(cancel)
	tab := &tab{t: t, ctx: ctx}
	wantNil(t, chromedp.Listen(ctx, tab.hear))
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	factor := 1.0
	if l.sharp {
		factor = 2
	}
	_, err := chromedp.Call(ctx, emulation.SetDeviceMetricsOverride,
		emulation.SetDeviceMetricsOverrideParams{
			Width: l.width, Height: l.height, DeviceScaleFactor: factor,
		})
	wantNil(t, err)
	_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	wantNil(t, err)
	_, err = chromedp.Call(ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: l.noScript})
	wantNil(t, err)
	return tab
}

// hear notes what the browser complains of: errors of scripts and of requests, and what the
// Content-Security-Policy forbade.
func (tab *tab) hear(event any) {
	complaint := ""
	switch event := event.(type) {
	case *runtime.EventExceptionThrown:
		complaint = "exception: " + event.ExceptionDetails.Text
		if thrown := event.ExceptionDetails.Exception; thrown != nil {
			complaint += " " + thrown.Description
		}
	case *log.EventEntryAdded:
		if event.Entry.Level == "error" || event.Entry.Level == "warning" {
			complaint = event.Entry.Text + " " + event.Entry.URL
		}
	}
	if complaint != "" {
		tab.mutex.Lock()
		defer tab.mutex.Unlock()
		tab.complaints = append(tab.complaints, complaint)
	}
}

// wantCalm checks that the browser had nothing to complain of.
func (tab *tab) wantCalm(of string) {
	tab.t.Helper()
	tab.mutex.Lock()
	defer tab.mutex.Unlock()
	if len(tab.complaints) > 0 {
		tab.t.Errorf("%s: the browser complains:\n%s", of, strings.Join(tab.complaints, "\n"))
	}
	tab.complaints = nil
}

func (tab *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	tab.t.Helper()
	wantNil(tab.t, chromedp.Do(tab.ctx, actions...))
}

func (tab *tab) visit(url string) {
	tab.t.Helper()
	tab.do(chromedp.Navigate(url))
}

// eval returns what an expression is in the page.
func eval[T any](tab *tab, expression string) T {
	tab.t.Helper()
	value, err := chromedp.Run(tab.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		tab.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// run runs a script in the page.
func (tab *tab) run(script string) {
	tab.t.Helper()
	tab.do(chromedp.Evaluate[chromedp.Void](script))
}

// arrive waits for the page that a click or a key leads to, with its script: keys that come before
// the script are lost.
func (tab *tab) arrive(path string) {
	tab.t.Helper()
	tab.await(`location.pathname === "` + path + `" && document.readyState === "complete"`)
}

// await waits until an expression is true, also on the page that comes next.
func (tab *tab) await(expression string) {
	tab.t.Helper()
	const every, longest = 50 * time.Millisecond, 2 * time.Minute
	tick, late := time.NewTicker(every), time.After(longest)
	defer tick.Stop()
	for {
		ok, err := chromedp.Run(tab.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if err == nil && ok {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			tab.t.Fatalf("waited too long for %s: %v", expression, err)
		}
	}
}
