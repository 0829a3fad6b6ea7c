package ask

import (
	"context"
	"slices"

	"github.com/stint-tasks/stint"
)

// Names is what knows the names of actions and keys: the store, by the answers that its pages
// share.
type Names struct{ *Store }

// Stats are the counts that pages show.
func (k Names) Stats(ctx context.Context) (stint.Stats, error) { return k.Counts.Get(ctx) }

// ListActors are the actors that pages show.
func (k Names) ListActors(ctx context.Context) ([]stint.ActorInfo, error) {
	return k.Actors.Get(ctx)
}

// ListLimits are the limits that pages show, of these actions or of all; none where there are none.
func (k Names) ListLimits(
	ctx context.Context, actions ...string,
) ([]stint.ActionLimits, error) {
	if k.Limits == nil {
		return nil, nil
	}
	all, err := k.Limits.Get(ctx)
	if len(actions) > 0 {
		all = slices.DeleteFunc(slices.Clone(all), func(l stint.ActionLimits) bool {
			return !slices.Contains(actions, l.Action)
		})
	}
	return all, err
}

// ListSchedules are the schedules that pages show; none where they cannot be read: their page says
// why.
func (k Names) ListSchedules(
	ctx context.Context, _ ...string,
) ([]stint.ScheduleInfo, error) {
	if k.Schedules == nil {
		return nil, nil
	}
	all, err := k.Schedules.Get(ctx)
	if err != nil {
		return nil, nil //nolint:nilerr // as the comment says
	}
	return all, nil
}
