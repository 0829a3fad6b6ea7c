package stint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

const (
	randomKeys  = 6
	randomTasks = 30 // of each key
)

// An orderJudge knows which tasks may have ended, and so which may begin.
type orderJudge struct {
	mutex sync.Mutex
	// ends counts, for each task of each key, the calls that may have ended it.
	ends [randomKeys][randomTasks]int
	// owners are those who perform a task of each key, by the task, unless it may have ended.
	owners   [randomKeys]map[int]stint.OwnedTask
	last     [randomKeys][randomTasks]stint.OwnedTask // the fetches on the last try
	doubts   []orderDoubt
	finished int
}

// An orderDoubt is a fetch that should not have been, unless an earlier one, on the last try, of
// which its caller came to know later, had expired by then.
type orderDoubt struct {
	what           string
	key, n         int // of the earlier one
	earlier, later stint.OwnedTask
}

// orderLease is the lease of all fetches.
const orderLease = 30 * time.Millisecond

func (j *orderJudge) wrong() (wrong []string) {
	for _, doubt := range j.doubts {
		earlier := doubt.earlier
		if earlier.ID == "" {
			earlier = j.last[doubt.key][doubt.n]
		}
		began := doubt.later.LeaseUntil.Add(-orderLease)
		if earlier.ID == "" || earlier.Try != earlier.MaxTries || earlier.LeaseUntil.After(began) {
			wrong = append(wrong, doubt.what)
		}
	}
	return wrong
}

func randomID(key, n int) stint.TaskID { return stint.TaskID(fmt.Sprintf("%d/%d", key, n)) }

func placeOf(id stint.TaskID) (key, n int) {
	_, _ = fmt.Sscanf(string(id), "%d/%d", &key, &n)
	return key, n
}

// begin notes that a task was fetched, and what is wrong with that.
func (j *orderJudge) begin(task stint.OwnedTask) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	key, n := placeOf(task.ID)
	for before := range n {
		if j.ends[key][before] == 0 {
			j.doubts = append(j.doubts, orderDoubt{
				what: fmt.Sprintf("%s began ahead of %d", task.ID, before),
				key:  key, n: before, later: task,
			})
		}
	}
	for other, owned := range j.owners[key] {
		if other != n && j.ends[key][other] == 0 {
			j.doubts = append(j.doubts, orderDoubt{
				what:    fmt.Sprintf("%s began beside %d", task.ID, other),
				earlier: task, later: owned,
			})
		}
	}
	if j.owners[key] == nil {
		j.owners[key] = map[int]stint.OwnedTask{}
	}
	j.owners[key][n] = task
	if task.Try == task.MaxTries { // its end may be that of the lease
		j.ends[key][n]++
		j.last[key][n] = task
	}
}

// mayEnd notes that a call may end a task from now on; what it returns takes that back.
func (j *orderJudge) mayEnd(id stint.TaskID) (takeBack func()) {
	key, n := placeOf(id)
	add := func(by int) {
		j.mutex.Lock()
		defer j.mutex.Unlock()
		j.ends[key][n] += by
	}
	add(1)
	return func() { add(-1) }
}

// mayLose notes that a task may be another owner's from now on, or in no progress.
func (j *orderJudge) mayLose(id stint.TaskID) {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	key, n := placeOf(id)
	delete(j.owners[key], n)
}

func (j *orderJudge) done() bool {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	return j.finished == randomKeys
}

// perform owns tasks, and does with each what owners do: ends it, fails, gives it back, or dies.
func (j *orderJudge) perform(ctx context.Context, store *stint.Store, r *rand.Rand) error {
	actor := stint.ActorID(fmt.Sprint("actor ", r.IntN(3)))
	owned, err := store.OwnTasks(ctx, actor, 1+r.IntN(4), []string{"act"}, orderLease)
	if err != nil {
		return err
	}
	for _, task := range owned {
		j.begin(task)
	}
	for _, task := range owned {
		done := stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusPending}
		switch r.IntN(9) {
		case 0: // it dies
			j.mayLose(task.ID)
			continue
		case 1:
			done.RetryAfter = time.Duration(r.IntN(30)) * time.Millisecond
		case 2:
			done.Release = true
		case 3:
		case 4:
			done.Code = stint.StatusAborted
		default:
			done.Code = stint.StatusCompleted
		}
		takeBack := func() {}
		if done.Code != stint.StatusPending || task.Try == task.MaxTries {
			takeBack = j.mayEnd(task.ID)
		}
		j.mayLose(task.ID)
		verdicts, err := store.ReturnTasks(ctx, []stint.Return{done})
		switch {
		case err != nil:
			return err
		case errors.Is(verdicts[0], stint.ErrInvalidToken):
			takeBack()
		case verdicts[0] != nil:
			return verdicts[0]
		}
	}
	return nil
}

