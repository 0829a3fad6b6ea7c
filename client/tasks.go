package client

import (
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/callctx"
	"github.com/stint-tasks/stint/internal/headers"
	"github.com/stint-tasks/stint/internal/wire"
)

// InsertTasks is [stint.Store.InsertTasks]. The service keeps no response to a call with one task,
// unless it drops tasks that have ended ([stint.KeepNone]): where the answer to an attempt was
// lost, a task of this ID with the same action, key and body that was inserted within the last
// minute is taken for that of the call.
func (c *Client) InsertTasks(ctx context.Context, tasks []stint.Task) error {
	if err := nameAll(tasks); err != nil {
		return said("insert tasks", err)
	}
	request := &stintv1.InsertTasksRequest{Tasks: c.fromTasks(ctx, tasks)}
	err := c.repeat(ctx, timeFor(request), func(ctx context.Context, _ bool) error {
		_, err := c.tasks.InsertTasks(ctx, request)
		return err
	})
	return said("insert tasks", err)
}

// EnsureTasks is [stint.Store.EnsureTasks].
func (c *Client) EnsureTasks(
	ctx context.Context, tasks []stint.Task,
) (existing []stint.TaskID, err error) {
	if err := nameAll(tasks); err != nil {
		return nil, said("ensure tasks", err)
	}
	request := &stintv1.EnsureTasksRequest{Tasks: c.fromTasks(ctx, tasks)}
	err = c.repeat(ctx, timeFor(request), func(ctx context.Context, _ bool) error {
		response, err := c.tasks.EnsureTasks(ctx, request)
		existing = wire.ToIDs(response.GetExisting())
		return err
	})
	return existing, said("ensure tasks", err)
}

// fromTasks returns tasks as messages, with the headers that the options add by the context.
func (c *Client) fromTasks(ctx context.Context, tasks []stint.Task) []*stintv1.Task {
	messages := wire.FromTasks(tasks)
	if c.headers == nil {
		return messages
	}
	more := c.headers(ctx)
	for _, m := range messages {
		m.Headers = headers.Merge(m.GetHeaders(), more)
	}
	return messages
}

// ReplaceTasks is [stint.Store.ReplaceTasks]. It is not repeated, since a repetition would replace
// the tasks once more: if its answer is lost, the error is [ErrUnavailable].
func (c *Client) ReplaceTasks(ctx context.Context, tasks []stint.Task) error {
	if err := nameAll(tasks); err != nil {
		return said("replace tasks", err)
	}
	request := &stintv1.ReplaceTasksRequest{Tasks: c.fromTasks(ctx, tasks)}
	return said("replace tasks", c.once(ctx, timeFor(request),
		func(ctx context.Context, _ bool) error {
			_, err := c.tasks.ReplaceTasks(ctx, request)
			return err
		}))
}

// Debounce is [stint.Store.Debounce].
func (c *Client) Debounce(
	ctx context.Context, task stint.Task, quiet, atMost time.Duration,
) error {
	request := c.debounceRequest(ctx, Debounced{task, quiet, atMost})
	return said("debounce task", c.repeat(ctx, timeFor(request),
		func(ctx context.Context, _ bool) error {
			_, err := c.tasks.Debounce(ctx, request)
			return err
		}))
}

func (c *Client) debounceRequest(ctx context.Context, call Debounced) *stintv1.DebounceRequest {
	return &stintv1.DebounceRequest{
		Task:  c.fromTasks(ctx, []stint.Task{call.Task})[0],
		Quiet: durationpb.New(call.Quiet), AtMost: durationpb.New(call.AtMost),
	}
}

// AddDependencies is [stint.Store.AddDependencies].
func (c *Client) AddDependencies(ctx context.Context, dependencies []stint.Dependency) error {
	request := &stintv1.AddDependenciesRequest{Dependencies: wire.FromDependencies(dependencies)}
	return said("add dependencies", c.repeat(ctx, longMax,
		func(ctx context.Context, _ bool) error {
			_, err := c.tasks.AddDependencies(ctx, request)
			return err
		}))
}

