//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// A play makes a world by chance: tasks of all kinds, workers that are idle, busy, gone or unknown,
// limits and pauses, and times that have passed though nobody maintains.
type play struct {
	*database
	t      *testing.T
	random *rand.Rand
	ids    []stint.TaskID
	owned  []stint.OwnedTask
	poller *stint.Store // of actors that nobody watches
}

func newWorldOf(t *testing.T, db *database, random *rand.Rand) *play {
	t.Helper()
	return &play{database: db, t: t, random: random}
}

// The actions, by what limits them.
func playedActions() []string {
	return []string{
		"plain", "paused", "limited", "keyed", "both", "ordered", "rated", "keyrated", "fair",
		"fair a", "fair b", stint.External,
	}
}

func (p *play) chance(percent int) bool { return p.random.IntN(100) < percent }

func (p *play) ok(err error) {
	p.t.Helper()
	for _, expected := range []error{
		stint.ErrTaskFinished, stint.ErrInvalidToken, stint.ErrAlreadyReturned,
		stint.ErrTaskNotFound,
		stint.ErrTaskInProgress, stint.ErrPredecessorAborted,
	} {
		if errors.Is(err, expected) {
			return
		}
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// live lets the world go on for a while, and ages it.
func (p *play) live() {
	p.t.Helper()
	ctx := p.t.Context()
	hour := stint.Rate{Tasks: 2, Per: time.Hour, Burst: 2}
	for action, limits := range map[string]stint.Limits{
		"limited": {Concurrency: 2}, "keyed": {ConcurrencyPerKey: 1},
		"ordered": {ConcurrencyPerKey: 1, Ordered: true}, "rated": {Rate: hour},
		"keyrated": {RatePerKey: hour}, "fair": {Fair: true, ConcurrencyPerKey: 1},
		"fair a": {Fair: true, FairGroup: "fair"}, "fair b": {Fair: true, FairGroup: "fair"},
		"both": {Concurrency: 3, ConcurrencyPerKey: 1},
	} {
		p.ok(p.store.SetLimits(ctx, action, limits))
	}
	for _, fair := range []string{"fair", "fair a"} {
		p.ok(p.store.SetWeights(ctx, fair, map[string]int{"k0": 2}))
	}
	p.ok(p.store.RegisterActor(ctx, "registered", []string{"plain", "keyed"}))
	var err error
	p.poller, err = stint.New(p.pool, stint.Options{
		Maintenance: stint.MaintainNever, PollOnly: true,
	})
	p.ok(err)
	p.t.Cleanup(func() { p.ok(p.poller.Close(context.WithoutCancel(ctx))) })
	p.ok(p.poller.RegisterActor(ctx, "poller", []string{"rated", "fair a"}))
	p.schedule(ctx)
	for range 50 {
		p.step(ctx)
	}
	p.fill(ctx)
	p.branch(ctx)
	p.ok(p.store.Pause(ctx, "paused"))
	p.people(ctx)
	p.note()
	p.age()
}

// note has been noting for some minutes how fast some actions are handed out.
func (p *play) note() {
	p.t.Helper()
	p.exec(p.t, `DELETE FROM stint.minutes;
		INSERT INTO stint.minutes (minute, since, until, all_tries, all_retries, completed, failed,
			ready, estimated, action)
		SELECT date_trunc('minute', now(), 'UTC') - ago, now() - ago - interval '1 min',
		       now() - ago, 0, 0, 0, 0, 1, false, action_stats.action
		FROM stint.action_stats
		CROSS JOIN generate_series(1, 3) AS n
		CROSS JOIN LATERAL make_interval(mins => n) AS ago
		WHERE action_stats.action <> 'limited'`)
}

func (p *play) step(ctx context.Context) {
	p.t.Helper()
	switch n := p.random.IntN(16); {
	case n < 5:
		for range 1 + p.random.IntN(2) {
			p.insertOne(ctx)
		}
	case n < 10:
		p.ownSome(ctx)
	case n < 12 && len(p.owned) > 0:
		p.returnOne(ctx)
	case n == 13 && p.chance(50):
		p.replaceOne(ctx)
	case n == 14 && len(p.ids) > 0:
		id := p.ids[p.random.IntN(len(p.ids))]
		if p.chance(30) {
			_, err := p.store.AbortTasks(ctx, []stint.TaskID{id}, "enough")
			p.ok(err)
		} else if p.chance(30) {
			_, err := p.store.RetryTasks(ctx, []stint.TaskID{id})
			p.ok(err)
		}
	case n == 12:
		p.answerOne(ctx)
	case p.chance(20):
		p.ok(p.store.Maintain(ctx))
	default:
		p.pauseSome(ctx)
	}
}

// fill has tasks of most actions meet their limits.
func (p *play) fill(ctx context.Context) {
	p.t.Helper()
	for _, action := range playedActions() {
		if p.chance(20) || action == stint.External {
			continue
		}
		for i := range 4 {
			task := stint.Task{
				ID: p.nextID(), Action: action, Key: fmt.Sprintf("k%d", i/3),
				MaxTries: p.random.IntN(3),
			}
			p.ok(p.store.InsertTasks(ctx, []stint.Task{task}))
		}
		p.own(ctx, 1+p.random.IntN(3), action)
	}
}

// branch has a task end with a result that some of those behind it ask for, and others do not.
func (p *play) branch(ctx context.Context) {
	p.t.Helper()
	origin, other := p.nextID(), p.nextID()
	tasks := []stint.Task{{ID: origin, Action: "origin"}, {ID: other, Action: "origin"}}
	for _, result := range []string{"yes", "no"} {
		when := stint.Condition{
			After: origin, States: []stint.State{stint.StateCompleted}, Results: []string{result},
		}
		late := stint.Condition{After: other, States: []stint.State{stint.StateAborted}}
		tasks = append(tasks,
			stint.Task{ID: p.nextID(), Action: "plain", When: []stint.Condition{when}},
			stint.Task{ID: p.nextID(), Action: "plain", WhenAny: []stint.Condition{when, late}})
	}
	p.ok(p.store.InsertTasks(ctx, tasks))
	owned, err := p.store.OwnTasks(ctx, "registered", 1, []string{"origin"}, time.Hour)
	p.ok(err)
	for _, task := range owned {
		errs, err := p.store.ReturnTasks(ctx, []stint.Return{{
			ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
			Result: []byte([]string{"yes", "no"}[p.random.IntN(2)]),
		}})
		p.ok(errors.Join(append(errs, err)...))
	}
}

// pauseSome pauses an action or a key, or ends its pause.
func (p *play) pauseSome(ctx context.Context) {
	p.t.Helper()
	keyed := []string{"keyed", "both", "ordered", "fair", "fair a"}[p.random.IntN(5)]
	action := []string{"plain", "limited", "fair b"}[p.random.IntN(3)]
	p.ok([]func() error{
		func() error { return p.store.PauseKeys(ctx, keyed, "k1") },
		func() error { return p.store.ResumeKeys(ctx, keyed, "k1") },
		func() error { return p.store.Pause(ctx, action) },
		func() error { return p.store.Resume(ctx, action) },
	}[p.random.IntN(4)]())
}

// schedule has a schedule that occurs, and so inserts tasks, when somebody maintains.
func (p *play) schedule(ctx context.Context) {
	p.t.Helper()
	actions := playedActions()
	p.ok(p.store.PutSchedules(ctx, []stint.Schedule{{
		Name: "nightly", Spec: "@daily", Tasks: []stint.Task{
			{ID: "first", Action: actions[p.random.IntN(len(actions))]},
			{ID: "then", Action: "plain", After: []stint.TaskID{"first"}},
		},
	}}))
	p.exec(p.t, "UPDATE stint.schedules SET next_at = next_at - interval '1 day'")
}

// replaceOne replaces a task, which may have dependents.
func (p *play) replaceOne(ctx context.Context) {
	p.t.Helper()
	if len(p.ids) == 0 {
		return
	}
	task := stint.Task{ID: p.ids[p.random.IntN(len(p.ids))], Action: "plain"}
	if p.chance(30) {
		task.Action, task.Key = "both", "k0"
	}
	p.ok(p.store.ReplaceTasks(ctx, []stint.Task{task}))
}

func (p *play) insertOne(ctx context.Context) {
	p.t.Helper()
	actions := playedActions()
	task := stint.Task{
		ID:     p.nextID(),
		Action: actions[p.random.IntN(len(actions))],
	}
	if p.chance(70) && task.Action != stint.External {
		task.Key = fmt.Sprintf("k%d", p.random.IntN(2))
	}
	p.vary(&task)
	p.link(&task)
	if p.chance(10) && task.After == nil && task.When == nil && task.WhenAny == nil &&
		task.NotBefore.IsZero() && task.Action != stint.External {
		p.ok(p.store.Debounce(ctx, task, time.Hour, 2*time.Hour))
		return
	}
	if err := p.store.InsertTasks(ctx, []stint.Task{task}); err != nil {
		p.ids = p.ids[:len(p.ids)-1] // such as one that depends on a task twice
	}
}

func (p *play) nextID() stint.TaskID {
	id := stint.TaskID(fmt.Sprintf("t%d", len(p.ids)))
	p.ids = append(p.ids, id)
	return id
}

// vary gives a task some of what a task may have.
func (p *play) vary(task *stint.Task) {
	now := time.Now()
	if p.chance(20) {
		task.NotBefore = now.Add(time.Hour)
	}
	if p.chance(20) {
		task.Deadline = now.Add(2 * time.Hour)
	}
	if p.chance(40) {
		task.MaxTries = 1 + p.random.IntN(3)
	}
	if p.chance(30) {
		task.OnAbort = stint.RunAnyway
	}
	if p.chance(20) {
		task.Priority = 1
	}
}

// link has a task depend on others.
func (p *play) link(task *stint.Task) {
	for range p.random.IntN(3) {
		if len(p.ids) == 0 || p.chance(50) {
			break
		}
		before := p.ids[p.random.IntN(len(p.ids))]
		if p.chance(60) {
			task.After = append(task.After, before)
			continue
		}
		task.When = append(task.When, p.condition(before))
		break
	}
	if p.chance(15) && len(p.ids) > 2 {
		task.After, task.When = nil, nil
		for _, i := range p.random.Perm(len(p.ids))[:2] {
			task.WhenAny = append(task.WhenAny, p.condition(p.ids[i]))
		}
	}
}

func (p *play) condition(before stint.TaskID) stint.Condition {
	c := stint.Condition{After: before, States: []stint.State{stint.StateCompleted}}
	switch p.random.IntN(4) {
	case 0:
		c.Results = []string{"yes"}
	case 1:
		c.States = []stint.State{stint.StateAborted, stint.StateSkipped}
	}
	return c
}

func (p *play) ownSome(ctx context.Context) {
	p.t.Helper()
	actions := playedActions()
	some := []string{actions[p.random.IntN(len(actions)-1)], actions[p.random.IntN(len(actions)-1)]}
	p.own(ctx, 1+p.random.IntN(3), slices.Compact(some)...)
}

func (p *play) own(ctx context.Context, most int, actions ...string) {
	p.t.Helper()
	store, actor := p.store, []stint.ActorID{"registered", "unknown"}[p.random.IntN(2)]
	if p.chance(20) {
		store, actor = p.poller, "poller"
	}
	lease := []time.Duration{time.Hour, 10 * 24 * time.Hour, stint.NoExpiry}[p.random.IntN(3)]
	owned, err := store.OwnTasks(ctx, actor, most, actions, lease)
	p.ok(err)
	p.owned = append(p.owned, owned...)
}

func (p *play) returnOne(ctx context.Context) {
	p.t.Helper()
	i := p.random.IntN(len(p.owned))
	task := p.owned[i]
	p.owned = append(p.owned[:i:i], p.owned[i+1:]...)
	back := stint.Return{ID: task.ID, Token: task.Token, Status: "so it was"}
	back.Code = []stint.StatusCode{
		stint.StatusCompleted, stint.StatusCompleted, stint.StatusPending, stint.StatusAborted,
	}[p.random.IntN(4)]
	switch {
	case back.Code == stint.StatusPending && p.chance(50):
		back.RetryAfter = time.Hour
	case back.Code == stint.StatusCompleted:
		back.Result = []byte([]string{"yes", "no"}[p.random.IntN(2)])
	}
	errs, err := p.store.ReturnTasks(ctx, []stint.Return{back})
	p.ok(errors.Join(append(errs, err)...))
}

func (p *play) answerOne(ctx context.Context) {
	p.t.Helper()
	page, err := p.store.ListTasks(ctx, stint.Filter{
		Actions: []string{stint.External}, States: []stint.State{stint.StateReady}, Limit: 1,
	})
	p.ok(err)
	for i := range page.Tasks {
		code := []stint.StatusCode{
			stint.StatusCompleted, stint.StatusAborted, stint.StatusSkipped,
		}[p.random.IntN(3)]
		errs, err := p.store.AnswerTasks(ctx, "somebody", []stint.Answer{
			{ID: page.Tasks[i].ID, Code: code},
		})
		p.ok(errors.Join(append(errs, err)...))
	}
}

// people has some wait for tasks, and some that are registered be gone.
func (p *play) people(ctx context.Context) {
	p.t.Helper()
	if p.chance(50) { // idle, since the action is paused
		// By a store that looks once, so that nothing moves while the test looks.
		waiting, err := stint.New(p.pool, stint.Options{
			Maintenance: stint.MaintainNever, PollInterval: time.Hour,
		})
		p.ok(err)
		ctx, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = waiting.WaitToOwnTasks(ctx, "idle", 1, []string{"paused"}, time.Hour)
		}()
		p.t.Cleanup(func() {
			cancel()
			<-done
			p.ok(waiting.Close(context.WithoutCancel(ctx)))
		})
		eventually(p.t, "it is known who waits", func() bool {
			var n int
			err := p.pool.QueryRow(ctx, `SELECT count(*) FROM stint.sessions
				WHERE 'ready paused' = ANY (topics)`).Scan(&n)
			return err == nil && n == 1
		})
	}
	p.exec(p.t, `INSERT INTO stint.sessions (id, grace, topics)
			VALUES (-7, '1 s', '{ready fair,ready limited}');
		INSERT INTO stint.actors (session, attendant, actor, actions)
			VALUES (-7, -7, 'dead', '{fair,rated}')`)
	if p.chance(50) {
		p.exec(p.t, `INSERT INTO stint.actors (session, attendant, actor, actions)
				VALUES (-7, -7, 'unknown', '{plain}');
			UPDATE stint.leases SET session = -7 WHERE actor = 'unknown'`)
	}
	if p.chance(30) {
		p.ok(p.store.UnregisterActor(ctx, "registered"))
	}
}

// age lets time pass for some, though nobody maintains.
func (p *play) age() {
	p.t.Helper()
	for _, aged := range []string{
		`UPDATE stint.scheduled SET not_before = not_before - interval '90 minutes'
			WHERE key % 2 = 0`,
		`UPDATE stint.blocked SET not_before = not_before - interval '90 minutes'
			WHERE key % 2 = 0`,
		`UPDATE stint.leases SET deadline = deadline - interval '61 minutes'
			WHERE claim % 2 = 0 AND deadline < 'infinity'`,
		`UPDATE stint.tasks SET deadline = deadline - interval '3 hours' WHERE key % 2 = 0;
			UPDATE stint.deadlines SET deadline = deadline - interval '3 hours' WHERE key % 2 = 0;
			UPDATE stint.ready SET deadline = deadline - interval '3 hours' WHERE lo % 2 = 0`,
		"UPDATE stint.action_stats SET asked_at = asked_at - interval '10 minutes'",
		"UPDATE stint.key_rates SET full_at = full_at - interval '1 hour'",
	} {
		if p.chance(50) {
			p.exec(p.t, aged)
		}
	}
}
