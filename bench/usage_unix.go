//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
	"time"
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

// clientCPU is the time of the processor that this process has spent, and those that it has started
// and that have ended.
func clientCPU() time.Duration {
	var spent time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var usage syscall.Rusage
		if err := syscall.Getrusage(who, &usage); err != nil {
			return 0
		}
		spent += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return spent
}
