package limit

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// knownMax bounds how many actions are remembered.
const knownMax = 10_000

// A Kind says which limits an action has besides those of the whole action: whether its keys
// have limits or some are paused, whether their limits include a rate, and which turns they have;
// and whether there is one fetch at a time.
type Kind struct {
	Keyed, Rates, Locks bool
	Turns               Turns
}

// All returns what there is of some kind among actions.
func All(kinds map[string]Kind) (all Kind) {
	for _, kind := range kinds {
		all.Keyed, all.Rates = all.Keyed || kind.Keyed, all.Rates || kind.Rates
		all.Turns |= kind.Turns
	}
	return all
}

// Known are the actions of which a store knows that they have limits, and which. It is
// only a hint: if an action has limits, own_tasks fetches nothing, and own_gated nothing if keys
// have limits; own_limited also fetches what has none. All say which actions have limits.
type Known struct {
	mutex sync.Mutex
	kinds map[string]Kind // under mutex
	// atOnce bounds, for each action with one fetch at a time, those that run or wait for the
	// lock. More would only wait in the database, each with a connection and a snapshot, which
	// keeps rows in the way that others have deleted.
	atOnce map[string]chan struct{} // under mutex
	// places say from where on, and until when, a look for tasks whose keys have room begins.
	places map[string]lookPlace // under mutex
	// crowded says until when fetches of fair actions deal turns without trying to do without.
	crowded map[string]time.Time // under mutex
}

// A lookPlace is a rank in the queue of an action before which no key had room a moment ago.
type lookPlace struct {
	rank  int64
	until time.Time
}

// placesShare is for how many times as long as a look took the next ones begin where it ended.
const placesShare = 4

// Place returns the rank at which to begin to look for tasks of an action whose keys have room, -1
// for the beginning.
func (k *Known) Place(action string) int64 {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if place, ok := k.places[action]; ok && time.Until(place.until) > 0 {
		return place.rank
	}
	return -1
}

// NotePlace takes note that a look from the beginning took so long and found the first task whose
// key has room at a rank.
func (k *Known) NotePlace(action string, rank int64, took time.Duration) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.places == nil || len(k.places) > knownMax {
		k.places = map[string]lookPlace{}
	}
	k.places[action] = lookPlace{rank, now().Add(placesShare * took)}
}

// crowdedFor is for how long tasks of a fair action are taken to wait for their turns, once some
// did.
const crowdedFor = 100 * time.Millisecond

// Crowd takes note of fair actions of which tasks wait for their turns.
func (k *Known) Crowd(actions []string) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.crowded == nil || len(k.crowded) > knownMax {
		k.crowded = map[string]time.Time{}
	}
	for _, action := range actions {
		k.crowded[action] = now().Add(crowdedFor)
	}
}

// IsCrowded reports whether tasks of one of the actions waited for their turns a moment ago.
func (k *Known) IsCrowded(actions []string) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return len(k.crowded) > 0 && slices.ContainsFunc(actions, func(action string) bool {
		return time.Until(k.crowded[action]) > 0
	})
}

// now is for a pause of this process, and no time in the store.
func now() time.Time {
	return time.Now() //nolint:forbidigo // as the comment says
}

// TurnsOf returns what bounds the fetches of an action.
func (k *Known) TurnsOf(action string) chan struct{} {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	turns, ok := k.atOnce[action]
	if !ok {
		if k.atOnce == nil || len(k.atOnce) > knownMax {
			k.atOnce = map[string]chan struct{}{}
		}
		const running, waiting = 1, 1
		turns = make(chan struct{}, running+waiting)
		k.atOnce[action] = turns
	}
	return turns
}

// Of returns those of the actions that are known to have limits.
func (k *Known) Of(actions []string) map[string]Kind {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if len(k.kinds) == 0 {
		return nil
	}
	known := map[string]Kind{}
	for _, action := range actions {
		if kind, ok := k.kinds[action]; ok {
			known[action] = kind
		}
	}
	return known
}

// Any reports whether some action is known to have limits. Then tasks may be returned that were
// fetched before it had.
func (k *Known) Any() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return len(k.kinds) > 0
}

// Unkeyed reports whether limits are known, and none of keys.
func (k *Known) Unkeyed() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	for _, kind := range k.kinds {
		if kind.Keyed {
			return false
		}
	}
	return len(k.kinds) > 0
}

// Learn takes note of those of the actions that have limits.
func (k *Known) Learn(actions []string, limited map[string]Kind) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if len(k.kinds) == 0 && len(limited) == 0 {
		return
	}
	if k.kinds == nil || len(k.kinds) > knownMax {
		k.kinds = map[string]Kind{}
	}
	for _, action := range actions {
		delete(k.kinds, action)
	}
	maps.Copy(k.kinds, limited)
}
