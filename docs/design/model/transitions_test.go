package model_test

import (
	"strings"
	"testing"

	"github.com/stint-tasks/stint/docs/design"
)

// transitions returns the rows of the table "Transitions" of the page, as the model has them.
func transitions() ([]transition, error) {
	page, err := design.Transitions()
	if err != nil {
		return nil, err
	}
	rows := make([]transition, len(page))
	for i, row := range page {
		rows[i] = transition{ofModel(row.From), ofModel(row.To)}
	}
	return rows, nil
}

// ofModel names a task that is not in the store as the model does.
func ofModel(states []design.State) []state {
	made := make([]state, len(states))
	for i, s := range states {
		if made[i] = state(s); s.Name == "" {
			made[i].Name = "gone"
		}
	}
	return made
}

// moves returns each move of a row.
func (row transition) moves() []move {
	var moves []move
	for _, from := range row.From {
		for _, to := range row.To {
			if from != to { // of a group
				moves = append(moves, move{from, to})
			}
		}
	}
	return moves
}

// The comparison finds what the page or the model lacks.
func TestCompare_FindsFaults(t *testing.T) {
	t.Parallel()
	late, again := state{"ready", "late"}, state{"in progress", "same owner"}
	in, tries := state{Name: "gone"}, state{"aborted", "tries"}
	ready, scheduled := state{Name: "ready"}, state{Name: "scheduled"}
	rows := []transition{
		{[]state{in}, []state{ready}},
		{[]state{late}, []state{again}},
		{[]state{{Name: "blocked"}, scheduled, ready}, []state{tries}},
	}
	all := map[move]bool{
		{in, ready}: true, {late, again}: true, {late, tries}: true,
		{ready, tries}: true, {state{Name: "blocked"}, tries}: true,
	}
	without := map[move]string{{scheduled, tries}: "a reason"}
	if faults := compare(rows, without, all); len(faults) != 0 {
		t.Errorf("faults are seen where there are none: %v", faults)
	}
	if faults := compare(rows, nil, all); len(faults) != 1 {
		t.Errorf("a move that the model lacks: %v", faults)
	}
	all[move{again, late}] = true
	if faults := compare(rows, without, all); len(faults) != 1 {
		t.Errorf("a move that the page lacks: %v", faults)
	}
	delete(all, move{again, late})
	all[move{scheduled, tries}] = true
	if faults := compare(rows, without, all); len(faults) != 1 {
		t.Errorf("a move that the model has after all: %v", faults)
	}
}

// What a verifier says is read as it is meant, also that it has given up.
func TestFaultOf_ReadsVerifiers(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]string{
		"State-vector 96 byte, depth reached 9, errors: 0\n":                    "",
		"pan:1: assertion violated (x<=1) (at depth 9)\nerrors: 1\n":            "violation",
		"pan:1: invalid end state (at depth 9)\nerrors: 1\n":                    "violation",
		"pan:1: acceptance cycle (at depth 9)\nerrors: 1\n":                     "violation",
		"error: max search depth too small\nerrors: 0\n":                        "not all",
		"Warning: Search not completed\nerrors: 0\n":                            "not all",
		"pan: reached -DMEMLIM bound\nWarning: Search not completed\nerrors: 0": "not all",
		"pan: out of memory\nerrors: 0\n":                                       "not all",
		"":                                                                      "the verifier",
	} {
		if fault := faultOf(out); !strings.HasPrefix(fault, want) || (want == "") != (fault == "") {
			t.Errorf("%q is read as %q, want %q", out, fault, want)
		}
	}
}
