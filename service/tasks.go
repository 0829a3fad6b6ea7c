package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/headers"
	"github.com/stint-tasks/stint/internal/pg"
	"github.com/stint-tasks/stint/internal/responses"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/verbs"
)

// taskService has the verbs of stint.v1.TaskService.
type taskService struct{ *Service }

// insertable returns tasks to insert, with random IDs where they have none.
func insertable(messages []*stintv1.Task) ([]stint.Task, []string, error) {
	inserted, err := wire.ToTasks(messages)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]string, len(inserted))
	for i := range inserted {
		if inserted[i].ID == "" {
			random, err := uuid.NewV7()
			if err != nil {
				return nil, nil, err
			}
			inserted[i].ID = stint.TaskID(random.String())
		}
		ids[i] = string(inserted[i].ID)
	}
	return inserted, ids, nil
}

func (t *taskService) InsertTasks(
	ctx context.Context, r *stintv1.InsertTasksRequest,
) (*stintv1.InsertTasksResponse, error) {
	inserted, ids, err := insertable(r.GetTasks())
	if err != nil {
		return nil, err
	}
	response := &stintv1.InsertTasksResponse{Ids: ids}
	single := len(inserted) == 1 && !t.store.Remote().Drops()
	if single && isFirst(ctx) {
		return response, t.store.InsertTasks(ctx, inserted)
	}
	kept, err := once(ctx, t.Service,
		func(store *stint.Store) (*stintv1.InsertTasksResponse, error) {
			return response, store.InsertTasks(ctx, inserted)
		})
	if single && isRepeated(ctx) && errors.Is(err, stint.ErrTaskExists) &&
		t.isInserted(ctx, inserted[0]) {
		return response, nil
	}
	return kept, err
}

// isInserted reports whether an attempt before this one is likely to have inserted a task. To keep
// the response of each call would keep calls with one task from sharing statements, so a task that
// is the same, and was inserted lately, is taken for that of the call.
func (t *taskService) isInserted(ctx context.Context, task stint.Task) bool {
	inserted, err := responses.IsInserted(
		ctx, pg.Of(t.store), string(task.ID), task.Action, task.Key, task.Body)
	return err == nil && inserted // or the call fails as it has
}

func (t *taskService) EnsureTasks(
	ctx context.Context, r *stintv1.EnsureTasksRequest,
) (*stintv1.EnsureTasksResponse, error) {
	ensured, ids, err := insertable(r.GetTasks())
	if err != nil {
		return nil, err
	}
	return once(ctx, t.Service, func(store *stint.Store) (*stintv1.EnsureTasksResponse, error) {
		existing, err := ensure(ctx, store, ensured, r.GetTasks())
		return &stintv1.EnsureTasksResponse{Ids: ids, Existing: wire.FromIDs(existing)}, err
	})
}

// ensure ensures the tasks of messages. Which of them are there is known for certain afterwards,
// and with it whether the caller may link the others to these: so that is asked in the transaction,
// which is undone if not.
func ensure(
	ctx context.Context, store *stint.Store, tasks []stint.Task, messages []*stintv1.Task,
) (existing []stint.TaskID, err error) {
	principal := callerOf(ctx).principal
	isLinked := func(task stint.Task) bool {
		return len(task.After)+len(task.ToSignalAfter)+len(task.When)+len(task.WhenAny) > 0
	}
	if principal == nil || !slices.ContainsFunc(tasks, isLinked) {
		return store.EnsureTasks(ctx, tasks)
	}
	err = store.Remote().Transact(ctx, func(inside *stint.Store) (err error) {
		if existing, err = inside.EnsureTasks(ctx, tasks); err != nil {
			return err
		}
		times := map[string]int{} // how often an ID was added: once, or not at all
		for i := range tasks {
			times[string(tasks[i].ID)]++
		}
		for _, id := range existing {
			times[string(id)]--
		}
		asks := &asking{ctx: ctx, principal: principal, store: inside}
		return asks.mayLinkEnsured(messages, func(id string) bool {
			return id == "" || times[id] > 0 // it was given a new one
		})
	})
	return existing, err
}

func (t *taskService) ReplaceTasks(
	ctx context.Context, r *stintv1.ReplaceTasksRequest,
) (*stintv1.ReplaceTasksResponse, error) {
	replacing, err := wire.ToTasks(r.GetTasks())
	if err != nil {
		return nil, err
	}
	return once(ctx, t.Service, func(store *stint.Store) (*stintv1.ReplaceTasksResponse, error) {
		return &stintv1.ReplaceTasksResponse{}, store.ReplaceTasks(ctx, replacing)
	})
}

