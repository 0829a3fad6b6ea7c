//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// pages are the addresses of the pages of a scene, by names for pictures.
func pages() map[string]string {
	of := func(page, id string) string { return page + "?id=" + url.QueryEscape(id) }
	return map[string]string{
		"overview": "", "problems": "problems", "tasks": "tasks",
		"tasks-filtered": "tasks?state=ready&state=aborted&action=mail",
		"tasks-none":     "tasks?prefix=nothing", "actions": "actions", "actors": "actors",
		"limits": "limits", "schedules": "schedules", "changes": "changes",
		"task-changed":  of("task", "mail/10039"),
		"task-gone":     of("task", "newsletter/2026-10/7"),
		"task-progress": of("task", "export/film-2/photo-16"),
		"task-blocked":  of("task", "export/book"), "task-tries": of("task", "mail/10000"),
		"task-failed": of("task", "export/film-2/photo-15"), "task-nobody": of("task", "alone"),
		"task-hostile": of("task", hostile), "action": "action?name=mail",
		"network":       of("network", "export/book"),
		"network-near":  of("network", "export/film-2/page") + "&show=near",
		"network-all":   of("network", "export/book") + "&show=all",
		"network-when":  of("network", "article/review"),
		"network-group": of("network", "export/book") + "&show=alike&of=export%2Ffilm-0%2Fscan",
		"task-skipped":  of("task", "article/publish"),
		"network-one":   of("network", "alone"), "missing": of("task", "not/there"),
		"waiting": "waiting", "check": "check", "shards": "all/shards", "shards-overview": "all/",
		"shards-tasks":   "all/tasks?action=pack",
		"shards-task":    of("all/task", "us/order/3/pack"),
		"shards-network": of("all/network", "us/order/3/pack"),
		"shards-action":  "all/action?name=pack", "shards-waiting": "all/waiting",
		"shard": "all/shard/us/", "shard-limits": "all/shard/us/limits",
		"shard-task":  of("all/shard/us/task", "order/3/pack"),
		"shard-check": "all/shard/us/check", "shard-away": "all/shard/ap/",
	}
}

// Each page in each theme, with and without script, at one place or another where it is mounted:
// the browser has nothing to complain of, and nothing is wider than the screen.
func TestPages_AreCalm(t *testing.T) {
	s := newScene(t)
	s.fill(t)
	calm := pages()
	for _, name := range []string{"missing", "task-gone", "shard-away"} { // browsers complain
		delete(calm, name)
	}
	mounts := []string{"/", "/a/b/", "/cut/"}
	places := testrun.Pairs(slices.Sorted(maps.Keys(calm)), mounts)
	for i, l := range []look{
		{width: 1280, height: 900},
		{width: 1280, height: 900, dark: true},
		{width: 1280, height: 900, noScript: true},
		{width: 320, height: 640},
		{width: 640, height: 450, sharp: true}, // 1280 pixels at 200 %
	} {
		tab := open(t, l)
		for _, place := range testrun.Third(places, i%len(mounts)) { // each page at one of them
			tab.visit(s.url + place.B + calm[place.A])
			what := fmt.Sprintf("%s at %s, %v", place.A, place.B, l)
			tab.wantCalm(what)
			if l.noScript {
				continue
			}
			wide := eval[int64](tab, "document.documentElement.scrollWidth")
			if wide > l.width {
				t.Errorf("%s: the page is %d pixels wide", what, wide)
			}
		}
	}
}

var picturesIn = flag.String("pictures", "", "take pictures of the pages into this directory")

func TestPictures(t *testing.T) {
	if *picturesIn == "" {
		t.Skip("-pictures names no directory")
	}
	s := newScene(t)
	s.fill(t)
	empty, large := newScene(t), newScene(t)
	wantNil(t, large.store.InsertTasks(t.Context(), mesh(10_000)))
	large.finish(t, large.own(t, "action-0", 1000))
	large.own(t, "action-1", 100)
	wantNil(t, large.store.InsertTasks(t.Context(), fan(600)))
	for _, l := range []look{
		{width: 1280, height: 900},
		{width: 1280, height: 900, dark: true},
		{width: 320, height: 640},
		{width: 1920, height: 1080},
	} {
		tab := open(t, l)
		suffix := "light"
		if l.dark {
			suffix = "dark"
		}
		switch {
		case l.width < 1000:
			suffix = "narrow"
		case l.width > 1500:
			suffix = "wide"
		}
		shoot := func(name string) {
			picture, err := chromedp.Run(tab.ctx, chromedp.FullScreenshot(100))
			wantNil(t, err)
			path := filepath.Join(*picturesIn, name+"-"+suffix+".png")
			wantNil(t, os.WriteFile(path, picture, 0o644))
		}
		take := func(name, at string) {
			tab.visit(at)
			shoot(name)
		}
		for name, id := range map[string]string{
			"canvas-mesh": "mesh/5000", "canvas-fan": "fan/first",
		} {
			tab.visit(large.url + "/network?show=all&id=" + id)
			tab.await(took + " >= 0")
			shoot(name)
			tab.run(`document.querySelector("[data-zoom=fit]").click()`)
			shoot(name + "-whole")
		}
		for name, page := range pages() {
			take(name, s.url+"/"+page)
		}
		for name, way := range previews() {
			tab.lead(s, way)
			shoot("preview-" + name)
		}
		for _, page := range []string{
			"", "problems", "tasks", "actions", "actors", "limits", "schedules", "waiting", "check",
			"changes",
		} {
			take("empty-"+page, empty.url+"/"+page)
		}
	}
}
