package ask

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stint-tasks/stint"
)

// A Silence is of an action with ready tasks for which nobody has asked lately.
type Silence struct {
	Since time.Time // when somebody last asked, or the first actor that is there registered
	Never bool      // nobody has asked, as far as the store remembers
}

const (
	// silencesMax is how many actions are looked at for silences.
	silencesMax = 5
	// silentLong is how long nobody has asked where something is wrong: stores note every half
	// minute that they ask.
	silentLong = 2 * time.Minute
	// usualTimes is how often in the last day nobody has fetched for as long while tasks were
	// ready, where that is usual: tasks of the action take long.
	usualTimes = 2
)

// Silences are those of the actions whose ready tasks have waited for longest, of these that have
// been ready for so long at least. An action whose actors are busy as often before has none, nor
// has one that nobody is registered for and of which no task is in progress.
func (a *Store) Silences(
	ctx context.Context, stats stint.Stats, actors []stint.ActorInfo, least time.Duration,
) map[string]Silence {
	if a.ShardCounts != nil || stats.Copy != "" { // a copy refuses who asks
		return nil
	}
	registered := map[string]time.Time{}
	for i := range actors {
		for _, action := range actors[i].Actions {
			if first, ok := registered[action]; !ok || actors[i].Since.Before(first) {
				registered[action] = actors[i].Since
			}
		}
	}
	waiting := slices.DeleteFunc(slices.Clone(stats.Actions), func(s stint.ActionStats) bool {
		return s.Paused || s.Ready <= s.Parked || s.OldestReady <= least ||
			s.InProgress == 0 && registered[s.Action].IsZero() ||
			s.Action == stint.External || s.Action == stint.Spontaneous
	})
	slices.SortStableFunc(waiting, func(a, b stint.ActionStats) int {
		return cmp.Compare(b.OldestReady, a.OldestReady)
	})
	all := map[string]Silence{}
	for i := range waiting[:min(len(waiting), silencesMax)] {
		of := &waiting[i]
		asked, err := a.asked.Get(ctx, of.Action, a.lastAsked(of.Action))
		if err != nil || asked.now.IsZero() { // the rest of the page is worth showing
			continue
		}
		s := Silence{Since: asked.at, Never: asked.at.IsZero()}
		if since := registered[of.Action]; since.After(s.Since) {
			s.Since = since
		}
		long := asked.now.Sub(s.Since)
		if s.Since.IsZero() || long <= silentLong ||
			a.isUsual(ctx, of.Action, long) {
			continue
		}
		all[of.Action] = s
	}
	return all
}

// An asking is when somebody last asked for the tasks of an action, and what time it was then; zero
// if none is ready any more.
type asking struct{ at, now time.Time }

// lastAsked asks when somebody last asked for an action.
func (a *Store) lastAsked(action string) func(ctx context.Context) (asking, error) {
	return func(ctx context.Context) (asked asking, err error) {
		page, err := a.ListTasks(ctx, stint.Filter{
			Actions: []string{action}, States: []stint.State{stint.StateReady}, Limit: 1,
		})
		if err != nil || len(page.Tasks) == 0 {
			return asked, err
		}
		found, err := a.Explain(ctx, page.Tasks[0].ID)
		return asking{found.AskedAt, found.Now}, err
	}
}

// isUsual reports whether, several times in the last day, nobody has fetched tasks of an action for
// about so long while some were ready, before the last minute.
func (a *Store) isUsual(ctx context.Context, action string, long time.Duration) bool {
	var length time.Duration
	times := 0
	for _, m := range a.minutes(ctx, action) {
		if m.Tries == 0 && m.Ready > 0 {
			length += m.Until.Sub(m.Since)
			continue
		}
		// A silence begins and ends within minutes in which somebody fetches.
		if length > 0 && length >= long-2*time.Minute {
			times++
		}
		length = 0
	}
	return times >= usualTimes
}
