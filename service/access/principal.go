package access

import (
	"slices"
	"strings"
)

// A Principal is somebody who calls a service. The nil Principal may do everything: it calls a
// service that asks nobody who he is.
type Principal struct {
	Name   string
	Grants []Grant
}

// Has reports whether the principal may do something on some tasks, or something that is not about
// tasks.
func (p *Principal) Has(verb Verb) bool {
	return p.some(func(g *Grant) bool { return g.allows(verb) })
}

// May reports whether the principal may do something on a task.
func (p *Principal) May(verb Verb, action, id string) bool {
	return p.some(func(g *Grant) bool {
		return g.allows(verb) && fits(g.Actions, action) && fits(anyOr(g.IDs), id)
	})
}

// MayByID reports whether the principal may do something on a task whatever its action.
func (p *Principal) MayByID(verb Verb, id string) bool {
	return p.some(func(g *Grant) bool {
		return g.allows(verb) && slices.Contains(g.Actions, "*") && fits(anyOr(g.IDs), id)
	})
}

// MayEver reports whether the principal may do something on a task of an ID with some action.
func (p *Principal) MayEver(verb Verb, id string) bool {
	return p.some(func(g *Grant) bool { return g.allows(verb) && fits(anyOr(g.IDs), id) })
}

// MayAll reports whether the principal may do something on all tasks.
func (p *Principal) MayAll(verb Verb) bool {
	return p.some(func(g *Grant) bool {
		return g.allows(verb) && slices.Contains(g.Actions, "*") &&
			slices.Contains(anyOr(g.IDs), "*")
	})
}

// MayAllOf reports whether the principal may do something on every task of these actions, by
// whatever grants.
func (p *Principal) MayAllOf(verb Verb, actions []string) bool {
	return !slices.ContainsFunc(actions, func(action string) bool {
		return !p.some(func(g *Grant) bool {
			return g.allows(verb) && fits(g.Actions, action) && slices.Contains(anyOr(g.IDs), "*")
		})
	})
}

// MayOwn reports whether the principal may own tasks of all these actions for an actor, by whatever
// grants; of some actions, if none are given.
func (p *Principal) MayOwn(actor string, actions []string) bool {
	return p.mayAs(Own, actor) && !slices.ContainsFunc(actions, func(action string) bool {
		return !p.some(func(g *Grant) bool {
			return g.allows(Own) && fits(anyOr(g.Actors), actor) && fits(g.Actions, action)
		})
	})
}

// MayAnswer reports whether the principal may answer some external tasks as an actor.
func (p *Principal) MayAnswer(actor string) bool { return p.mayAs(Answer, actor) }

// As returns the principal with the grants alone that allow something as an actor.
func (p *Principal) As(actor string) *Principal {
	if p == nil {
		return nil
	}
	as := &Principal{Name: p.Name}
	for _, g := range p.Grants {
		if fits(anyOr(g.Actors), actor) {
			as.Grants = append(as.Grants, g)
		}
	}
	return as
}

// MayWherever reports whether the principal may do one thing wherever it may do another. A grant of
// one counts if it alone covers an item of each list of the other.
func (p *Principal) MayWherever(verb, other Verb) bool {
	if p == nil {
		return true
	}
	for i := range p.Grants {
		g := &p.Grants[i]
		if !g.allows(other) {
			continue
		}
		for _, action := range g.Actions {
			for _, id := range anyOr(g.IDs) {
				covered := p.some(func(of *Grant) bool {
					return of.allows(verb) && covers(of.Actions, action) &&
						covers(anyOr(of.IDs), id)
				})
				if !covered {
					return false
				}
			}
		}
	}
	return true
}

// covers reports whether every name that fits a pattern fits one of some others.
func covers(patterns []string, pattern string) bool {
	beginning, prefix := strings.CutSuffix(pattern, "*")
	if !prefix {
		return fits(patterns, pattern)
	}
	return slices.ContainsFunc(patterns, func(other string) bool {
		return within(other, beginning)
	})
}

func (p *Principal) mayAs(verb Verb, actor string) bool {
	return p.some(func(g *Grant) bool { return g.allows(verb) && fits(anyOr(g.Actors), actor) })
}

// MayList reports whether the principal may do something, such as Read, on every task of these
// actions whose ID begins with a prefix. No actions stand for all.
func (p *Principal) MayList(verb Verb, actions []string, prefix string) bool {
	if len(actions) == 0 {
		actions = []string{"*"} // which only that pattern fits
	}
	return !slices.ContainsFunc(actions, func(action string) bool {
		return !p.MayBelow(verb, action, prefix)
	})
}

// MayBelow reports whether the principal may do something on every task of an action whose ID
// begins with a prefix. The action "*" stands for all.
func (p *Principal) MayBelow(verb Verb, action, prefix string) bool {
	return p.some(func(g *Grant) bool {
		return g.allows(verb) && fits(g.Actions, action) && slices.ContainsFunc(anyOr(g.IDs),
			func(pattern string) bool { return within(pattern, prefix) })
	})
}

// within reports whether every name that begins with prefix fits a pattern.
func within(pattern, prefix string) bool {
	return pattern[len(pattern)-1] == '*' && fits([]string{pattern}, prefix)
}

// ActionsOf returns the actions on whose tasks the principal may do something, on all of them, if
// they are names without a star; otherwise false.
func (p *Principal) ActionsOf(verb Verb) ([]string, bool) {
	if p == nil {
		return nil, false
	}
	var names []string
	for i := range p.Grants {
		g := &p.Grants[i]
		if !g.allows(verb) || len(g.IDs) > 0 && !slices.Contains(g.IDs, "*") {
			continue
		}
		for _, pattern := range g.Actions {
			if pattern[len(pattern)-1] == '*' {
				return nil, false
			}
			names = append(names, pattern)
		}
	}
	return names, len(names) > 0
}

// some reports whether one of the grants allows something.
func (p *Principal) some(allows func(g *Grant) bool) bool {
	if p == nil {
		return true
	}
	for i := range p.Grants {
		if allows(&p.Grants[i]) {
			return true
		}
	}
	return false
}
