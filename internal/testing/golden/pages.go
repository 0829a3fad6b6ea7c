package golden

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ForUsers returns the text of all pages for users in the folder of the documentation and below it:
// those of the design are for contributors.
func ForUsers(tb testing.TB, folder string) string {
	tb.Helper()
	var all strings.Builder
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "design" {
			return filepath.SkipDir
		}
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		text, err := os.ReadFile(path) //nolint:gosec // a page of the documentation
		all.Write(text)
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return all.String()
}
