package work

import (
	"hash/fnv"
	"time"

	"github.com/stint-tasks/stint"
)

// The actions that workers perform. What their limits are, the operator says.
const (
	plainAction   = "plain"
	otherAction   = "other"
	slowAction    = "slow"
	limitedAction = "limited" // so many at once
	keyedAction   = "keyed"   // so many at once of each key
	orderedAction = "ordered" // each key in its order
	fairAction    = "fair"    // keys take turns, together with those of the next one
	fairerAction  = "fairer"
	ratedAction   = "rated"  // so many in a time
	budgetAction  = "budget" // so much in a time, of all and of each key
	lostAction    = "lost"   // only for those who lose tasks
)

// free are the actions that have no limits.
func free() []string { return []string{plainAction, otherAction, slowAction} }

// actions are all. Whoever asks for those with limits waits for others that do: some do not.
func actions() []string {
	return append(free(), limitedAction, keyedAction, orderedAction, fairAction, fairerAction,
		ratedAction, budgetAction)
}

// A fate is what becomes of a try of a task.
type fate int

const (
	completes fate = iota
	tells          // completes with a result
	inTx           // completes in a transaction of the handler
	steps          // completes after some steps
	reports        // completes after it has said how far it is
	fails
	retries // fails, and says when to try again
	aborts
	panics
	snoozes
	hangs // takes longer than its lease lasts
)

// fateOf is what becomes of a try of a task, whoever performs it.
func fateOf(seed uint64, id stint.TaskID, try int) fate {
	chances := []struct {
		fate
		percent uint64
	}{
		{tells, 20},
		{inTx, 3},
		{steps, 3},
		{reports, 3},
		{fails, 4},
		{retries, 4},
		{aborts, 2},
		{panics, 1},
		{snoozes, 2},
	}
	h := hash(string(id)) ^ seed + uint64(try)*0x9e3779b97f4a7c15 //nolint:gosec // never negative
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	const rarely = 4000
	if h%rarely == 0 {
		return hangs
	}
	h = h / rarely % 100
	for _, c := range chances {
		if h < c.percent {
			return c.fate
		}
		h -= c.percent
	}
	return completes
}

// takes is how long a try takes.
func takes(id stint.TaskID, action string) time.Duration {
	h := hash(string(id)) % 100
	switch {
	case action == slowAction:
		return time.Duration(20+h) * time.Millisecond
	case h < 10:
		return time.Duration(h) * time.Millisecond
	}
	return 0
}

// isFenced says that whoever owns the task draws a fence.
func isFenced(id stint.TaskID) bool { return hash(string(id))%32 == 1 }

func hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return h.Sum64()
}
