package stint

import "github.com/stint-tasks/stint/internal/pg"

// The kinds of notifications: the first word of each. A notification is only a hint; its receiver
// looks at the tables.
const (
	kindReady    = "ready"    // and an action: a task with it became ready
	kindFinished = "finished" // and keys: tasks that post their results have ended
	kindLost     = "lost"     // and keys: tasks were taken from their owners
)

// readyTopic is the topic of those who wait for tasks with an action, and the payload for them.
func readyTopic(action string) string { return kindReady + " " + action }

// heard wakes those whom a notification concerns.
func (s *Store) heard(kind, rest string) {
	switch kind {
	case kindReady:
		s.awaiting.Ready(rest)
	case kindFinished:
		s.waiting.finished(pg.ParseKeys(rest))
	case kindLost:
		s.owners.lostSome(pg.ParseKeys(rest))
	}
}

// heardAny wakes all who wait: nobody was told of anything that happened before.
func (s *Store) heardAny() {
	s.awaiting.Any()
	s.waiting.finishedAny()
	s.owners.lostAny()
}
