package record_test

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/chaos/record"
)

func TestRecord_IsReadAsItWasAppended(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "record")
	if rounds, err := record.Read(path); err != nil || len(rounds) > 0 {
		t.Fatalf("of none Read = %v, %v", rounds, err)
	}
	for seed := range uint64(2) {
		r := record.Round{Fault: "kill-server", Seed: seed, Violations: []string{"lost"}}
		if err := record.Append(path, r); err != nil {
			t.Fatal(err)
		}
	}
	rounds, err := record.Read(path)
	if err != nil || len(rounds) != 2 || rounds[1].Seed != 1 || rounds[1].Violations[0] != "lost" {
		t.Errorf("Read = %v, %v", rounds, err)
	}
}

func TestPage_ReplacesTheTableAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	const page = "# Title\n<!-- the record begins -->\nold\n<!-- the record ends -->\nBy hand.\n" +
		"<!-- the long run begins -->\nold\n<!-- the long run ends -->\n"
	text, err := record.Page(page, []record.Round{
		{
			Fault: "kill-server", Calls: 1000, Moves: 2000, Backs: []float64{1.25, 3, 0.5},
			Load: 0.5, Machine: "m", Commit: "c",
		},
		{
			Fault: "kill-server", Calls: 500, Moves: 34, Backs: []float64{2, -1}, Load: 1, Seed: 1,
			Commit: "c", Machine: "m",
		},
		{Fault: "cut", Calls: 1, Found: 1, Violations: []string{"lost"}, Machine: "m", Commit: "d"},
	}, longRun(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Title", "By hand.", "3 rounds with 2 seeds: 1,501 calls, 2,034 moves.",
		"| cut | 1 | 0 | 1 | 0 | 1 | - | - |\n| kill-server | 2 | 5 | 1,500 | 2,034 | 0 | " +
			"1.2 s, 3.0 s | 2.0 s, 2.0 s; 1 not within a minute |",
		"Commits: c, d.",
		"3 minutes with `-load 0.5 -seed 7`, commit c, m, 2026-11-30: 30 commits and 1,234 moves " +
			"were followed, with 2 violations; processes died: 1. When nothing was held back, " +
			"240 tasks were completed a second.",
		"| completed, tasks/s | 100 | 120 |", "| tables and indexes, MB | 3.0 | 3.0 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "old") {
		t.Error("the old table is still there")
	}
	if _, err := record.Page("# Title\n", nil, longRun(t)); err == nil {
		t.Error("a page without marks is accepted")
	}
}

// longRun is a run of three minutes.
func longRun(t *testing.T) record.Long {
	t.Helper()
	path := filepath.Join(t.TempDir(), "long")
	const lines = `{
	"seed": 7, "commit": "c", "date": "2026-11-30T01:00:00Z", "machine": "m", "load": 0.5,
	"full": 240
}
{"rate": 100, "bytes": {"tasks": 1000000, "ready": 2000000}}
{"rate": 110, "bytes": {"tasks": 1000000, "ready": 2000000}}
{"rate": 120, "bytes": {"tasks": 1000000, "ready": 2000000},
	"deaths": 1, "commits": 20, "moves": 1000}
{"final": true, "commits": 30, "moves": 1234, "found": 2}
`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	long, err := record.ReadLong(path)
	if err != nil {
		t.Fatal(err)
	}
	return long
}

func TestChart_IsXMLWithACurveForEachMeasure(t *testing.T) {
	t.Parallel()
	text := record.Chart(longRun(t))
	curves := 0
	for tokens := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := tokens.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		start, ok := token.(xml.StartElement)
		if ok && start.Name.Local == "polyline" {
			curves++
		}
	}
	if want := 9; curves != want {
		t.Errorf("the chart has %d curves, not %d", curves, want)
	}
	// From 100 to 120 of at most 120 tasks a second.
	if want := "16.0,44.0 141.0,39.0 266.0,34.0"; !strings.Contains(text, want) {
		t.Errorf("the chart lacks the curve %q:\n%s", want, text)
	}
}

func TestReadLong_RefusesARunWithoutAMinute(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(path, []byte(`{"seed": 7}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := record.ReadLong(path); err == nil {
		t.Error("a run without a minute is accepted")
	}
}

// The page, and the chart where there was a long run, are what the command writes of the record.
func TestPage_IsWrittenByTheCommand(t *testing.T) {
	t.Parallel()
	const docs = "../../docs/"
	rounds, err := record.Read("../record.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	long, err := record.ReadLong("../long.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(docs + "track-record.md")
	if err != nil {
		t.Fatal(err)
	}
	text, err := record.Page(string(page), rounds, long)
	if err != nil || text != string(page) {
		t.Error("docs/track-record.md is not of the record: go run . -write in chaos", err)
	}
	chart, err := os.ReadFile(docs + "long-run.svg")
	if len(long.Minutes) > 0 && (err != nil || record.Chart(long) != string(chart)) {
		t.Error("docs/long-run.svg is not of the long run: go run . -write in chaos", err)
	}
}
