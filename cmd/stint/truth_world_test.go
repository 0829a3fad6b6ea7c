//go:build unix

package main

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// A truth is what the tables say, read row by row and put together without any statement of the
// store.
type truth struct {
	now    time.Time
	tasks  map[int64]*taskTruth
	byID   map[string]*taskTruth
	limits map[string]*limitTruth
	keys   map[[2]string]*keyTruth // by action and key
	slots  []slotTruth
	turns  []turnTruth
	asked  map[string]time.Time
	// waits are the actions that processes that live wait for, actors how many of these are
	// registered for each, and watched the sessions and actors of owners that live or are gone.
	waits   map[string]bool
	actors  map[string]int
	watched map[ownerTruth]bool
	viewer  *viewer // nil: one who may read everything
}

// A viewer may read the tasks whose IDs begin so, and have actions that begin so.
type viewer struct{ id, action string }

// mayRead reports whether whoever asks may read a task.
func (w *truth) mayRead(task *taskTruth) bool {
	return w.viewer == nil || strings.HasPrefix(task.id, w.viewer.id) &&
		strings.HasPrefix(task.action, w.viewer.action)
}

// mayList reports whether whoever asks may read all tasks of an action.
func (w *truth) mayList(action string) bool {
	return w.viewer == nil || w.viewer.id == "" && strings.HasPrefix(action, w.viewer.action)
}

// seen are those of the holds of a task of which whoever asks is told.
func (w *truth) seen(of *taskTruth) []string {
	return slices.DeleteFunc(w.holds(of), func(name string) bool {
		return !w.mayList(of.action) &&
			!slices.Contains([]string{"paused", "key paused", "turn"}, name)
	})
}

type ownerTruth struct {
	session int64
	actor   string
}

type taskTruth struct {
	key                  int64
	id, action, limitKey string
	deadline             time.Time
	maxTries, tries      int
	priority             int
	state                stint.State
	cause                int
	parked               bool
	position             int64
	at                   time.Time // of its start, its lease's end, or its own
	forEver              bool
	owner                ownerTruth
	claim                int64
	counted              bool // towards the limit of its action
	missing              int
	runsAnyway           bool
	result               string
	before               []edgeTruth
}

// isAny reports whether the first of several predecessors starts a task.
func (t *taskTruth) isAny() bool {
	return slices.ContainsFunc(t.before, func(edge edgeTruth) bool {
		return edge.accepts != nil && *edge.accepts&8 != 0
	})
}

type edgeTruth struct {
	after   int64
	accepts *int16
	results [][]byte
}

type limitTruth struct {
	Action      string
	Paused      *time.Time
	Concurrency *int
	PerKey      *int
	RateTasks   *int
	RatePer     *float64
	RateBurst   *int
	Tokens      float64
	Refilled    time.Time
	KeyTasks    *int
	KeyPer      *float64
	KeyBurst    *int
	Fair        bool
	Ordered     bool
	Group       string
}

type keyTruth struct{ paused, full time.Time }

type slotTruth struct {
	Action, Key string
	Task, Claim int64
}

type turnTruth struct {
	Action, Key string
	Tier        int
	Pass        int64
	Held        bool
}

