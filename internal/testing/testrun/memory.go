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

// keepMemory lets the processes of PostgreSQL keep memory that they will need again, in large
// pages: an eighth of the tests' processor time went for pages that the statement before had given
// back. Other C libraries than glibc read no such variable.
func keepMemory() {
	const name = "GLIBC_TUNABLES"
	if _, set := os.LookupEnv(name); !set {
		_ = os.Setenv(name, "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=2097152:"+
			"glibc.malloc.trim_threshold=134217728:glibc.malloc.mmap_threshold=134217728")
	}
}
