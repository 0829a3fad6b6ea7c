// Package limittest_test lets processes of workers work under limits that change meanwhile, and
// judges from journals and snapshots of its own whether the limits held.
package limits_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

const (
	processes = 4
	soon      = 2 * time.Minute
	// seedVariable repeats a run, as far as processes can be repeated.
	seedVariable = "STINT_TEST_SEED"
)

func actions() []string { return []string{"a", "b", "c", "free"} }

func keys() []string { return []string{"", "", "k1", "k2", "k3", "k4", "k5", "k6"} }

// A play is one run: its parts are the processes, the changes of limits, the calls on tasks, and
// the watcher.
type play struct {
	t           *testing.T
	pool        *pgxpool.Pool
	store       *stint.Store
	seed        uint64
	maintenance string
	judge       judge

	mutex    sync.Mutex
	inserted map[stint.TaskID]bool // false: perhaps
	deleted  map[stint.TaskID]bool // perhaps
	running  []*process
	reading  sync.WaitGroup
}

// A process is one of the processes of workers.
type process struct {
	command *osexec.Cmd
	close   func() error
	done    chan struct{}
}

// Limits hold, and nothing leaks, is lost or stays behind, whatever happens meanwhile.
// Proves L1, L3, L8.
func TestLimits_HoldWhateverHappens(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for round := range testrun.Rounds(5) { //nolint:paralleltest // a round has all processors
		seed := rand.Uint64()
		if text := os.Getenv(seedVariable); text != "" {
			var err error
			if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) { runPlay(t, seed) })
	}
}

func runPlay(t *testing.T, seed uint64) {
	t.Helper()
	t.Logf("%s=%d", seedVariable, seed)
	p := &play{
		t: t, pool: testdb.New(t), seed: seed,
		inserted: map[stint.TaskID]bool{}, deleted: map[stint.TaskID]bool{},
		judge: judge{
			limits: map[string][]setting{}, pauses: map[group][]setting{},
			watched: map[int64]map[group]fetch{},
		},
	}
	opts := stint.Options{MaxLosses: stint.UnlimitedLosses} // workers are killed again and again
	if seed%2 == 0 {
		p.maintenance, opts.Maintenance = "never", stint.MaintainNever
	}
	for _, action := range actions() {
		p.judge.limits[action] = []setting{{end: time.Unix(1, 0)}}
		for _, key := range keys() {
			p.judge.pauses[group{action, key}] = []setting{{end: time.Unix(1, 0)}}
		}
	}
	var err error
	p.store, err = stint.New(p.pool, opts)
	p.want("New", err)
	defer func() { p.want("Close", p.store.Close(context.WithoutCancel(t.Context()))) }()
	p.perform()
	p.drain()
	p.judge.judge(t)
	p.wantNothingLeft()
	p.wantRoom()
	problems, err := p.store.Check(t.Context())
	p.want("Check", err)
	for _, problem := range problems {
		t.Error(problem)
	}
}

func (p *play) want(what string, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("%s = %v", what, err)
	}
}

// perform lets all parts work for a while.
func (p *play) perform() {
	const while = 6 * time.Second
	ctx, cancel := context.WithTimeout(p.t.Context(), while)
	defer cancel()
	watching, stop := context.WithCancel(p.t.Context())
	var watcher, group sync.WaitGroup
	watcher.Go(func() { p.watch(watching) })
	for i := range processes {
		p.running = append(p.running, p.start(i))
	}
	for i, part := range []func(context.Context, *rand.Rand){
		p.change, p.disturb, p.insert, p.call,
	} {
		random := rand.New(rand.NewPCG(p.seed, uint64(1000+i)))
		group.Go(func() {
			for ctx.Err() == nil {
				part(ctx, random)
			}
		})
	}
	group.Wait()
	for _, one := range p.running {
		p.want("end of a process", one.close())
		select {
		case <-one.done:
		case <-time.After(soon):
			p.t.Fatal("a process does not end")
		}
	}
	stop()
	watcher.Wait()
	p.reading.Wait()
}

