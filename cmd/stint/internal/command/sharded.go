package command

import (
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
	"github.com/stint-tasks/stint/internal/views"
	"github.com/stint-tasks/stint/shards"
)

// sharded has the verbs of a store for the tasks of a cluster, which are named shard/task. It knows
// the shards that did not answer.
type sharded struct {
	*shards.Merged

	mutex  sync.Mutex
	since  time.Time // those noted earlier were told of
	silent map[string]error
}

func newSharded(cluster *shards.Cluster) *sharded {
	return &sharded{Merged: cluster.Merged(), silent: map[string]error{}}
}

// note notes that a shard is away.
func (s *sharded) note(shard string, err error) {
	var at *shards.ShardError
	if errors.As(err, &at) {
		shard, err = at.Shard, at.Err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.silent[shard] = err
}

// noted are the shards that are away.
func (s *sharded) noted() map[string]error {
	all := maps.Clone(s.silent)
	for _, one := range s.Away(s.since) {
		all[one.Shard] = one.Err
	}
	return all
}

// lacks reports whether a shard was noted, so that what was found is not all there is.
func (s *sharded) lacks() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.noted()) > 0
}

// takeNoted returns the shards noted, and forgets them.
func (s *sharded) takeNoted() map[string]error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	noted := s.noted()
	clear(s.silent)
	s.since = time.Now() //nolint:forbidigo // it is about this process
	return noted
}

// takeAway returns an error for each of the shards noted, and forgets them.
func (s *sharded) takeAway() error {
	noted := s.takeNoted()
	var errs []error
	for _, shard := range slices.Sorted(maps.Keys(noted)) {
		err := fmt.Errorf("shard %s is away, and what it has is missing: %w", shard,
			inFewerWords(noted[shard]))
		if exitCode(err) == exitFailed {
			err = said(errUnreachable, "%v", err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// all returns the names of all shards.
func (s *sharded) all() ([]string, error) {
	names := s.Cluster().Topology().Names()
	if len(names) == 0 {
		return nil, said(errInput, "the topology is a pattern, which does not name all shards: "+
			"give a static one, or the IDs of tasks; ls also takes --prefix SHARD/")
	}
	return names, nil
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
	return s.Merged.ListTasks(ctx, filter)
}

// ListChanges is that of the cluster.
func (s *sharded) ListChanges(
	ctx context.Context, filter stint.ChangeFilter,
) (stint.ChangePage, error) {
	if filter.ID == "" {
		return stint.ChangePage{}, said(errInput, "across shards, name a task; the changes of one "+
			"shard are listed with its --database-url or --server")
	}
	return s.Merged.ListChanges(ctx, filter)
}

// statsOfAll are the stats of each shard that is not away.
func (s *sharded) statsOfAll(ctx context.Context) ([]shards.ShardStats, error) {
	if _, err := s.all(); err != nil {
		return nil, err
	}
	found, err := s.ShardStats(ctx)
	return slices.DeleteFunc(found, func(one shards.ShardStats) bool { return one.Err != nil }), err
}

// Stats counts the tasks of each shard for themselves: an action is named shard/action.
func (s *sharded) Stats(ctx context.Context) (stint.Stats, error) {
	found, err := s.statsOfAll(ctx)
	for _, one := range found {
		for i := range one.Actions {
			one.Actions[i].Action = one.Shard + "/" + one.Actions[i].Action
		}
	}
	return views.Sum(found), err
}

// Problems returns up to limit tasks of each kind and shard.
func (s *sharded) Problems(ctx context.Context, limit int) (stint.Problems, error) {
	if _, err := s.all(); err != nil {
		return stint.Problems{}, err
	}
	return s.Merged.Problems(ctx, limit)
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
		store, err := s.Cluster().Store(brief, shard)
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
	found, err := s.Cluster().Check(ctx)
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

// name names the shards, for people.
func (s *sharded) name() string {
	names := s.Cluster().Topology().Names()
	if len(names) == 0 {
		return "the shards of a pattern"
	}
	return fmt.Sprintf("the shards %s", strings.Join(names, ", "))
}
