//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

const promise = "every request got the one result of its computation"

// Proves G103.
func TestCompute_EveryRequestGetsItsResultWhileWorkersAndTheServerDie(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	journal := filepath.Join(t.TempDir(), "journal")
	run := start(t, nil, "-journal", journal, "-limit", "4m", "-clients", "2", "-workers", "3",
		"-requests", "60", "-names", "20", "-hardest", "10000000",
		"-kill", "300ms", "-pause", "700ms", "-crash", "800ms")
	run.wantExit(t, exitProven)
	run.wantOutput(t, promise, "longest wait")
	found := entries(t, journal)
	for _, kind := range []kind{died, crashing, restarted} {
		if count(found, kind) == 0 {
			t.Errorf("the journal has no entry %s", kind)
		}
	}
	if asked, answered := count(found, asked), count(found, answered); asked != 66 ||
		answered != 66 {
		t.Errorf("%d requests, %d answers, want 66, with six for what was finished",
			asked, answered)
	}
}

// However soon the work would be done, it is not over before everything has struck.
func TestCompute_IsStruckByEverything(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	journal := filepath.Join(t.TempDir(), "journal")
	run := start(t, nil, "-journal", journal, "-limit", "4m", "-hardest", "1000",
		"-requests", "6", "-names", "3", "-kill", "1s", "-pause", "500ms", "-crash", "1s")
	run.wantExit(t, exitProven)
	found := entries(t, journal)
	for _, kind := range []kind{died, pausing, crashing, restarted} {
		if count(found, kind) == 0 {
			t.Errorf("the journal has no entry %s", kind)
		}
	}
}

func TestCompute_LeavesNothingInADatabaseOfYours(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	run := start(t, nil, "-database-url", testdb.URL(pool), "-limit", "4m", "-hardest", "1000000",
		"-requests", "60", "-names", "20", "-kill", "200ms", "-pause", "0")
	run.wantExit(t, exitProven)
	run.wantOutput(t, promise)
	var schemas int
	err := pool.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'compute%'").Scan(&schemas)
	if err != nil || schemas != 0 {
		t.Errorf("%d schemas are left, %v; want none", schemas, err)
	}
}

func TestCompute_CtrlCLeavesNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	temporary := openTempDir(t)
	journals := filepath.Join(temporary, "stint-compute-*", "journal")
	run := start(t, []string{"TMPDIR=" + temporary}, "-hardest", "1000000000", "-pause", "100ms")
	eventually(t, "a worker that was killed", func() bool {
		found, err := filepath.Glob(journals)
		if err != nil {
			t.Fatal(err)
		}
		return len(found) == 1 && count(entries(t, found[0]), died) > 0
	})
	run.signal(t, syscall.SIGINT)
	run.wantExit(t, exitInterrupted)
	run.wantOutput(t, "ended early")
	left, err := os.ReadDir(temporary)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v; want nothing", left, err)
	}
}

func TestCompute_NoProcessOutlivesIt(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	journal := filepath.Join(t.TempDir(), "journal")
	run := start(t, nil, "-database-url", testdb.URL(testdb.NewEmpty(t)), "-journal", journal,
		"-hardest", "1000000000", "-pause", "0")
	eventually(t, "a performance", func() bool { return count(entries(t, journal), began) > 0 })
	run.signal(t, syscall.SIGKILL)
	run.wait(t)
}

func TestCompute_FailsIfRequestsAreNotAnswered(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	run := start(t, nil, "-database-url", testdb.URL(testdb.NewEmpty(t)), "-limit", "3s",
		"-hardest", "1000000000", "-workers", "1", "-pause", "0", "-kill", "100ms")
	run.wantExit(t, exitFailed)
	run.wantOutput(t, "the requests are not answered after 3s")
}

func TestCompute_RefusesBadUsage(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"unknown flag":       {"-wrkers", "3"},
		"argument":           {"more"},
		"no workers":         {"-workers", "0"},
		"more names":         {"-names", "3", "-requests", "2"},
		"negative":           {"-kill", "-1s"},
		"short lease":        {"-lease", "1ms"},
		"no limit":           {"-limit", "0"},
		"no time for it":     {"-limit", "2s", "-kill", "1s"},
		"too hard":           {"-hardest", "10000000000"},
		"crash of a foreign": {"-crash", "1s", "-database-url", "postgres://127.0.0.1:1/none"},
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start(t, nil, args...).wantExit(t, exitUsage)
		})
	}
}

