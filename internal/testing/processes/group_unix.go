//go:build unix

package processes

import (
	"os/exec"
	"syscall"
)

// InGroup has a program start in a process group of its own.
func InGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// KillGroup kills a program that was started so, and all that it has started.
func KillGroup(cmd *exec.Cmd) error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
