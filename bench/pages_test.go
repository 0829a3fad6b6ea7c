package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/golden"
)

// The pages and the picture have the figures of the published results, and no others of speed.
func TestPages_HaveThePublishedFigures(t *testing.T) {
	t.Parallel()
	runs, err := readPublished(publishedFile)
	if err != nil {
		t.Fatal(err)
	}
	filled := 0
	for _, page := range pages(t) {
		text := readPage(t, page)
		made, err := fillPage(text, runs)
		if err != nil {
			t.Errorf("%s: %v", page, err)
			continue
		}
		if strings.Contains(text, "<!-- figures") {
			filled++
			golden.Want(t, page, made)
		}
		for _, rate := range otherRates(text) {
			t.Errorf("%s has %q outside of the published figures", page, rate)
		}
	}
	if filled == 0 {
		t.Error("no page has figures")
	}
	var picture strings.Builder
	if err := writeChart(&picture, published(runs)); err != nil {
		t.Fatal(err)
	}
	golden.Want(t, "../docs/speed.svg", picture.String())
}

// otherRates are the rates of a page that do not come from the results.
func otherRates(page string) []string {
	rest := figureBlocks.ReplaceAllString(page, "")
	return regexp.MustCompile(`\d[\d,.]* (tasks/s|tasks a second)\b`).FindAllString(rest, -1)
}

// pages are those for readers. The decisions are history: they keep the figures of their time.
func pages(t *testing.T) []string {
	t.Helper()
	all := []string{"../README.md"}
	err := filepath.WalkDir("../docs", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "adr" {
			return filepath.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			all = append(all, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFillPage_MakesBlocksAnew(t *testing.T) {
	t.Parallel()
	runs := []publication{
		{Commit: "abc", Date: "2026-11-01", Results: results{
			{Workload: "W1", Contender: "stint", Median: 300_400, Unit: unitRate},
			{Workload: "W1", Contender: "river", Median: 100_000, Unit: unitRate},
		}},
		{Commit: "def", Date: "2026-11-02", Results: results{
			{Workload: "W4", Contender: "stint", Variant: "worker", Figure: "p50", Median: 1.42},
		}},
	}
	made, err := fillPage("a\n<!-- figures\n{{stint \"W1\"}}, "+
		"{{over (stint \"W1\") (river \"W1\")}} {{stint \"W4\" \"p50\" \"worker\"}}\n"+
		"-->\nold\n<!-- end of figures -->\nb", runs)
	want := "-->\n300,000, 3.00 1.42\n<!-- end of figures -->\nb"
	if err != nil || !strings.HasSuffix(made, want) {
		t.Errorf("fillPage = %q, %v; want it to end in %q", made, err, want)
	}
	again, err := fillPage(made, runs)
	if err != nil || again != made {
		t.Errorf("filled again it is %q, %v", again, err)
	}
	_, err = fillPage("<!-- figures\n{{river \"W9\"}}\n-->\n<!-- end of figures -->", runs)
	if err == nil || !strings.Contains(err.Error(), "-w W9") {
		t.Errorf("a figure that was not measured gives %v", err)
	}
	got := otherRates("<!-- figures\nx-->1 tasks/s<!-- end of figures --> 7,000 tasks/s")
	if len(got) != 1 {
		t.Errorf("the other rates are %q, want one", got)
	}
}

func TestPublish_TakesThePlaceOfOlderResults(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "published.json")
	row := func(workload string, median float64) result {
		return result{Workload: workload, Contender: "stint", Median: median, Unit: unitRate}
	}
	for _, rows := range []results{{row("W1", 1), row("W2", 2)}, {row("W2", 3)}, {row("W1", 4)}} {
		if err := (findings{Results: rows}).publish(file); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := readPublished(file)
	if err != nil || len(runs) != 2 || runs[1].Commit == "" || runs[1].Date == "" {
		t.Fatalf("the file has %+v, %v", runs, err)
	}
	all := merged(runs)
	one, _ := all.of("stint", "W1", "", "")
	two, _ := all.of("stint", "W2", "", "")
	if len(all) != 2 || one.Median != 4 || two.Median != 3 {
		t.Errorf("the results are %+v", all)
	}
}
