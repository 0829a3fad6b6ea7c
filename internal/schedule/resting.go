package schedule

import (
	"maps"
	"slices"
)

// Resting are the schedules that fail, such as in a zone that this machine does not know. Each
// rests for some looks, more and more of them, so that the others do not wait for it.
type Resting struct {
	looks     int
	schedules map[string]*rest
	// tried are those that the current look tries again.
	tried map[string]*rest
}

type rest struct {
	until int // which look
	looks int
	err   error
}

const (
	restLooksMax = 16
	// restingMax is how many schedules rest; more that fail are tried at each look.
	restingMax = 1000
)

// Look begins a look, and returns the names of the schedules that rest.
func (r *Resting) Look() []string {
	r.looks++
	names := []string{}
	r.tried = map[string]*rest{}
	for name, schedule := range r.schedules {
		if schedule.until > r.looks {
			names = append(names, name)
			continue
		}
		r.tried[name] = schedule
		delete(r.schedules, name)
	}
	return names
}

// Add makes a schedule that fails rest for twice as many looks as the last time. It reports whether
// there is room for it.
func (r *Resting) Add(name string, err error) bool {
	if len(r.schedules) >= restingMax {
		return false
	}
	looks := 1
	if last := r.tried[name]; last != nil {
		looks = min(2*last.looks, restLooksMax)
	}
	if r.schedules == nil {
		r.schedules = map[string]*rest{}
	}
	r.schedules[name] = &rest{until: r.looks + 1 + looks, looks: looks, err: err}
	return true
}

// Errors calls yield with the name of each schedule that rests, in their order, and why.
func (r *Resting) Errors(yield func(name string, err error) bool) {
	for _, name := range slices.Sorted(maps.Keys(r.schedules)) {
		if !yield(name, r.schedules[name].err) {
			return
		}
	}
}
