package names

import (
	"context"

	"github.com/stint-tasks/stint"
)

// Several are stores that are asked one after the other: a name is known if one of them knows it.
type Several []Store

// Stats are those of all stores together, with an action as often as stores know it.
func (s Several) Stats(ctx context.Context) (all stint.Stats, err error) {
	for _, store := range s {
		stats, err := store.Stats(ctx)
		if err != nil {
			return all, err
		}
		all.Actions = append(all.Actions, stats.Actions...)
		all.Estimated = append(all.Estimated, stats.Estimated...)
	}
	return all, nil
}

// ListTasks is a page of each store, together. There are more if one of them has more.
func (s Several) ListTasks(
	ctx context.Context, filter stint.Filter,
) (all stint.TaskPage, err error) {
	for _, store := range s {
		page, err := store.ListTasks(ctx, filter)
		if err != nil {
			return all, err
		}
		all.Tasks = append(all.Tasks, page.Tasks...)
		all.Looked += page.Looked
		all.Next = max(all.Next, page.Next)
	}
	return all, nil
}

// ListActors are those of all stores.
func (s Several) ListActors(ctx context.Context) ([]stint.ActorInfo, error) {
	return ofAll(s, func(store Store) ([]stint.ActorInfo, error) { return store.ListActors(ctx) })
}

// ListLimits are those of all stores.
func (s Several) ListLimits(
	ctx context.Context, actions ...string,
) ([]stint.ActionLimits, error) {
	return ofAll(s, func(store Store) ([]stint.ActionLimits, error) {
		return store.ListLimits(ctx, actions...)
	})
}

// ListSchedules are those of all stores.
func (s Several) ListSchedules(
	ctx context.Context, names ...string,
) ([]stint.ScheduleInfo, error) {
	return ofAll(s, func(store Store) ([]stint.ScheduleInfo, error) {
		return store.ListSchedules(ctx, names...)
	})
}

func ofAll[T any](stores Several, ask func(Store) ([]T, error)) (all []T, err error) {
	for _, store := range stores {
		found, err := ask(store)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}
