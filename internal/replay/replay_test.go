//go:build unix

package replay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/replay"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// follow starts a server that decodes its log, and a history of a store on it.
func follow(tb testing.TB) (*testdb.Server, *pgxpool.Pool, *replay.History) {
	tb.Helper()
	server := testdb.NewServer(tb, "", logical())
	pool := server.Pool(tb)
	if err := migrations.MigratePool(tb.Context(), pool); err != nil {
		tb.Fatal(err)
	}
	return server, pool, open(tb, pool)
}

func open(tb testing.TB, pool *pgxpool.Pool) *replay.History {
	tb.Helper()
	h, err := replay.Open(tb.Context(), pool.Config().ConnConfig, replay.Options{
		Slot: "followed", MaxLosses: 3, // as by default
	})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := h.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	return h
}

func newStore(tb testing.TB, pool *pgxpool.Pool) *stint.Store {
	tb.Helper()
	store, err := stint.New(pool, stint.Options{Grace: 300 * time.Millisecond})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := store.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	return store
}

func wantClean(t *testing.T, h *replay.History) {
	t.Helper()
	if err := h.Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, v := range h.Violations() {
		if i == 20 {
			break
		}
		t.Error(v)
	}
}

// A history that nobody has tampered with has no violation, whatever the callers do.
// Proves G325.
func TestHistory_OfAnyCallsKeepsTheRules(t *testing.T) {
	t.Parallel()
	_, pool, h := follow(t)
	moves := map[string]int{}
	h.OnMove = func(m replay.Move) { moves[m.From.Name+" → "+m.To.Name]++ }
	p := play{store: newStore(t, pool), seed: uint64(time.Now().UnixNano())}
	t.Logf("the seed is %d", p.seed)
	p.prepare(t)
	for shows := false; !shows; { // on a busy machine, little happens in a second
		p.run(t, time.Duration(testrun.Rounds(20_000))*time.Millisecond)
		if err := h.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := h.Counts()
		shows = c.TakenBack > 0 && c.Settled > 0 && c.Limited > 0
	}
	if err := p.store.Close(t.Context()); err != nil { // it makes tasks ready by itself
		t.Fatal(err)
	}
	wantClean(t, h)
	t.Logf("%+v, %v", h.Counts(), moves)
}

