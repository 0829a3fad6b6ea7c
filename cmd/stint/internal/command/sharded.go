package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/shards"
)

// sharded has the verbs of a store for the tasks of a cluster, which are named shard/task. It notes
// the shards that do not answer.
type sharded struct {
	cluster *shards.Cluster

	mutex sync.Mutex
	away  map[string]error
}

// stateUnknown is the state of a task whose shard is away.
const stateUnknown stint.State = "unknown"

// note notes that a shard is away.
func (s *sharded) note(shard string, err error) {
	var at *shards.ShardError
	if errors.As(err, &at) {
		shard, err = at.Shard, at.Err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.away[shard] = inFewerWords(err)
}

func (s *sharded) noteAll(away []*shards.ShardError) {
	for _, one := range away {
		s.note(one.Shard, one)
	}
}

// lacks reports whether a shard was noted, so that what was found is not all there is.
func (s *sharded) lacks() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.away) > 0
}

// takeAway returns an error for each of the shards noted, and forgets them.
func (s *sharded) takeAway() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var errs []error
	for _, shard := range slices.Sorted(maps.Keys(s.away)) {
		err := fmt.Errorf("shard %s is away, and what it has is missing: %w", shard, s.away[shard])
		if exitCode(err) == exitFailed {
			err = said(errUnreachable, "%v", err)
		}
		errs = append(errs, err)
	}
	clear(s.away)
	return errors.Join(errs...)
}

// takeNames returns the names of the shards noted, and forgets them.
func (s *sharded) takeNames() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	names := slices.Sorted(maps.Keys(s.away))
	clear(s.away)
	return names
}

// all returns the names of all shards.
func (s *sharded) all() ([]string, error) {
	names := s.cluster.Topology().Names()
	if len(names) == 0 {
		return nil, said(errInput, "the topology is a pattern, which does not name all shards: "+
			"give a static one, or the IDs of tasks; ls also takes --prefix SHARD/")
	}
	return names, nil
}