func (t *taskService) Debounce(
	ctx context.Context, r *stintv1.DebounceRequest,
) (*stintv1.DebounceResponse, error) {
	return once(ctx, t.Service, func(store *stint.Store) (*stintv1.DebounceResponse, error) {
		return &stintv1.DebounceResponse{}, debounce(ctx, store, r)
	})
}

func debounce(ctx context.Context, store *stint.Store, r *stintv1.DebounceRequest) error {
	given, err := wire.ToTasks([]*stintv1.Task{r.GetTask()})
	if err != nil {
		return err
	}
	return store.Debounce(ctx, given[0], r.GetQuiet().AsDuration(), r.GetAtMost().AsDuration())
}

func (t *taskService) AddDependencies(
	ctx context.Context, r *stintv1.AddDependenciesRequest,
) (*stintv1.AddDependenciesResponse, error) {
	added := wire.ToDependencies(r.GetDependencies())
	return once(ctx, t.Service, func(store *stint.Store) (*stintv1.AddDependenciesResponse, error) {
		return &stintv1.AddDependenciesResponse{}, store.AddDependencies(ctx, added)
	})
}

// change changes tasks, or only says what that would do.
func change[M proto.Message](
	ctx context.Context, t *taskService, dryRun bool, verb func(by verbs.Changer) (M, error),
) (M, error) {
	if dryRun {
		return verb(t.store.DryRun())
	}
	return once(ctx, t.Service, func(store *stint.Store) (M, error) { return verb(store) })
}

func (t *taskService) AbortTasks(
	ctx context.Context, r *stintv1.AbortTasksRequest,
) (*stintv1.AbortTasksResponse, error) {
	type response = *stintv1.AbortTasksResponse
	return change(ctx, t, r.GetDryRun(), func(by verbs.Changer) (response, error) {
		aborted, err := by.AbortTasks(ctx, wire.ToIDs(r.GetIds()), r.GetStatus())
		return &stintv1.AbortTasksResponse{Aborted: wire.FromAffected(aborted)}, err
	})
}

func (t *taskService) AnswerTasks(
	ctx context.Context, r *stintv1.AnswerTasksRequest,
) (*stintv1.AnswerTasksResponse, error) {
	answers := wire.ToAnswers(r.GetAnswers())
	return once(ctx, t.Service, func(store *stint.Store) (*stintv1.AnswerTasksResponse, error) {
		verdicts, err := store.AnswerTasks(ctx, stint.ActorID(r.GetActor()), answers)
		return &stintv1.AnswerTasksResponse{Verdicts: wire.FromVerdicts(verdicts)}, err
	})
}

func (t *taskService) RetryTasks(
	ctx context.Context, r *stintv1.RetryTasksRequest,
) (*stintv1.RetryTasksResponse, error) {
	type response = *stintv1.RetryTasksResponse
	return change(ctx, t, r.GetDryRun(), func(by verbs.Changer) (response, error) {
		retried, err := by.RetryTasks(ctx, wire.ToIDs(r.GetIds()))
		return &stintv1.RetryTasksResponse{Retried: wire.FromAffected(retried)}, err
	})
}

func (t *taskService) DeleteTasks(
	ctx context.Context, r *stintv1.DeleteTasksRequest,
) (*stintv1.DeleteTasksResponse, error) {
	type response = *stintv1.DeleteTasksResponse
	return change(ctx, t, r.GetDryRun(), func(by verbs.Changer) (response, error) {
		deleted, err := by.DeleteTasks(ctx, wire.ToIDs(r.GetIds()))
		return &stintv1.DeleteTasksResponse{Deleted: wire.FromAffected(deleted)}, err
	})
}

func (t *taskService) ChangeTasks(
	ctx context.Context, r *stintv1.ChangeTasksRequest,
) (*stintv1.ChangeTasksResponse, error) {
	to, err := wire.ToTaskChanges(r.GetTo())
	if err != nil {
		return nil, err
	}
	type response = *stintv1.ChangeTasksResponse
	return change(ctx, t, r.GetDryRun(), func(by verbs.Changer) (response, error) {
		changed, err := by.ChangeTasks(ctx, wire.ToIDs(r.GetIds()), to)
		return &stintv1.ChangeTasksResponse{Changed: wire.FromAffected(changed)}, err
	})
}

// fits returns an error if tasks make an answer too large.
func fits(found []stint.TaskInfo) error {
	size := int64(0)
	for i := range found {
		size += int64(len(found[i].Body) + len(found[i].Result) + len(found[i].Status) +
			headers.Size(found[i].Headers))
	}
	return sizeFits("ids", size)
}

