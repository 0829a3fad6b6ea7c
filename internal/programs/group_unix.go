//go:build unix

package programs

import (
	"io/fs"
	"os/exec"
	"syscall"
)

const supported = true

const anyExecutes fs.FileMode = 0o111

func executable(info fs.FileInfo) bool { return info.Mode()&anyExecutes != 0 }

// ownGroup makes a program run in a process group of its own.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// terminate tells a started program and the processes that it has started to end, and kill kills
// them. There may be none left.
func terminate(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
func kill(cmd *exec.Cmd)      { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// alive reports whether a process of the program's group is left.
func alive(cmd *exec.Cmd) bool { return syscall.Kill(-cmd.Process.Pid, 0) == nil }
