// Package wire converts tasks and errors between the package stint and the messages of the service.
package wire

import (
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// The values of on_abort.
const (
	abortToo  = "abort-too"
	runAnyway = "run-anyway"
)

// FromTask returns a task as a message.
func FromTask(t *stint.Task) *stintv1.Task {
	message := &stintv1.Task{
		Id: string(t.ID), Action: t.Action, Key: t.Key, Priority: int32(t.Priority),
		MaxTries:  Int32(t.MaxTries),
		NotBefore: fromTime(t.NotBefore), Deadline: fromTime(t.Deadline),
		PostResult: t.PostResult, OnAbort: fromOnAbort(t.OnAbort),
		After: FromIDs(t.After), ToSignalAfter: FromIDs(t.ToSignalAfter),
		When: FromConditions(t.When), WhenAny: FromConditions(t.WhenAny),
		AnswerKey: string(t.AnswerKey), FailFast: t.FailFast, Headers: t.Headers,
		Cost: Int32(t.Cost),
	}
	if t.Body != nil {
		message.Content = &stintv1.Task_Body{Body: t.Body}
	}
	return message
}

// ToTask returns a message as a task. What the message can say and the task cannot is refused with
// a [*stint.ArgumentError].
func ToTask(m *stintv1.Task) (stint.Task, error) {
	t := stint.Task{
		ID: stint.TaskID(m.GetId()), Action: m.GetAction(), Key: m.GetKey(),
		MaxTries:  int(m.GetMaxTries()),
		Priority:  int16(m.GetPriority()), //nolint:gosec // checked below
		NotBefore: toTime(m.GetNotBefore()), Deadline: toTime(m.GetDeadline()),
		PostResult: m.GetPostResult(),
		After:      ToIDs(m.GetAfter()), ToSignalAfter: ToIDs(m.GetToSignalAfter()),
		When: ToConditions(m.GetWhen()), WhenAny: ToConditions(m.GetWhenAny()),
		AnswerKey: stint.AnswerKey(m.GetAnswerKey()), FailFast: m.GetFailFast(),
		Headers: m.GetHeaders(), Cost: int(m.GetCost()),
	}
	switch content := m.GetContent().(type) {
	case *stintv1.Task_Body:
		t.Body = present(content.Body)
	case *stintv1.Task_Text:
		t.Body = []byte(content.Text)
	}
	if int32(t.Priority) != m.GetPriority() {
		return t, argumentError("Task.Priority", "must be between -32768 and 32767")
	}
	switch m.GetOnAbort() {
	case "", abortToo:
	case runAnyway:
		t.OnAbort = stint.RunAnyway
	default:
		return t, argumentError("Task.OnAbort", `must be "abort-too" or "run-anyway"`)
	}
	return t, nil
}

// ToTasks returns messages as tasks. An error names the place of the task.
func ToTasks(messages []*stintv1.Task) ([]stint.Task, error) {
	tasks := make([]stint.Task, len(messages))
	for i, message := range messages {
		var err error
		if tasks[i], err = ToTask(message); err != nil {
			return nil, at(err, i, tasks[i].ID)
		}
	}
	return tasks, nil
}

// FromTasks returns tasks as messages.
func FromTasks(tasks []stint.Task) []*stintv1.Task {
	messages := make([]*stintv1.Task, len(tasks))
	for i := range tasks {
		messages[i] = FromTask(&tasks[i])
	}
	return messages
}

// FromInfo returns what the store knows about a task. With text, the body and the result are text
// if they are UTF-8.
func FromInfo(info *stint.TaskInfo, text bool) *stintv1.TaskInfo {
	message := &stintv1.TaskInfo{
		Id: string(info.ID), Action: info.Action, Key: info.Key,
		Priority: int32(info.Priority), MaxTries: Int32(info.MaxTries),
		Deadline: fromTime(info.Deadline), PostResult: info.PostResult,
		OnAbort: fromOnAbort(info.OnAbort), StatusCode: string(info.StatusCode),
		State: string(info.State), AbortCause: string(info.AbortCause),
		InsertedAt: fromTime(info.InsertedAt), NotBefore: fromTime(info.NotBefore),
		FinishedAt: fromTime(info.FinishedAt),
		Tries:      Int32(info.Tries),
		Actor:      string(info.Actor), OwnedAt: fromTime(info.OwnedAt),
		LeaseUntil: fromTime(info.LeaseUntil), Status: info.Status, Progress: info.Progress,
		Headers: info.Headers, Hidden: info.Hidden, Cost: Int32(info.Cost),
		TotalDependencies: Int32(info.TotalDependencies), Signals: Int32(info.Signals),
	}
	switch {
	case info.Body == nil:
	case text && utf8.Valid(info.Body):
		message.Content = &stintv1.TaskInfo_Text{Text: string(info.Body)}
	default:
		message.Content = &stintv1.TaskInfo_Body{Body: info.Body}
	}
	switch {
	case info.Result == nil:
	case text && utf8.Valid(info.Result):
		message.Outcome = &stintv1.TaskInfo_ResultText{ResultText: string(info.Result)}
	default:
		message.Outcome = &stintv1.TaskInfo_Result{Result: info.Result}
	}
	return message
}

// FromInfos is [FromInfo] for several tasks.
func FromInfos(infos []stint.TaskInfo, text bool) []*stintv1.TaskInfo {
	messages := make([]*stintv1.TaskInfo, len(infos))
	for i := range infos {
		messages[i] = FromInfo(&infos[i], text)
	}
	return messages
}

// ToInfo undoes [FromInfo].
func ToInfo(m *stintv1.TaskInfo) stint.TaskInfo {
	info := stint.TaskInfo{
		ID: stint.TaskID(m.GetId()), Action: m.GetAction(), Key: m.GetKey(),
		Priority: int16(m.GetPriority()), //nolint:gosec // it comes from such a column
		MaxTries: int(m.GetMaxTries()), Deadline: toTime(m.GetDeadline()),
		PostResult: m.GetPostResult(), StatusCode: stint.StatusCode(m.GetStatusCode()),
		State: stint.State(m.GetState()), AbortCause: stint.AbortCause(m.GetAbortCause()),
		InsertedAt: toTime(m.GetInsertedAt()), NotBefore: toTime(m.GetNotBefore()),
		FinishedAt: toTime(m.GetFinishedAt()), Tries: int(m.GetTries()),
		Actor: stint.ActorID(m.GetActor()), OwnedAt: toTime(m.GetOwnedAt()),
		LeaseUntil: toTime(m.GetLeaseUntil()), Status: m.GetStatus(), Progress: m.GetProgress(),
		Headers: m.GetHeaders(), Hidden: m.GetHidden(), Cost: int(m.GetCost()),
		TotalDependencies: int(m.GetTotalDependencies()), Signals: int(m.GetSignals()),
	}
	if m.GetOnAbort() == runAnyway {
		info.OnAbort = stint.RunAnyway
	}
	switch content := m.GetContent().(type) {
	case *stintv1.TaskInfo_Body:
		info.Body = present(content.Body)
	case *stintv1.TaskInfo_Text:
		info.Body = []byte(content.Text)
	}
	switch outcome := m.GetOutcome().(type) {
	case *stintv1.TaskInfo_Result:
		info.Result = present(outcome.Result)
	case *stintv1.TaskInfo_ResultText:
		info.Result = []byte(outcome.ResultText)
	}
	return info
}

// ToInfos is [ToInfo] for several tasks.
func ToInfos(messages []*stintv1.TaskInfo) []stint.TaskInfo {
	infos := make([]stint.TaskInfo, len(messages))
	for i, message := range messages {
		infos[i] = ToInfo(message)
	}
	return infos
}

// FromIDs returns IDs as text.
func FromIDs(ids []stint.TaskID) []string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	return texts
}

