package stint

import (
	"slices"
	"sync"
	"time"
)

// askedEvery is how often a store notes that it asks for an action.
const askedEvery = 30 * time.Second

// asked is when a store last noted what actions it asks for.
type asked struct {
	mutex sync.Mutex
	at    map[string]time.Time
}

// unheard are those of the actions whose asking is to be noted now, sorted. In the caller's
// transaction there are none: others would have to wait for its end.
func (s *Store) unheard(actions []string) []string {
	if s.tx != nil {
		return nil
	}
	s.asked.mutex.Lock()
	defer s.asked.mutex.Unlock()
	now := time.Now() //nolint:forbidigo // a pause of this process, no time in the store
	var unheard []string
	for _, action := range actions {
		if at, ok := s.asked.at[action]; !ok || now.Sub(at) > askedEvery {
			unheard = append(unheard, action)
		}
	}
	if len(unheard) == 0 {
		return nil
	}
	if s.asked.at == nil || len(s.asked.at) > actionsMax { // actions may be made up as they come
		s.asked.at = map[string]time.Time{}
	}
	for _, action := range unheard {
		s.asked.at[action] = now
	}
	slices.Sort(unheard)
	return slices.Compact(unheard)
}
