//go:build unix

package main

import (
	"os"
	"syscall"
)

// pause stops a process as it stands, until resume.
func pause(process *os.Process) error { return process.Signal(syscall.SIGSTOP) }

func resume(process *os.Process) error { return process.Signal(syscall.SIGCONT) }
