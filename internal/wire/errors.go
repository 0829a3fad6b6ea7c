package wire

import (
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// A kind is an error of the package stint as the messages name it.
type kind struct {
	name string
	err  error
	code connect.Code
}

// KindNames are the names of the kinds of errors that a service answers with.
func KindNames() []string {
	var names []string
	for _, kind := range kinds() {
		names = append(names, kind.name)
	}
	return names
}

// kinds returns all kinds. One that is also another one comes first.
func kinds() []kind {
	return []kind{
		{"already-returned", stint.ErrAlreadyReturned, connect.CodeAborted},
		{"invalid-token", stint.ErrInvalidToken, connect.CodeAborted},
		{"invalid-answer-key", stint.ErrInvalidAnswerKey, connect.CodeFailedPrecondition},
		{"claim-spent", stint.ErrClaimSpent, connect.CodeAborted},
		{"busy", stint.ErrBusy, connect.CodeAborted},
		{"task-exists", stint.ErrTaskExists, connect.CodeAlreadyExists},
		{"task-not-found", stint.ErrTaskNotFound, connect.CodeNotFound},
		{"schedule-not-found", stint.ErrScheduleNotFound, connect.CodeNotFound},
		{"task-in-progress", stint.ErrTaskInProgress, connect.CodeFailedPrecondition},
		{"task-started", stint.ErrTaskStarted, connect.CodeFailedPrecondition},
		{"task-finished", stint.ErrTaskFinished, connect.CodeFailedPrecondition},
		{"task-blocked", stint.ErrTaskBlocked, connect.CodeFailedPrecondition},
		{"cycle", stint.ErrCycle, connect.CodeFailedPrecondition},
		{"predecessor-aborted", stint.ErrPredecessorAborted, connect.CodeFailedPrecondition},
		{"no-post-result", stint.ErrNoPostResult, connect.CodeFailedPrecondition},
		{"ends-pruned", stint.ErrEndsPruned, connect.CodeOutOfRange},
		{"too-large", stint.ErrTooLarge, connect.CodeInvalidArgument},
		{"invalid-argument", stint.ErrInvalidArgument, connect.CodeInvalidArgument},
		{"refused", stint.ErrRefused, connect.CodePermissionDenied},
		{"copy", stint.ErrCopy, connect.CodeFailedPrecondition},
		{"schema-version", stint.ErrSchemaVersion, connect.CodeUnimplemented},
		{"closed", stint.ErrClosed, connect.CodeUnavailable},
	}
}

func kindOf(err error) (kind, bool) {
	for _, k := range kinds() {
		if errors.Is(err, k.err) {
			return k, true
		}
	}
	return kind{}, false
}

// second returns the kind that an error is besides its first one, if there is one: a token is
// invalid since there is no such task.
func second(first kind, err error) (kind, bool) {
	also := kind{"task-not-found", stint.ErrTaskNotFound, connect.CodeNotFound}
	return also, first.name == "invalid-token" && errors.Is(err, also.err)
}

// named returns the error of a kind, or nil if there is no such kind.
func named(name string) error {
	for _, k := range kinds() {
		if k.name == name {
			return k.err
		}
	}
	return nil
}

// Limited is the kind of an error of a call that a service has not begun, because its caller has
// made too many. A caller that waits a little may repeat it.
const Limited = "limited"

// Errors of gRPC travel in headers, of which many clients read 8 KiB at most: else they see another
// error. The text is in them twice, once with three bytes for one, and the detail in base64.
const (
	namesMax     = 64      // tasks that a detail names
	nameBytesMax = 3 << 10 // the bytes of their names, unless a single one is longer
	idBytesMax   = 512     // of the task of an argument
	textBytesMax = 512
)

// Detail describes an error of the package stint, and says with which code it travels. It returns
// false for any other error.
func Detail(err error) (*stintv1.ErrorDetail, connect.Code, bool) {
	k, ok := kindOf(err)
	if !ok {
		return nil, 0, false
	}
	detail := &stintv1.ErrorDetail{Kind: k.name}
	if also, ok := second(k, err); ok {
		detail.Also = also.name
	}
	var tasks *stint.TaskError
	var argument *stint.ArgumentError
	var cycle *stint.CycleError
	var refused *stint.DependencyError
	var schedule *stint.ScheduleError
	if errors.As(err, &schedule) {
		detail.Total = int64(len(schedule.Names))
		detail.Schedules = fitting(schedule.Names, func(name *string) int { return len(*name) })
	}
	switch {
	case errors.As(err, &argument):
		detail.Argument, detail.Problem = argument.Argument, argument.Problem
		detail.Index = Int32(argument.Index)
		detail.Id = cut(string(argument.ID), idBytesMax)
	case errors.As(err, &cycle):
		detail.Total = int64(len(cycle.Path))
		detail.Path = FromIDs(fitting(cycle.Path, idBytes))
	case errors.As(err, &refused):
		detail.Total = int64(len(refused.Refused))
		for _, r := range fitting(refused.Refused, refusedBytes) {
			detail.Refused = append(detail.Refused, fromRefused(r))
		}
	case errors.As(err, &tasks):
		detail.Total = int64(len(tasks.IDs))
		detail.Ids = FromIDs(fitting(tasks.IDs, idBytes))
	}
	return detail, k.code, true
}

// fitting returns the first tasks, as many as a detail names, but at least one if there is one.
func fitting[T any](tasks []T, bytes func(*T) int) []T {
	left := nameBytesMax
	for i := range tasks {
		left -= bytes(&tasks[i])
		if i == namesMax || i > 0 && left < 0 {
			return tasks[:i]
		}
	}
	return tasks
}

func idBytes(id *stint.TaskID) int { return len(*id) }

func refusedBytes(r *stint.RefusedDependency) int {
	const states = 60 // and what kind of error it is
	return len(r.Predecessor) + len(r.Dependent) + states
}

// Text returns the text of an error for people, as much as fits.
func Text(err error) string { return cut(err.Error(), textBytesMax) }

func cut(text string, bytesMax int) string {
	if len(text) <= bytesMax {
		return text
	}
	const ellipsis = "…"
	return strings.ToValidUTF8(text[:bytesMax-len(ellipsis)], "") + ellipsis
}

func fromRefused(r stint.RefusedDependency) *stintv1.RefusedDependency {
	why, _ := kindOf(r.Err)
	return &stintv1.RefusedDependency{
		Predecessor: string(r.Predecessor), Dependent: string(r.Dependent), Kind: why.name,
		PredecessorState: string(r.PredecessorState), DependentState: string(r.DependentState),
	}
}

// DetailOf returns the detail that came with an error of a call, or nil.
func DetailOf(err error) *stintv1.ErrorDetail {
	var answer *connect.Error
	if !errors.As(err, &answer) {
		return nil
	}
	for _, packed := range answer.Details() {
		message, err := packed.Value()
		if detail, ok := message.(*stintv1.ErrorDetail); ok && err == nil {
			return detail
		}
	}
	return nil
}

// ToError returns the error that a detail describes, or nil if this release does not know its kind.
func ToError(detail *stintv1.ErrorDetail) error {
	err := toError(detail)
	if err != nil && len(detail.GetSchedules()) > 0 {
		return &stint.ScheduleError{Names: detail.GetSchedules(), Err: err}
	}
	return err
}

func toError(detail *stintv1.ErrorDetail) error {
	err := named(detail.GetKind())
	if also := named(detail.GetAlso()); err != nil && also != nil {
		err = fmt.Errorf("%w: %w", err, also)
	}
	switch {
	case err == nil:
		return nil
	case detail.GetArgument() != "":
		return &stint.ArgumentError{
			Argument: detail.GetArgument(), Index: int(detail.GetIndex()),
			ID: stint.TaskID(detail.GetId()), Problem: detail.GetProblem(), Err: err,
		}
	case len(detail.GetPath()) > 0:
		return &stint.CycleError{Path: ToIDs(detail.GetPath())}
	case len(detail.GetRefused()) > 0:
		return toRefused(detail.GetRefused())
	case len(detail.GetIds()) > 0:
		return &stint.TaskError{IDs: ToIDs(detail.GetIds()), Err: err}
	}
	return err
}

func toRefused(messages []*stintv1.RefusedDependency) error {
	refused := &stint.DependencyError{}
	for _, m := range messages {
		refused.Refused = append(refused.Refused, stint.RefusedDependency{
			Dependency: stint.Dependency{
				Predecessor: stint.TaskID(m.GetPredecessor()),
				Dependent:   stint.TaskID(m.GetDependent()),
			},
			Err:              named(m.GetKind()),
			PredecessorState: stint.State(m.GetPredecessorState()),
			DependentState:   stint.State(m.GetDependentState()),
		})
	}
	return refused
}

// FromVerdicts returns the verdicts on returns as messages.
func FromVerdicts(verdicts []error) []*stintv1.Verdict {
	messages := make([]*stintv1.Verdict, len(verdicts))
	accepted := &stintv1.Verdict{} // as nearly all are
	for i, verdict := range verdicts {
		if messages[i] = accepted; verdict != nil {
			messages[i] = fromVerdict(verdict)
		}
	}
	return messages
}

// ToVerdicts undoes [FromVerdicts].
func ToVerdicts(messages []*stintv1.Verdict) []error {
	verdicts := make([]error, len(messages))
	for i, message := range messages {
		verdicts[i] = ToVerdict(message)
	}
	return verdicts
}

func fromVerdict(verdict error) *stintv1.Verdict {
	detail, _, ok := Detail(verdict)
	if !ok {
		detail = &stintv1.ErrorDetail{}
	}
	return &stintv1.Verdict{Error: detail, Message: verdict.Error()}
}

// ToVerdict returns the verdict that a message holds.
func ToVerdict(m *stintv1.Verdict) error {
	if m.GetError() == nil {
		return nil
	}
	if err := ToError(m.GetError()); err != nil {
		return err
	}
	return errors.New(m.GetMessage())
}

func argumentError(argument, problem string) *stint.ArgumentError {
	return &stint.ArgumentError{
		Argument: argument, Index: -1, Problem: problem, Err: stint.ErrInvalidArgument,
	}
}

// at adds the place in a list to an argument's error.
func at(err error, index int, id stint.TaskID) error {
	var argument *stint.ArgumentError
	if !errors.As(err, &argument) {
		return err
	}
	placed := *argument
	placed.Index, placed.ID = index, id
	return &placed
}
