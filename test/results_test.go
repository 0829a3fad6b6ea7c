package stint_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// resultSizes are the sizes of results of one call, which is made in two pieces; -1 is no result.
func resultSizes() []int {
	return []int{-1, 0, 1, 100, 2 << 10, 100 << 10, 3 << 20, -1, 3 << 20, 3 << 20, 0, 5, 3 << 20}
}

// resultOf makes a result that no other is a part of.
func resultOf(size int) []byte {
	if size < 0 {
		return nil
	}
	result := make([]byte, size)
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], rand.Uint64())
	_, _ = rand.NewChaCha8(seed).Read(result)
	return result
}

// ownForResults owns a task for each of the sizes, and returns what completes them with results.
func ownForResults(tb testing.TB, store *stint.Store, tasks []stint.Task) []stint.Return {
	tb.Helper()
	insert(tb, store, tasks...)
	returns := completed(own(tb, store, len(resultSizes())))
	for i, size := range resultSizes() {
		returns[i].Result = resultOf(size)
	}
	return returns
}

// wantResults checks that returns were accepted, and their results are kept byte for byte.
func wantResults(tb testing.TB, store *stint.Store, returns []stint.Return, verdicts []error) {
	tb.Helper()
	for i, verdict := range verdicts {
		if verdict != nil {
			tb.Errorf("return %d = %v", i, verdict)
		}
		got := info(tb, store, returns[i].ID)
		want := returns[i].Result
		if !bytes.Equal(got.Result, want) || (got.Result == nil) != (want == nil) {
			tb.Errorf("the result of %s has %d bytes, want %d, or others", got.ID,
				len(got.Result), len(want))
		}
	}
}

// Results of all sizes are kept, however many there are in a call, and whatever becomes of the
// tasks; their dependents get them.
// Proves G3.
func TestReturnTasks_KeepsResultsOfAllSizes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	n := len(resultSizes())
	for name, test := range map[string]struct {
		opts  stint.Options
		shape func([]stint.Task) []stint.Task
	}{
		"plain": {},
		"with dependents": {shape: func(tasks []stint.Task) []stint.Task {
			return append(tasks, stint.Task{ID: "join", Action: "join", After: named(tasks)})
		}},
		"with history": {opts: stint.Options{History: stint.HistoryOptions{Tries: 3}}},
		"posted, and not kept": {
			stint.Options{Retention: stint.Retention{Completed: stint.KeepNone}},
			func(tasks []stint.Task) []stint.Task {
				for i := range tasks {
					tasks[i].PostResult = true
				}
				return tasks
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := newStoreAndPool(t, test.opts)
			tasks := numbered("t", n)
			if test.shape != nil {
				tasks = test.shape(tasks)
			}
			returns := ownForResults(t, store, tasks)
			verdicts, err := store.ReturnTasks(t.Context(), returns)
			wantErr(t, "ReturnTasks", err, nil)
			wantResults(t, store, returns, verdicts)
			if len(tasks) > n {
				wantInputs(t, store, returns)
			}
			again, err := store.ReturnTasks(t.Context(), returns)
			wantErr(t, "ReturnTasks again", err, nil)
			for i, verdict := range again {
				wantErr(t, fmt.Sprint("return ", i, " again"), verdict, stint.ErrAlreadyReturned)
			}
		})
	}
}

// wantInputs checks that the task behind all returned ones gets their results.
func wantInputs(t *testing.T, store *stint.Store, returns []stint.Return) {
	t.Helper()
	owned, err := store.OwnTasks(t.Context(), "actor", 1, []string{"join"}, time.Hour)
	if err != nil || len(owned) != 1 {
		t.Fatalf("OwnTasks = %d tasks, %v", len(owned), err)
	}
	inputs, err := store.Inputs(t.Context(), owned[0])
	if err != nil || len(inputs) != len(returns) {
		t.Fatalf("Inputs = %d, %v, want %d", len(inputs), err, len(returns))
	}
	for i, input := range inputs {
		if !bytes.Equal(input.Result, returns[i].Result) {
			t.Errorf("the input %s has another result", input.ID)
		}
	}
}