func parseIDs(texts []stint.TaskID) ([]shards.ID, error) {
	ids := make([]shards.ID, len(texts))
	for i, text := range texts {
		var err error
		if ids[i], err = parseID(text); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

func parseID(text stint.TaskID) (shards.ID, error) {
	id, err := shards.ParseID(string(text))
	if err != nil {
		err = said(errInput, "invalid task ID %.80q: across shards, it must be SHARD/ID", text)
	}
	return id, err
}

// named is a task with the name that it has here.
func named(shard string, info stint.TaskInfo) stint.TaskInfo {
	info.ID = stint.TaskID(shards.ID{Shard: shard, Task: info.ID}.String())
	return info
}

// ListTasks is that of the cluster.
func (s *sharded) ListTasks(
	ctx context.Context, filter stint.Filter,
) (stint.TaskPage, error) {
	if !strings.Contains(filter.IDPrefix, "/") {
		if _, err := s.all(); err != nil {
			return stint.TaskPage{}, err
		}
	}
	found, err := s.cluster.ListTasks(ctx, filter)
	s.noteAll(found.Away)
	page := stint.TaskPage{Next: found.Next, Looked: found.Looked}
	for _, task := range found.Tasks {
		page.Tasks = append(page.Tasks, named(task.Shard, task.TaskInfo))
	}
	return page, err
}

// GetTasks is that of the cluster, but returns all tasks or none.
func (s *sharded) GetTasks(
	ctx context.Context, names []stint.TaskID,
) ([]stint.TaskInfo, error) {
	infos, err := infosOf(ctx, names, s.cluster.GetTasks)
	if err != nil {
		return nil, err
	}
	return infos, nil
}

// WaitForTask is that of the cluster.
func (s *sharded) WaitForTask(
	ctx context.Context, name stint.TaskID,
) (stint.TaskInfo, error) {
	id, err := parseID(name)
	if err != nil {
		return stint.TaskInfo{}, err
	}
	info, err := s.cluster.WaitForTask(ctx, id)
	info.ID = name
	return info, err
}

// WaitForTasks is that of the cluster.
func (s *sharded) WaitForTasks(
	ctx context.Context, names []stint.TaskID,
) ([]stint.TaskInfo, error) {
	return infosOf(ctx, names, s.cluster.WaitForTasks)
}

// infosOf are what a verb of the cluster tells of tasks, with the names that they have here.
func infosOf(
	ctx context.Context, names []stint.TaskID,
	verb func(ctx context.Context, ids []shards.ID) ([]stint.TaskInfo, error),
) ([]stint.TaskInfo, error) {
	ids, err := parseIDs(names)
	if err != nil {
		return nil, err
	}
	infos, err := verb(ctx, ids)
	for i := range infos {
		infos[i].ID = names[i]
	}
	return infos, err
}

// Graph is that of the cluster. The state of a task whose shard is away is stateUnknown.
func (s *sharded) Graph(ctx context.Context, name stint.TaskID) (*stint.Graph, error) {
	id, err := parseID(name)
	if err != nil {
		return nil, err
	}
	found, err := s.cluster.Graph(ctx, id)
	if err != nil {
		return nil, err
	}
	s.noteAll(found.Away)
	graph := &stint.Graph{Cut: found.Cut}
	for _, task := range found.Tasks {
		task.State = cmp.Or(task.State, stateUnknown)
		graph.Tasks = append(graph.Tasks, named(task.Shard, task.TaskInfo))
	}
	for _, d := range found.Dependencies {
		graph.Dependencies = append(graph.Dependencies, stint.Dependency{
			Predecessor: stint.TaskID(d.Predecessor.String()),
			Dependent:   stint.TaskID(d.Dependent.String()),
		})
	}
	return graph, nil
}

// History is that of the cluster.
func (s *sharded) History(ctx context.Context, name stint.TaskID) (stint.History, error) {
	id, err := parseID(name)
	if err != nil {
		return stint.History{}, err
	}
	return s.cluster.History(ctx, id)
}

// Explain is that of the cluster, with the tasks of other shards in the place of those that stand
// for them.
func (s *sharded) Explain(
	ctx context.Context, name stint.TaskID,
) (stint.Explanation, error) {
	id, err := parseID(name)
	if err != nil {
		return stint.Explanation{}, err
	}
	found, err := s.cluster.Explain(ctx, id)
	why, remote := found.Explanation, found.Remote
	why.Task.ID = name
	for i, before := range why.WaitsFor {
		if len(remote) > 0 && isRemote(before, remote[0].ID.String()) {
			why.WaitsFor[i] = s.remote(remote[0])
			remote = remote[1:]
			continue
		}
		why.WaitsFor[i] = named(id.Shard, before)
	}
	for i, before := range why.BecauseOf {
		if !isRemote(before, string(before.ID)) {
			why.BecauseOf[i] = named(id.Shard, before)
		}
	}
	return why, err
}

// isRemote reports whether a task that another one waits for stands for one of another shard, of
// this name.
func isRemote(before stint.TaskInfo, name string) bool {
	return before.Action == stint.External && string(before.ID) == name &&
		strings.Contains(name, "/")
}

// remote returns what is known of a task of another shard.
func (s *sharded) remote(task shards.RemoteTask) stint.TaskInfo {
	info := task.Info
	info.ID = task.ID.Task
	switch {
	case errors.Is(task.Err, stint.ErrTaskNotFound):
		info.State = "not there"
	case task.Err != nil:
		info.State = stateUnknown
		s.note(task.ID.Shard, task.Err)
	}
	return named(task.ID.Shard, info)
}

// AbortTasks is that of the cluster.
func (s *sharded) AbortTasks(
	ctx context.Context, names []stint.TaskID, status string,
) (stint.Affected, error) {
	abort := func(ctx context.Context, ids []shards.ID) (shards.Affected, error) {
		return s.cluster.AbortTasks(ctx, ids, status)
	}
	return changeNames(ctx, names, abort)
}

// RetryTasks is that of the cluster.
func (s *sharded) RetryTasks(
	ctx context.Context, names []stint.TaskID,
) (stint.Affected, error) {
	return changeNames(ctx, names, s.cluster.RetryTasks)
}

// DeleteTasks is that of the cluster.
func (s *sharded) DeleteTasks(
	ctx context.Context, names []stint.TaskID,
) (stint.Affected, error) {
	return changeNames(ctx, names, s.cluster.DeleteTasks)
}

// ChangeTasks is that of the cluster.
func (s *sharded) ChangeTasks(
	ctx context.Context, names []stint.TaskID, to stint.Changes,
) (stint.Affected, error) {
	change := func(ctx context.Context, ids []shards.ID) (shards.Affected, error) {
		return s.cluster.ChangeTasks(ctx, ids, to)
	}
	return changeNames(ctx, names, change)
}

func changeNames(
	ctx context.Context, names []stint.TaskID,
	verb func(ctx context.Context, ids []shards.ID) (shards.Affected, error),
) (stint.Affected, error) {
	ids, err := parseIDs(names)
	if err != nil {
		return stint.Affected{}, err
	}
	changed, err := verb(ctx, ids)
	affected := stint.Affected{Others: changed.Others}
	for _, id := range changed.Tasks {
		affected.Tasks = append(affected.Tasks, stint.TaskID(id.String()))
	}
	slices.Sort(affected.Tasks)
	return affected, err
}

// statsOfAll are the stats of each shard that is not away.
func (s *sharded) statsOfAll(ctx context.Context) ([]shards.ShardStats, error) {
	if _, err := s.all(); err != nil {
		return nil, err
	}
	found, err := s.cluster.Stats(ctx)
	return slices.DeleteFunc(found, func(one shards.ShardStats) bool {
		if one.Err != nil {
			s.note(one.Shard, one.Err)
		}
		return one.Err != nil
	}), err
}

// Stats counts the tasks of each shard for themselves: an action is named shard/action.
func (s *sharded) Stats(ctx context.Context) (stint.Stats, error) {
	found, err := s.statsOfAll(ctx)
	var all stint.Stats
	for _, one := range found {
		for _, a := range one.Actions {
			a.Action = one.Shard + "/" + a.Action
			all.Actions = append(all.Actions, a)
		}
		for _, state := range one.Estimated {
			if !slices.Contains(all.Estimated, state) {
				all.Estimated = append(all.Estimated, state)
			}
		}
		all.PruningBehind = max(all.PruningBehind, one.PruningBehind)
	}
	return all, err
}

// Problems returns up to limit tasks of each kind and shard.
func (s *sharded) Problems(ctx context.Context, limit int) (stint.Problems, error) {
	var all stint.Problems
	err := s.each(ctx, func(ctx context.Context, shard string, store taskVerbs) error {
		found, err := store.Problems(ctx, limit)
		for _, kind := range []struct {
			to   *[]stint.TaskInfo
			from []stint.TaskInfo
		}{
			{&all.Slow, found.Slow}, {&all.Failing, found.Failing}, {&all.Failed, found.Failed},
		} {
			for _, info := range kind.from {
				*kind.to = append(*kind.to, named(shard, info))
			}
		}
		for _, e := range found.Errors {
			e.Example = stint.TaskID(shard) + "/" + e.Example
			all.Errors = append(all.Errors, e)
		}
		return err
	})
	return all, err
}

// ListActors names an actor shard/actor.
func (s *sharded) ListActors(ctx context.Context) ([]stint.ActorInfo, error) {
	var all []stint.ActorInfo
	err := s.each(ctx, func(ctx context.Context, shard string, store taskVerbs) error {
		found, err := store.ListActors(ctx)
		for _, actor := range found {
			actor.Actor = stint.ActorID(shard) + "/" + actor.Actor
			all = append(all, actor)
		}
		return err
	})
	return all, err
}

// each asks all shards, one after the other, and notes those that are away.
func (s *sharded) each(
	ctx context.Context, ask func(ctx context.Context, shard string, store taskVerbs) error,
) error {
	const longest = 10 * time.Second
	names, err := s.all()
	if err != nil {
		return err
	}
	for _, shard := range names {
		brief, cancel := context.WithTimeout(ctx, longest)
		store, err := s.cluster.Store(brief, shard)
		if asked, ok := store.(taskVerbs); ok {
			err = ask(brief, shard, asked)
		}
		if err != nil && brief.Err() != nil {
			err = fmt.Errorf("%w within %v", shards.ErrNoAnswer, longest)
		}
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			s.note(shard, err)
		}
	}
	return nil
}

// check is [shards.Cluster.Check].
func (s *sharded) check(ctx context.Context) ([]doctor.Finding, error) {
	if _, err := s.all(); err != nil {
		return nil, err
	}
	found, err := s.cluster.Check(ctx)
	err = s.noteSilent(err)
	var findings []doctor.Finding
	for _, one := range found {
		findings = append(findings, doctor.Finding{
			Severity: doctor.SeverityError, Topic: "shards", Text: one.String(),
			ID: stint.TaskID(shards.ID{Shard: one.Shard, Task: one.ID}.String()),
		})
	}
	return findings, err
}

// noteSilent notes the shards that did not answer, and returns the other errors.
func (s *sharded) noteSilent(err error) error {
	all := []error{err}
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		all = many.Unwrap()
	}
	return errors.Join(slices.DeleteFunc(slices.Clone(all), func(one error) bool {
		var at *shards.ShardError
		away := errors.As(one, &at) && exitCode(at) == exitUnreachable
		if away {
			s.note(at.Shard, at)
		}
		return away
	})...)
}

// Close closes the cluster.
func (s *sharded) Close(ctx context.Context) error { return s.cluster.Close(ctx) }
