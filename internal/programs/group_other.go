//go:build !unix

package programs

import (
	"io/fs"
	"os/exec"
)

// executable leaves it to the system to refuse what it cannot run.
func executable(fs.FileInfo) bool { return true }

func ownGroup(*exec.Cmd) {}

func terminate(cmd *exec.Cmd) { kill(cmd) }

// kill kills a started program, which may have ended on its own.
func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// alive cannot tell whether processes that the program has started are left.
func alive(*exec.Cmd) bool { return false }