// aroundBytes is about what is around the values of a task in a message, and more.
const aroundBytes = 2 << 10

// willFit is fits for tasks that have not been read yet, unless there is only one: the same task
// may be asked for many times.
func (t *taskService) willFit(ctx context.Context, ids []stint.TaskID) error {
	if len(ids) <= 1 {
		return nil
	}
	size, err := t.store.Remote().CountBytes(ctx, ids)
	return cmp.Or(err, sizeFits("ids", size))
}

func sizeFits(argument string, size int64) error {
	if size > answerBytesMax {
		return &stint.ArgumentError{
			Argument: argument, Index: -1, Err: stint.ErrTooLarge,
			Problem: fmt.Sprintf("their tasks have %d bytes, over the limit of %d of an answer: "+
				"ask for fewer", size, answerBytesMax),
		}
	}
	return nil
}

func (t *taskService) GetTasks(
	ctx context.Context, r *stintv1.GetTasksRequest,
) (*stintv1.GetTasksResponse, error) {
	ids := wire.ToIDs(r.GetIds())
	found, left, err := t.store.Remote().GetSmallTasks(ctx, ids, smallOf(ids))
	if left > 0 {
		if err := t.holdFor(ctx, found, left); err != nil {
			return nil, err
		}
		found, err = t.store.GetTasks(ctx, ids)
		if err := fits(found); err != nil {
			return nil, err
		}
	}
	response := &stintv1.GetTasksResponse{Tasks: wire.FromInfos(found, r.GetText())}
	var missing *stint.TaskError
	if r.GetFoundOnly() && errors.Is(err, stint.ErrTaskNotFound) && errors.As(err, &missing) {
		response.Missing = wire.FromIDs(missing.IDs)
		return response, nil
	}
	return response, err
}

// smallOf is how long a value of one of these tasks may be that is read without room: those of all
// tasks are few bytes then.
func smallOf(ids []stint.TaskID) int { return smallBytes / max(len(ids), 1) }

// holdFor takes room for tasks of which so many bytes are yet to be read.
func (t *taskService) holdFor(ctx context.Context, found []stint.TaskInfo, left int64) error {
	if len(found) > 1 { // one task fits in any case
		if err := sizeFits("ids", left); err != nil {
			return err
		}
	}
	return callerOf(ctx).room.hold(ctx, left+aroundBytes*int64(len(found)))
}

func (t *taskService) ListTasks(
	ctx context.Context, r *stintv1.ListTasksRequest,
) (*stintv1.ListTasksResponse, error) {
	if r.GetBody() != "" { // the store reads one body after the other
		if err := callerOf(ctx).room.hold(ctx, answerBytesMax); err != nil {
			return nil, err
		}
	}
	list := t.store.ListTasks
	if by := callerOf(ctx).principal; !by.MayAll(access.Read) {
		list = t.listHidden
	}
	page, err := list(ctx, wire.ToFilter(r))
	return &stintv1.ListTasksResponse{
		Tasks: wire.FromInfos(page.Tasks, false), Next: string(page.Next),
		Looked: wire.Int32(page.Looked),
	}, err
}

func (t *taskService) ExplainTask(
	ctx context.Context, r *stintv1.ExplainTaskRequest,
) (*stintv1.ExplainTaskResponse, error) {
	why, err := t.store.Explain(ctx, stint.TaskID(r.GetId()))
	if err != nil {
		return nil, err
	}
	response := &stintv1.ExplainTaskResponse{
		Task:      wire.FromInfo(&why.Task, false),
		Missing:   wire.Int32(why.Missing),
		WaitsFor:  wire.FromInfos(why.WaitsFor, false),
		BecauseOf: wire.FromInfos(why.BecauseOf, false), Steps: wire.FromStepInfos(why.Steps),
		TriesLeft: wire.Int32(why.TriesLeft), AnyOf: why.AnyOf,
		Now:    timestamppb.New(why.Now),
		Limits: wire.FromTaskLimits(why.Limits),
		Actors: wire.Int32(why.Actors), Presence: string(why.Presence), Copy: why.Copy,
		Start: wire.FromStart(why.Start),
	}
	if !why.AskedAt.IsZero() {
		response.AskedAt = timestamppb.New(why.AskedAt)
	}
	return response, nil
}

