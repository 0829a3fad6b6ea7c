package structures_test

import (
	"maps"
	"slices"
	"strconv"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/structures"
)

// A sketch is a structure as the property test draws it, apart from the package's own types.
type sketch struct {
	kind   kind
	id     stint.TaskID // of a task
	policy stint.OnAbort
	parts  []*sketch
	after  [][]int // of a network
	listed []int   // the order in which a network lists its nodes
}

type kind int

const (
	aTask kind = iota
	aChain
	aGroup
	aChord // the callback is the last part
	aNetwork
)

// structure builds what the sketch describes, with the functions under test.
func (s *sketch) structure() structures.Structure {
	parts := make([]structures.Structure, len(s.parts))
	for i, part := range s.parts {
		parts[i] = part.structure()
	}
	switch s.kind {
	case aTask:
		return structures.Task{ID: s.id, Action: "do", OnAbort: s.policy}
	case aChain:
		return structures.Chain(parts...)
	case aGroup:
		return structures.Group(parts...)
	case aChord:
		return structures.Chord(parts[len(parts)-1], parts[:len(parts)-1]...)
	case aNetwork:
		var nodes []structures.Node
		for _, i := range s.listed {
			n := structures.Node{Name: strconv.Itoa(i), Run: parts[i]}
			for _, j := range s.after[i] {
				n.After = append(n.After, strconv.Itoa(j))
			}
			nodes = append(nodes, n)
		}
		return structures.Network(nodes...)
	}
	return nil
}

// plain is the sketch without chords, empty parts, groups and chains of one part, and chains within
// chains; nil if nothing is left.
func (s *sketch) plain() *sketch {
	if s.kind == aTask {
		return s
	}
	if s.kind == aChord {
		n := len(s.parts) - 1
		parts := &sketch{kind: aGroup, parts: s.parts[:n]}
		return (&sketch{kind: aChain, parts: []*sketch{parts, s.parts[n]}}).plain()
	}
	p := *s
	p.parts = nil
	full := false
	for _, part := range s.parts {
		part = part.plain()
		full = full || part != nil
		switch {
		case part == nil && s.kind != aNetwork:
		case part != nil && part.kind == aChain && s.kind == aChain:
			p.parts = append(p.parts, part.parts...)
		default:
			p.parts = append(p.parts, part)
		}
	}
	switch {
	case !full:
		return nil
	case len(p.parts) == 1 && s.kind != aNetwork:
		return p.parts[0]
	}
	return &p
}

type set map[stint.TaskID]bool

func union(sets ...set) set {
	all := set{}
	for _, s := range sets {
		maps.Copy(all, s)
	}
	return all
}

// A meaning is what a sketch says, in the words of the package's documentation.
type meaning struct{ all, first, last set }

// A reading is what a sketch says of each of its tasks.
type reading struct {
	policy map[stint.TaskID]stint.OnAbort
	// last and all are the last tasks, and all tasks, of what the task follows directly.
	last, all map[stint.TaskID]set
	// twice are the tasks that may be told of others twice, through milestones.
	twice set
	drawn bool // there is a network
	edges int  // that networks name
}

// read spells out a sketch that is plain: every first task of what follows is held against every
// last task of what is before, however many that makes.
func (r *reading) read(s *sketch) meaning {
	if s == nil {
		return meaning{}
	}
	var parts []meaning
	for _, part := range s.parts {
		parts = append(parts, r.read(part))
	}
	switch s.kind {
	case aChain:
		return r.readChain(parts)
	case aGroup:
		return readGroup(parts)
	case aNetwork:
		return r.readNetwork(s, parts)
	default:
		r.policy[s.id] = s.policy
		one := set{s.id: true}
		return meaning{one, one, one}
	}
}

func readGroup(parts []meaning) meaning {
	var whole meaning
	for _, part := range parts {
		whole.all = union(whole.all, part.all)
		whole.first = union(whole.first, part.first)
		whole.last = union(whole.last, part.last)
	}
	return whole
}

func (r *reading) readChain(parts []meaning) meaning {
	whole := parts[0]
	for _, part := range parts[1:] {
		r.follow(part.first, whole)
		whole = meaning{union(whole.all, part.all), whole.first, part.last}
	}
	return whole
}

func (r *reading) readNetwork(s *sketch, parts []meaning) meaning {
	r.drawn = true
	var whole meaning
	followed := map[int]bool{}
	for i, part := range parts {
		r.edges += len(s.after[i])
		if len(part.all) == 0 {
			continue
		}
		before := nodesBefore(s, parts, i)
		var met meaning
		for k, j := range before {
			followed[j] = true
			met = readGroup([]meaning{met, parts[j]})
			if slices.Contains(before[:k], j) {
				r.twice = union(r.twice, part.first)
			}
		}
		if len(before) == 0 {
			whole.first = union(whole.first, part.first)
		} else {
			r.follow(part.first, met)
		}
	}
	for i, part := range parts {
		whole.all = union(whole.all, part.all)
		if !followed[i] {
			whole.last = union(whole.last, part.last)
		}
	}
	return whole
}

// nodesBefore are the nodes with tasks that a node waits for, through empty ones as often as they
// lead there.
func nodesBefore(s *sketch, parts []meaning, i int) []int {
	var before []int
	for _, j := range s.after[i] {
		if len(parts[j].all) > 0 {
			before = append(before, j)
		} else {
			before = append(before, nodesBefore(s, parts, j)...)
		}
	}
	return before
}

func (r *reading) follow(first set, before meaning) {
	for id := range first {
		r.last[id], r.all[id] = before.last, before.all
	}
}