// start starts a process of workers, and reads its journal.
func (p *play) start(i int) *process {
	program, err := os.Executable()
	p.want("Executable", err)
	command := osexec.CommandContext(p.t.Context(), program)
	command.Env = append(os.Environ(), workerDatabase+"="+testdb.URL(p.pool),
		workerName+"="+fmt.Sprint("process", i), workerMaintenance+"="+p.maintenance,
		workerSeed+"="+strconv.FormatUint(p.seed+uint64(i), 10))
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	p.want("StdinPipe", err)
	out, err := command.StdoutPipe()
	p.want("StdoutPipe", err)
	p.want("Start", command.Start())
	one := &process{command: command, close: in.Close, done: make(chan struct{})}
	p.t.Cleanup(func() { _ = command.Process.Kill() })
	p.reading.Go(func() {
		defer close(one.done)
		const most = 1 << 24
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, most)
		for lines.Scan() {
			var line note
			if json.Unmarshal(lines.Bytes(), &line) == nil { // the last may be cut off
				p.note(line)
			}
		}
		_ = command.Wait()
	})
	return one
}

func (p *play) note(line note) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.judge.notes = append(p.judge.notes, line)
}

func (p *play) watch(ctx context.Context) {
	for ctx.Err() == nil {
		conn, err := p.pool.Acquire(ctx)
		if err != nil {
			continue
		}
		err = p.judge.look(ctx, conn)
		conn.Release()
		if err != nil && ctx.Err() == nil {
			p.t.Logf("the watcher: %v", err)
		}
		time.Sleep(3 * time.Millisecond)
	}
}

// clock is the server's time.
func (p *play) clock() (now time.Time) {
	for {
		if p.pool.QueryRow(p.t.Context(), "SELECT clock_timestamp()").Scan(&now) == nil {
			return now
		}
	}
}

// set makes a call that changes what is allowed, and takes note of it.
func (p *play) set(add func(setting), s setting, call func() error) {
	s.begin = p.clock()
	if err := call(); err == nil {
		s.end = p.clock()
	}
	add(s)
}

func randomLimits(r *rand.Rand) stint.Limits {
	var limits stint.Limits
	if r.IntN(8) == 0 {
		return limits
	}
	if r.IntN(2) == 0 {
		limits.Concurrency = 1 + r.IntN(60)
	}
	if r.IntN(2) == 0 {
		limits.ConcurrencyPerKey = 1 + r.IntN(8)
	}
	if r.IntN(3) == 0 {
		limits.Rate = stint.Rate{
			Tasks: 100 + r.IntN(2000), Per: time.Second, Burst: 1 + r.IntN(100),
		}
	}
	if r.IntN(3) == 0 {
		limits.RatePerKey = stint.Rate{
			Tasks: 50 + r.IntN(500), Per: time.Second, Burst: 1 + r.IntN(20),
		}
	}
	switch r.IntN(6) {
	case 0, 1, 2:
		limits.Fair = true
		if r.IntN(2) == 0 {
			limits.FairGroup = "group"
		}
	case 3:
		limits.Ordered, limits.ConcurrencyPerKey = true, 1
	}
	return limits
}

// change changes limits, weights and pauses.
func (p *play) change(ctx context.Context, r *rand.Rand) {
	action := actions()[r.IntN(len(actions())-1)]
	key := keys()[2+r.IntN(len(keys())-2)]
	whole, one := group{action: action}, group{action, key}
	pause := func(g group) func(setting) {
		return func(s setting) { p.judge.pauses[g] = append(p.judge.pauses[g], s) }
	}
	ctx = context.WithoutCancel(ctx)
	switch r.IntN(6) {
	case 0:
		p.set(pause(whole), setting{paused: true}, func() error {
			return p.store.Pause(ctx, action)
		})
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
		p.set(pause(whole), setting{}, func() error { return p.store.Resume(ctx, action) })
	case 1:
		p.set(pause(one), setting{paused: true},
			func() error { return p.store.PauseKeys(ctx, action, key) })
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
		p.set(pause(one), setting{}, func() error { return p.store.ResumeKeys(ctx, action, key) })
	case 2:
		_ = p.store.SetWeights(ctx, action, map[string]int{key: 1 + r.IntN(10)})
	default:
		limits := randomLimits(r)
		p.set(func(s setting) {
			p.judge.limits[action] = append(p.judge.limits[action], s)
		}, setting{limits: limits}, func() error { return p.store.SetLimits(ctx, action, limits) })
	}
	time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
}