// AnswerTasks is [stint.Store.AnswerTasks].
func (c *Client) AnswerTasks(
	ctx context.Context, actor stint.ActorID, answers []stint.Answer,
) (verdicts []error, err error) {
	request := &stintv1.AnswerTasksRequest{
		Actor: string(actor), Answers: wire.FromAnswers(answers),
	}
	err = c.repeat(ctx, timeFor(request), func(ctx context.Context, _ bool) error {
		response, err := c.tasks.AnswerTasks(ctx, request)
		verdicts = wire.ToVerdicts(response.GetVerdicts())
		return err
	})
	if err != nil {
		return nil, said("answer tasks", err)
	}
	return verdicts, nil
}

// GetTasks is [stint.Store.GetTasks]. Several tasks with over 72 MiB are [stint.ErrTooLarge].
func (c *Client) GetTasks(
	ctx context.Context, ids []stint.TaskID,
) (found []stint.TaskInfo, err error) {
	request := &stintv1.GetTasksRequest{Ids: wire.FromIDs(ids), FoundOnly: true}
	err = c.repeat(ctx, answerMax, func(ctx context.Context, _ bool) error {
		response, err := c.tasks.GetTasks(ctx, request)
		found = wire.ToInfos(response.GetTasks())
		if missing := wire.ToIDs(response.GetMissing()); err == nil && len(missing) > 0 {
			err = &stint.TaskError{IDs: missing, Err: stint.ErrTaskNotFound}
		}
		return err
	})
	return found, said("get tasks", err)
}

// ListTasks is [stint.Store.ListTasks].
func (c *Client) ListTasks(
	ctx context.Context, filter stint.Filter,
) (page stint.TaskPage, err error) {
	request := wire.FromFilter(filter)
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		response, err := c.tasks.ListTasks(ctx, request)
		page = stint.TaskPage{
			Tasks: wire.ToInfos(response.GetTasks()), Next: stint.Cursor(response.GetNext()),
			Looked: int(response.GetLooked()),
		}
		return err
	})
	return page, said("list tasks", err)
}

// Explain is [stint.Store.Explain].
func (c *Client) Explain(
	ctx context.Context, id stint.TaskID,
) (why stint.Explanation, err error) {
	request := &stintv1.ExplainTaskRequest{Id: string(id)}
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.ExplainTask(ctx, request)
		if err != nil {
			return err
		}
		why = stint.Explanation{
			Task: wire.ToInfo(r.GetTask()), Missing: int(r.GetMissing()),
			WaitsFor: wire.ToInfos(r.GetWaitsFor()), BecauseOf: wire.ToInfos(r.GetBecauseOf()),
			TriesLeft: int(r.GetTriesLeft()), Now: r.GetNow().AsTime(), AnyOf: r.GetAnyOf(),
			Limits: wire.ToTaskLimits(r.GetLimits()), Steps: wire.ToStepInfos(r.GetSteps()),
			Actors: int(r.GetActors()), Presence: stint.Presence(r.GetPresence()),
			Copy: r.GetCopy(), Start: wire.ToStart(r.GetStart()),
		}
		if r.GetAskedAt() != nil {
			why.AskedAt = r.GetAskedAt().AsTime()
		}
		return nil
	})
	return why, said("explain", err)
}

// History is [stint.Store.History].
func (c *Client) History(
	ctx context.Context, id stint.TaskID,
) (history stint.History, err error) {
	request := &stintv1.GetHistoryRequest{Id: string(id)}
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.GetHistory(ctx, request)
		if err == nil {
			history = wire.ToHistory(r)
		}
		return err
	})
	return history, said("history", err)
}

// Graph is [stint.Store.Graph].
func (c *Client) Graph(ctx context.Context, id stint.TaskID) (graph *stint.Graph, err error) {
	request := &stintv1.GetGraphRequest{Id: string(id)}
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.GetGraph(ctx, request)
		if err != nil {
			return err
		}
		graph = &stint.Graph{
			Tasks: wire.ToInfos(r.GetTasks()), Cut: r.GetCut(),
			Dependencies: wire.ToDependencies(r.GetDependencies()),
			Conditions:   wire.ToEdgeConditions(r.GetConditions()),
		}
		return nil
	})
	return graph, said("graph", err)
}

