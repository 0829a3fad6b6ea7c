package testrun

import "syscall"

// Flags of statfs(2).
const (
	readOnly = 0x1
	noExec   = 0x8
)

// memory returns the directory for files in memory that Linux systems have, or "" if it is too
// small for databases or closed to programs, which some tests build: in containers it often is.
func memory() string {
	const (
		dir  = "/dev/shm"
		room = 4 << 30 // bytes; the largest package takes up a quarter
	)
	var system syscall.Statfs_t
	if err := syscall.Statfs(dir, &system); err != nil {
		return ""
	}
	free := system.Bavail * uint64(system.Bsize) //nolint:gosec // a size is positive
	if free < room || system.Flags&(readOnly|noExec) != 0 {
		return ""
	}
	return dir
}
