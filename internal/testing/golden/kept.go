package golden

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Kept fails for each line of a file that is not one of the lines: it was promised and is gone. It
// fails for each of the lines that the file lacks, too, so that the next release promises them: go
// test -update adds these, and takes nothing away.
func Kept(tb testing.TB, path string, lines []string) {
	tb.Helper()
	text, err := os.ReadFile(path) //nolint:gosec // it is the test that names it
	if err != nil {
		tb.Fatal(err)
	}
	kept := slices.Collect(strings.Lines(string(text)))
	for i, line := range kept {
		kept[i] = strings.TrimSuffix(line, "\n")
		if !slices.Contains(lines, kept[i]) {
			tb.Errorf("%s: %q is gone, which the last release has: bring it back, or take the "+
				"line away if no release has it", path, kept[i])
		}
	}
	for _, line := range lines {
		switch {
		case slices.Contains(kept, line):
		case *update:
			kept = append(kept, line)
		default:
			tb.Errorf("%s lacks %q, which -update adds", path, line)
		}
	}
	if *update {
		slices.Sort(kept)
		Want(tb, path, strings.Join(kept, "\n")+"\n")
	}
}
