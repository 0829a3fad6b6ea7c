package golden

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Kept fails for each line of a file that is not one of the lines: it was promised and is gone.
// go test -update writes the lines into the file.
func Kept(tb testing.TB, path string, lines []string) {
	tb.Helper()
	if *update {
		Want(tb, path, strings.Join(slices.Sorted(slices.Values(lines)), "\n")+"\n")
		return
	}
	text, err := os.ReadFile(path) //nolint:gosec // it is the test that names it
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); !slices.Contains(lines, line) {
			tb.Errorf("%s: %q is gone, which the last release has", path, line)
		}
	}
}
