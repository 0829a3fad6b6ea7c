package service

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/service/access"
	"github.com/stint-tasks/stint/shards"
)

// clusterService has the verbs of stint.v1.ClusterService.
type clusterService struct{ *Service }

func (s *clusterService) InsertShardTasks(
	ctx context.Context, r *stintv1.InsertShardTasksRequest,
) (*stintv1.InsertShardTasksResponse, error) {
	if s.cluster == nil {
		return nil, errNoCluster()
	}
	plain := make([]*stintv1.Task, len(r.GetTasks()))
	for i, task := range r.GetTasks() {
		plain[i] = task.GetTask()
	}
	inserted, ids, err := insertable(plain)
	if err != nil {
		return nil, err
	}
	tasks := make([]shards.Task, len(inserted))
	for i, task := range r.GetTasks() {
		tasks[i] = shards.Task{
			Shard: task.GetShard(), Task: inserted[i], After: wire.ToNames(task.GetAfter()),
			When:    wire.ToShardConditions(task.GetWhen()),
			WhenAny: wire.ToShardConditions(task.GetWhenAny()),
		}
	}
	if err := s.cluster.InsertTasks(ctx, tasks); err != nil {
		return nil, s.failed(ctx, stintv1connect.ClusterServiceInsertShardTasksProcedure, err)
	}
	return &stintv1.InsertShardTasksResponse{Ids: ids}, nil
}

func (s *clusterService) GetShardTasks(
	ctx context.Context, r *stintv1.GetShardTasksRequest,
) (*stintv1.GetShardTasksResponse, error) {
	if s.cluster == nil {
		return nil, errNoCluster()
	}
	found, err := s.getTasks(ctx, wire.ToNames(r.GetTasks()))
	if err != nil {
		return nil, s.failed(ctx, stintv1connect.ClusterServiceGetShardTasksProcedure, err)
	}
	if err := fits(found); err != nil {
		return nil, err
	}
	return &stintv1.GetShardTasksResponse{Tasks: wire.FromInfos(found, r.GetText())}, nil
}

// getTasks takes room for the answer ahead of reading it: at once for tasks of other shards, of
// which it cannot be known how large they are.
func (s *clusterService) getTasks(ctx context.Context, ids []shards.ID) ([]stint.TaskInfo, error) {
	if !slices.ContainsFunc(ids, func(id shards.ID) bool { return id.Shard != s.shard }) {
		found, err := s.cluster.GetTasksWithin(ctx, ids, smallBytes)
		if !errors.Is(err, stint.ErrTooLarge) {
			return found, err
		}
	}
	if err := callerOf(ctx).room.hold(ctx, answerBytesMax); err != nil {
		return nil, err
	}
	return s.cluster.GetTasksWithin(ctx, ids, answerBytesMax)
}

func errNoCluster() error {
	return connect.NewError(connect.CodeUnimplemented,
		errors.New("the service has no topology; ask one that was started with --topology"))
}

// failed gives the errors of package shards the kinds and codes of those of a store. What prevents
// the service from calling another shard is no matter of its caller: the text of that is logged.
func (s *clusterService) failed(ctx context.Context, procedure string, err error) error {
	var at *shards.ShardError
	var called *connect.Error
	switch {
	case errors.Is(err, shards.ErrUnknownShard):
		return &stint.ArgumentError{
			Argument: "shard", Index: -1, Problem: err.Error(), Err: stint.ErrInvalidArgument,
		}
	case errors.Is(err, shards.ErrTooLate):
		return connect.NewError(connect.CodeAborted, err)
	case errors.Is(err, shards.ErrUndecided):
		s.log(ctx, procedure, err)
		return connect.NewError(connect.CodeUnavailable, shards.ErrUndecided)
	case !errors.As(err, &at) || ctx.Err() != nil:
		return err
	case errors.Is(err, stint.ErrRefused):
		s.log(ctx, procedure, err)
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("shard %s does not let "+
			"this service do that; the service's log says why", at.Shard))
	case errors.As(err, &called):
		s.log(ctx, procedure, err)
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("shard %s does not answer; "+
			"the service's log says why", at.Shard))
	default:
		return err
	}
}

// mayInsertSharded is mayInsert for tasks of several shards. What is stored on other shards is not
// looked up: the principal must be allowed to read all tasks of these IDs.
func (a *asking) mayInsertSharded(r *stintv1.InsertShardTasksRequest) error {
	inserted := make(map[shards.ID]bool, len(r.GetTasks()))
	for _, task := range r.GetTasks() {
		inserted[shards.ID{
			Shard: task.GetShard(), Task: stint.TaskID(task.GetTask().GetId()),
		}] = true
	}
	if !a.principal.Has(access.Insert) {
		return a.mayNot("%s tasks", access.Insert)
	}
	for _, task := range r.GetTasks() {
		of := task.GetTask()
		if !a.mayInsertOne(of) {
			return a.mayNot("%s task %q with action %q", access.Insert, of.GetId(), of.GetAction())
		}
		before := wire.ToNames(task.GetAfter())
		for _, c := range slices.Concat(task.GetWhen(), task.GetWhenAny()) {
			before = append(before, wire.ToName(c.GetAfter()))
		}
		for _, id := range wire.PredecessorsOf(of) {
			before = append(before, shards.ID{Shard: task.GetShard(), Task: stint.TaskID(id)})
		}
		for _, id := range before {
			if !inserted[id] && !a.principal.MayByID(access.ReadBodies, string(id.Task)) {
				return a.mayNot("%s task %q", access.ReadBodies, id)
			}
		}
		for _, id := range of.GetToSignalAfter() {
			dependent := shards.ID{Shard: task.GetShard(), Task: stint.TaskID(id)}
			if !inserted[dependent] && !a.principal.MayByID(access.Control, id) {
				return a.mayNot("%s task %q", access.Control, dependent)
			}
		}
	}
	return nil
}

// mayGetSharded lets a principal read tasks of other shards whose IDs it may read.
func (a *asking) mayGetSharded(r *stintv1.GetShardTasksRequest) error {
	if !a.principal.Has(access.Read) {
		return a.mayNot("%s tasks", access.Read)
	}
	for _, name := range r.GetTasks() {
		if !a.principal.MayByID(access.Read, name.GetId()) {
			return a.mayNot("%s task %q of shard %q", access.Read, name.GetId(), name.GetShard())
		}
	}
	return nil
}
