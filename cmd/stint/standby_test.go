//go:build unix

package main

import (
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// A hot standby has no transactions but those that only read.
// Proves G161.
func TestLooks_WorkOnAHotStandby(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	env, dir := privateHome(t)
	run(t, env, `{"id": "a", "action": "act"}`, "insert").wantExit(t, 0)
	makeStandby(t, dir, "")
	for _, args := range [][]string{
		{"ls"},
		{"show", "a"},
		{"stats"},
		{"explain", "a"},
		{"graph", "a"},
		{"actors"},
		{"errors"},
		{"changes"},
		{"export"},
		{"check"}, // a replica is no fault, so it may be checked each hour
	} {
		run(t, env, "", args...).wantExit(t, 0)
	}
	wantNoServer(t, dir)
}
