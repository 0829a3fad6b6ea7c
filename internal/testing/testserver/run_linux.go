package testserver

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// runOf returns the process of the command go that has started this one, or 0 if somebody else has.
func runOf() int {
	parent := os.Getppid()
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
	if err != nil || string(name) != "go\n" {
		return 0
	}
	return parent
}

// commandLine returns the command line of a process, or "" if it has ended.
func commandLine(pid int) string {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return string(line)
}

// detach starts a process in a session of its own.
func detach(process *exec.Cmd) { process.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
