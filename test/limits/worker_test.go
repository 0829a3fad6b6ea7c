package limits_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// The environment that makes the test binary a process of workers.
const (
	workerDatabase    = "STINT_TEST_WORKER_DATABASE"
	workerName        = "STINT_TEST_WORKER_NAME"
	workerSeed        = "STINT_TEST_WORKER_SEED"
	workerMaintenance = "STINT_TEST_WORKER_MAINTENANCE"
)

const workersPerProcess = 4

// A note is a line of the journal. Times are the server's.
type note struct {
	Kind    string // own: tasks were fetched; end: returns were accepted
	Call    time.Time
	Start   time.Time
	Claim   int64
	Tasks   []stint.TaskID
	Actions []string
	Keys    []string
	Done    bool // end: the tasks are final
}

// A workerProcess performs tasks in random ways, and keeps a journal.
type workerProcess struct {
	store  *stint.Store
	pool   *pgxpool.Pool
	name   string
	random *rand.Rand
}

// performAsWorker works until its input ends. What it owns then, it leaves to expire.
func performAsWorker(url string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	seed, err := strconv.ParseUint(os.Getenv(workerSeed), 10, 64)
	pool, poolErr := pgxpool.New(ctx, url)
	opts := stint.Options{MaxLosses: stint.UnlimitedLosses} // it is killed again and again
	if os.Getenv(workerMaintenance) == "never" {
		opts.Maintenance = stint.MaintainNever
	}
	if err := errors.Join(err, poolErr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	store, err := stint.New(pool, opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var working sync.WaitGroup
	for i := range workersPerProcess {
		w := &workerProcess{
			store: store, pool: pool, name: fmt.Sprint(os.Getenv(workerName), "-", i),
			random: rand.New(rand.NewPCG(seed, uint64(i))),
		}
		if i == 0 {
			// If it fails, the leases expire.
			_ = store.RegisterActor(ctx, stint.ActorID(w.name), actions())
		}
		working.Go(func() {
			for ctx.Err() == nil {
				w.work(ctx)
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	working.Wait()
	return 0
}

var journal sync.Mutex

func write(line note) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	journal.Lock()
	defer journal.Unlock()
	_, _ = os.Stdout.Write(append(text, '\n'))
}

// work owns tasks once and gives them back. Calls may fail, since connections are cut.
func (w *workerProcess) work(ctx context.Context) {
	r := w.random
	var asked []string
	for _, action := range actions() {
		if r.IntN(3) > 0 {
			asked = append(asked, action)
		}
	}
	if len(asked) == 0 {
		return
	}
	var call time.Time
	if w.pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&call) != nil {
		return
	}
	n := 1 + r.IntN(6)
	if r.IntN(5) == 0 {
		n = 1 + r.IntN(200)
	}
	lease := time.Duration(300+r.IntN(1500)) * time.Millisecond
	owned, err := w.own(ctx, n, asked, lease)
	if err != nil || len(owned) == 0 {
		time.Sleep(time.Duration(1+r.IntN(10)) * time.Millisecond)
		return
	}
	line := note{Kind: "own", Call: call, Claim: claimOf(owned[0].ID, owned[0].Token)}
	// Not from LeaseUntil: a call that is repeated under its claim extends the lease.
	const start = "SELECT min(owned_at) FROM stint.leases WHERE claim = $1 HAVING count(*) > 0"
	if w.pool.QueryRow(ctx, start, line.Claim).Scan(&line.Start) != nil {
		line.Start = owned[0].LeaseUntil.Add(-lease) // it has expired meanwhile
	}
	for _, task := range owned {
		line.Tasks = append(line.Tasks, task.ID)
		line.Actions = append(line.Actions, task.Action)
		line.Keys = append(line.Keys, task.Key)
	}
	write(line)
	time.Sleep(time.Duration(r.IntN(10)) * time.Millisecond)
	for len(owned) > 0 {
		some := owned[:1+r.IntN(len(owned))]
		w.end(ctx, some)
		owned = owned[len(some):]
	}
}

func (w *workerProcess) own(
	ctx context.Context, n int, asked []string, lease time.Duration,
) ([]stint.OwnedTask, error) {
	actor := stint.ActorID(w.name)
	switch w.random.IntN(4) {
	case 0:
		claim, err := stint.NewClaim(0)
		if err != nil {
			return nil, err
		}
		owned, err := w.store.Remote().ClaimTasks(ctx, claim, actor, n, asked, lease)
		if err != nil { // as a caller does who got no answer
			claim.Repeated = true
			owned, err = w.store.Remote().ClaimTasks(ctx, claim, actor, n, asked, lease)
		}
		return owned, err
	case 1:
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		return w.store.WaitToOwnTasks(ctx, actor, n, asked, lease)
	}
	return w.store.OwnTasks(ctx, actor, n, asked, lease)
}

// end ends the performance of some tasks in one way.
func (w *workerProcess) end(ctx context.Context, owned []stint.OwnedTask) {
	r := w.random
	template := stint.Return{Code: stint.StatusCompleted}
	switch r.IntN(16) {
	case 0:
		return // its lease expires
	case 1:
		template.Code = stint.StatusPending
	case 2:
		template.Code = stint.StatusPending
		template.RetryAfter = time.Duration(1+r.IntN(300)) * time.Millisecond
	case 3:
		template.Code, template.Release = stint.StatusPending, true
	case 4:
		template.Code = stint.StatusAborted
	case 5:
		_, _ = w.store.ExtendTasksOwnership(ctx, stint.ActorID(w.name), owned, time.Second)
		time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
	}
	returns := make([]stint.Return, len(owned))
	for i, task := range owned {
		returns[i] = template
		returns[i].ID, returns[i].Token = task.ID, task.Token
	}
	verdicts, err := w.store.ReturnTasks(ctx, returns)
	if err != nil {
		return
	}
	line := note{Kind: "end", Done: template.Code == stint.StatusCompleted}
	for i, verdict := range verdicts {
		if verdict == nil {
			line.Tasks = append(line.Tasks, owned[i].ID)
		}
	}
	write(line)
}

// claimOf is the part of a token that the tasks of one fetch share, as the column claim has it.
func claimOf(id stint.TaskID, token stint.Token) int64 {
	const versionBits = 0xf000
	hash := fnv.New64a()
	hash.Write([]byte(id))
	return int64(binary.BigEndian.Uint64(token[:8]) ^ hash.Sum64()&^versionBits)
}