// disturb kills processes and cuts connections.
func (p *play) disturb(_ context.Context, r *rand.Rand) {
	time.Sleep(time.Duration(200+r.IntN(800)) * time.Millisecond)
	if r.IntN(3) > 0 {
		const end = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()
			ORDER BY random() LIMIT 2`
		_, _ = p.pool.Exec(p.t.Context(), end)
		return
	}
	i := r.IntN(len(p.running))
	_ = p.running[i].command.Process.Kill()
	<-p.running[i].done
	p.running[i] = p.start(i)
}

// insert inserts tasks as long as there are few.
func (p *play) insert(ctx context.Context, r *rand.Rand) {
	var ready int
	const enough = 2000
	err := p.pool.QueryRow(ctx, "SELECT count(*) FROM stint.ready").Scan(&ready)
	if err != nil || ready > enough {
		time.Sleep(10 * time.Millisecond)
		return
	}
	tasks := make([]stint.Task, 1+r.IntN(300))
	action, key := actions()[r.IntN(len(actions()))], keys()[r.IntN(len(keys()))]
	priority := r.IntN(3)
	mixed := r.IntN(2) == 0
	p.mutex.Lock()
	for i := range tasks {
		if mixed {
			key = keys()[r.IntN(len(keys()))]
		}
		id := stint.TaskID(fmt.Sprint("t", len(p.inserted)))
		p.inserted[id] = false // perhaps
		tasks[i] = stint.Task{
			ID: id, Action: action, Key: key, Priority: int16(priority),
			MaxTries: stint.UnlimitedTries,
		}
		if r.IntN(50) == 0 {
			tasks[i].Deadline = time.Now().Add(time.Duration(r.IntN(2000)) * time.Millisecond)
		}
		if r.IntN(20) == 0 {
			tasks[i].NotBefore = time.Now().Add(time.Duration(r.IntN(300)) * time.Millisecond)
		}
		if r.IntN(10) == 0 {
			tasks[i].MaxTries = 1 + r.IntN(3)
		}
	}
	p.mutex.Unlock()
	if p.store.InsertTasks(ctx, tasks) == nil {
		p.mutex.Lock()
		for _, task := range tasks {
			p.inserted[task.ID] = true
		}
		p.mutex.Unlock()
	}
}

// call aborts, deletes, retries, replaces and changes tasks.
func (p *play) call(ctx context.Context, r *rand.Rand) {
	time.Sleep(time.Duration(r.IntN(50)) * time.Millisecond)
	p.mutex.Lock()
	n := len(p.inserted)
	p.mutex.Unlock()
	if n == 0 {
		return
	}
	ids := make([]stint.TaskID, 1+r.IntN(5))
	for i := range ids {
		ids[i] = stint.TaskID(fmt.Sprint("t", n-1-r.IntN(min(n, 3000))))
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	switch r.IntN(7) {
	case 5, 6: // one by one: those that have started are refused
		for _, id := range ids {
			_, _ = p.store.ChangeTasks(ctx, []stint.TaskID{id}, []stint.TaskChanges{
				{Key: new(keys()[r.IntN(len(keys()))])},
				{Priority: new(int16(r.IntN(3))), StartNow: true},
				{StartAfter: time.Duration(1+r.IntN(100)) * time.Millisecond},
			}[r.IntN(3)])
		}
	case 0:
		_, _ = p.store.AbortTasks(ctx, ids, "")
	case 1:
		p.mutex.Lock()
		for _, id := range ids {
			p.deleted[id] = true
		}
		p.mutex.Unlock()
		_, _ = p.store.DeleteTasks(ctx, ids)
	case 2, 3:
		p.note(note{Kind: "again", Tasks: ids})
		_, _ = p.store.RetryTasks(ctx, ids)
	case 4:
		p.note(note{Kind: "again", Tasks: ids})
		tasks := make([]stint.Task, len(ids))
		for i, id := range ids {
			tasks[i] = stint.Task{
				ID: id, Action: actions()[r.IntN(len(actions()))], Key: keys()[r.IntN(len(keys()))],
			}
		}
		_ = p.store.ReplaceTasks(ctx, tasks)
	}
}

var errStuck = errors.New("tasks stay behind")
