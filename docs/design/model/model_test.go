// Package model_test explores the model of the protocol in this directory with Spin.
package model_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// configurations are those of configurations.pml.
var configurations = []string{
	"TOKENS", "SPAN", "CHAIN", "CONDITIONS", "ANY", "JOIN", "RETRIES", "STRICT_ORDER", "WAITING",
	live,
}

// live is the configuration in which Spin looks for histories that never end.
const live = "LIVE"

// mutants are the faults of configurations.pml, each with the configuration that has to show it.
var mutants = map[string]string{
	"token": "TOKENS", "repeated": "TOKENS", "extended": "TOKENS", "old_claim": "TOKENS",
	"uncounted": "TOKENS", "endless": "TOKENS", "refunded": "TOKENS", "forever": "TOKENS",
	"stale": "TOKENS", "overdue": "TOKENS", "again": "TOKENS", "snatched": "TOKENS",
	"cut_lease": "SPAN",
	"signalled": live, "unsettled": "CHAIN", "whatever": "CHAIN", "unheard": "CHAIN",
	"added": "CHAIN", "started": "SPAN",
	"unasked": "CONDITIONS", "unskipped": "CONDITIONS",
	"any_end":   "ANY",
	"kept_edge": "RETRIES", "kept_signal": "RETRIES", "miscounted": "JOIN", "pruned": "RETRIES",
	"let_go": "STRICT_ORDER", "overtaken": "STRICT_ORDER", "unparked": "STRICT_ORDER",
	"deaf": "WAITING", "hasty": "WAITING",
	"left_alone": live,
}

// Each configuration is explored completely, and nothing in it breaks a rule or is left waiting.
// What it finds of moves between states is what the table of lifecycle.md says, and all of that.
func TestModel_HoldsAndMovesAsTheTableSays(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	needPrograms(t)
	text := read(t, "protocol.pml")
	names := statesOf(text)
	found := map[move]bool{}
	for _, configuration := range configurations {
		out := explore(t, configuration, "none")
		if fault := faultOf(out); fault != "" {
			t.Errorf("%s: %s\n%s", configuration, fault, out)
		}
		t.Logf("%s: %s", configuration, figuresOf(out))
		for _, m := range movesOf(out, names) {
			found[m] = true
		}
	}
	page, err := transitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range compare(page, unmodelled(text), found) {
		t.Error(fault)
	}
}

// A fault of the protocol is found; each stands for a check that the statements make.
func TestModel_FindsFaults(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	needPrograms(t)
	known := mutantsOf(read(t, "configurations.pml"))
	if named := slices.Sorted(maps.Keys(mutants)); !slices.Equal(known, named) {
		t.Fatalf("the model has the mutants %v, and the test %v", known, named)
	}
	for _, mutant := range testrun.Some(known) {
		out := explore(t, mutants[mutant], mutant)
		fault := faultOf(out)
		if !strings.Contains(fault, "violation") {
			t.Errorf("%s survives in %s: %s\n%s", mutant, mutants[mutant], fault, out)
		}
		t.Logf("%s in %s: %s", mutant, mutants[mutant], fault)
	}
}

func needPrograms(t *testing.T) {
	t.Helper()
	for _, program := range []string{"spin", "cc"} {
		if _, err := exec.LookPath(program); err != nil {
			testrun.Missing(t, "there is no "+program+" here: apt-get install spin gcc libc6-dev")
		}
	}
}

// explore returns what the verifier of a configuration prints. If all tests are to find more, a
// healthy model is explored with one change more.
func explore(t *testing.T, configuration, mutant string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files(t) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	model := []string{"spin", "-a", "-D" + configuration, "-DMUTANT=" + mutant}
	if testrun.Rounds(2) == 2 && mutant == "none" {
		model = append(model, "-DLARGE")
	}
	looks, goes := []string{"-DSAFETY"}, []string{"./pan", "-m1000000", "-w20"}
	if configuration == live {
		looks, goes = []string{"-DNFAIR=3", "-DNOREDUCE"}, append(goes, "-a", "-f")
	}
	compile := []string{"cc", "-O0", "-w", "-DCOLLAPSE", "-DMEMLIM=4000", "-o", "pan", "pan.c"}
	run(t, dir, append(model, "protocol.pml"))
	run(t, dir, append(compile, looks...))
	return run(t, dir, goes)
}

// files returns the texts of the model by their names.
func files(t *testing.T) map[string]string {
	t.Helper()
	names, err := filepath.Glob("*.pml")
	if err != nil || len(names) == 0 {
		t.Fatalf("there is no model here: %v", err)
	}
	texts := map[string]string{}
	for _, name := range names {
		texts[name] = read(t, name)
	}
	return texts
}

