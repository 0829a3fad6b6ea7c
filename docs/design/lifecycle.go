// Package design reads the documents of this directory that programs follow.
package design

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

//go:embed lifecycle.md
var lifecycle string

// A State is one that a task can be in, with what the page adds in parentheses, such as the cause
// of an abort. The name is empty for a task that is not in the store.
type State struct{ Name, Note string }

// A Transition is a row of the table "Transitions": a task moves from one of From to one of To.
type Transition struct {
	From, To []State
	When     string
}

// words are names of several states on the page.
//
//nolint:gochecknoglobals // never changes
var words = map[string][]string{
	"":                {""},
	"gone":            {""},
	"pending":         {"blocked", "scheduled", "ready"},
	"finished":        {"completed", "aborted", "skipped"},
	"unfinished":      {"blocked", "scheduled", "ready", "in progress"},
	"not in progress": {"blocked", "scheduled", "ready", "completed", "aborted", "skipped"},
	"blocked":         {"blocked"},
	"scheduled":       {"scheduled"},
	"ready":           {"ready"},
	"in progress":     {"in progress"},
	"completed":       {"completed"},
	"aborted":         {"aborted"},
	"skipped":         {"skipped"},
}

var statePattern = regexp.MustCompile(`^([a-z ]*?)(?: ?\(([a-z ]+)\))?$`)

// Transitions returns the transitions that the page on the life of a task allows.
func Transitions() ([]Transition, error) {
	_, section, found := strings.Cut(lifecycle, "\n## Transitions\n")
	if !found {
		return nil, fmt.Errorf("lifecycle.md has no section Transitions")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var all []Transition
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) < 2 || !strings.Contains(cells[0], "→") ||
			strings.Contains(cells[0], "from") {
			continue
		}
		from, to, _ := strings.Cut(cells[0], "→")
		t := Transition{When: strings.TrimSpace(cells[1])}
		var err error
		if t.From, err = states(from); err != nil {
			return nil, err
		}
		if t.To, err = states(to); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("lifecycle.md has no transitions")
	}
	return all, nil
}

func states(cell string) ([]State, error) {
	var all []State
	for part := range strings.SplitSeq(cell, ",") {
		match := statePattern.FindStringSubmatch(strings.TrimSpace(part))
		if match == nil || words[match[1]] == nil {
			return nil, fmt.Errorf("lifecycle.md: %q is no state", part)
		}
		for _, name := range words[match[1]] {
			all = append(all, State{name, match[2]})
		}
	}
	return all, nil
}
