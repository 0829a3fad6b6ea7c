package shards

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/verbs"
)

// StateUnknown is the state of a task whose shard is away, in answers of [Merged].
const StateUnknown stint.State = "unknown"

// stateGone is the state of a task that is not on its shard any more.
const stateGone stint.State = "not there"

// A Merged cluster has verbs of a store for the tasks of all shards: their IDs are those of
// [ID.String], such as "eu/mail", and everything else is as on their shards. So the web interface
// and others that know nothing of shards can show a cluster, and change its tasks. It is safe for
// concurrent use.
//
// A shard that is away is no error, where an answer can do without it: [Merged.Away] tells.
type Merged struct {
	cluster *Cluster

	mutex sync.Mutex
	away  map[string]awayShard
}

// An awayShard is one that did not say what it has.
type awayShard struct {
	err *ShardError
	at  time.Time
}

var _ interface {
	verbs.Reader
	verbs.Waiter
	verbs.Follower
	verbs.Changer
	verbs.Auditor
} = (*Merged)(nil)

// Merged returns the verbs of a store for the tasks of all shards.
func (c *Cluster) Merged() *Merged {
	return &Merged{cluster: c, away: map[string]awayShard{}}
}

// Cluster returns the cluster whose shards these are.
func (m *Merged) Cluster() *Cluster { return m.cluster }

// Away returns the shards that answers since a time of this process's clock lack, by their names,
// with the latest reason for each.
func (m *Merged) Away(since time.Time) []*ShardError {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	var all []*ShardError
	for _, shard := range slices.Sorted(maps.Keys(m.away)) {
		if one := m.away[shard]; !one.at.Before(since) {
			all = append(all, one.err)
		}
	}
	return all
}

// Missing returns the names of these shards.
func (m *Merged) Missing(since time.Time) (names []string) {
	for _, away := range m.Away(since) {
		names = append(names, away.Shard)
	}
	return names
}