// With large results beside them, tasks are returned in the other ways as ever.
func TestReturnTasks_TakesAllOutcomesBesideLargeResults(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	tasks := numbered("t", len(resultSizes()))
	returns := ownForResults(t, store, append(tasks, after("falls", named(tasks)...)))
	returns[0] = stint.Return{
		ID: returns[0].ID, Token: returns[0].Token, Code: stint.StatusPending, Status: "again",
	}
	returns[7] = stint.Return{
		ID: returns[7].ID, Token: returns[7].Token, Code: stint.StatusPending, Release: true,
	}
	returns[8].Code = stint.StatusAborted
	returns[9].Token = returns[10].Token // refused
	returns[12].Status = "done"
	verdicts, err := store.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", err, nil)
	wantErr(t, "the return with a wrong token", verdicts[9], stint.ErrInvalidToken)
	others := append(returns[:9:9], returns[10:]...)
	wantResults(t, store, others, append(verdicts[:9:9], verdicts[10:]...))
	for i, want := range map[int]string{
		0: "t000000 ready try 1 \"again\"", 7: "t000007 ready", 9: "t000009 in-progress try 1",
		8: "t000008 aborted/returned try 1", 12: "t000012 completed try 1 \"done\"",
	} {
		if got := describe(info(t, store, returns[i].ID)); got != want {
			t.Errorf("it is %s, want %s", got, want)
		}
	}
	wantState(t, store, stint.StateAborted, "falls")
}

// The pieces of a call are one transaction.
// Proves G209.
func TestReturnTasks_ReturnsPiecesTogether(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	returns := ownForResults(t, store, numbered("t", len(resultSizes())))
	proxy := pgcut.New(t, pool)
	far := openStore(t, proxy.Pool(t, 4), stint.Options{Maintenance: stint.MaintainNever})
	pieces := 0
	trap := proxy.Cut(pgcut.AtReply, func(r pgcut.Request) bool {
		if pgcut.Executes("return_tasks")(r) {
			pieces++
		}
		return pieces == 2
	})
	if _, err := far.ReturnTasks(t.Context(), returns); err == nil || !trap.Sprung() {
		t.Fatalf("ReturnTasks = %v after %d pieces, want a broken connection", err, pieces)
	}
	for _, r := range returns {
		wantState(t, store, stint.StateInProgress, r.ID)
	}
	verdicts, err := store.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", err, nil)
	wantResults(t, store, returns, verdicts)
}

// Tasks are fetched with the returns, however large their results are.
func TestReturnAndOwnTasks_TakesLargeResults(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	returns := ownForResults(t, store, numbered("t", len(resultSizes())+2))
	verdicts, owned, err := store.ReturnAndOwnTasks(t.Context(), returns, stint.Want{
		Actor: "actor", MaxTasks: 9, Actions: []string{"act"}, Lease: time.Hour,
	})
	if err != nil || len(owned) != 2 {
		t.Errorf("ReturnAndOwnTasks = %d tasks, %v, want 2", len(owned), err)
	}
	wantResults(t, store, returns, verdicts)
}

// A late owner's results are kept, too.
func TestReturnTasks_TakesLargeResultsOfLateOwners(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	returns := ownForResults(t, store, numbered("t", len(resultSizes())))
	expireLeases(t, pool)
	wantErr(t, "Maintain", store.Maintain(t.Context()), nil)
	verdicts, err := store.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", err, nil)
	wantResults(t, store, returns, verdicts)
}

