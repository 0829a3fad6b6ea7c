package demo

import (
	"slices"

	"github.com/stint-tasks/stint"
)

// A Kind is what an event tells of.
type Kind string

// The kinds, in the order in which they come. Progress comes in between, again and again.
const (
	KindInserted Kind = "inserted"
	KindWorking  Kind = "working"
	KindFailed   Kind = "failed" // The first of many: a handler fails, and its task is tried again.
	KindAborted  Kind = "aborted"
	KindKilled   Kind = "killed"
	KindHandedOn Kind = "handed-on"
	KindPrinted  Kind = "printed"
	KindSprinted Kind = "sprinted"
	KindProgress Kind = "progress"
)

// An Event is something that happened in the story. The fields that do not belong to its kind are
// zero.
type Event struct {
	Kind Kind `json:"event"`
	// Seconds is how many seconds after the beginning of the story the event was.
	Seconds float64 `json:"seconds"`
	// Tasks is how many tasks the event is about.
	Tasks int           `json:"tasks,omitzero"`
	Task  stint.TaskID  `json:"task,omitzero"`
	Actor stint.ActorID `json:"actor,omitzero"`
	// Process is the process ID of the actor.
	Process int `json:"process,omitzero"`
	// After is how many seconds after its cause the event was noticed: an abort is noticed by the
	// owner of the task, a hand-on by everybody who looks.
	After  float64 `json:"after_seconds,omitzero"`
	Status string  `json:"status,omitzero"`
	// LeaseLeft is how many seconds the leases of a killed process still had to run.
	LeaseLeft float64  `json:"lease_left_seconds,omitzero"`
	Sprint    *Sprint  `json:"sprint,omitzero"`
	Picture   *Picture `json:"picture,omitzero"`
}

// A Picture shows how far the tasks of the yearbook are at one instant.
type Picture struct {
	States  Counts   `json:"states"`
	Parts   []Part   `json:"parts"`
	Workers []Worker `json:"workers"`
}

// Counts are how many tasks are in a state. States without tasks may be missing.
type Counts map[stint.State]int

// A Part is a part of the yearbook.
type Part struct {
	Name   string `json:"name"`
	States Counts `json:"states"`
}

// A Worker shows how far one of the two workers is.
type Worker struct {
	Actor stint.ActorID `json:"actor"`
	// Owns and Completed count tasks.
	Owns      int  `json:"owns"`
	Completed int  `json:"completed"`
	Killed    bool `json:"killed,omitzero"`
}

// states returns all states in the order of the pictures: the states of ended tasks come first.
func states() []stint.State {
	return []stint.State{
		stint.StateCompleted, stint.StateAborted, stint.StateInProgress, stint.StateReady,
		stint.StateScheduled, stint.StateBlocked,
	}
}

func (c Counts) total() int {
	total := 0
	for _, tasks := range c {
		total += tasks
	}
	return total
}

func (c Counts) ended() int { return c[stint.StateCompleted] + c[stint.StateAborted] }

// newPicture counts tasks.
func newPicture(tasks []stint.TaskInfo, workers []Worker) *Picture {
	p := &Picture{States: Counts{}, Workers: slices.Clone(workers)}
	for _, name := range append(regions(), bookName) {
		p.Parts = append(p.Parts, Part{Name: name, States: Counts{}})
	}
	for _, task := range tasks {
		p.States[task.State]++
		for i := range p.Parts {
			if p.Parts[i].Name == partOf(task.ID) {
				p.Parts[i].States[task.State]++
			}
		}
		for i := range p.Workers {
			switch w := &p.Workers[i]; {
			case task.Actor != w.Actor:
			case task.State == stint.StateInProgress:
				w.Owns++
			case task.State == stint.StateCompleted:
				w.Completed++
			}
		}
	}
	return p
}

// worker returns the worker with that name.
func (p *Picture) worker(actor stint.ActorID) Worker {
	for _, w := range p.Workers {
		if w.Actor == actor {
			return w
		}
	}
	return Worker{Actor: actor}
}
