//nolint:paralleltest // the tests share a browser, which shows one page at a time
package browsertest

import (
	"bufio"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var docsPicturesIn = flag.String("docs", "", "take the pictures of the docs into this directory")

// TestDocsPictures takes the pictures of the docs: of the demo, while it is played.
func TestDocsPictures(t *testing.T) {
	if *docsPicturesIn == "" {
		t.Skip("-docs names no directory")
	}
	wantNil(t, os.MkdirAll(*docsPicturesIn, 0o755))
	url, stint := startDemo(t)
	var tabs []*tab
	for _, dark := range []bool{false, true} {
		tabs = append(tabs, open(t, look{width: 1200, height: 680, dark: dark, sharp: true}))
	}
	visit := func(address, ready string) {
		for _, tab := range tabs {
			tab.visit(address)
		}
		for _, tab := range tabs {
			tab.await(ready)
		}
	}
	shoot := func(name string) {
		for i, theme := range []string{"light", "dark"} {
			picture, err := chromedp.Run(tabs[i].ctx, chromedp.CaptureScreenshot())
			wantNil(t, err)
			path := filepath.Join(*docsPicturesIn, name+"-"+theme+".png")
			wantNil(t, os.WriteFile(path, picture, 0o644))
		}
	}
	visit(url, "true") // the demo begins
	stint("limit", "develop", "--concurrency", "16", "--rate", "200/s")
	stint("limit", "scan", "--concurrency", "4")
	stint("pause", "report", "--reason", "the printer is away")
	visit(url, `document.querySelector(".tile.aborted .figure").textContent.trim() !== "0" &&
		document.querySelector(".spark .area")`)
	shoot("overview")
	visit(url+"limits", `document.querySelector("tbody tr")`)
	shoot("limits")
	const alike = `document.querySelector("a[href*='alike?']")`
	visit(url+"problems", alike)
	visit(eval[string](tabs[0], alike+".href"), `document.querySelector("tbody tr")`)
	shoot("errors")
	visit(url+"tasks?state=in-progress&state=ready&action=develop",
		`document.querySelector("tbody tr")`)
	shoot("tasks")
	const ready = `document.querySelector("tbody tr a")`
	visit(url+"tasks?state=ready&order=newest", ready)
	visit(eval[string](tabs[0], ready+".href"),
		`document.body.textContent.includes("the limit is full")`)
	shoot("task")
	visit(url+"network?id=book/bind", "true")
	for _, tab := range tabs {
		tab.run(`document.querySelector("[data-zoom=fit]").click()`)
	}
	shoot("network")
}

// startDemo starts stint demo --ui. It returns the address of its pages, and what runs the command
// on its tasks.
func startDemo(t *testing.T) (url string, stint func(args ...string)) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "stint")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/stint")
	build.Dir = filepath.Join("..", "..")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	const stopMax = 10 * time.Second
	demo := exec.CommandContext(t.Context(), program, "demo", "--ui", "--listen", "127.0.0.1:0")
	demo.Cancel = func() error { return demo.Process.Signal(os.Interrupt) }
	demo.WaitDelay = stopMax
	said, err := demo.StderrPipe()
	wantNil(t, err)
	wantNil(t, demo.Start())
	t.Cleanup(func() { _ = demo.Wait() }) // interrupted
	lines := bufio.NewScanner(said)
	address := regexp.MustCompile(`http://[^/ ]+/`)
	for lines.Scan() {
		if url = address.FindString(lines.Text()); url != "" {
			go func() { // so that it can go on talking
				for lines.Scan() {
				}
			}()
			break
		}
	}
	if url == "" {
		t.Fatal("the demo names no address")
	}
	return url, func(args ...string) {
		t.Helper()
		args = append(args, "--by", "ann", "--schema", "stint_demo")
		output, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
		if err != nil {
			t.Errorf("stint %q: %v\n%s", args, err, output)
		}
	}
}
