package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestPlan_LeavesOutWhoCannotTakePart(t *testing.T) {
	t.Parallel()
	asked := 0
	absent := contender{
		name: "absent", title: "Absent 1.0",
		prepare: func(context.Context, bool) error {
			asked++
			return errors.New("there is none")
		},
	}
	all := []*measured{
		{contender: contender{name: "present"}}, {contender: absent}, {contender: absent},
	}
	var said strings.Builder
	left := plan{}.prepared(t.Context(), all, &said)
	if len(left) != 1 || left[0].contender.name != "present" {
		t.Errorf("%d are left", len(left))
	}
	if got, want := said.String(), "Absent 1.0 is left out: there is none\n"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
}

func TestGraphile_IsNotFetchedUnasked(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", empty)
	t.Setenv("HOME", empty)
	err := installGraphile(t.Context(), false)
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("it says %v, want one line", err)
	}
}
