//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// axe is where .ci/run puts axe-core, which finds what people cannot perceive, reach or understand.
var axe = filepath.Join("..", "..", ".bin", "axe.min.js")

// A violation is what axe found, and where.
type violation struct {
	ID, Help, Nodes string
}

const audit = `axe.run(document, {
	runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"],
}).then((found) => found.violations.map((v) => ({
	ID: v.id, Help: v.help,
	Nodes: v.nodes.map((n) => n.html.slice(0, 200)).slice(0, 3).join("\n"),
})))`

// Each page, in both themes and on a narrow screen, is one that everybody can use.
func TestPages_AreForEverybody(t *testing.T) {
	script, err := os.ReadFile(axe)
	if err != nil {
		if os.Getenv(needed) == "" {
			t.Skip(err)
		}
		t.Fatalf("%v; .ci/run installs it", err)
	}
	s := newScene(t)
	s.fill(t)
	wantNil(t, s.store.InsertTasks(t.Context(), fan(600)))
	empty := newScene(t)
	for _, l := range testrun.Some([]look{
		{width: 1280, height: 900},
		{width: 1280, height: 900, dark: true},
		{width: 320, height: 640},
	}) {
		tab := open(t, l)
		audited := func(at string) {
			tab.run(string(script))
			found, err := chromedp.Run(tab.ctx,
				chromedp.Evaluate[[]violation](audit, chromedp.EvalAwaitPromise))
			wantNil(t, err)
			for _, v := range found {
				page := strings.TrimPrefix(at, s.url)
				t.Errorf("%s, %v: %s: %s\n%s", page, l, v.ID, v.Help, v.Nodes)
			}
		}
		check := func(at string) {
			tab.visit(at)
			audited(at)
		}
		for name, way := range previews() {
			tab.lead(s, way)
			audited("the preview " + name)
		}
		for _, page := range pages() {
			check(s.url + "/" + page)
		}
		check(s.url + "/network?id=fan/first&show=all")
		for _, page := range []string{
			"", "problems", "tasks", "actions", "actors", "limits", "waiting", "check",
		} {
			check(empty.url + "/" + page)
		}
	}
}
