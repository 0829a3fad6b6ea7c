package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The notes are made of the pages as they are, with links that lead from anywhere.
func TestNotes_AreOfThePages(t *testing.T) {
	t.Parallel()
	r := &release{source: "..", out: t.TempDir(), version: "0.1.0"}
	if err := r.notes(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "notes.md"))
	if err != nil {
		t.Fatal(err)
	}
	notes := string(text)
	for _, part := range []string{
		"# Stint 0.1.0\n", "- **Tasks**:", "| fault | rounds |", "| if you want | use |",
		"](" + repository + "/blob/v0.1.0/docs/README.md)",
		`src="` + repository + "/raw/v0.1.0/docs/pictures/overview-light.png",
	} {
		if !strings.Contains(notes, part) {
			t.Errorf("the notes lack %q", part)
		}
	}
	if n := strings.Count(notes, "<picture>"); n != 6 {
		t.Errorf("the notes have %d pictures, want 6", n)
	}
	if strings.Contains(notes, "What it has found") {
		t.Error("the notes go on behind the record")
	}
	links := regexp.MustCompile(`(?:\]\(|src="|srcset=")([^)"]*)`)
	for _, link := range links.FindAllStringSubmatch(notes, -1) {
		path, found := strings.CutPrefix(link[1], repository+"/")
		switch {
		case !strings.HasPrefix(link[1], "https://"):
			t.Errorf("the link %q leads nowhere", link[1])
		case found:
			_, path, _ = strings.Cut(path, "v0.1.0/")
			path, _, _ = strings.Cut(path, "#")
			if _, err := os.Stat(filepath.Join("..", path)); err != nil {
				t.Errorf("the link %q: %v", link[1], err)
			}
		}
	}
}
