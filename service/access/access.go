// Package access decides who may do what at a service. Grants allow verbs to principals, which are
// names, on tasks with certain actions and IDs. Anything else is refused.
package access

import (
	"fmt"
	"slices"
	"strings"
)

// A Verb names what a grant allows.
type Verb string

// The verbs of grants. Each verb of a service asks for one of them, or for several.
const (
	Insert     Verb = "insert"      // insert tasks, and replace them together with Control
	Own        Verb = "own"         // own tasks, and what owners do
	Read       Verb = "read"        // look at tasks, without bodies and results, and wait for them
	ReadBodies Verb = "read-bodies" // read, with bodies and results
	Control    Verb = "control"     // abort, retry and delete tasks, make tasks wait, limit actions
	Answer     Verb = "answer"      // answer external tasks, whose action is stint.External
	TaskStore  Verb = "taskstore"   // everything in the task store
	Metrics    Verb = "metrics"     // read the metrics
	All        Verb = "*"           // all of these
)

// verbs returns all verbs. The value says whether the verb is about actions.
func verbs() map[Verb]bool {
	return map[Verb]bool{
		Insert: true, Own: true, Read: true, ReadBodies: true, Control: true, Answer: true,
		All:       true,
		TaskStore: false, Metrics: false,
	}
}

// A Grant allows verbs on the tasks that fit Actions and IDs. Each item of the lists is a name, or
// the beginning of one and a star: "mail/*"; "*" stands for every name.
type Grant struct {
	Verbs []Verb `yaml:"verbs"`
	// Actions are required by the verbs that are about tasks.
	Actions []string `yaml:"actions"`
	// IDs narrow the grant to some tasks. Default: all. They cannot be combined with Own, since
	// tasks are fetched by action.
	IDs []string `yaml:"ids"`
	// Actors narrow Own and Answer to some actors. Default: all.
	Actors []string `yaml:"actors"`
}

// Check returns an error if the grant can mean nothing, or not the same to everybody who reads it.
func (g *Grant) Check() error {
	if len(g.Verbs) == 0 {
		return fmt.Errorf("verbs are missing: give some of %s", verbNames())
	}
	all := verbs()
	for _, verb := range g.Verbs {
		aboutActions, known := all[verb]
		switch {
		case !known:
			return fmt.Errorf("there is no verb %q: give some of %s", verb, verbNames())
		case aboutActions && len(g.Actions) == 0:
			return fmt.Errorf(`verb %q needs actions; actions: ["*"] stands for all`, verb)
		case (verb == Own || verb == All) && len(g.IDs) > 0:
			return fmt.Errorf("verb %q cannot be narrowed by ids: tasks are fetched by action",
				verb)
		}
	}
	for list, patterns := range map[string][]string{
		"actions": g.Actions, "ids": g.IDs, "actors": g.Actors,
	} {
		for _, pattern := range patterns {
			if star := strings.IndexByte(pattern, '*'); pattern == "" ||
				star >= 0 && star < len(pattern)-1 {
				return fmt.Errorf("invalid item %q of %s: must be a name, or the beginning of "+
					"one with a star at its end", pattern, list)
			}
		}
	}
	return nil
}

func verbNames() string {
	var names []string
	for verb := range verbs() {
		names = append(names, string(verb))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// allows reports whether the grant has the verb. ReadBodies includes Read.
func (g *Grant) allows(verb Verb) bool {
	return slices.Contains(g.Verbs, verb) || slices.Contains(g.Verbs, All) ||
		verb == Read && slices.Contains(g.Verbs, ReadBodies)
}

// fits reports whether a name fits one of the patterns.
func fits(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		beginning, prefix := strings.CutSuffix(pattern, "*")
		return pattern == name || prefix && strings.HasPrefix(name, beginning)
	})
}

// anyOr returns patterns, or one that everything fits if there are none.
func anyOr(patterns []string) []string {
	if len(patterns) == 0 {
		return []string{"*"}
	}
	return patterns
}
