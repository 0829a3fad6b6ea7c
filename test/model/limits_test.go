package model_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// What TestStore_BehavesLikeTheModel says of a store holds under limits as well, except that fewer
// tasks may be fetched: never more than the limits let.
func TestStore_BehavesLikeTheModelUnderLimits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := plainPool(t)
	keep := stint.Retention{Completed: stint.KeepForever, Aborted: 2 * step}
	store, err := stint.New(pool, stint.Options{
		Maintenance: stint.MaintainNever, Retention: keep,
	})
	wantErr(t, "New", err, nil)
	checkWithin(t, pool, emptyLimits+emptyTables, func(t *rapid.T) {
		m := &machine{
			comparison: compare(pool, store, &reference{
				keep: keep, tasks: map[stint.TaskID]*referenceTask{}, rules: map[string]*rules{},
			}),
			start:   time.Now(),
			crowded: one(t, 3, "crowded"),
			tokens:  map[stint.Token]bool{},
		}
		m.insert(t)
		verbs := m.actions()
		for _, inTransaction := range []string{"begin", "end", "end 2"} {
			delete(verbs, inTransaction) // where actions with limits are refused
		}
		for _, name := range []string{"own", "own 2", "own 3"} {
			verbs[name] = m.ownUnderRules
		}
		verbs["limit"], verbs["limit 2"], verbs["limit 3"] = m.limit, m.limit, m.limit
		verbs["pause"], verbs["pause keys"] = m.pause, m.pauseKeys
		t.Repeat(verbs)
	})
}

const emptyLimits = `
WITH limits AS (DELETE FROM stint.limits), keys AS (DELETE FROM stint.limited_keys),
     slots AS (DELETE FROM stint.slots), rates AS (DELETE FROM stint.key_rates)
DELETE FROM stint.turns;`

// rules are how an action is limited and paused.
type rules struct {
	limits     stint.Limits
	paused     bool
	pausedKeys map[string]bool
}

func (r *reference) ruled(action string) bool {
	of := r.rules[action]
	return of != nil && (of.limits != stint.Limits{} || of.paused || len(of.pausedKeys) > 0)
}

// of returns the rules of an action, which the caller may change.
func (r *reference) of(action string) *rules {
	if r.rules[action] == nil {
		r.rules[action] = &rules{pausedKeys: map[string]bool{}}
	}
	return r.rules[action]
}

// A limitedKey is a key of an action; the key is empty for the whole action.
type limitedKey struct{ action, key string }

// inProgress counts the tasks in progress.
func (r *reference) inProgress() map[limitedKey]int {
	counts := map[limitedKey]int{}
	for _, task := range r.tasks {
		if task.state == stint.StateInProgress {
			counts[limitedKey{task.Action, ""}]++
			if task.Key != "" {
				counts[limitedKey{task.Action, task.Key}]++
			}
		}
	}
	return counts
}

// excess says which rule an answer of OwnTasks breaks, which was not yet applied.
func (r *reference) excess(answer []stint.OwnedTask) error {
	if r.rules == nil {
		return nil
	}
	counts := r.inProgress()
	for _, task := range answer {
		of := r.of(task.Action)
		if of.paused || of.pausedKeys[task.Key] {
			return fmt.Errorf("task %q is paused", task.ID)
		}
		whole, key := limitedKey{task.Action, ""}, limitedKey{task.Action, task.Key}
		counts[whole]++
		if most := of.limits.Concurrency; most > 0 && counts[whole] > most {
			return fmt.Errorf("%d tasks of %q are in progress", counts[whole], task.Action)
		}
		if task.Key == "" {
			continue
		}
		if other := r.holder(key); other != "" && of.limits.Ordered && !r.tasks[task.ID].holds {
			return fmt.Errorf("task %q begins, but %q holds its key", task.ID, other)
		}
		counts[key]++
		if most := of.limits.ConcurrencyPerKey; most > 0 && counts[key] > most {
			return fmt.Errorf("%d tasks of %q are in progress", counts[key], key)
		}
	}
	return nil
}

// holder returns a task that holds a key, if there is one.
func (r *reference) holder(of limitedKey) stint.TaskID {
	for id, task := range r.tasks {
		if task.holds && task.Action == of.action && task.Key == of.key {
			return id
		}
	}
	return ""
}

// ownUnderRules is own, where what is due has become ready before: a fetch that finds something,
// though not all that is ready, looks for nothing more.
func (m *machine) ownUnderRules(t *rapid.T) {
	m.maintain(t)
	m.own(t)
}

func (m *machine) limit(t *rapid.T) {
	action := rapid.SampledFrom(actions).Draw(t, "action")
	limits := rapid.SampledFrom([]stint.Limits{
		{},
		{},
		{Concurrency: 1},
		{Concurrency: 20},
		{ConcurrencyPerKey: 1},
		{Concurrency: 3, ConcurrencyPerKey: 2},
		{Fair: true},
		{Fair: true, ConcurrencyPerKey: 1},
		{Ordered: true},
		{Ordered: true, Concurrency: 3},
		{Fair: true, FairGroup: "g"},
		{Fair: true, FairGroup: "g", Concurrency: 3, ConcurrencyPerKey: 1},
	}).Draw(t, "limits")
	requireError(t, "SetLimits", m.store.SetLimits(t.Context(), action, limits), nil)
	if before := m.model.of(action).limits; limits.Ordered && !before.Ordered {
		for _, task := range m.model.tasks {
			if task.Action == action {
				task.holds = task.state == stint.StateInProgress
			}
		}
	}
	if limits.Ordered {
		limits.ConcurrencyPerKey = 1
	}
	m.model.of(action).limits = limits
}

func (m *machine) pause(t *rapid.T) {
	action := rapid.SampledFrom(actions).Draw(t, "action")
	verb := m.store.Resume
	of := m.model.of(action)
	if of.paused = one(t, 3, "pause"); of.paused {
		verb = m.store.Pause
	}
	requireError(t, "Pause", verb(t.Context(), action), nil)
}

func (m *machine) pauseKeys(t *rapid.T) {
	action := rapid.SampledFrom(actions).Draw(t, "action")
	key := rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key")
	of := m.model.of(action)
	if one(t, 3, "pause") {
		of.pausedKeys[key] = true
		requireError(t, "PauseKeys", m.store.PauseKeys(t.Context(), action, key), nil)
		return
	}
	delete(of.pausedKeys, key)
	requireError(t, "ResumeKeys", m.store.ResumeKeys(t.Context(), action, key), nil)
}