// disturb does what others do with tasks, whatever these are doing.
func (j *orderJudge) disturb(
	ctx context.Context, store *stint.Store, pool *pgxpool.Pool, r *rand.Rand,
) error {
	id := randomID(r.IntN(randomKeys), r.IntN(randomTasks))
	ids := []stint.TaskID{id}
	var err error
	switch r.IntN(8) {
	case 0:
		j.mayEnd(id)
		j.mayLose(id)
		_, err = store.AbortTasks(ctx, ids, "")
	case 1:
		takeBack := j.mayEnd(id)
		if _, err = store.DeleteTasks(ctx, ids); errors.Is(err, stint.ErrTaskInProgress) {
			takeBack()
		}
	case 2: // an open transaction locks rows, and ends without having done anything
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		_, err = store.WithTx(tx).DeleteTasks(ctx, ids)
		return errors.Join(ignored(err), tx.Rollback(ctx))
	case 3:
		_, err = store.ChangeTasks(ctx, ids, stint.TaskChanges{StartNow: true})
	case 4:
		if err = store.PauseKeys(ctx, "act", "key 0"); err == nil {
			err = store.ResumeKeys(ctx, "act", "key 0")
		}
	case 5:
		_, err = store.RetryTasks(ctx, ids)
	case 6:
		err = store.Maintain(ctx)
	case 7:
		err = store.SetLimits(ctx, "act", stint.Limits{Ordered: true, Concurrency: r.IntN(9)})
	}
	return ignored(err)
}

// ignored returns an error, unless a task was only in another state.
func ignored(err error) error {
	for _, usual := range []error{
		stint.ErrTaskNotFound, stint.ErrTaskInProgress, stint.ErrTaskFinished,
		stint.ErrTaskStarted,
	} {
		if errors.Is(err, usual) {
			return nil
		}
	}
	return err
}

// insertAll inserts the tasks of a key in order, some at a time, in short and long transactions.
func (j *orderJudge) insertAll(
	ctx context.Context, store *stint.Store, pool *pgxpool.Pool, key int, r *rand.Rand,
) error {
	for n := 0; n < randomTasks; {
		var tasks []stint.Task
		for range 1 + r.IntN(5) {
			if n == randomTasks {
				break
			}
			tasks = append(tasks, stint.Task{
				ID: randomID(key, n), Action: "act", Key: fmt.Sprint("key ", key),
				MaxTries: 1 + r.IntN(4),
			})
			n++
		}
		if r.IntN(2) == 0 {
			if err := store.InsertTasks(ctx, tasks); err != nil {
				return err
			}
			continue
		}
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		if err := store.WithTx(tx).InsertTasks(ctx, tasks); err != nil {
			return err
		}
		var one int // the transaction goes on for a while
		err = tx.QueryRow(ctx, "SELECT count(*) FROM stint.tasks").Scan(&one)
		if err := errors.Join(err, tx.Commit(ctx)); err != nil {
			return err
		}
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.finished++
	return nil
}

// Whatever owners, and others, do with tasks, and whoever dies, no task begins before all earlier
// ones of its key have ended, and all of them end.
// Proves G250, G251, G252.
func TestOrdered_HoldsWhateverHappens(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for round := range testrun.Rounds(2) {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d", seed)
			playInOrder(t, seed)
		})
	}
}

func playInOrder(t *testing.T, seed uint64) {
	t.Helper()
	options := stint.Options{MaxLosses: stint.UnlimitedLosses} // owners are lost all the time
	first, pool := newStoreAndPool(t, options)
	setLimits(t, first, stint.Limits{Ordered: true})
	stores := []*stint.Store{
		first, openStore(t, pool, options),
		openStore(t, pool, stint.Options{PollOnly: true, MaxLosses: stint.UnlimitedLosses}),
	}
	judge := &orderJudge{}
	var parts sync.WaitGroup
	play := func(part int, again func() bool, do func(r *rand.Rand) error) {
		r := rand.New(rand.NewPCG(seed, uint64(part)))
		parts.Go(func() {
			for again() {
				if err := do(r); err != nil {
					t.Errorf("part %d: %v", part, err)
					return
				}
			}
		})
	}
	left := func() int {
		return yields[int](t, pool, "SELECT count(*) FROM stint.task_states WHERE state < 10")
	}
	for key := range randomKeys {
		once := true
		play(key, func() bool { defer func() { once = false }(); return once },
			func(r *rand.Rand) error {
				return judge.insertAll(t.Context(), stores[key%3], pool, key, r)
			})
	}
	goesOn := func() bool { return !judge.done() || left() > 0 }
	for worker := range 5 {
		play(100+worker, goesOn, func(r *rand.Rand) error {
			return judge.perform(t.Context(), stores[worker%3], r)
		})
	}
	play(200, func() bool { return !judge.done() || left() > randomTasks },
		func(r *rand.Rand) error { return judge.disturb(t.Context(), stores[1], pool, r) })
	parts.Wait()
	for _, wrong := range judge.wrong() {
		t.Error(wrong)
	}
}
