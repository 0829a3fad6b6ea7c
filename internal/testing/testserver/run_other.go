//go:build !linux

package testserver

import "os/exec"

// Where there is no /proc, nobody knows the command go that has started a test: each binary has a
// server of its own.
func runOf() int { return 0 }

func commandLine(int) string { return "" }

func detach(*exec.Cmd) {}
