package replay

import (
	"fmt"
	"strings"

	"github.com/stint-tasks/stint/docs/design"
)

// stateNames are the states of tasks by the tables that hold them.
//
//nolint:gochecknoglobals // never changes
var stateNames = [tables]string{"blocked", "scheduled", "ready", "in progress", ""}

// causes are the states of finished tasks by their causes.
//
//nolint:gochecknoglobals // never changes
var causes = map[int]design.State{
	0: {Name: "completed"},
	1: {Name: "aborted", Note: "returned"},
	2: {Name: "aborted", Note: "tries"},
	3: {Name: "aborted", Note: "dependency"},
	4: {Name: "aborted", Note: "cancelled"},
	5: {Name: "aborted", Note: "replaced"},
	6: {Name: "aborted", Note: "expired"},
	8: {Name: "skipped"},
	9: {Name: "aborted", Note: "lost"},
}

const (
	// skipped is the cause of tasks whose condition cannot be met.
	skipped = 8
	// lost is the cause of tasks that owners have lost too often.
	lost = 9
)

// state says in which state the tasks of a row are; those of no row are gone.
func (r *row) state() design.State {
	switch {
	case r == nil:
		return design.State{}
	case r.table == finished:
		return causes[r.cause]
	case r.late:
		return design.State{Name: "ready", Note: "late"}
	case r.parked:
		return design.State{Name: "ready", Note: "parked"}
	}
	return design.State{Name: stateNames[r.table]}
}

// A move is between two states.
type move struct{ from, to design.State }

// rules are the moves that the page allows.
type rules map[move]bool

func readRules() (rules, error) {
	transitions, err := design.Transitions()
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	all := rules{}
	for _, t := range transitions {
		for _, from := range t.From {
			for _, to := range t.To {
				all[move{from, to}] = true
			}
		}
	}
	return all, nil
}

// allow reports whether a task may move between two states. Without a note, a state of the page
// that a task leaves stands for any: whatever a task may do that is ready, it may do when it is
// parked. One that a task gets stands for the state without a note, but for an abort, which stands
// for any cause.
func (r rules) allow(from, to design.State, sameOwner bool) bool {
	targets := []design.State{to}
	if to.Name == "aborted" {
		targets = append(targets, design.State{Name: "aborted"})
	}
	if sameOwner {
		targets = []design.State{{Name: to.Name, Note: "same owner"}}
	}
	for _, target := range targets {
		if r[move{from, target}] || r[move{design.State{Name: from.Name}, target}] {
			return true
		}
	}
	return false
}

// words names a state as the page does.
func words(s design.State) string {
	if s.Name == "" {
		return "not there"
	}
	return strings.TrimSpace(s.Name + " " + strings.TrimSuffix("("+s.Note+")", "()"))
}