func (t *taskService) GetHistory(
	ctx context.Context, r *stintv1.GetHistoryRequest,
) (*stintv1.GetHistoryResponse, error) {
	history, err := t.store.History(ctx, stint.TaskID(r.GetId()))
	if err != nil {
		return nil, err
	}
	return wire.FromHistory(history), nil
}

func (t *taskService) GetGraph(
	ctx context.Context, r *stintv1.GetGraphRequest,
) (*stintv1.GetGraphResponse, error) {
	graph, err := t.store.Graph(ctx, stint.TaskID(r.GetId()))
	if err != nil {
		return nil, err
	}
	return &stintv1.GetGraphResponse{
		Tasks:        wire.FromInfos(graph.Tasks, false),
		Dependencies: wire.FromDependencies(graph.Dependencies), Cut: graph.Cut,
		Conditions: wire.FromEdgeConditions(graph.Conditions),
	}, nil
}

func (t *taskService) GetStats(
	ctx context.Context, _ *stintv1.GetStatsRequest,
) (*stintv1.GetStatsResponse, error) {
	stats, err := t.store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	response := &stintv1.GetStatsResponse{
		PruningBehind: durationpb.New(stats.PruningBehind), Copy: stats.Copy,
	}
	if !stats.EstimatedAt.IsZero() {
		response.EstimatedAt = timestamppb.New(stats.EstimatedAt)
	}
	for _, state := range stats.Estimated {
		response.Estimated = append(response.Estimated, string(state))
	}
	for _, a := range stats.Actions {
		response.Actions = append(response.Actions, &stintv1.ActionStats{
			Action: a.Action, Blocked: a.Blocked, Scheduled: a.Scheduled, Ready: a.Ready,
			InProgress: a.InProgress, Completed: a.Completed, Aborted: a.Aborted,
			Skipped: a.Skipped, OldestReady: durationpb.New(a.OldestReady),
			Tries: a.Tries, Retries: a.Retries,
			Parked: a.Parked, Limited: a.Limited, Paused: a.Paused, Lost: a.Lost,
			Concurrency: wire.Int32(a.Concurrency),
		})
	}
	return response, nil
}

func (t *taskService) GetMinutes(
	ctx context.Context, r *stintv1.GetMinutesRequest,
) (*stintv1.GetMinutesResponse, error) {
	minutes, err := t.store.Minutes(ctx, r.GetAction())
	response := &stintv1.GetMinutesResponse{}
	for i := range minutes {
		m := &minutes[i]
		response.Minutes = append(response.Minutes, &stintv1.Minute{
			Since: timestamppb.New(m.Since), Until: timestamppb.New(m.Until),
			Tries: m.Tries, Retries: m.Retries, Completed: m.Completed, Failed: m.Failed,
			Median: durationpb.New(m.Median), P95: durationpb.New(m.P95), Estimated: m.Estimated,
			WaitMedian: durationpb.New(m.WaitMedian), WaitP95: durationpb.New(m.WaitP95),
			RunMedian: durationpb.New(m.RunMedian), RunP95: durationpb.New(m.RunP95),
			Ready: m.Ready, OldestReady: durationpb.New(m.OldestReady),
		})
	}
	return response, err
}

func (t *taskService) ListProblems(
	ctx context.Context, r *stintv1.ListProblemsRequest,
) (*stintv1.ListProblemsResponse, error) {
	problems, err := t.store.Problems(ctx, int(r.GetLimit()))
	if err != nil {
		return nil, err
	}
	response := &stintv1.ListProblemsResponse{
		Slow:      wire.FromInfos(problems.Slow, false),
		Failing:   wire.FromInfos(problems.Failing, false),
		Failed:    wire.FromInfos(problems.Failed, false),
		Unwatched: wire.FromInfos(problems.Unwatched, false),
		ErrorsCut: problems.ErrorsCut,
	}
	for _, e := range problems.Errors {
		response.Errors = append(response.Errors, &stintv1.ErrorGroup{
			Action: e.Action, Tasks: wire.Int32(e.Tasks), Error: e.Error,
			Example: string(e.Example),
		})
	}
	return response, nil
}

func (t *taskService) ListActors(
	ctx context.Context, _ *stintv1.ListActorsRequest,
) (*stintv1.ListActorsResponse, error) {
	actors, err := t.store.ListActors(ctx)
	response := &stintv1.ListActorsResponse{}
	for _, a := range actors {
		response.Actors = append(response.Actors, &stintv1.ActorInfo{
			Actor: string(a.Actor), Actions: a.Actions, Tasks: int64(a.Tasks),
			Since: timestamppb.New(a.Since),
		})
	}
	return response, err
}