// ToIDs undoes [FromIDs].
func ToIDs(texts []string) []stint.TaskID {
	if len(texts) == 0 {
		return nil
	}
	ids := make([]stint.TaskID, len(texts))
	for i, text := range texts {
		ids[i] = stint.TaskID(text)
	}
	return ids
}

// FromSeen returns tasks as somebody has seen them as a message, nil if there are none.
func FromSeen(states []stint.State, tasks []stint.TaskInfo) *stintv1.AsSeen {
	if tasks == nil {
		return nil
	}
	m := &stintv1.AsSeen{}
	for _, state := range states {
		m.States = append(m.States, string(state))
	}
	for i := range tasks {
		m.Tasks = append(m.Tasks, &stintv1.SeenTask{
			Id: string(tasks[i].ID), InsertedAt: fromTime(tasks[i].InsertedAt),
			FinishedAt: fromTime(tasks[i].FinishedAt), State: string(tasks[i].State),
		})
	}
	return m
}

// ToSeen undoes [FromSeen].
func ToSeen(m *stintv1.AsSeen) (states []stint.State, tasks []stint.TaskInfo) {
	for _, state := range m.GetStates() {
		states = append(states, stint.State(state))
	}
	for _, task := range m.GetTasks() {
		tasks = append(tasks, stint.TaskInfo{
			ID: stint.TaskID(task.GetId()), InsertedAt: toTime(task.GetInsertedAt()),
			FinishedAt: toTime(task.GetFinishedAt()), State: stint.State(task.GetState()),
		})
	}
	return states, tasks
}