// Stats is [stint.Store.Stats].
func (c *Client) Stats(ctx context.Context) (stats stint.Stats, err error) {
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.GetStats(ctx, &stintv1.GetStatsRequest{})
		if err != nil {
			return err
		}
		stats = stint.Stats{
			PruningBehind: r.GetPruningBehind().AsDuration(), Copy: r.GetCopy(),
		}
		if r.GetEstimatedAt() != nil {
			stats.EstimatedAt = r.GetEstimatedAt().AsTime()
		}
		for _, state := range r.GetEstimated() {
			stats.Estimated = append(stats.Estimated, stint.State(state))
		}
		for _, a := range r.GetActions() {
			stats.Actions = append(stats.Actions, stint.ActionStats{
				Action: a.GetAction(), Blocked: a.GetBlocked(), Scheduled: a.GetScheduled(),
				Ready: a.GetReady(), InProgress: a.GetInProgress(), Completed: a.GetCompleted(),
				Aborted: a.GetAborted(), Skipped: a.GetSkipped(),
				OldestReady: a.GetOldestReady().AsDuration(),
				Tries:       a.GetTries(), Retries: a.GetRetries(),
				Parked: a.GetParked(), Limited: a.GetLimited(), Paused: a.GetPaused(),
				Lost:        a.GetLost(),
				Concurrency: int(a.GetConcurrency()),
			})
		}
		return nil
	})
	return stats, said("stats", err)
}

// Minutes is [stint.Store.Minutes]. It is refused to a caller who may not see all tasks of the
// action, or of all actions.
func (c *Client) Minutes(
	ctx context.Context, action string,
) (minutes []stint.Minute, err error) {
	request := &stintv1.GetMinutesRequest{Action: action}
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.GetMinutes(ctx, request)
		minutes = nil
		for _, m := range r.GetMinutes() {
			minutes = append(minutes, stint.Minute{
				Since: m.GetSince().AsTime(), Until: m.GetUntil().AsTime(),
				Tries: m.GetTries(), Retries: m.GetRetries(),
				Completed: m.GetCompleted(), Failed: m.GetFailed(),
				Median: m.GetMedian().AsDuration(), P95: m.GetP95().AsDuration(),
				WaitMedian: m.GetWaitMedian().AsDuration(), WaitP95: m.GetWaitP95().AsDuration(),
				RunMedian: m.GetRunMedian().AsDuration(), RunP95: m.GetRunP95().AsDuration(),
				Estimated: m.GetEstimated(),
				Ready:     m.GetReady(), OldestReady: m.GetOldestReady().AsDuration(),
			})
		}
		return err
	})
	return minutes, said("minutes", err)
}

// Problems is [stint.Store.Problems].
func (c *Client) Problems(
	ctx context.Context, limit int,
) (problems stint.Problems, err error) {
	request := &stintv1.ListProblemsRequest{
		Limit: wire.Int32(limit),
	}
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.ListProblems(ctx, request)
		problems = stint.Problems{
			Slow: wire.ToInfos(r.GetSlow()), Failing: wire.ToInfos(r.GetFailing()),
			Failed: wire.ToInfos(r.GetFailed()), Unwatched: wire.ToInfos(r.GetUnwatched()),
			ErrorsCut: r.GetErrorsCut(),
		}
		for _, e := range r.GetErrors() {
			problems.Errors = append(problems.Errors, stint.ErrorGroup{
				Action: e.GetAction(), Tasks: int(e.GetTasks()), Error: e.GetError(),
				Example: stint.TaskID(e.GetExample()),
			})
		}
		return err
	})
	return problems, said("problems", err)
}

// ListActors is [stint.Store.ListActors].
func (c *Client) ListActors(ctx context.Context) (actors []stint.ActorInfo, err error) {
	err = c.repeat(ctx, attemptMax, func(ctx context.Context, _ bool) error {
		r, err := c.tasks.ListActors(ctx, &stintv1.ListActorsRequest{})
		actors = nil
		for _, a := range r.GetActors() {
			actors = append(actors, stint.ActorInfo{
				Actor: stint.ActorID(a.GetActor()), Actions: a.GetActions(),
				Tasks: int(a.GetTasks()), Since: a.GetSince().AsTime(),
			})
		}
		return err
	})
	return actors, said("list actors", err)
}

// pollFor is how long a call waits for tasks before it asks again.
const pollFor = 20 * time.Second

