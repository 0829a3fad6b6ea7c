package shards

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/views"
)

// ShardStats is [Cluster.Stats], which here also tells of a shard whose database is that of another
// one.
func (m *Merged) ShardStats(ctx context.Context) ([]ShardStats, error) {
	names := m.cluster.known()
	all, errs := make([]ShardStats, len(names)), make([]error, len(names))
	var asking sync.WaitGroup
	for i, shard := range names {
		asking.Go(func() {
			one := &all[i]
			one.Shard = shard
			one.Err, errs[i] = m.look(ctx, shard,
				func(ctx context.Context, store Store) (err error) {
					one.Stats, err = store.Stats(ctx)
					return err
				})
		})
	}
	asking.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, said("stats", err)
	}
	return all, nil
}

// look is [Cluster.look], and notes a shard that is away.
func (m *Merged) look(
	ctx context.Context, shard string, ask func(ctx context.Context, store Store) error,
) (away, err error) {
	silent, err := m.cluster.look(ctx, shard, ask)
	switch {
	case silent != nil:
		away = silent
	case errors.Is(err, ErrWrongShard):
		away = err
	default:
		return nil, err
	}
	m.note(shard, away)
	return away, nil
}

// Stats is [Cluster.Stats], with the counts of an action on all shards added up. The action is
// limited or paused if it is on one of the shards; Concurrency is the sum of those that limit it.
func (m *Merged) Stats(ctx context.Context) (stint.Stats, error) {
	found, err := m.ShardStats(ctx)
	return views.Sum(found), err
}

// onEach asks all shards that are known at once, and notes those that are away. The answers are in
// the order of the names of the shards, as far as there are any.
func onEach[T any](
	ctx context.Context, m *Merged, ask func(ctx context.Context, store Store) (T, error),
) (names []string, answers []T, err error) {
	known := m.cluster.known()
	all, heard := make([]T, len(known)), make([]bool, len(known))
	errs := make([]error, len(known))
	var asking sync.WaitGroup
	for i, shard := range known {
		asking.Go(func() {
			_, errs[i] = m.look(ctx, shard, func(ctx context.Context, store Store) (err error) {
				all[i], err = ask(ctx, store)
				heard[i] = err == nil
				return err
			})
		})
	}
	asking.Wait()
	for i := range known {
		if heard[i] {
			names, answers = append(names, known[i]), append(answers, all[i])
		}
	}
	return names, answers, errors.Join(errs...)
}

// Problems returns what [stint.Store.Problems] does with the limit on each shard, put together.
func (m *Merged) Problems(ctx context.Context, limit int) (stint.Problems, error) {
	names, found, err := onEach(ctx, m,
		func(ctx context.Context, store Store) (stint.Problems, error) {
			return store.Problems(ctx, limit)
		})
	if err != nil {
		return stint.Problems{}, said("problems", err)
	}
	var all stint.Problems
	for i, shard := range names {
		for _, kind := range []struct {
			to   *[]stint.TaskInfo
			from []stint.TaskInfo
		}{
			{&all.Slow, found[i].Slow},
			{&all.Failing, found[i].Failing},
			{&all.Failed, found[i].Failed},
			{&all.Unwatched, found[i].Unwatched},
		} {
			for _, info := range kind.from {
				*kind.to = append(*kind.to, whole(shard, info))
			}
		}
		all.ErrorsCut = all.ErrorsCut || found[i].ErrorsCut
		for _, e := range found[i].Errors {
			e.Example = stint.TaskID(ID{shard, e.Example}.String())
			all.Errors = append(all.Errors, e)
		}
	}
	all.Errors = mergeErrors(all.Errors)
	slices.SortStableFunc(all.Slow, func(a, b stint.TaskInfo) int {
		return a.OwnedAt.Compare(b.OwnedAt)
	})
	slices.SortStableFunc(all.Failing, func(a, b stint.TaskInfo) int {
		return cmp.Compare(b.Tries, a.Tries)
	})
	slices.SortStableFunc(all.Failed, func(a, b stint.TaskInfo) int {
		return b.FinishedAt.Compare(a.FinishedAt)
	})
	slices.SortStableFunc(all.Unwatched, func(a, b stint.TaskInfo) int {
		switch {
		case a.LeaseUntil.Equal(b.LeaseUntil):
			return 0
		case a.LeaseUntil.IsZero():
			return -1
		case b.LeaseUntil.IsZero():
			return 1
		}
		return b.LeaseUntil.Compare(a.LeaseUntil)
	})
	slices.SortStableFunc(all.Errors, func(a, b stint.ErrorGroup) int {
		return cmp.Compare(b.Tasks, a.Tasks)
	})
	return all, nil
}

// mergeErrors returns groups of errors of several shards, each once.
func mergeErrors(of []stint.ErrorGroup) (all []stint.ErrorGroup) {
	at := map[[2]string]int{} // by action and shape
	for _, e := range of {
		shape := [2]string{e.Action, views.Shape(e.Error)}
		if i, known := at[shape]; known {
			all[i].Tasks += e.Tasks
			continue
		}
		at[shape] = len(all)
		all = append(all, e)
	}
	return all
}

// ListActors lists the actors of all shards: one that is on several of them as often.
func (m *Merged) ListActors(ctx context.Context) ([]stint.ActorInfo, error) {
	_, found, err := onEach(ctx, m,
		func(ctx context.Context, store Store) ([]stint.ActorInfo, error) {
			return store.ListActors(ctx)
		})
	all := slices.Concat(found...)
	slices.SortStableFunc(all, func(a, b stint.ActorInfo) int {
		return cmp.Compare(a.Actor, b.Actor)
	})
	return all, said("list actors", err)
}