// FromTaskChanges returns what is changed of tasks as a message.
func FromTaskChanges(c stint.TaskChanges) *stintv1.TaskChanges {
	m := &stintv1.TaskChanges{
		NotBefore: fromTime(c.NotBefore), StartAfter: FromDuration(c.StartAfter),
		StartNow: c.StartNow, Key: c.Key, MaxTries: Int32(c.MaxTries),
	}
	if c.Priority != nil {
		m.Priority = new(int32(*c.Priority))
	}
	return m
}

// ToTaskChanges undoes [FromTaskChanges].
func ToTaskChanges(m *stintv1.TaskChanges) (c stint.TaskChanges, err error) {
	c = stint.TaskChanges{
		NotBefore: toTime(m.GetNotBefore()), StartAfter: m.GetStartAfter().AsDuration(),
		StartNow: m.GetStartNow(), MaxTries: int(m.GetMaxTries()),
	}
	if m != nil && m.Key != nil {
		c.Key = new(m.GetKey())
	}
	if m != nil && m.Priority != nil {
		priority := int16(m.GetPriority()) //nolint:gosec // checked
		if int32(priority) != m.GetPriority() {
			return c, argumentError("TaskChanges.Priority", "must be -32768 to 32767")
		}
		c.Priority = &priority
	}
	return c, nil
}

// FromDependencies returns dependencies as messages.
func FromDependencies(dependencies []stint.Dependency) []*stintv1.Dependency {
	messages := make([]*stintv1.Dependency, len(dependencies))
	for i, d := range dependencies {
		messages[i] = &stintv1.Dependency{
			Predecessor: string(d.Predecessor), Dependent: string(d.Dependent),
		}
	}
	return messages
}

// ToDependencies undoes [FromDependencies].
func ToDependencies(messages []*stintv1.Dependency) []stint.Dependency {
	dependencies := make([]stint.Dependency, len(messages))
	for i, m := range messages {
		dependencies[i] = stint.Dependency{
			Predecessor: stint.TaskID(m.GetPredecessor()),
			Dependent:   stint.TaskID(m.GetDependent()),
		}
	}
	return dependencies
}

// FromAffected returns which tasks a call changed as a message.
func FromAffected(a stint.Affected) *stintv1.Affected {
	return &stintv1.Affected{
		Tasks: FromIDs(a.Tasks), Others: int64(a.Others), InProgress: int64(a.InProgress),
		Started: int64(a.Started), Skipped: int64(a.Skipped), Later: int64(a.Later),
	}
}

// ToAffected undoes [FromAffected].
func ToAffected(m *stintv1.Affected) stint.Affected {
	return stint.Affected{
		Tasks: ToIDs(m.GetTasks()), Others: int(m.GetOthers()), InProgress: int(m.GetInProgress()),
		Started: int(m.GetStarted()), Skipped: int(m.GetSkipped()), Later: int(m.GetLater()),
	}
}

func fromOnAbort(o stint.OnAbort) string {
	if o == stint.RunAnyway {
		return runAnyway
	}
	return ""
}

func fromTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func toTime(m *timestamppb.Timestamp) time.Time {
	if m == nil {
		return time.Time{}
	}
	return m.AsTime()
}

// FromDuration returns a duration as a message, nil for 0.
func FromDuration(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

// Int32 returns a number, cut to what fits.
func Int32(n int) int32 {
	return int32(min(max(n, math.MinInt32), math.MaxInt32))
}

// present returns bytes that are present in a message, where they may be nil if there are none.
func present(bytes []byte) []byte {
	if bytes == nil {
		return []byte{}
	}
	return bytes
}
