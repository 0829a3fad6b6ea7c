package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/cmd/stint/internal/command"
)

func TestWrite_MakesAPageForEachSubCommandAndACompletionForEachShell(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := write(command.Tree(), "v0.1.0", "2026-11-30", dir); err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]string{
		"man/stint.1": {
			`.TH "STINT" "1" "Nov 2026" "stint v0.1.0" "Stint"`, "STINT_DATABASE_URL_FILE",
			"stint-serve(1)",
		},
		"man/stint-worker.1":          {"\n  STINT_INPUTS   the path of a JSON list"},
		"man/stint-schedule-put.1":    {`.TH "STINT-SCHEDULE-PUT"`},
		"man/stint-exit-codes.1":      {"130"},
		"completions/stint.bash":      {"__complete"},
		"completions/_stint":          {"#compdef stint"},
		"completions/stint.fish":      {"complete -c stint"},
		"man/stint-completion-bash.1": {"bash"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, part := range parts {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s lacks %q", name, part)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "man/stint-demo-worker.1")); err == nil {
		t.Error("a hidden sub-command has a page")
	}
}

func TestMarkdown_KeepsTheFormOfHelpTexts(t *testing.T) {
	t.Parallel()
	got := markdown("A *star* and STINT_X:\n\n  a_b  one\n  c    two\n\nEnd <here>.")
	want := "A \\*star\\* and STINT\\_X:\n\n\n```\n  a_b  one\n  c    two\n\n\n```\n\n" +
		"End \\<here>."
	if got != want {
		t.Errorf("markdown = %q, want %q", got, want)
	}
}