// A slot that is not temporary outlives a crash of the server, and a transaction is replayed once.
// Proves G325.
func TestHistory_GoesOnBehindACrash(t *testing.T) {
	t.Parallel()
	server, pool, h := follow(t)
	store := newStore(t, pool)
	insert := func(id stint.TaskID) {
		t.Helper()
		err := store.InsertTasks(t.Context(), []stint.Task{{ID: id, Action: "act"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	insert("before")
	if err := h.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	insert("unread")
	server.Crash(t)
	for range 2 {
		if err := h.Read(t.Context()); err == nil {
			t.Error("Read = nil without a server")
		}
	}
	testdb.NewServer(t, server.Dir(), logical())
	pool.Reset() // an insert over a connection that has ended would fail
	insert("behind")
	wantClean(t, h)
	if c := h.Counts(); h.Tasks() != 3 || c.Moves != 3 {
		t.Errorf("%d tasks and %d moves, want 3 of each", h.Tasks(), c.Moves)
	}
}

// A fetch that has begun when limits are set knows nothing of them, and breaks none (L6).
// Proves G325.
func TestHistory_KnowsOfFetchesThatBeganBeforeTheLimits(t *testing.T) {
	t.Parallel()
	_, pool, h := follow(t)
	store := newStore(t, pool)
	err := store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "act", Key: "one"}, {ID: "b", Action: "act", Key: "one"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var owned []stint.OwnedTask
	set := make(chan error, 1)
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) (err error) {
		owned, err = store.WithTx(tx).OwnTasks(t.Context(), "x", 2, []string{"act"}, time.Hour)
		go func() { set <- store.SetLimits(t.Context(), "act", stint.Limits{Ordered: true}) }()
		for limits := 0; limits == 0 && err == nil; {
			err = pool.QueryRow(t.Context(), "SELECT count(*) FROM stint.limits").Scan(&limits)
		}
		return err
	})
	if err := errors.Join(err, <-set); err != nil || len(owned) != 2 {
		t.Fatalf("%v owned, %v", owned, err)
	}
	wantClean(t, h)
}

// A play is calls of a store by several callers at once, as a seed has it.
type play struct {
	store *stint.Store
	seed  uint64

	mutex sync.Mutex
	ids   []stint.TaskID
}

var actions = []string{"plain", "limited", "keys", "ordered", "fair", "rate", "cost", "key cost"}

func (p *play) prepare(t *testing.T) {
	t.Helper()
	for action, limits := range map[string]stint.Limits{
		"limited": {Concurrency: 3},
		"keys":    {ConcurrencyPerKey: 2},
		"ordered": {Ordered: true},
		"fair":    {Fair: true, Concurrency: 5},
		"rate": {
			Rate:       stint.Rate{Tasks: 100, Per: time.Second, Burst: 10},
			RatePerKey: stint.Rate{Tasks: 20, Per: time.Second, Burst: 3},
		},
		"cost": {
			Rate: stint.Rate{Tasks: 1000, Per: time.Second, Burst: 100}, ByCost: true,
		},
		"key cost": {
			RatePerKey: stint.Rate{Tasks: 300, Per: time.Second, Burst: 30}, ByCost: true,
		},
	} {
		if err := p.store.SetLimits(t.Context(), action, limits); err != nil {
			t.Fatal(err)
		}
	}
}

func (p *play) run(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var callers sync.WaitGroup
	for n := range 4 {
		callers.Go(func() { p.work(ctx, rand.New(rand.NewPCG(p.seed, uint64(n))), n) })
	}
	for n := range 2 {
		callers.Go(func() { p.operate(ctx, rand.New(rand.NewPCG(p.seed, uint64(n)+100))) })
	}
	callers.Wait()
}

// work owns tasks and returns some of them, in every way. Its errors are part of the play.
func (p *play) work(ctx context.Context, r *rand.Rand, n int) {
	actor := stint.ActorID(fmt.Sprintf("worker-%d", n))
	for ctx.Err() == nil {
		lease := time.Duration(20+r.IntN(200)) * time.Millisecond
		owned, err := p.store.OwnTasks(ctx, actor, 1+r.IntN(8), actions, lease)
		if err != nil || len(owned) == 0 {
			pause(ctx, 5*time.Millisecond)
			continue
		}
		for _, task := range owned {
			p.perform(ctx, r, actor, task)
		}
	}
}

func (p *play) perform(
	ctx context.Context, r *rand.Rand, actor stint.ActorID, task stint.OwnedTask,
) {
	back := stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
	switch r.IntN(12) {
	case 0:
		return // it dies
	case 1:
		pause(ctx, time.Duration(r.IntN(300))*time.Millisecond)
	case 2:
		tasks := []stint.OwnedTask{task}
		_, _ = p.store.ExtendTasksOwnership(ctx, actor, tasks, 50*time.Millisecond)
		_ = p.store.SetStatus(ctx, task, "half", 0.5)
	case 3:
		back.Code, back.Status = stint.StatusPending, "again"
	case 4:
		back.Code, back.RetryAfter = stint.StatusPending, 30*time.Millisecond
	case 5:
		back.Code, back.Status = stint.StatusAborted, "no"
	case 6:
		back.Code, back.Release = stint.StatusPending, true
	case 7:
		back.Result = []byte("some")
	}
	if spent := r.IntN(60); spent > 20 {
		back.Spent = &spent
	}
	_, _ = p.store.ReturnTasks(ctx, []stint.Return{back})
	if r.IntN(8) == 0 {
		_, _ = p.store.ReturnTasks(ctx, []stint.Return{back})
	}
}

// operate inserts and changes tasks.
func (p *play) operate(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil {
		one, two := p.any(r), p.any(r)
		switch r.IntN(14) {
		case 0, 1, 2, 3, 4:
			_ = p.store.InsertTasks(ctx, p.network(r))
		case 5:
			_, _ = p.store.AbortTasks(ctx, []stint.TaskID{one, two}, "by an operator")
		case 6:
			_, _ = p.store.RetryTasks(ctx, []stint.TaskID{one})
		case 7:
			_, _ = p.store.DeleteTasks(ctx, []stint.TaskID{one})
		case 8:
			_ = p.store.AddDependencies(ctx, []stint.Dependency{{Predecessor: one, Dependent: two}})
		case 9:
			_ = p.store.ReplaceTasks(ctx, []stint.Task{{ID: one, Action: "plain"}})
		case 10:
			high := int16(r.IntN(5))
			_, _ = p.store.ChangeTasks(ctx, []stint.TaskID{one}, stint.TaskChanges{Priority: &high})
		case 11:
			key := fmt.Sprintf("key-%d", r.IntN(4))
			_, _ = p.store.ChangeTasks(ctx, []stint.TaskID{one}, stint.TaskChanges{Key: &key})
		case 12:
			_, _ = p.store.EnsureTasks(ctx, p.network(r))
		case 13:
			_ = p.store.Pause(ctx, "keys")
			pause(ctx, 10*time.Millisecond)
			_ = p.store.Resume(context.WithoutCancel(ctx), "keys")
		}
		pause(ctx, time.Duration(r.IntN(15))*time.Millisecond)
	}
}

func (p *play) any(r *rand.Rand) stint.TaskID {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if len(p.ids) == 0 {
		return "none"
	}
	return p.ids[len(p.ids)-1-r.IntN(min(len(p.ids), 200))]
}

// network is some tasks that wait for one another in every way.
func (p *play) network(r *rand.Rand) []stint.Task {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	var tasks []stint.Task
	for range 1 + r.IntN(25) {
		task := stint.Task{
			ID: stint.TaskID(fmt.Sprintf("t%d", len(p.ids))), Action: actions[r.IntN(len(actions))],
			MaxTries: 1 + r.IntN(4), Priority: int16(r.IntN(3)), Cost: r.IntN(40),
		}
		if r.IntN(4) != 0 {
			task.Key = fmt.Sprintf("key-%d", r.IntN(4))
		}
		if len(tasks) > 0 && r.IntN(2) == 0 {
			wait(r, &task, tasks)
		}
		switch r.IntN(12) {
		case 0:
			task.NotBefore = time.Now().Add(50 * time.Millisecond)
		case 1:
			task.Deadline = time.Now().Add(time.Duration(r.IntN(3000)) * time.Millisecond)
		case 2:
			if len(task.After)+len(task.When) > 0 {
				task.Action, task.Key, task.MaxTries = stint.Spontaneous, "", 0
			}
		}
		p.ids = append(p.ids, task.ID)
		tasks = append(tasks, task)
	}
	return tasks
}

func wait(r *rand.Rand, task *stint.Task, others []stint.Task) {
	one, two := others[r.IntN(len(others))].ID, others[r.IntN(len(others))].ID
	states := [][]stint.State{
		{stint.StateCompleted},
		{stint.StateAborted},
		{stint.StateSkipped},
		{stint.StateCompleted, stint.StateAborted},
	}[r.IntN(4)]
	condition := stint.Condition{After: one, States: states}
	switch r.IntN(5) {
	case 0:
		task.When = []stint.Condition{condition}
	case 1:
		task.WhenAny = []stint.Condition{condition}
		if two != one {
			task.WhenAny = append(task.WhenAny,
				stint.Condition{After: two, States: []stint.State{stint.StateCompleted}})
		}
	case 2:
		task.When = []stint.Condition{{
			After: one, States: []stint.State{stint.StateCompleted}, Results: []string{"some"},
		}}
	default:
		task.After = []stint.TaskID{one}
		if two != one {
			task.After = append(task.After, two)
		}
	}
	if r.IntN(4) == 0 {
		task.OnAbort = stint.RunAnyway
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// logical are the settings of a server that decodes its log.
func logical() map[string]string { return map[string]string{"wal_level": "logical"} }
