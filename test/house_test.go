package stint_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/stint-tasks/stint"
)

// The root fits on one screen, and a page of pkg.go.dev can be read. Whoever needs more room looks
// for what can lie below.
func TestHouse_RootIsSmall(t *testing.T) {
	t.Parallel()
	entries, err := filepath.Glob("[^.]*")
	wantErr(t, "Glob", err, nil)
	files, tests, lines := 0, 0, 0
	for _, entry := range entries {
		switch {
		case strings.HasSuffix(entry, "_test.go"):
			tests++
		case strings.HasSuffix(entry, ".go"):
			files++
			text, err := os.ReadFile(entry)
			wantErr(t, "ReadFile", err, nil)
			lines += strings.Count(string(text), "\n")
		}
	}
	methods := reflect.TypeFor[*stint.Store]().NumMethod()
	for _, number := range []struct {
		name     string
		is, most int
	}{
		{"entries in the root", len(entries), 73},
		{"Go files in the root", files, 40},
		{"tests in the root, which are examples", tests, 3},
		{"lines of Go in the root", lines, 14_700},
		{"methods of Store", methods, 63},
	} {
		if number.is > number.most {
			t.Errorf("%d %s, over %d", number.is, number.name, number.most)
		}
	}
}

// Files stay short, so that each can be read at once.
func TestHouse_FilesAreShort(t *testing.T) {
	t.Parallel()
	const most = 600
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && len(path) > 1 && strings.HasPrefix(filepath.Base(path), "."):
			return filepath.SkipDir
		case filepath.Ext(path) != ".go" && filepath.Ext(path) != ".sql",
			strings.HasSuffix(path, ".pb.go"),
			strings.HasSuffix(path, ".connect.go"),
			path == filepath.Join("migrations", "finish_task.sql"): // made of other files
			return nil
		}
		text, err := os.ReadFile(path)
		if lines := strings.Count(string(text), "\n"); lines > most {
			t.Errorf("%s has %d lines, over %d", path, lines, most)
		}
		return err
	})
	wantErr(t, "WalkDir", err, nil)
}

// The pages stay few, so that all can be read. Whoever needs more room looks for what two of them
// say.
func TestHouse_PagesAreFew(t *testing.T) {
	t.Parallel()
	const most = 50_000
	words := 0
	for _, page := range append(allDocuments(t), "CHANGELOG.md") {
		if page == "SECURITY.md" { // a page of the repository, not of the product
			continue
		}
		text, err := os.ReadFile(page)
		wantErr(t, "ReadFile", err, nil)
		for _, word := range strings.Fields(string(text)) {
			if strings.ContainsFunc(word, isLetterOrDigit) {
				words++
			}
		}
	}
	if words > most {
		t.Errorf("%d words in the pages, over %d", words, most)
	}
}

func isLetterOrDigit(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