func run(t *testing.T, dir string, command []string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	if command[0] == "spin" && strings.Contains(string(out), "rror") {
		t.Fatalf("%v: %s", command, out)
	}
	return string(out)
}

// faultOf says what a verifier has found, or why it has not looked at everything; empty: neither.
func faultOf(out string) string {
	for _, fault := range []struct{ pattern, means string }{
		{`assertion violated .*`, "violation"},
		{`invalid end state`, "violation: nothing more can happen, and a task has not ended"},
		{`acceptance cycle`, "violation: a task need never end"},
		{`max search depth too small`, "not all was explored"},
		{`out of memory|memory limit|Search not completed`, "not all was explored"},
	} {
		for line := range strings.Lines(out) {
			said := regexp.MustCompile(`^(pan|error|Warning|aborting).*(` + fault.pattern + `)`)
			if said.MatchString(line) {
				return fault.means + " (" + strings.TrimSpace(line) + ")"
			}
		}
	}
	if !strings.Contains(out, "errors: 0") {
		return "the verifier does not say that there are no errors"
	}
	return ""
}

func figuresOf(out string) string {
	stored := regexp.MustCompile(`(\d+) states, stored`).FindString(out)
	made := regexp.MustCompile(`(\d+) transitions`).FindString(out)
	return stored + ", " + made + ", " + regexp.MustCompile(`elapsed time .*`).FindString(out)
}

// A state has a name and perhaps a note, as in "aborted (returned)"; the name of none is "gone".
type state struct{ Name, Note string }

type move struct{ From, To state }

// A transition is a row of the table.
type transition struct{ From, To []state }

func stateOf(text string) state {
	text = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), ")"))
	for _, between := range []string{" (", ", "} {
		if name, note, ok := strings.Cut(text, between); ok {
			return state{name, note}
		}
	}
	return state{Name: text}
}

// statesOf returns the states by their numbers in the model.
func statesOf(model string) map[string]state {
	names := map[string]state{}
	for _, found := range regexp.MustCompile(`#define \w+ (\d+) +/\* state: (.*) \*/`).
		FindAllStringSubmatch(model, -1) {
		names[found[1]] = stateOf(found[2])
	}
	return names
}

func movesOf(out string, names map[string]state) []move {
	var moves []move
	line := regexp.MustCompile(`(?m)^move (\d+) (\d+)$`)
	for _, found := range line.FindAllStringSubmatch(out, -1) {
		moves = append(moves, move{names[found[1]], names[found[2]]})
	}
	return moves
}

// unmodelled returns the moves of the table that the model does not have, each with its reason.
func unmodelled(model string) map[move]string {
	moves := map[move]string{}
	for _, found := range regexp.MustCompile(`not modelled: (.*?) -> (.*?): (.*)`).
		FindAllStringSubmatch(model, -1) {
		moves[move{stateOf(found[1]), stateOf(found[2])}] = found[3]
	}
	return moves
}

func mutantsOf(text string) []string {
	list := regexp.MustCompile(`(?s)mtype:mutant = \{ none,(.*?)\}`).FindStringSubmatch(text)
	if list == nil {
		return nil
	}
	names := regexp.MustCompile(`\w+`).FindAllString(list[1], -1)
	slices.Sort(names)
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// compare names each move that the table does not allow, and each of the table that was not found.
func compare(page []transition, without map[move]string, found map[move]bool) []string {
	var faults []string
	allowed := map[move]bool{}
	for _, row := range page {
		for _, m := range row.moves() {
			allowed[m] = true
		}
	}
	for m := range found {
		if !allowed[m] && !allowed[move{state{Name: m.From.Name}, m.To}] {
			faults = append(faults, fmt.Sprintf("the table has no %v", m))
		}
		if without[m] != "" {
			faults = append(faults, fmt.Sprintf("the model has %v, which it says it has not", m))
		}
	}
	for m := range allowed {
		if !has(found, m) && without[m] == "" {
			faults = append(faults, fmt.Sprintf("no configuration of the model has %v", m))
		}
	}
	for m := range without {
		if !allowed[m] {
			faults = append(faults, fmt.Sprintf("the model does without %v, which is no row", m))
		}
	}
	slices.Sort(faults)
	return faults
}

// has reports whether a move was found; from a state without a note, with any note.
func has(found map[move]bool, m move) bool {
	for f := range found {
		if f.To == m.To && f.From.Name == m.From.Name && (m.From.Note == "" || f.From == m.From) {
			return true
		}
	}
	return false
}