// note notes that a shard is away.
func (m *Merged) note(shard string, err error) {
	var at *ShardError
	if !errors.As(err, &at) || at.Shard != shard && shard != "" {
		at = &ShardError{shard, err}
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.away[at.Shard] = awayShard{at, time.Now()} //nolint:forbidigo // it is about this process
}

func (m *Merged) noteAll(away []*ShardError) {
	for _, one := range away {
		m.note(one.Shard, one)
	}
}

// parseIDs undoes [ID.String] for many.
func parseIDs(names []stint.TaskID) ([]ID, error) {
	ids := make([]ID, len(names))
	for i, name := range names {
		var err error
		if ids[i], err = ParseID(string(name)); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// whole is what is known of a task, under its name in the cluster.
func whole(shard string, info stint.TaskInfo) stint.TaskInfo {
	info.ID = stint.TaskID(ID{shard, info.ID}.String())
	return info
}

// ListTasks is [Cluster.ListTasks].
func (m *Merged) ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error) {
	found, err := m.cluster.ListTasks(ctx, filter)
	m.noteAll(found.Away)
	page := stint.TaskPage{Next: found.Next, Looked: found.Looked}
	for _, task := range found.Tasks {
		page.Tasks = append(page.Tasks, whole(task.Shard, task.TaskInfo))
	}
	return page, err
}

// GetTasks is [Cluster.GetTasks], but returns all tasks or none.
func (m *Merged) GetTasks(
	ctx context.Context, names []stint.TaskID,
) ([]stint.TaskInfo, error) {
	infos, err := infosOf(ctx, names, m.cluster.GetTasks)
	if err != nil {
		return nil, err
	}
	return infos, nil
}

// WaitForTask is [Cluster.WaitForTask].
func (m *Merged) WaitForTask(
	ctx context.Context, name stint.TaskID,
) (stint.TaskInfo, error) {
	id, err := ParseID(string(name))
	if err != nil {
		return stint.TaskInfo{}, err
	}
	info, err := m.cluster.WaitForTask(ctx, id)
	info.ID = name
	return info, err
}

// WaitForTasks is [Cluster.WaitForTasks].
func (m *Merged) WaitForTasks(
	ctx context.Context, names []stint.TaskID,
) ([]stint.TaskInfo, error) {
	return infosOf(ctx, names, m.cluster.WaitForTasks)
}

// Ends is [Cluster.Ends].
func (m *Merged) Ends(
	ctx context.Context, actions []string, from stint.Cursor, wait time.Duration,
) (stint.EndPage, error) {
	found, err := m.cluster.Ends(ctx, actions, from, wait)
	m.noteAll(found.Away)
	page := stint.EndPage{Next: found.Next, Until: found.Until}
	for _, task := range found.Tasks {
		page.Tasks = append(page.Tasks, whole(task.Shard, task.TaskInfo))
	}
	for _, id := range found.Large {
		page.Large = append(page.Large, stint.TaskID(id.String()))
	}
	return page, err
}

// infosOf are what a verb of the cluster tells of tasks, under their names in it.
func infosOf(
	ctx context.Context, names []stint.TaskID,
	verb func(ctx context.Context, ids []ID) ([]stint.TaskInfo, error),
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

// Graph is [Cluster.Graph]. The state of a task whose shard is away is [StateUnknown].
func (m *Merged) Graph(ctx context.Context, name stint.TaskID) (*stint.Graph, error) {
	id, err := ParseID(string(name))
	if err != nil {
		return nil, err
	}
	found, err := m.cluster.Graph(ctx, id)
	if err != nil {
		return nil, err
	}
	m.noteAll(found.Away)
	graph := &stint.Graph{Cut: found.Cut}
	for _, task := range found.Tasks {
		task.State = cmp.Or(task.State, StateUnknown)
		graph.Tasks = append(graph.Tasks, whole(task.Shard, task.TaskInfo))
	}
	for _, d := range found.Dependencies {
		graph.Dependencies = append(graph.Dependencies, stint.Dependency{
			Predecessor: stint.TaskID(d.Predecessor.String()),
			Dependent:   stint.TaskID(d.Dependent.String()),
		})
	}
	for _, c := range found.Conditions {
		graph.Conditions = append(graph.Conditions, stint.EdgeCondition{
			Dependent: stint.TaskID(c.Dependent.String()), Any: c.Any,
			Condition: stint.Condition{
				After: stint.TaskID(c.After.String()), States: c.States,
				Results: c.Results,
			},
		})
	}
	return graph, nil
}

// History is [Cluster.History].
func (m *Merged) History(ctx context.Context, name stint.TaskID) (stint.History, error) {
	id, err := ParseID(string(name))
	if err != nil {
		return stint.History{}, err
	}
	return m.cluster.History(ctx, id)
}

// ListChanges is [Cluster.ListChanges] of the task that the filter names. It has to name one: the
// changes of all tasks are listed of each shard.
func (m *Merged) ListChanges(
	ctx context.Context, filter stint.ChangeFilter,
) (stint.ChangePage, error) {
	id, err := ParseID(string(filter.ID))
	if err != nil {
		return stint.ChangePage{}, err
	}
	page, err := m.cluster.ListChanges(ctx, id, filter)
	for i := range page.Changes {
		if one := &page.Changes[i]; strings.HasSuffix(one.Verb, "Tasks") {
			for k, name := range one.Names {
				one.Names[k] = ID{id.Shard, stint.TaskID(name)}.String()
			}
		}
	}
	return page, err
}

// Explain is [Cluster.Explain], with the tasks of other shards in the place of those that stand for
// them.
func (m *Merged) Explain(
	ctx context.Context, name stint.TaskID,
) (stint.Explanation, error) {
	id, err := ParseID(string(name))
	if err != nil {
		return stint.Explanation{}, err
	}
	found, err := m.cluster.Explain(ctx, id)
	why, remote := found.Explanation, found.Remote
	why.Task.ID = name
	for i, before := range why.WaitsFor {
		if len(remote) > 0 && isRemote(before, remote[0].ID.String()) {
			why.WaitsFor[i] = m.remote(remote[0])
			remote = remote[1:]
			continue
		}
		why.WaitsFor[i] = whole(id.Shard, before)
	}
	for i, before := range why.BecauseOf {
		if !isRemote(before, string(before.ID)) {
			why.BecauseOf[i] = whole(id.Shard, before)
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
func (m *Merged) remote(task RemoteTask) stint.TaskInfo {
	info := task.Info
	info.ID = task.ID.Task
	switch {
	case errors.Is(task.Err, stint.ErrTaskNotFound):
		info.State = stateGone
	case task.Err != nil:
		info.State = StateUnknown
		m.note(task.ID.Shard, task.Err)
	}
	return whole(task.ID.Shard, info)
}

// ShardStore is [Cluster.Store], for those that know by themselves which verbs they need.
func (m *Merged) ShardStore(ctx context.Context, shard string) (any, error) {
	return m.cluster.Store(ctx, shard)
}

// Check is [Cluster.Check].
func (m *Merged) Check(ctx context.Context) ([]stint.Inconsistency, error) {
	found, err := m.cluster.Check(ctx)
	all := make([]stint.Inconsistency, len(found))
	for i, one := range found {
		all[i] = one.Inconsistency
		all[i].ID = stint.TaskID(ID{one.Shard, one.ID}.String())
	}
	return all, err
}

// Close closes the cluster.
func (m *Merged) Close(ctx context.Context) error { return m.cluster.Close(ctx) }
