package shards

import (
	"errors"
	"slices"

	"github.com/stint-tasks/stint"
)

// inWords returns an error of a call in the words of its caller, who knows nothing of the tasks
// that a cluster inserts for itself: the task that a placeholder stands for takes its place, named
// as [ID.String] writes it, and the others are left out.
func inWords(err error) error {
	switch err := err.(type) { //nolint:errorlint // what wraps them is kept
	case nil:
		return nil
	case *ShardError:
		return &ShardError{err.Shard, inWords(err.Err)}
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok && namesOwn(err) {
		var all []error
		for _, one := range many.Unwrap() {
			all = append(all, inWords(one))
		}
		return errors.Join(all...)
	}
	if !namesOwn(err) {
		return err
	}
	var tasks *stint.TaskError
	var refused *stint.DependencyError
	var cycle *stint.CycleError
	switch {
	case errors.As(err, &tasks):
		ids := named(tasks.IDs)
		slices.Sort(ids)
		return &stint.TaskError{IDs: slices.Compact(ids), Err: tasks.Err}
	case errors.As(err, &cycle):
		return &stint.CycleError{Path: named(cycle.Path)}
	case errors.As(err, &refused):
		all := slices.Clone(refused.Refused)
		for i := range all {
			all[i].Predecessor = inName(all[i].Predecessor)
			all[i].Dependent = inName(all[i].Dependent)
		}
		return &stint.DependencyError{Refused: all}
	}
	return err
}

// namesOwn reports whether an error names a task that a cluster has inserted for itself.
func namesOwn(err error) bool {
	var tasks *stint.TaskError
	var refused *stint.DependencyError
	var cycle *stint.CycleError
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return slices.ContainsFunc(many.Unwrap(), namesOwn)
	}
	switch {
	case errors.As(err, &tasks):
		return slices.ContainsFunc(tasks.IDs, IsOwn)
	case errors.As(err, &cycle):
		return slices.ContainsFunc(cycle.Path, IsOwn)
	case errors.As(err, &refused):
		return slices.ContainsFunc(refused.Refused, func(r stint.RefusedDependency) bool {
			return IsOwn(r.Predecessor) || IsOwn(r.Dependent)
		})
	}
	return false
}

// named returns the names of tasks for a caller.
func named(ids []stint.TaskID) []stint.TaskID {
	var names []stint.TaskID
	for _, id := range ids {
		if name := inName(id); !IsOwn(name) {
			names = append(names, name)
		}
	}
	return names
}

// inName returns the name of the task that a placeholder stands for, and the ID of every other one.
func inName(id stint.TaskID) stint.TaskID {
	if of, ok := StandsFor(id); ok {
		return stint.TaskID(of.String())
	}
	return id
}
