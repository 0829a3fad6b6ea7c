package service

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/access"
)

// restricted reports whether there may be tasks that the principal must not learn of.
func (a *asking) restricted() bool { return !a.principal.MayAll(access.Read) }

// addAbsent makes an answer of the tasks that are there one of all that were asked for: those that
// the principal must not learn of are missing, as if they were not stored.
func (a *asking) addAbsent(answer any, err error) error {
	if len(a.absent) == 0 {
		return err
	}
	missing := &stint.TaskError{}
	found, ok := answer.(*stintv1.GetTasksResponse)
	switch {
	case err == nil && ok && a.foundOnly:
		found.Missing = uniqueIDs(append(found.GetMissing(), wire.FromIDs(a.absent)...))
		return nil
	case err == nil, errors.Is(err, stint.ErrTaskNotFound) && errors.As(err, &missing):
		ids := uniqueIDs(slices.Concat(missing.IDs, a.absent))
		return &stint.TaskError{IDs: ids, Err: stint.ErrTaskNotFound}
	}
	return err
}

// unnamed says in an error that it does not name everything.
const unnamed = ", and others that the caller may not read"

// redacted takes out of an error what the principal must not learn: which tasks there are, besides
// those that the request names, and in which states. Every error of a call goes through it.
func (a *asking) redacted(err error, request any) error {
	if err == nil || a.principal == nil || !a.restricted() {
		return err
	}
	var cycle *stint.CycleError
	var dependencies *stint.DependencyError
	var schedules *stint.ScheduleError
	var argument *stint.ArgumentError
	var tasks *stint.TaskError
	switch {
	case errors.As(err, &schedules):
		left := a.toldNames(schedules.Names, request)
		return replaced(err, schedules, &stint.ScheduleError{Names: left, Err: schedules.Err},
			len(left) < len(schedules.Names))
	case errors.As(err, &argument):
		of := *argument
		if len(a.told(err, []stint.TaskID{of.ID}, request)) == 0 {
			of.ID = ""
		}
		return replaced(err, argument, &of, of.ID != argument.ID)
	case errors.As(err, &cycle):
		left := a.told(err, cycle.Path, request)
		if len(left) == len(cycle.Path) || len(cycle.Path) == 0 {
			return err
		}
		if cycle.Path[0] == left.first() { // it is at both ends, or at none
			left = left[:len(left)-1]
		}
		return replaced(err, cycle, &stint.CycleError{Path: left.closed()}, true)
	case errors.As(err, &dependencies):
		return replaced(err, dependencies, a.redactedEdges(dependencies), false)
	case errors.As(err, &tasks):
		left := a.told(err, tasks.IDs, request)
		if errors.Is(tasks.Err, stint.ErrInvalidToken) && errors.Is(err, stint.ErrTaskNotFound) {
			// Whether there is a task that is not the caller's.
			return replaced(err, tasks, &stint.TaskError{IDs: left, Err: stint.ErrInvalidToken},
				len(left) < len(tasks.IDs))
		}
		return replaced(err, tasks, &stint.TaskError{IDs: left, Err: tasks.Err},
			len(left) < len(tasks.IDs))
	}
	return err
}

// replaced puts an error in the place of one that it wraps, and says so if that named more.
func replaced(err, part, by error, less bool) error {
	verb, behind := strings.CutSuffix(err.Error(), part.Error())
	if !behind {
		verb = ""
	}
	if less {
		return fmt.Errorf("%s%w%s", verb, by, unnamed)
	}
	return fmt.Errorf("%s%w", verb, by)
}

// redactedEdges leaves the states out of tasks that the principal may use, but not read.
func (a *asking) redactedEdges(err *stint.DependencyError) error {
	var ids []stint.TaskID
	for _, refused := range err.Refused {
		ids = append(ids, refused.Predecessor, refused.Dependent)
	}
	readable := a.readable(uniqueIDs(ids))
	left := &stint.DependencyError{Refused: slices.Clone(err.Refused)}
	for i := range left.Refused {
		refused := &left.Refused[i]
		if !readable[refused.Predecessor] {
			refused.PredecessorState = ""
		}
		if !readable[refused.Dependent] {
			refused.DependentState = ""
		}
	}
	return left
}

