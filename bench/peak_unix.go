//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// peakBytes is the most memory that a process which has ended had at a time.
func peakBytes(process *os.ProcessState) int64 {
	usage, ok := process.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" {
		return usage.Maxrss
	}
	return usage.Maxrss * 1024
}
