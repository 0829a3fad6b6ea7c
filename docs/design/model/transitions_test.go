package model_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// groups are the words of the table for several states.
var groups = map[string][]string{
	"unfinished":      {"blocked", "scheduled", "ready", "in progress"},
	"pending":         {"blocked", "scheduled", "ready"},
	"not in progress": {"blocked", "scheduled", "ready", "completed", "aborted", "skipped"},
}

// transitions returns the rows of the table "Transitions" of a page.
func transitions(page string) ([]transition, error) {
	_, section, _ := strings.Cut(page, "\n## Transitions\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []transition
	line := regexp.MustCompile(`(?m)^\| (.*?[→↔].*?) \|`)
	for _, row := range line.FindAllStringSubmatch(section, -1) {
		if row[1] == "from → to" {
			continue
		}
		cell := strings.ReplaceAll(row[1], "↔", "→")
		from, to, _ := strings.Cut(cell, "→")
		here := transition{statesIn(from), statesIn(to)}
		if len(here.To) == 0 {
			return nil, fmt.Errorf("the row %q names no state that it leads to", row[1])
		}
		rows = append(rows, here)
		if cell != row[1] {
			rows = append(rows, transition{here.To, here.From})
		}
	}
	if len(rows) == 0 {
		return nil, errors.New("the page has no table of transitions")
	}
	return rows, nil
}

// statesIn reads a list of states, each with a note behind it, as in "ready, late" or "aborted
// (tries)". No state is that of a task that is not in the store.
func statesIn(list string) []state {
	var states []state
	for word := range strings.SplitSeq(list, ",") {
		word = strings.TrimSpace(word)
		switch word {
		case "":
			states = append(states, state{Name: "gone"})
		case "parked", "late", "same owner":
			states[len(states)-1].Note = word
		default:
			if members := groups[word]; members != nil {
				for _, member := range members {
					states = append(states, state{Name: member})
				}
				continue
			}
			states = append(states, stateOf(word))
		}
	}
	return states
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
	const page = "\n## Transitions\n\n| from → to | when |\n| --- | --- |\n| → ready | x |\n" +
		"| ready, late → in progress, same owner | x |\n| pending → aborted (tries) | x |\n"
	rows, err := transitions(page)
	if err != nil {
		t.Fatal(err)
	}
	in, late := state{Name: "gone"}, state{"ready", "late"}
	again, tries := state{"in progress", "same owner"}, state{"aborted", "tries"}
	all := map[move]bool{
		{in, state{Name: "ready"}}: true, {late, again}: true, {late, tries}: true,
		{state{Name: "ready"}, tries}: true, {state{Name: "blocked"}, tries}: true,
	}
	without := map[move]string{{state{Name: "scheduled"}, tries}: "a reason"}
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
	all[move{state{Name: "scheduled"}, tries}] = true
	if faults := compare(rows, without, all); len(faults) != 1 {
		t.Errorf("a move that the model has after all: %v", faults)
	}
	if _, err := transitions("# A page\n"); err == nil {
		t.Error("a page without a table passes")
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
