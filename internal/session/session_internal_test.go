package session

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint/internal/pg"
)

// The pauses are without their jitter here: their length at most.
// Proves G86.
func TestReattachPause_IsShortWithinTheGraceAndGrowsBehindIt(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{
		10 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second,
	} {
		hurry := grace + TakeoverDelay
		within, away, pause := 0, time.Duration(0), reattachPauseFirst
		var behind []time.Duration
		for away < hurry+time.Minute {
			away += pause
			pause = reattachPause(pause, away, hurry)
			switch {
			case away >= hurry:
				behind = append(behind, pause)
			case pause > max(grace/4, reattachPauseFirst):
				t.Errorf("grace %v: a pause of %v when %v have passed", grace, pause, away)
			default:
				within++
			}
		}
		if within < 4 {
			t.Errorf("grace %v: %d attempts until the tasks are handed on", grace, within)
		}
		if n := len(behind); n > 28 || behind[n-1] != pg.OutagePauseMax {
			t.Errorf("grace %v: %d attempts in the minute behind it: %v", grace, n, behind)
		}
	}
	pause, attempts := reattachPauseFirst, 0
	for away := time.Duration(0); away < time.Minute; attempts++ { // no actor is registered
		away += pause
		pause = reattachPause(pause, away, 0)
	}
	if attempts > 28 || pause != pg.OutagePauseMax {
		t.Errorf("without actors %d attempts in a minute, then a pause of %v", attempts, pause)
	}
}

// The topics say who waits: those of which nobody has wanted to hear for long are dropped, others
// stay, and nobody is woken for it.
func TestDropTopics_LeavesWhatSomebodyWaitsFor(t *testing.T) {
	t.Parallel()
	long := now().Add(-2 * dropAfter)
	s := New(Config{Waited: func(topic string) bool { return topic == "ready waited" }})
	s.topics = map[string]time.Time{
		Busy: long, "finished": long, "ready waited": long, "ready left": long, "ready new": now(),
	}
	s.dropTopics()
	if _, left := s.topics["ready left"]; left || len(s.topics) != 4 {
		t.Errorf("topics = %v, want all but the one that was left", s.topics)
	}
	if s.wanted != 1 || !s.fewer {
		t.Errorf("wanted = %d, fewer = %v, want a change to fewer topics", s.wanted, s.fewer)
	}
	s.known = s.wanted
	s.topics["ready left"] = long
	s.dropTopics()
	if s.wanted != 1 {
		t.Error("it looked again at once")
	}
	// A change that comes with it wakes those who wait.
	s.looked, s.running = long, true
	s.wanted++
	s.fewer = false
	s.dropTopics()
	if _, left := s.topics["ready left"]; left || s.fewer {
		t.Errorf("topics = %v, fewer = %v", s.topics, s.fewer)
	}
}
