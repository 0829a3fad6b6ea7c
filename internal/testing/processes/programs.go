package processes

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Write writes shell programs into a directory of their own, which goes with the test.
func Write(tb testing.TB, scripts map[string]string) string {
	tb.Helper()
	dir := tb.TempDir()
	// A process that is forked while a file is open for writing keeps it from being executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for name, script := range scripts {
		script = "#!/bin/sh\n" + script
		path := filepath.Join(dir, name)
		err := os.WriteFile(path, []byte(script), 0o700) //nolint:gosec // is to be executed
		if err != nil {
			tb.Fatal(err)
		}
	}
	return dir
}