func TestCompute_DoesNotWriteIntoAnOldJournal(t *testing.T) {
	t.Parallel()
	journal := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(journal, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	run := start(t, nil, "-journal", journal, "-database-url", "postgres://127.0.0.1:1/none")
	run.wantExit(t, exitFailed)
	run.wantOutput(t, "must not exist")
}

func TestClient_JoinsAComputationInWhateverState(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	b := newBench(t)
	c := &client{store: b.store, journal: b.journal}
	want := func(want insertion) {
		t.Helper()
		if got, err := c.insert(t.Context(), computationA); err != nil || got != want {
			t.Errorf("insert = %s, %v; want %s", got, err, want)
		}
	}
	want(inserted)
	want(joined) // It is pending.
	owned := b.own(t, "first", time.Minute)
	want(joined) // It is in progress.
	posted, err := json.Marshal(answer{valueA, "first/1"})
	if err != nil {
		t.Fatal(err)
	}
	b.giveBack(t, owned, posted)
	want(joined) // It is finished.
	if err := c.ask(t.Context(), 1, computationA); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.DeleteTasks(t.Context(), []stint.TaskID{computationA}); err != nil {
		t.Fatal(err)
	}
	want(inserted)
	last := entries(t, b.path)[1]
	if last.Kind != answered || last.Answer != (answer{valueA, "first/1"}) {
		t.Errorf("the client wrote %+v, want the answer of first/1", last)
	}
}

// own makes actor the owner of the one task there is.
func (b *bench) own(t *testing.T, actor stint.ActorID, lease time.Duration) stint.OwnedTask {
	t.Helper()
	owned, err := b.store.WaitToOwnTasks(t.Context(), actor, 1, []string{actionFactor}, lease)
	if err != nil || len(owned) != 1 {
		t.Fatalf("WaitToOwnTasks = %d tasks, %v; want 1", len(owned), err)
	}
	return owned[0]
}

func (b *bench) giveBack(t *testing.T, owned stint.OwnedTask, posted []byte) {
	t.Helper()
	verdicts, err := b.store.ReturnTasks(t.Context(), []stint.Return{{
		ID: owned.ID, Token: owned.Token, Code: stint.StatusCompleted, Result: posted,
	}})
	if err := errors.Join(append(verdicts, err)...); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) insert(t *testing.T, id stint.TaskID) {
	t.Helper()
	if err := b.store.InsertTasks(t.Context(), []stint.Task{factorTask(id)}); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) wantResults(t *testing.T, want ...string) {
	t.Helper()
	rows, err := b.results(t.Context())
	if err != nil || len(rows) != len(want) {
		t.Fatalf("results = %v, %v; want of %q", rows, err, want)
	}
	for i, row := range rows {
		if row.Performance != want[i] {
			t.Errorf("results = %v, want of %q", rows, want)
		}
	}
}

func (b *bench) worker(actor stint.ActorID) *worker {
	return &worker{database: b.database, journal: b.journal, actor: actor, lease: time.Minute}
}

// A worker that has lost its task without knowing leaves no trace.
func TestWorker_LateResultIsRefused(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	b := newBench(t)
	b.insert(t, computationA)
	late := performance{OwnedTask: b.own(t, "late", time.Microsecond), name: "late/1"}
	prompt := performance{OwnedTask: b.own(t, "prompt", time.Minute), name: "prompt/1"}
	err := b.worker("late").giveBack(t.Context(), late, valueA)
	if !errors.Is(err, stint.ErrInvalidToken) || errors.Is(err, stint.ErrAlreadyReturned) {
		t.Errorf("giveBack of the late owner = %v, want %v", err, stint.ErrInvalidToken)
	}
	b.wantResults(t)
	if err := b.worker("prompt").giveBack(t.Context(), prompt, valueA); err != nil {
		t.Errorf("giveBack of the owner = %v", err)
	}
	b.wantResults(t, "prompt/1")
}

// What was cut off is repeated, so this may have taken effect before.
func TestWorker_ReturnsTwiceWithOneResult(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	b := newBench(t)
	b.insert(t, computationA)
	p := performance{OwnedTask: b.own(t, "worker", time.Minute), name: "worker/1"}
	w := b.worker("worker")
	if err := w.giveBack(t.Context(), p, valueA); err != nil {
		t.Fatal(err)
	}
	if err := w.attempt(t.Context(), p); err != nil {
		t.Errorf("attempt = %v", err)
	}
	if count(entries(t, b.path), accepted)+count(entries(t, b.path), lost) != 1 {
		t.Errorf("the worker wrote %v, want that it was accepted, or lost the task",
			entries(t, b.path))
	}
	b.wantResults(t, "worker/1")
}

func TestWorker_StopsComputingWhatItHasLost(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	b := newBench(t)
	const prime = 1<<62 - 57 // Seconds of work, for nothing.
	id := stint.TaskID(factorPrefix + strconv.Itoa(prime))
	b.insert(t, id)
	late := performance{OwnedTask: b.own(t, "late", time.Microsecond), name: "late/1"}
	ended := make(chan error, 1)
	go func() { ended <- b.worker("late").attempt(testContext(t), late) }()
	b.own(t, "prompt", time.Minute)
	if err := <-ended; err != nil {
		t.Errorf("attempt = %v", err)
	}
	if count(entries(t, b.path), lost) != 1 {
		t.Errorf("the worker wrote %v, want that it lost the task", entries(t, b.path))
	}
}

func TestFactor_GivesWhatVerifyTakes(t *testing.T) {
	t.Parallel()
	seen := map[stint.TaskID]bool{}
	for number := range 20 {
		id := factorName(number, 100_000)
		if seen[id] {
			t.Errorf("computation %d is named %s like another", number, id)
		}
		seen[id] = true
		value, err := factor(t.Context(), id)
		if err == nil {
			err = verify(id, value)
		}
		if err != nil {
			t.Error(err)
		}
	}
	for _, wrong := range []string{"", "3", "5 * 3", "3 * 7", "1 * 15", "15 * 1", "a * b"} {
		if err := verify(computationA, wrong); err == nil {
			t.Errorf("verify takes %q for the factors of 15", wrong)
		}
	}
	for _, id := range []stint.TaskID{"factor/13", "factor/x", "other/15"} {
		if value, err := factor(t.Context(), id); err == nil {
			t.Errorf("factor(%s) = %q, want an error", id, value)
		}
	}
}

func TestFactor_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stint.ErrInvalidToken)
	if _, err := factor(ctx, factorName(0, 1_000_000)); !errors.Is(err, stint.ErrInvalidToken) {
		t.Errorf("factor = %v, want the cause", err)
	}
}
