//go:build !unix

package processes

import "os/exec"

// InGroup does nothing.
func InGroup(*exec.Cmd) {}

// KillGroup kills a program.
func KillGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
