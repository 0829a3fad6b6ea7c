package counts

import "time"

// PaceMinutes is of how many minutes the notes are worth reading for the pace of an action.
const PaceMinutes = 30

const (
	// paceFor and paceTries are for how long, and of how many fetches, a pace is taken: more of
	// what was noted says less about now. In less than paceLeast it is taken for chance.
	paceFor   = 3 * time.Minute
	paceTries = 100
	paceLeast = 30 * time.Second
	// paceMissed is how many fetches must have been missing in a time without any for a pause, or
	// an outage of all workers, rather than chance.
	paceMissed = 10
)

// A Note is how many tasks of an action were ready at an instant, and how many had been fetched by
// then.
type Note struct {
	At           time.Time
	Ready, Tries int64
}

// Pace returns how many tasks of an action were fetched in a second while others waited, as far as
// notes tell, the oldest first; 0 if they do not. Between two notes tasks have waited if some were
// ready at both: where none was, as many were fetched as came, and more might have been. What was
// before a time in which none was fetched, though at the pace behind it many would have been, does
// not count: nobody fetched then.
func Pace(notes []Note) float64 {
	var tries int64
	var took, idle time.Duration // idle is a time without fetches, after which some were fetched
	for i := len(notes) - 1; i > 0 && (took < paceFor || tries < paceTries); i-- {
		from, to := notes[i-1], notes[i]
		if from.Ready == 0 || to.Ready == 0 || to.Tries < from.Tries || !to.At.After(from.At) {
			continue
		}
		if to.Tries == from.Tries && tries > 0 {
			idle += to.At.Sub(from.At)
			if float64(tries)*idle.Seconds() >= paceMissed*took.Seconds() {
				idle = 0
				break
			}
			continue
		}
		tries += to.Tries - from.Tries
		took += to.At.Sub(from.At) + idle
		idle = 0
	}
	took += idle
	if took < paceLeast {
		return 0
	}
	return float64(tries) / took.Seconds()
}

// A Start is what tells when a task that is ready or scheduled will start.
type Start struct {
	// Ahead is how many tasks are ahead of it in the queue of its action, KeyAhead how many parked
	// ones of its key; no more were counted where OrMore.
	Ahead           int64
	AheadOrMore     bool
	KeyAhead        int64
	KeyAheadOrMore  bool
	Parked          bool
	Paused          *bool // of the action, nil: no limits
	KeyPaused       *bool
	ByCost          *bool
	Fair, Ordered   *bool
	PerKey          *bool    // tasks of a key are limited
	Rate, KeyRate   *float64 // tasks a second that the limits let start
	KeyBurst        int64
	Tries           *int64 // fetched so far
	NotedAt         []time.Time
	NotedReady      []int64
	NotedTries      []int64
	Now             time.Time
	NotBefore       time.Time `db:"-"` // of a scheduled task
	NextAt, KeyNext time.Time `db:"-"` // when the next tokens come
}

// IsFirst reports whether the task is parked, and comes to the beginning of the queue.
func (s *Start) IsFirst() bool { return s.Parked && !is(s.Ordered) }

// IsFair reports whether the keys of the task's action take turns.
func (s *Start) IsFair() bool { return is(s.Fair) }

// CountsCosts reports whether rates and turns of the action count what tasks cost.
func (s *Start) CountsCosts() bool { return is(s.ByCost) }

// IsPaused reports whether the task's action, or its key, is paused.
func (s *Start) IsPaused() (action, key bool) { return is(s.Paused), is(s.KeyPaused) }

func is(flag *bool) bool { return flag != nil && *flag }

// Before is how many tasks start first, and whether there may be more.
func (s *Start) Before() (tasks int64, orMore bool) {
	if s.IsFirst() {
		return s.KeyAhead, s.KeyAheadOrMore
	}
	return s.Ahead + s.KeyAhead, s.AheadOrMore || s.KeyAheadOrMore
}

// Estimate returns when the task starts, zero if that is not known, whether that is at the
// earliest, and how many tasks start in a second until then, 0 if that is not known.
func (s *Start) Estimate() (at time.Time, orLater bool, perSecond float64) {
	before, orMore := s.Before()
	isScheduled := !s.NotBefore.IsZero()
	pace := Pace(s.notes(!isScheduled || before > 0))
	perSecond = lesser(pace, s.Rate)
	if s.Parked {
		perSecond = lesser(perSecond, s.KeyRate)
	}
	at = s.NotBefore
	later := func(from time.Time, tasks int64, perSecond float64) {
		took := min(float64(max(tasks, 0))/perSecond, startMost.Seconds())
		if to := from.Add(time.Duration(took * float64(time.Second))); to.After(at) {
			at = to
		}
	}
	if perSecond > 0 && (before > 0 || !isScheduled) {
		later(s.Now, before+1, perSecond)
	}
	if s.Rate != nil && !s.NextAt.IsZero() {
		later(s.NextAt, before, *s.Rate)
	}
	switch {
	case s.KeyRate == nil:
	case s.KeyNext.IsZero():
		later(s.Now, s.KeyAhead+1-s.KeyBurst, *s.KeyRate)
	default:
		later(s.KeyNext, s.KeyAhead, *s.KeyRate)
	}
	// How many of those ahead in the queue have its key is not counted.
	isSure := pace > 0 || isScheduled && before == 0
	isKeyed := (isScheduled || s.Ahead > 0 && !s.IsFirst()) && (is(s.PerKey) || s.KeyRate != nil)
	return at, !isSure || orMore || isKeyed, perSecond
}

// startMost is the longest time that is told.
const startMost = 10 * 365 * 24 * time.Hour

// lesser is the lesser of two paces of which each may be unknown.
func lesser(pace float64, limit *float64) float64 {
	if limit == nil || pace > 0 && pace < *limit {
		return pace
	}
	return *limit
}

// notes are what was noted, and what is so now.
func (s *Start) notes(waits bool) []Note {
	var notes []Note
	for i, at := range s.NotedAt {
		if !at.After(s.Now) { // not what a clock has left that was ahead
			notes = append(notes, Note{at, s.NotedReady[i], s.NotedTries[i]})
		}
	}
	if s.Tries == nil || !waits {
		return notes
	}
	return append(notes, Note{s.Now, 1, *s.Tries})
}