// WaitForTask is [stint.Store.WaitForTask], except that it returns [ErrUnavailable] if the service
// cannot be reached for some seconds.
func (c *Client) WaitForTask(ctx context.Context, id stint.TaskID) (stint.TaskInfo, error) {
	infos, err := c.waitForTasks(ctx, []stint.TaskID{id})
	if err != nil {
		return stint.TaskInfo{}, said("wait for task", err)
	}
	return infos[0], nil
}

// WaitForTasks is [stint.Store.WaitForTasks] as [Client.WaitForTask], with the limit of GetTasks.
func (c *Client) WaitForTasks(
	ctx context.Context, ids []stint.TaskID,
) ([]stint.TaskInfo, error) {
	infos, err := c.waitForTasks(ctx, ids)
	return infos, said("wait for tasks", err)
}

func (c *Client) waitForTasks(
	ctx context.Context, ids []stint.TaskID,
) (infos []stint.TaskInfo, err error) {
	request := &stintv1.WaitForTasksRequest{
		Ids: wire.FromIDs(ids), Wait: wire.FromDuration(pollFor),
	}
	defer callctx.BeginWait(ctx, c, ids)()
	waiting, cancel := c.untilClosed(ctx)
	defer cancel()
	for finished := false; !finished; {
		err := c.repeat(waiting, pollFor+answerMax, func(ctx context.Context, _ bool) error {
			response, err := c.tasks.WaitForTasks(ctx, request)
			finished = response.GetFinished()
			infos = wire.ToInfos(response.GetTasks())
			return err
		})
		if err != nil && c.checkOpen() != nil {
			return nil, stint.ErrClosed
		}
		if err != nil {
			return nil, err
		}
	}
	return infos, nil
}

// Ends is [stint.Store.Ends], except that it returns [ErrUnavailable] if the service cannot be
// reached for some seconds. A caller who may not read all tasks is told of those that he may read.
func (c *Client) Ends(
	ctx context.Context, actions []string, from stint.Cursor, wait time.Duration,
) (page stint.EndPage, err error) {
	waiting, cancel := c.untilClosed(ctx)
	defer cancel()
	request := &stintv1.GetEndsRequest{Actions: actions, From: string(from)}
	for until := time.Now().Add(wait); ; { //nolint:forbidigo // how long to wait
		left := min(max(time.Until(until), 0), pollFor)
		if wait < 0 {
			left = wait
		}
		request.Wait = durationpb.New(left)
		err = c.repeat(waiting, left+answerMax, func(ctx context.Context, _ bool) error {
			r, err := c.tasks.GetEnds(ctx, request)
			if err == nil {
				page = wire.ToEnds(r)
			}
			return err
		})
		if err != nil && c.checkOpen() != nil {
			err = stint.ErrClosed
		}
		if err != nil || len(page.Tasks) > 0 || from == stint.EndsNow || left < pollFor {
			return page, said("ends", err)
		}
		request.From = string(page.Next)
	}
}

// nameAll gives random IDs to tasks that have none: a repetition must name the same tasks. It
// refuses names that no message can hold.
func nameAll(tasks []stint.Task) error {
	for i := range tasks {
		if err := checkText(&tasks[i], i); err != nil {
			return err
		}
		if tasks[i].ID == "" {
			id, err := uuid.NewV7()
			if err != nil {
				return err
			}
			tasks[i].ID = stint.TaskID(id.String())
		}
	}
	return nil
}

// checkText refuses names of a task that are no UTF-8, as a store does.
func checkText(task *stint.Task, index int) error {
	invalid := func(id stint.TaskID) bool { return !utf8.ValidString(string(id)) }
	argument := ""
	switch {
	case invalid(task.ID):
		argument = "Task.ID"
	case !utf8.ValidString(task.Action):
		argument = "Task.Action"
	case slices.ContainsFunc(task.After, invalid):
		argument = "Task.After"
	case slices.ContainsFunc(task.ToSignalAfter, invalid):
		argument = "Task.ToSignalAfter"
	case slices.ContainsFunc(slices.Concat(task.When, task.WhenAny),
		func(c stint.Condition) bool { return invalid(c.After) }):
		argument = "Condition.After"
	default:
		return nil
	}
	return &stint.ArgumentError{
		Argument: argument, Index: index, ID: task.ID, Problem: "must be valid UTF-8",
		Err: stint.ErrInvalidArgument,
	}
}

// said says which verb failed.
func said(verb string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", verb, err)
}