// scanAll reads all rows of a query.
func scanAll(t *testing.T, pool *pgxpool.Pool, query string, into []any, row func()) {
	t.Helper()
	rows, err := pool.Query(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.ForEachRow(rows, into, func() error { row(); return nil }); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func readTruth(t *testing.T, pool *pgxpool.Pool) *truth {
	t.Helper()
	w := &truth{
		tasks: map[int64]*taskTruth{}, byID: map[string]*taskTruth{},
		limits: map[string]*limitTruth{}, keys: map[[2]string]*keyTruth{},
		asked: map[string]time.Time{}, waits: map[string]bool{}, actors: map[string]int{},
		watched: map[ownerTruth]bool{},
	}
	w.readTasks(t, pool)
	w.readStates(t, pool)
	w.readLimits(t, pool)
	w.readProcesses(t, pool)
	scanAll(t, pool, "SELECT statement_timestamp()", []any{&w.now}, func() {})
	return w
}

func (w *truth) readTasks(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var one taskTruth
	var deadline *time.Time
	scanAll(t, pool, `SELECT key, id, action, coalesce(limit_key, ''), deadline, max_tries,
			priority, on_abort <> 0
		FROM stint.tasks`, []any{
		&one.key, &one.id, &one.action, &one.limitKey, &deadline,
		&one.maxTries, &one.priority, &one.runsAnyway,
	}, func() {
		task := one
		if deadline != nil {
			task.deadline = *deadline
		}
		w.tasks[task.key], w.byID[task.id] = &task, &task
	})
	var run, after int64
	var accepts *int16
	var results [][]byte
	scanAll(t, pool, "SELECT run, after, accepts, results FROM stint.edges",
		[]any{&run, &after, &accepts, &results}, func() {
			if task := w.tasks[run]; task != nil {
				task.before = append(task.before, edgeTruth{after, accepts, results})
			}
		})
}

// each calls f with the tasks of a span.
func (w *truth) each(lo, hi int64, f func(task *taskTruth)) {
	for key := lo; key <= hi; key++ {
		if task := w.tasks[key]; task != nil {
			f(task)
		}
	}
}

func (w *truth) readStates(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var lo, hi, position, claim int64
	var tries, cause, missing int
	var at pgtype.Timestamptz
	scanAll(t, pool, "SELECT lo, hi, tries, position FROM stint.ready",
		[]any{&lo, &hi, &tries, &position}, func() {
			w.each(lo, hi, func(task *taskTruth) {
				task.state, task.tries = stint.StateReady, tries
				task.parked, task.position = position < 0, position
			})
		})
	scanAll(t, pool, "SELECT key, tries, not_before FROM stint.scheduled",
		[]any{&lo, &tries, &at}, func() {
			task := w.tasks[lo]
			task.state, task.tries, task.at = stint.StateScheduled, tries, at.Time
		})
	scanAll(t, pool, "SELECT key, tries, not_before, missing FROM stint.blocked",
		[]any{&lo, &tries, &at, &missing}, func() {
			task := w.tasks[lo]
			task.state, task.tries, task.at, task.missing = stint.StateBlocked, tries, at.Time,
				missing
		})
	var owner ownerTruth
	var session *int64
	var counted bool
	scanAll(t, pool, `SELECT lo, hi, leased.claim, tries, deadline, actor, session,
			limited_action IS NOT NULL
		FROM stint.leased JOIN stint.leases USING (claim, part)`,
		[]any{&lo, &hi, &claim, &tries, &at, &owner.actor, &session, &counted}, func() {
			w.each(lo, hi, func(task *taskTruth) {
				task.state, task.tries, task.at = stint.StateInProgress, tries, at.Time
				task.forEver = at.InfinityModifier != pgtype.Finite
				task.owner, task.claim, task.counted = owner, claim, counted
				if session != nil {
					task.owner.session = *session
				}
			})
		})
	var result []byte
	scanAll(t, pool, "SELECT lo, hi, tries, cause, finished_at, result FROM stint.finished",
		[]any{&lo, &hi, &tries, &cause, &at, &result}, func() {
			w.each(lo, hi, func(task *taskTruth) {
				task.tries, task.cause, task.at, task.result = tries, cause, at.Time, string(result)
				switch cause {
				case 0:
					task.state = stint.StateCompleted
				case 8:
					task.state = stint.StateSkipped
				default:
					task.state = stint.StateAborted
				}
			})
		})
}

func (w *truth) readLimits(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT action, paused_at, concurrency, per_key,
			rate_tasks, extract(epoch FROM rate_per)::float8, rate_burst, tokens, refilled_at,
			key_tasks, extract(epoch FROM key_per)::float8, key_burst, fair, ordered,
			coalesce(fair_group, '')
		FROM stint.limits`)
	if err != nil {
		t.Fatal(err)
	}
	limits, err := pgx.CollectRows(rows, pgx.RowToStructByPos[limitTruth])
	if err != nil {
		t.Fatal(err)
	}
	for i := range limits {
		w.limits[limits[i].Action] = &limits[i]
	}
	of := func(action, key string) *keyTruth {
		if w.keys[[2]string{action, key}] == nil {
			w.keys[[2]string{action, key}] = &keyTruth{}
		}
		return w.keys[[2]string{action, key}]
	}
	var action, key string
	var at *time.Time
	scanAll(t, pool, "SELECT action, limit_key, paused_at FROM stint.limited_keys",
		[]any{&action, &key, &at}, func() {
			if at != nil {
				of(action, key).paused = *at
			}
		})
	scanAll(t, pool, "SELECT action, limit_key, full_at FROM stint.key_rates",
		[]any{&action, &key, &at}, func() { of(action, key).full = *at })
	var slot slotTruth
	scanAll(t, pool, "SELECT action, limit_key, key, claim FROM stint.slots",
		[]any{&slot.Action, &slot.Key, &slot.Task, &slot.Claim},
		func() { w.slots = append(w.slots, slot) })
	var turn turnTruth
	scanAll(t, pool, "SELECT action, limit_key, tier, pass, held FROM stint.turns",
		[]any{&turn.Action, &turn.Key, &turn.Tier, &turn.Pass, &turn.Held},
		func() { w.turns = append(w.turns, turn) })
}

// readProcesses tells sessions that live from others by their locks.
func (w *truth) readProcesses(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	var action string
	var at time.Time
	scanAll(t, pool, "SELECT action, asked_at FROM stint.action_stats", []any{&action, &at},
		func() { w.asked[action] = at })
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	lives := func(id int64) bool {
		var free bool
		err := conn.QueryRow(context.WithoutCancel(t.Context()),
			"SELECT pg_try_advisory_xact_lock($1)", id).Scan(&free)
		if err != nil {
			t.Fatal(err)
		}
		return !free
	}
	var id, attendant int64
	var topics, actions []string
	var actor string
	alive := map[int64]bool{}
	scanAll(t, pool, "SELECT id, topics FROM stint.sessions", []any{&id, &topics}, func() {
		if alive[id] = lives(id); alive[id] {
			for _, topic := range topics {
				w.waits[topic] = true
			}
		}
	})
	scanAll(t, pool, "SELECT session, attendant, actor, actions FROM stint.actors",
		[]any{&id, &attendant, &actor, &actions}, func() {
			w.watched[ownerTruth{id, actor}] = alive[attendant]
			for _, action := range actions {
				if alive[attendant] {
					w.actors[action]++
				}
			}
		})
}

func (w *truth) isFinal(key int64) bool {
	task := w.tasks[key]
	return task == nil || slices.Contains(
		[]stint.State{stint.StateCompleted, stint.StateAborted, stint.StateSkipped}, task.state)
}

// isOverdue reports whether the deadline of a task has passed, though nobody has aborted it.
func (w *truth) isOverdue(task *taskTruth) bool {
	return !task.deadline.IsZero() && !task.deadline.After(w.now) && !w.isFinal(task.key)
}

// isAsked reports whether somebody waits for an action, or asked for it in the last two minutes.
func (w *truth) isAsked(action string) bool {
	return w.waits["ready "+action] || w.now.Sub(w.asked[action]) < 2*time.Minute
}

// inProgress counts the tasks that are in progress below a limit of an action, or of its key.
func (w *truth) inProgress(action string) (n int) {
	for _, task := range w.tasks {
		if task.action == action && task.state == stint.StateInProgress && task.counted {
			n++
		}
	}
	return n
}

func (w *truth) keyInProgress(of *taskTruth) (n int) {
	for _, slot := range w.slots {
		task := w.tasks[slot.Task]
		if slot.Action == of.action && slot.Key == of.limitKey && task != nil &&
			task.state == stint.StateInProgress && task.claim == slot.Claim {
			n++
		}
	}
	return n
}

// holder is the task that holds the key of another one, nil if none does.
func (w *truth) holder(of *taskTruth) *taskTruth {
	if l := w.limits[of.action]; l == nil || !l.Ordered {
		return nil
	}
	for _, slot := range w.slots {
		task := w.tasks[slot.Task]
		if slot.Action == of.action && slot.Key == of.limitKey && task != nil && task != of &&
			task.limitKey == of.limitKey && !w.isFinal(task.key) {
			return task
		}
	}
	return nil
}

// token is when the rate of an action, and that of a key, have their next token; zero: now.
func (w *truth) token(action string) (at time.Time) {
	l := w.limits[action]
	if l == nil || l.RateTasks == nil {
		return at
	}
	per := *l.RatePer / float64(*l.RateTasks)
	tokens := min(float64(*l.RateBurst), l.Tokens+max(w.now.Sub(l.Refilled).Seconds(), 0)/per)
	if tokens >= 1 {
		return at
	}
	return w.now.Add(time.Duration((1 - tokens) * per * float64(time.Second)))
}

func (w *truth) keyToken(of *taskTruth) (at time.Time) {
	l, key := w.limits[of.action], w.keys[[2]string{of.action, of.limitKey}]
	if l == nil || key == nil || of.limitKey == "" || l.KeyTasks == nil || key.full.IsZero() {
		return at
	}
	before := float64(*l.KeyBurst-1) * *l.KeyPer / float64(*l.KeyTasks)
	if at = key.full.Add(-time.Duration(before * float64(time.Second))); at.After(w.now) {
		return at
	}
	return time.Time{}
}

// turnsAhead says whether a task waits for the turn of its key, and how many come first.
func (w *truth) turnsAhead(of *taskTruth) (waits bool, ahead int) {
	const lowest = 32767
	l := w.limits[of.action]
	if l == nil || !l.Fair || of.position == 0 {
		return false, 0
	}
	i := slices.IndexFunc(w.turns, func(turn turnTruth) bool {
		return turn.Action == of.action && turn.Key == of.limitKey &&
			turn.Tier == lowest-of.priority
	})
	if i < 0 {
		return true, 0
	}
	mine := w.turns[i]
	type share struct { // of a key, in all actions of a group together
		key  string
		tier int
	}
	shares := map[share]bool{}
	for _, turn := range w.turns {
		first := turn.Tier < mine.Tier || turn.Tier == mine.Tier && (turn.Pass < mine.Pass ||
			turn.Pass == mine.Pass && turn.Key < mine.Key)
		inGroup := turn.Action == of.action ||
			l.Group != "" && w.limits[turn.Action] != nil && w.limits[turn.Action].Group == l.Group
		if inGroup && !turn.Held && first {
			shares[share{turn.Key, turn.Tier}] = true
		}
	}
	return !mine.Held, len(shares)
}

// paused reports whether the action of a task, and its key, is paused.
func (w *truth) paused(of *taskTruth) (action, key bool) {
	l, k := w.limits[of.action], w.keys[[2]string{of.action, of.limitKey}]
	return l != nil && l.Paused != nil, k != nil && of.limitKey != "" && !k.paused.IsZero()
}

// before is how many tasks are handed out before another one: of the queue, and of those that are
// parked of its key. One that is parked comes to the beginning, unless its key is in strict order.
func (w *truth) before(of *taskTruth) (n int) {
	l := w.limits[of.action]
	isFirst := of.parked && (l == nil || !l.Ordered)
	place := func(task *taskTruth) int64 { return task.position & math.MaxInt64 }
	for _, task := range w.tasks {
		inQueue := !task.parked && !isFirst
		inKey := task.parked && task.limitKey == of.limitKey
		isAhead := task.priority > of.priority || task.priority == of.priority &&
			(of.state == stint.StateScheduled || place(task) < place(of) ||
				place(task) == place(of) && task.key < of.key)
		if task.action == of.action && task.state == stint.StateReady && !w.isOverdue(task) &&
			(inQueue || inKey) && isAhead {
			n++
		}
	}
	return n
}

// holds are what holds a ready task up, by the names of the claims that say so.
func (w *truth) holds(of *taskTruth) (all []string) {
	add := func(name string, is bool) {
		if is {
			all = append(all, name)
		}
	}
	l := w.limits[of.action]
	if l == nil {
		return nil
	}
	key := w.keys[[2]string{of.action, of.limitKey}]
	isKeyPaused := key != nil && of.limitKey != "" && !key.paused.IsZero()
	add("paused", l.Paused != nil)
	add("key paused", isKeyPaused)
	add("limit", l.Concurrency != nil && w.inProgress(of.action) >= *l.Concurrency)
	keyed := of.limitKey != ""
	add("order", keyed && w.holder(of) != nil)
	add("key limit", keyed && !l.Ordered && l.PerKey != nil && w.keyInProgress(of) >= *l.PerKey)
	add("rate", !w.token(of.action).IsZero())
	add("key rate", !w.keyToken(of).IsZero())
	waits, _ := w.turnsAhead(of)
	add("turn", waits && l.Paused == nil && !isKeyPaused)
	return all
}
