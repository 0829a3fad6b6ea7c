package testrun

import "os"

// inMemory lets the tests of a binary, and the programs that they start, keep their temporary files
// in memory where the system offers a directory for that with room enough: a database is some 300
// files, made and removed for every test, which on a disk can cost as much as the tests themselves.
// TMPDIR counts where the system offers none.
func inMemory() {
	if dir := memory(); dir != "" {
		_ = os.Setenv("TMPDIR", dir) // That name and value are never refused.
	}
}
