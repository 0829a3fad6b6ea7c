// Package golden compares what tests get with files that a person has looked at, and reads the
// pages of the documentation in tests.
package golden

import (
	"flag"
	"os"
	"testing"
)

//nolint:gochecknoglobals // as flags are
var update = flag.Bool("update", false, "write the files that the tests compare with")

// Want compares text with a file, which go test -update writes.
func Want(tb testing.TB, path, got string) {
	tb.Helper()
	if *update {
		const mode = 0o644
		err := os.WriteFile(path, []byte(got), mode) //nolint:gosec // it is the test that names it
		if err != nil {
			tb.Fatal(err)
		}
	}
	want, err := os.ReadFile(path) //nolint:gosec // it is the test that names it
	if err != nil {
		tb.Fatal(err)
	}
	if got != string(want) {
		tb.Errorf("%s: got\n%s\nwant\n%s\n(-update writes it; then look at it)", path, got, want)
	}
}
