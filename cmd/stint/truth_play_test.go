//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
}

func newWorldOf(t *testing.T, db *database, random *rand.Rand) *play {
	t.Helper()
	return &play{database: db, t: t, random: random}
}

// The actions, by what limits them.
func playedActions() []string {
	return []string{
		"plain", "paused", "limited", "keyed", "ordered", "rated", "keyrated", "fair",
		stint.External,
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
	} {
		p.ok(p.store.SetLimits(ctx, action, limits))
	}
	p.ok(p.store.RegisterActor(ctx, "registered", []string{"plain", "keyed"}))
	for range 70 {
		p.step(ctx)
	}
	p.ok(p.store.Pause(ctx, "paused"))
	p.people(ctx)
	p.age()
}

func (p *play) step(ctx context.Context) {
	p.t.Helper()
	switch n := p.random.IntN(14); {
	case n < 5:
		p.insertOne(ctx)
	case n < 9:
		p.ownSome(ctx)
	case n < 11 && len(p.owned) > 0:
		p.returnOne(ctx)
	case n == 11 && len(p.ids) > 0:
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
	case p.chance(30):
		p.ok(p.store.PauseKeys(ctx, "keyed", "k1"))
	case p.chance(30):
		p.ok(p.store.ResumeKeys(ctx, "keyed", "k1"))
	}
}

func (p *play) insertOne(ctx context.Context) {
	p.t.Helper()
	actions := playedActions()
	task := stint.Task{
		ID:     stint.TaskID(fmt.Sprintf("t%d", len(p.ids))),
		Action: actions[p.random.IntN(len(actions))],
	}
	if p.chance(70) && task.Action != stint.External {
		task.Key = fmt.Sprintf("k%d", p.random.IntN(2))
	}
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
	for range p.random.IntN(3) {
		if len(p.ids) == 0 || p.chance(30) {
			break
		}
		before := p.ids[p.random.IntN(len(p.ids))]
		if p.chance(60) {
			task.After = append(task.After, before)
			continue
		}
		task.When = append(task.When, stint.Condition{
			After: before, States: []stint.State{stint.StateCompleted},
		})
		break
	}
	if p.chance(15) && len(p.ids) > 2 {
		task.After, task.When = nil, nil
		for _, i := range p.random.Perm(len(p.ids))[:2] {
			task.WhenAny = append(task.WhenAny, stint.Condition{
				After: p.ids[i], States: []stint.State{stint.StateCompleted},
			})
		}
	}
	if p.chance(10) && task.After == nil && task.When == nil && task.WhenAny == nil &&
		task.NotBefore.IsZero() && task.Action != stint.External {
		p.ok(p.store.Debounce(ctx, task, time.Hour, 2*time.Hour))
	} else if err := p.store.InsertTasks(ctx, []stint.Task{task}); err != nil {
		return // such as one that depends on a task twice
	}
	p.ids = append(p.ids, task.ID)
}

func (p *play) ownSome(ctx context.Context) {
	p.t.Helper()
	actions := playedActions()
	action := actions[p.random.IntN(len(actions)-1)]
	actor := []stint.ActorID{"registered", "unknown"}[p.random.IntN(2)]
	lease := []time.Duration{time.Hour, 10 * 24 * time.Hour, stint.NoExpiry}[p.random.IntN(3)]
	owned, err := p.store.OwnTasks(ctx, actor, 1+p.random.IntN(3), []string{action}, lease)
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
		stint.StatusCompleted, stint.StatusAborted, stint.StatusPending,
	}[p.random.IntN(3)]
	if back.Code == stint.StatusPending && p.chance(50) {
		back.RetryAfter = time.Hour
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
