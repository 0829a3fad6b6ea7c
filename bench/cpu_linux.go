package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// serverCPU is the time of the processor that a server has spent, of which a backend is known: the
// time of its first process, of those it has now and of those that have ended. Zero if the system
// does not say.
func serverCPU(backend int) time.Duration {
	known, ok := readProcess(strconv.Itoa(backend))
	if !ok {
		return 0
	}
	postmaster, ok := readProcess(known.parent)
	if !ok {
		return 0
	}
	ticks := postmaster.own + postmaster.reaped
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0
	}
	for _, path := range processes {
		if p, ok := readProcess(filepath.Base(path)); ok && p.parent == known.parent {
			ticks += p.own
		}
	}
	const ticksPerSecond = 100 // wherever Linux runs
	return time.Duration(ticks) * (time.Second / ticksPerSecond)
}

// A process is what /proc says of one.
type process struct {
	parent string
	own    int64 // ticks of the processor
	reaped int64 // those of its children that have ended
}

// readProcess reads /proc/PID/stat, whose second field may have blanks in its parentheses.
func readProcess(pid string) (p process, ok bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", pid))
	if err != nil {
		return p, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return p, false
	}
	ticks := func(i int) int64 {
		n, err := strconv.ParseInt(string(fields[i]), 10, 64)
		if err != nil {
			return 0
		}
		return n
	}
	return process{
		parent: string(fields[1]), own: ticks(11) + ticks(12), reaped: ticks(13) + ticks(14),
	}, true
}