// toldIDs are the tasks of an error that the principal may be told of.
type toldIDs []stint.TaskID

func (ids toldIDs) first() stint.TaskID {
	if len(ids) == 0 {
		return ""
	}
	return ids[0]
}

// closed adds the first of the tasks along a cycle at its end.
func (ids toldIDs) closed() []stint.TaskID {
	if len(ids) == 0 {
		return nil
	}
	return append(slices.Clone(ids), ids[0])
}

// told returns those of some tasks of an error that the principal knows from its request, or may
// read.
func (a *asking) told(err error, ids []stint.TaskID, request any) toldIDs {
	linked := errors.Is(err, stint.ErrCycle) || errors.Is(err, stint.ErrPredecessorAborted)
	named := namesIn(request, linked)
	known := func(id stint.TaskID) bool {
		return named[string(id)] || a.hasStreamed(string(id)) || a.remembers(a.linked, string(id))
	}
	readable := a.readable(uniqueIDs(slices.DeleteFunc(slices.Clone(ids), known)))
	return slices.DeleteFunc(slices.Clone(ids), func(id stint.TaskID) bool {
		return !known(id) && !readable[id]
	})
}

// toldNames returns those of some schedules that the principal knows from its request.
func (a *asking) toldNames(names []string, request any) []string {
	known := namesIn(request, false)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !known[name] })
}

// readable are those of some tasks that the principal may read; none if that cannot be found out.
func (a *asking) readable(ids []stint.TaskID) map[stint.TaskID]bool {
	readable := map[stint.TaskID]bool{}
	if len(ids) == 0 || len(ids) > itemsMax {
		return readable
	}
	actions, err := a.store.Remote().FindActions(a.ctx, ids)
	if err != nil {
		return readable
	}
	for id, action := range actions {
		readable[id] = a.principal.May(access.Read, action, string(id))
	}
	return readable
}

// namesIn returns the names of tasks and schedules in a message. Its other texts may be guesses of
// a caller, who would learn by an error which of them is right. So may be the ID of a task beside a
// token, for which no grant names IDs: those are left out, too, if a task was found by a link.
func namesIn(request any, linked bool) map[string]bool {
	names := map[string]bool{}
	if message, ok := request.(proto.Message); ok {
		addNames(names, message.ProtoReflect(), linked)
	}
	return names
}

// isName reports whether a field of a request holds names of tasks or schedules.
func isName(field protoreflect.FieldDescriptor) bool {
	switch field.Name() {
	case "id", "ids", "name", "names", "after", "to_signal_after", "predecessor", "dependent",
		"must_exist", "change", "retry", "abort", "delete":
		return field.Kind() == protoreflect.StringKind
	}
	return false
}

func addNames(into map[string]bool, message protoreflect.Message, linked bool) {
	if kind := message.Descriptor().Name(); linked && (kind == "Performance" || kind == "Return") {
		return
	}
	for field, value := range fieldsOf(message) {
		isMessage := field.Kind() == protoreflect.MessageKind
		if field.IsMap() || !isMessage && !isName(field) {
			continue
		}
		add := func(value protoreflect.Value) {
			if isMessage {
				addNames(into, value.Message(), linked)
			} else {
				into[value.String()] = true
			}
		}
		if !field.IsList() {
			add(value)
			continue
		}
		for i := range value.List().Len() {
			add(value.List().Get(i))
		}
	}
}

func fieldsOf(
	message protoreflect.Message,
) map[protoreflect.FieldDescriptor]protoreflect.Value {
	fields := map[protoreflect.FieldDescriptor]protoreflect.Value{}
	maps.Insert(fields, message.Range)
	return fields
}
