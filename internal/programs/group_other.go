//go:build !unix

package programs

import (
	"io/fs"
	"os/exec"
)

const supported = false

// Nobody calls these where nothing is supported.
func executable(fs.FileInfo) bool { return false }
func ownGroup(*exec.Cmd)          {}
func terminate(*exec.Cmd)         {}
func kill(*exec.Cmd)              {}
func alive(*exec.Cmd) bool        { return false }
