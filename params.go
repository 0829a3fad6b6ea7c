package stint

import (
	"slices"
	"time"

	"github.com/stint-tasks/stint/internal/pg"
)

// texts returns IDs as the parameter of a statement.
func texts(ids []TaskID) []string {
	strings := make([]string, len(ids))
	for i, id := range ids {
		strings[i] = string(id)
	}
	return strings
}

// interval returns a lease as the parameter of a statement: null for NoExpiry.
func interval(lease time.Duration) *time.Duration {
	if lease == NoExpiry {
		return nil
	}
	return &lease
}

// keysAndClaims returns performances as the parameters of a statement.
func keysAndClaims(performances []performance) (keys, claims []int64) {
	keys, claims = make([]int64, len(performances)), make([]int64, len(performances))
	for i, p := range performances {
		keys[i], claims[i] = p.key, int64(p.claim)
	}
	return keys, claims
}

// limitKeys returns the keys of tasks as the parameter of a statement: nil, which is null, if none
// of them has one.
func limitKeys(tasks []Task) []*string {
	if !slices.ContainsFunc(tasks, hasKey) {
		return nil
	}
	keys := make([]*string, len(tasks))
	for i := range tasks {
		keys[i] = pg.NonZero(tasks[i].Key)
	}
	return keys
}

func hasKey(task Task) bool { return task.Key != "" }
