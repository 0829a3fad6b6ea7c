package record_test

import (
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
	const page = "# Title\n<!-- the record begins -->\nold\n<!-- the record ends -->\nBy hand.\n"
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
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# Title", "By hand.", "3 rounds with 2 seeds: 1,501 calls, 2,034 moves.",
		"| cut | 1 | 0 | 1 | 0 | 1 | - | - |\n| kill-server | 2 | 5 | 1,500 | 2,034 | 0 | " +
			"1.2 s, 3.0 s | 2.0 s, 2.0 s; 1 not within a minute |",
		"Commits: c, d.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "old") {
		t.Error("the old table is still there")
	}
	if _, err := record.Page("# Title\n", nil); err == nil {
		t.Error("a page without marks is accepted")
	}
}
