package names

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// A Store is asked which names are known: a store, a client of a service, or whoever asks several.
type Store interface {
	Stats(ctx context.Context) (stint.Stats, error)
	ListTasks(ctx context.Context, filter stint.Filter) (stint.TaskPage, error)
	ListActors(ctx context.Context) ([]stint.ActorInfo, error)
	ListLimits(ctx context.Context, actions ...string) ([]stint.ActionLimits, error)
	ListSchedules(ctx context.Context, names ...string) ([]stint.ScheduleInfo, error)
}

// An Unknown is a name that nothing was found with.
type Unknown struct {
	Name string
	Of   string // the action of a key; empty if the name is one of an action
	Near string // a known name that may have been meant; empty if none is near

	// Looked is how many tasks were looked at, if there may be more; otherwise 0.
	Looked int
}

// String says that nothing was found with the name, and which one may have been meant. What of the
// store somebody may see is said by the caller, if that is not everything.
func (u Unknown) String() string { return u.In("") }

// In is String for somebody who sees a part of the store only, such as " that you may see".
func (u Unknown) In(part string) string {
	text := fmt.Sprintf("no task, actor, schedule, limit or pause%s was found with the action %q",
		part, u.Name)
	if u.Of != "" {
		text = fmt.Sprintf("no task, schedule, pause or weight%s was found with the key %q of %q",
			part, u.Name, u.Of)
	}
	if u.Looked > 0 {
		text += " (" + display.Count(int64(u.Looked), "task") + " were looked at)"
	}
	return text + Meant(u.Near)
}

// Meant asks whether a name was meant; empty if there is none.
func Meant(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + strconv.Quote(name) + "?"
}

// askedMax is how many unknown names of a call are looked for among the tasks themselves.
const askedMax = 10

// UnknownActions returns those of some actions that nothing was found with: no task has or had them
// lately, no schedule inserts them, no actor is registered for them, and they have no limits and no
// pauses. With nearOnly it returns only those that are near another action. [stint.Spontaneous]
// and [stint.External] are known.
//
// If the counts of a store know all of them, nothing else is asked for. An error is that of the
// store; whoever may read nothing is refused.
func UnknownActions(
	ctx context.Context, store Store, nearOnly bool, actions ...string,
) ([]Unknown, error) {
	stats, err := store.Stats(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{stint.Spontaneous: true, stint.External: true}
	for i := range stats.Actions {
		known[stats.Actions[i].Action] = true
	}
	actions = slices.Compact(slices.Sorted(slices.Values(actions)))
	unknown := func(action string) bool {
		return !known[action]
	}
	if !slices.ContainsFunc(actions, unknown) {
		return nil, nil
	}
	if err := addActions(ctx, store, known); err != nil {
		return nil, err
	}
	candidates := slices.Sorted(maps.Keys(known))
	var found []Unknown
	for _, action := range slices.DeleteFunc(actions, func(a string) bool { return !unknown(a) }) {
		if u := (Unknown{Name: action, Near: Near(action, candidates)}); !nearOnly || u.Near != "" {
			found = append(found, u)
		}
	}
	if len(stats.Estimated) == 0 { // every task was counted
		return found, nil
	}
	return amongTasks(ctx, store, found, func(u *Unknown) stint.Filter {
		return stint.Filter{Actions: []string{u.Name}, Limit: 1}
	})
}

// addActions adds the actions of limits, schedules and actors.
func addActions(ctx context.Context, store Store, known map[string]bool) error {
	limits, err := store.ListLimits(ctx)
	if err != nil {
		return err
	}
	for i := range limits {
		known[limits[i].Action] = true
	}
	schedules, err := store.ListSchedules(ctx)
	if err != nil {
		return err
	}
	for i := range schedules {
		for k := range schedules[i].Tasks {
			known[schedules[i].Tasks[k].Action] = true
		}
	}
	actors, err := store.ListActors(ctx)
	if err != nil {
		return err
	}
	for i := range actors {
		for _, action := range actors[i].Actions {
			known[action] = true
		}
	}
	return nil
}

// UnknownKeys returns those of some keys of an action that nothing was found with: no task has
// them, no schedule inserts one, and they are not paused and have no weight. It looks at a page of
// tasks, and asks for the others only if a key is not among them. An error is that of the store.
func UnknownKeys(
	ctx context.Context, store Store, action string, keys ...string,
) ([]Unknown, error) {
	const pageTasks = 1000
	page, err := store.ListTasks(ctx, stint.Filter{Actions: []string{action}, Limit: pageTasks})
	if err != nil && !errors.Is(err, stint.ErrRefused) { // then there are none that he may see
		return nil, err
	}
	known := map[string]bool{}
	for i := range page.Tasks {
		known[page.Tasks[i].Key] = true
	}
	unknown := func(key string) bool { return !known[key] }
	if !slices.ContainsFunc(keys, unknown) {
		return nil, nil
	}
	limits, err := store.ListLimits(ctx, action)
	if err != nil {
		return nil, err
	}
	for i := range limits {
		if limits[i].KeysOrMore { // those that are not listed may be paused
			return nil, nil
		}
		for key := range limits[i].PausedKeys {
			known[key] = true
		}
		for key := range limits[i].Weights {
			known[key] = true
		}
	}
	schedules, err := store.ListSchedules(ctx)
	if err != nil {
		return nil, err
	}
	for i := range schedules {
		for k := range schedules[i].Tasks {
			if task := &schedules[i].Tasks[k]; task.Action == action {
				known[task.Key] = true
			}
		}
	}
	delete(known, "") // which is none
	candidates := slices.Sorted(maps.Keys(known))
	var found []Unknown
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		if unknown(key) {
			found = append(found, Unknown{Name: key, Of: action, Near: Near(key, candidates)})
		}
	}
	if page.Next == "" {
		return found, nil
	}
	return amongTasks(ctx, store, found, func(u *Unknown) stint.Filter {
		return stint.Filter{Actions: []string{action}, Key: u.Name, Limit: 1}
	})
}

// amongTasks returns those of some names that no task has, as far as a page of a filter tells. Of
// many names it looks for the first ones, and returns no others: nothing is claimed of those.
func amongTasks(
	ctx context.Context, store Store, names []Unknown, filter func(u *Unknown) stint.Filter,
) (found []Unknown, err error) {
	for _, u := range names[:min(len(names), askedMax)] {
		page, err := store.ListTasks(ctx, filter(&u))
		switch {
		case errors.Is(err, stint.ErrRefused): // there is none that he may see
		case err != nil:
			return nil, err
		case len(page.Tasks) > 0:
			continue
		case page.Next != "":
			u.Looked = page.Looked
		}
		found = append(found, u)
	}
	return found, nil
}