// Results are sent some at a time, so that a process need not hold all of them twice.
// Proves G209.
func TestReturnTasks_SendsSomeMebibytesAtATime(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const each, n, most = 2 << 20, 12, 8<<20 + 64<<10
	returnTasks := func(store *stint.Store, returns []stint.Return) ([]error, error) {
		return store.ReturnTasks(t.Context(), returns)
	}
	for name, test := range map[string]struct {
		action string
		late   bool
		call   func(*stint.Store, []stint.Return) ([]error, error)
	}{
		"ReturnTasks":                {"act", false, returnTasks},
		"ReturnTasks of late owners": {"act", true, returnTasks},
		"ReturnAndOwnTasks": {"act", false, func(
			store *stint.Store, returns []stint.Return,
		) ([]error, error) {
			verdicts, _, err := store.ReturnAndOwnTasks(t.Context(), returns, stint.Want{
				Actor: "actor", MaxTasks: 9, Actions: []string{"act"}, Lease: time.Hour,
			})
			return verdicts, err
		}},
		"AnswerTasks": {stint.External, false, func(
			store *stint.Store, returns []stint.Return,
		) ([]error, error) {
			return store.AnswerTasks(t.Context(), "actor", answersOf(returns))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, pool := newStoreAndPool(t, stint.Options{})
			var longest atomic.Int64
			store := openStore(t, metered(t, pool, &longest), stint.Options{
				Maintenance: stint.MaintainNever,
			})
			tasks := numbered("t", n)
			returns := make([]stint.Return, n)
			for i := range tasks {
				tasks[i].Action, returns[i].ID = test.action, tasks[i].ID
				returns[i].Code = stint.StatusCompleted
			}
			insert(t, store, tasks...)
			if test.action != stint.External {
				returns = completed(own(t, store, n))
			}
			for i := range returns {
				returns[i].Result = make([]byte, each)
			}
			if test.late {
				expireLeases(t, pool)
				wantErr(t, "Maintain", near.Maintain(t.Context()), nil)
			}
			longest.Store(0)
			verdicts, err := test.call(store, returns)
			wantErr(t, name, err, nil)
			wantResults(t, store, returns, verdicts)
			if got := longest.Load(); got < each || got > most {
				t.Errorf("%d bytes are sent at once, want %d at most", got, most)
			}
		})
	}
}

// answersOf says of external tasks what returns say of others.
func answersOf(returns []stint.Return) []stint.Answer {
	answers := make([]stint.Answer, len(returns))
	for i, r := range returns {
		answers[i] = stint.Answer{ID: r.ID, Code: r.Code, Status: r.Status, Result: r.Result}
	}
	return answers
}

// metered returns a pool that notes how much is sent at once.
func metered(t *testing.T, pool *pgxpool.Pool, longest *atomic.Int64) *pgxpool.Pool {
	t.Helper()
	return poolOf(t, pool, func(config *pgxpool.Config) {
		dial := config.ConnConfig.DialFunc
		config.ConnConfig.DialFunc = func(
			ctx context.Context, network, address string,
		) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			return &meteredConn{conn, longest}, err
		}
	})
}

// A meteredConn notes how much is written to it at once.
type meteredConn struct {
	net.Conn

	longest *atomic.Int64
}

func (c *meteredConn) Write(p []byte) (int, error) {
	if n := int64(len(p)); n > c.longest.Load() {
		c.longest.Store(n)
	}
	return c.Conn.Write(p)
}

// A large result is written where it stays, and nowhere else on its way.
// Proves G209.
func TestReturnTasks_WritesLargeResultsOnce(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insert(t, store, after("a"))
	ownOne(t, store)
	args := yields[string](t, pool, `SELECT format('array[%s], array[%1$s], array[%s::bigint], ' ||
			'''{0}'', ''{f}'', ''{NULL}'', ', lo, claim)
		FROM stint.leased`)
	const result = "convert_to(repeat('x', 1000000), 'UTF8')"
	for name, test := range map[string]struct {
		args string
		temp bool
	}{
		"return_large": {"'{NULL}', true, '{NULL}', true, true, 1, 1, '{1}', '{1000000}', " +
			result, false},
		"return_tasks": {"array[" + result + "], true, '{NULL}', true, true, 1, 1", true},
	} {
		plan := explained(t, pool, name, args+test.args)
		if temp := plan.TempWritten > 0; temp != test.temp || plan.Rows != 1 {
			t.Errorf("%s returns %.0f tasks and writes %.0f pages of temporary files",
				name, plan.Rows, plan.TempWritten)
		}
	}
}
