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

// What is new in the version that is built: not what comes after it, nor another one.
func TestNotes_AreOfTheVersion(t *testing.T) {
	t.Parallel()
	changes, err := os.ReadFile("../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Abs("../docs")
	if err != nil {
		t.Fatal(err)
	}
	source := t.TempDir()
	if err := os.Symlink(docs, filepath.Join(source, "docs")); err != nil {
		t.Fatal(err)
	}
	head, released, _ := strings.Cut(string(changes), "\n## ")
	text := head + "\n## Unreleased\n\n- not yet\n\n## 0.1.01 - 2027-01-01\n\n- in another\n\n## " +
		released
	err = os.WriteFile(filepath.Join(source, "CHANGELOG.md"), []byte(text), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	r := &release{source: source, out: t.TempDir(), version: "0.1.0"}
	if err := r.notes(t.Context()); err != nil {
		t.Fatal(err)
	}
	notes, err := os.ReadFile(filepath.Join(r.out, "notes.md"))
	if err != nil {
		t.Fatal(err)
	}
	has := func(part string) bool { return strings.Contains(string(notes), part) }
	if !has("- **Tasks**:") || has("- not yet") || has("- in another") {
		t.Errorf("the notes of 0.1.0 are\n%.500s", notes)
	}
	r.version = "0.2.0"
	want := `CHANGELOG.md: there is no heading "## 0.2.0 - "`
	if err := r.notes(t.Context()); err == nil || err.Error() != want {
		t.Errorf("notes of a version without a section = %v, want %s", err, want)
	}
}
