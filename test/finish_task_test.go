package stint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// returnsGiven are returns to make, once what they are about is there.
type returnsGiven func(*testing.T, *stint.Store, *pgxpool.Pool) []stint.Return

// A finishedCase is returns, each in a transaction of its own, which ReturnTasks and finish_task
// make alike.
type finishedCase struct {
	given returnsGiven
	// want are the kinds of errors; nil: there are none.
	want []string
}

// returnsOne owns a task and returns it like this.
func returnsOne(r stint.Return) returnsGiven {
	return func(t *testing.T, store *stint.Store, _ *pgxpool.Pool) []stint.Return {
		t.Helper()
		task := ownOne(t, store)
		r.ID, r.Token = task.ID, task.Token
		return []stint.Return{r}
	}
}

// returnsFirst inserts tasks, and then returns the first one that is ready.
func returnsFirst(r stint.Return, tasks ...stint.Task) returnsGiven {
	return func(t *testing.T, store *stint.Store, pool *pgxpool.Pool) []stint.Return {
		t.Helper()
		insert(t, store, tasks...)
		return returnsOne(r)(t, store, pool)
	}
}

// returnsLimited sets limits, inserts tasks with keys, and returns the first one; the others are
// parked where the limits say so.
func returnsLimited(limits stint.Limits, r stint.Return) returnsGiven {
	return func(t *testing.T, store *stint.Store, pool *pgxpool.Pool) []stint.Return {
		t.Helper()
		wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", limits), nil)
		var tasks []stint.Task
		for i, key := range []string{"k", "k", "l", "k"} {
			tasks = append(tasks, stint.Task{
				ID: stint.TaskID(fmt.Sprint("task", i)), Action: "act", Key: key,
			})
		}
		insert(t, store, tasks...)
		returns := returnsOne(r)(t, store, pool)
		own(t, store, 1) // parks what has no room
		return returns
	}
}

// returnsLate returns a task whose lease has expired.
func returnsLate(
	code stint.StatusCode, tries int, then func(*testing.T, *stint.Store),
) returnsGiven {
	return func(t *testing.T, store *stint.Store, pool *pgxpool.Pool) []stint.Return {
		t.Helper()
		insert(t, store, stint.Task{ID: "a", Action: "act", MaxTries: tries}, after("b", "a"))
		returns := returnsOne(stint.Return{Code: code, Status: "late"})(t, store, pool)
		expireLeases(t, pool)
		maintain(t, store)
		then(t, store)
		return returns
	}
}

func completing() stint.Return {
	return stint.Return{Code: stint.StatusCompleted, Status: "done", Result: []byte("r\x00")}
}

func aborting() stint.Return { return stint.Return{Code: stint.StatusAborted, Status: "no"} }

func finishedNetworks() map[string]finishedCase {
	first := stint.Task{ID: "a", Action: "act", PostResult: true}
	chain := []stint.Task{first, after("b", "a"), after("c", "b")}
	layers := append(row("layer", 30, 3, stint.Spontaneous), after("end", "layer-30"))
	return map[string]finishedCase{
		"single":          {given: returnsFirst(completing(), first)},
		"single, aborted": {given: returnsFirst(aborting(), first)},
		"nothing said":    {given: returnsFirst(stint.Return{Code: stint.StatusCompleted}, first)},
		"chain":           {given: returnsFirst(completing(), chain...)},
		"chain, aborted":  {given: returnsFirst(aborting(), chain...)},
		"run anyway": {
			given: returnsFirst(aborting(), first, anyway("b", "a"), after("c", "b")),
		},
		"layers of joins": {given: returnsFirst(completing(), layers...)},
		"layers, aborted": {given: returnsFirst(aborting(), layers...)},
		"group": {
			given: returnsFirst(completing(), first, after("b", "a"), after("c", "a")),
		},
		"join of more": {
			given: returnsFirst(completing(), first, after("b"), join("c", "a", "b")),
		},
		"dependent later": {given: returnsFirst(completing(), first, scheduledAfter("b", "a"))},
		"condition, met": {
			given: returnsFirst(completing(), first, when("b", answers("a", "r\x00"))),
		},
		"condition, unmet": {
			given: returnsFirst(completing(), first, when("b", answers("a", "x"))),
		},
		"condition on end": {given: returnsFirst(aborting(), first,
			when("b", ended("a", stint.StateAborted)),
			when("c", ended("a", stint.StateCompleted)))},
		"first of several": {given: returnsFirst(completing(), first, after("z"),
			whenAny("b", ended("a", stint.StateCompleted), ended("z", stint.StateCompleted)))},
		"fail fast": {given: returnsFirst(aborting(), first, after("b"), failFast("c", "a", "b"))},
		"of a span": {given: func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool,
		) []stint.Return {
			t.Helper()
			insert(t, store, numbered("n", 40)...)
			owned := own(t, store, 40)
			returns := completed(owned)
			return []stint.Return{returns[7], returns[8], returns[30], returns[0], returns[39]}
		}},
		"chord": {given: func(t *testing.T, store *stint.Store, _ *pgxpool.Pool) []stint.Return {
			t.Helper()
			tasks := numbered("n", 10)
			insert(t, store, append(tasks, after("end", named(tasks)...))...)
			return completed(own(t, store, 10))
		}},
	}
}

func finishedTries() map[string]finishedCase {
	pending := stint.Return{Code: stint.StatusPending, Status: "again"}
	later := pending
	later.RetryAfter = time.Hour
	once := stint.Task{ID: "a", Action: "act", MaxTries: 1}
	nothing := func(*testing.T, *stint.Store) {}
	taken := func(t *testing.T, store *stint.Store) {
		t.Helper()
		ownOne(t, store)
	}
	gone := func(t *testing.T, store *stint.Store) {
		t.Helper()
		err := errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"a"}))
		wantErr(t, "DeleteTasks", err, nil)
	}
	return map[string]finishedCase{
		"again":          {given: returnsFirst(pending, after("a"), after("b", "a"))},
		"again, later":   {given: returnsFirst(later, after("a"), after("b", "a"))},
		"last try":       {given: returnsFirst(pending, once, after("b", "a"))},
		"late":           {given: returnsLate(stint.StatusCompleted, 2, nothing)},
		"late, again":    {given: returnsLate(stint.StatusPending, 2, nothing)},
		"late, last try": {given: returnsLate(stint.StatusPending, 1, nothing)},
		"late, and last": {
			given: returnsLate(stint.StatusCompleted, 1, nothing), want: []string{"invalid"},
		},
		"taken over": {
			given: returnsLate(stint.StatusCompleted, 2, taken),
			want:  []string{"invalid"},
		},
		"deleted": {given: returnsLate(stint.StatusCompleted, 2, gone), want: []string{"invalid"}},
		"aborted": {given: returnsEnded(aborts("a")), want: []string{"invalid"}},
		"repeated": {
			given: returnsTwice(completing(), completing()),
			want:  []string{"", "again"},
		},
		"pending, too": {given: returnsTwice(pending, pending), want: []string{"", "again"}},
		"otherwise": {
			given: returnsTwice(completing(), aborting()),
			want:  []string{"", "invalid"},
		},
		"other token": {given: func(
			t *testing.T, store *stint.Store, _ *pgxpool.Pool,
		) []stint.Return {
			t.Helper()
			insert(t, store, after("a"), after("b"))
			a, b := completed(own(t, store, 1)), completed(own(t, store, 1))
			a[0].Token, b[0].Token = b[0].Token, a[0].Token
			return append(a, b[0], stint.Return{ID: "a", Code: stint.StatusCompleted})
		}, want: []string{"invalid", "invalid", "invalid"}},
	}
}

func finishedLimited() map[string]finishedCase {
	cases := map[string]finishedCase{}
	for name, limits := range map[string]stint.Limits{
		"limit": {Concurrency: 1}, "limit of keys": {ConcurrencyPerKey: 1},
		"strict order": {Ordered: true},
	} {
		cases[name] = finishedCase{given: returnsLimited(limits, completing())}
		cases[name+", aborted"] = finishedCase{given: returnsLimited(limits, aborting())}
		cases[name+", again"] = finishedCase{
			given: returnsLimited(limits, stint.Return{Code: stint.StatusPending}),
		}
	}
	spent := completing()
	spent.Spent = new(7)
	cases["budget"] = finishedCase{given: returnsLimited(
		stint.Limits{RatePerKey: anHour, ByCost: true}, spent)}
	return cases
}

// returnsEnded owns a task, ends it otherwise, and then returns it.
func returnsEnded(end func(*testing.T, *stint.Store)) returnsGiven {
	return func(t *testing.T, store *stint.Store, pool *pgxpool.Pool) []stint.Return {
		t.Helper()
		returns := returnsFirst(completing(), after("a"))(t, store, pool)
		end(t, store)
		return returns
	}
}

// returnsTwice returns a task twice.
func returnsTwice(r, second stint.Return) returnsGiven {
	return func(t *testing.T, store *stint.Store, pool *pgxpool.Pool) []stint.Return {
		t.Helper()
		returns := returnsFirst(r, after("a"), after("b", "a"))(t, store, pool)
		second.ID, second.Token = returns[0].ID, returns[0].Token
		return append(returns, second)
	}
}

func scheduledAfter(id stint.TaskID, predecessors ...stint.TaskID) stint.Task {
	task := after(id, predecessors...)
	task.NotBefore = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	return task
}

// The function leaves the same rows as the verb does, and refuses what that refuses.
// Proves G333.
func TestFinishTask_DoesWhatReturnTasksDoes(t *testing.T) {
	t.Parallel()
	cases := finishedTries()
	cases["budget"] = finishedLimited()["budget"]
	for _, more := range []map[string]finishedCase{finishedNetworks(), finishedLimited()} {
		for _, name := range testrun.Some(slices.Sorted(maps.Keys(more))) {
			cases[name] = more[name]
		}
	}
	for name, one := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rows [2][]string
			var kinds [2][]string
			for i, finish := range []func(
				context.Context, *stint.Store, pgx.Tx, stint.Return,
			) error{returnInTx, finishInTx} {
				store, pool := newStoreAndPool(t, stint.Options{
					History: stint.HistoryOptions{Tries: 10},
				})
				exec(t, pool, functions(t))
				for _, r := range one.given(t, store, pool) {
					err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
						return finish(t.Context(), store, tx, r)
					})
					kinds[i] = append(kinds[i], refusalOf(err))
				}
				rows[i] = rowsOf(t, pool)
			}
			want := one.want
			if want == nil {
				want = slices.Repeat([]string{""}, len(kinds[0]))
			}
			if !slices.Equal(kinds[0], want) || !slices.Equal(kinds[1], want) {
				t.Errorf("ReturnTasks = %q, finish_task = %q, want %q", kinds[0], kinds[1],
					want)
			}
			lacks(t, "finish_task", rows[0], rows[1])
			lacks(t, "ReturnTasks", rows[1], rows[0])
		})
	}
}

// Tasks of a fair action, and of keys with a rate, come back when the next one maintains.
// Proves G333.
func TestFinishTask_LeavesTurnsToWhoMaintains(t *testing.T) {
	t.Parallel()
	store, pool := newAddStore(t)
	limits := stint.Limits{ConcurrencyPerKey: 1, Fair: true}
	returns := returnsLimited(limits, completing())(t, store, pool)
	own(t, store, 1)
	mustFinish(t, store, pool, returns[0])
	maintain(t, store)
	if got := ownOne(t, store); got.ID != "task1" {
		t.Errorf("OwnTasks gave %q, want the next one of the key", got.ID)
	}
}

// mustFinish makes a return by finish_task.
func mustFinish(t *testing.T, store *stint.Store, pool *pgxpool.Pool, r stint.Return) {
	t.Helper()
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return finishInTx(t.Context(), store, tx, r)
	})
	wantErr(t, "finish_task", err, nil)
}

// Waiters for tasks, for results and for capacity hear of it at the commit, and not before.
// Proves G333.
func TestFinishTask_WakesThoseWhoWaitAtTheCommit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	exec(t, pool, functions(t))
	store := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever, PollInterval: pollNever,
	})
	t.Cleanup(func() { checkStore(t, pool) })
	insert(t, store, stint.Task{ID: "a", Action: "act", PostResult: true},
		stint.Task{
			ID: "joined", Action: stint.Spontaneous, After: []stint.TaskID{"a"},
			PostResult: true,
		},
		stint.Task{ID: "b", Action: "next", After: []stint.TaskID{"joined"}})
	r := returnsOne(completing())(t, store, pool)[0]
	results := start(func() ([]stint.TaskInfo, error) {
		return store.WaitForTasks(t.Context(), []stint.TaskID{"a", "joined"})
	})
	tasks := start(func() ([]stint.OwnedTask, error) {
		return store.WaitToOwnTasks(t.Context(), "actor", 1, []string{"next"}, time.Hour)
	})
	eventually(t, soon, "both wait", func() bool {
		return listeners(t, pool, "ready next") == 1 && listeners(t, pool, "finished") == 1
	})
	tx := begin(t, pool)
	wantErr(t, "finish_task", finishInTx(t.Context(), store, tx, r), nil)
	wantGoingOn(t, "WaitForTasks", results)
	wantGoingOn(t, "WaitToOwnTasks", tasks)
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	infos, err := ends(t, "WaitForTasks", results)
	if wantErr(t, "WaitForTasks", err, nil); string(infos[0].Result) != "r\x00" {
		t.Errorf("the result is %q", infos[0].Result)
	}
	owned, err := ends(t, "WaitToOwnTasks", tasks)
	if wantErr(t, "WaitToOwnTasks", err, nil); len(owned) != 1 || owned[0].ID != "b" {
		t.Errorf("WaitToOwnTasks = %v", owned)
	}
}

// Proves G333.
func TestFinishTask_RefusesWhatMakesNoSense(t *testing.T) {
	t.Parallel()
	store, pool := newAddStore(t)
	insert(t, store, after("a"))
	task := ownOne(t, store)
	for arguments, want := range map[string][2]string{
		"NULL, $1":                                  {"STI02", "id"},
		"'', $1":                                    {"STI02", "id"},
		"'a', CASE WHEN false THEN $1::uuid END":    {"STI02", "token"},
		"'a', $1, 'released'":                       {"STI02", "code"},
		"'a', $1, 'pending', result => 'r'":         {"STI02", "result"},
		"'a', $1, result => '', result_bytes => ''": {"STI02", "result_bytes"},
		"'a', $1, retry_after => '1 s'":             {"STI02", "retry_after"},
		"'a', $1, spent => -1":                      {"STI02", "spent"},
		"'a', $1, 'pending', NULL, NULL, '-1 s'":    {"STI02", "retry_after"},
		"'a', $1, 'pending', NULL, NULL, '11 y'":    {"STI03", "ten years"},
		"repeat('x', 513), $1":                      {"STI03", "512"},
		"'a', $1, result => repeat('x', 67108865)":  {"STI03", "67108864"},
		"'b', $1": {"STI05", "not found"},
	} {
		_, err := pool.Exec(t.Context(), "SELECT stint.finish_task("+arguments+")",
			pgtype.UUID{Bytes: task.Token, Valid: true})
		wantCode(t, "finish_task("+arguments+")", err, want[0], want[1])
	}
	wantState(t, store, stint.StateInProgress, "a")

	// A status never prevents the return: a long one is cut between letters.
	exec(t, pool, "SELECT stint.finish_task('a', $1, NULL, 'x' || repeat(U&'\\20ac', 30000), '')",
		pgtype.UUID{Bytes: task.Token, Valid: true})
	got := info(t, store, "a")
	if len(got.Status) != 65536 || !utf8.ValidString(got.Status) || got.Result == nil {
		t.Errorf("the status has %d bytes, the result is %v", len(got.Status), got.Result)
	}
	exec(t, pool, "UPDATE stint.supported SET since = 3")
	_, err := pool.Exec(t.Context(), "SELECT stint.finish_task('a', $1)",
		pgtype.UUID{Bytes: task.Token, Valid: true})
	wantCode(t, "finish_task", err, "STI04", "no longer works")
	exec(t, pool, "UPDATE stint.supported SET since = 2")
}

// Somebody who makes a task wait for this one at that moment is either ahead, and the task hears of
// the end, or finds that it has ended; a strict transaction, which cannot see that, has to begin
// again.
// Proves G333.
func TestFinishTask_DoesNotMissADependencyThatIsAdded(t *testing.T) {
	t.Parallel()
	store, pool := newAddStore(t)
	for _, level := range append(strictLevels, pgx.ReadCommitted) {
		a, b := stint.TaskID("a "+level), stint.TaskID("b "+level)
		insert(t, store, after(a))
		r := returnsOne(completing())(t, store, pool)[0]
		insert(t, store, stint.Task{ID: b, Action: "next"})
		tx, adding := beginStrict(t, pool, level), begin(t, pool)
		wantErr(t, "AddDependencies", addDependency(t, store.WithTx(adding), a, b), nil)
		finishing := start(func() (any, error) {
			return nil, errors.Join(finishInTx(t.Context(), store, tx, r), tx.Commit(t.Context()))
		})
		waitForLocks(t, pool, 1)
		wantErr(t, "Commit", adding.Commit(t.Context()), nil)
		_, err := ends(t, "finish_task", finishing)
		if level != pgx.ReadCommitted {
			if !isSerializationFailure(err) {
				t.Errorf("finish_task at %s = %v, want a serialization failure", level, err)
			}
			wantState(t, store, stint.StateBlocked, b)
			continue
		}
		wantErr(t, "finish_task", err, nil)
		wantState(t, store, stint.StateCompleted, a)
		wantState(t, store, stint.StateReady, b)
	}
}

// finishOrReport makes a call of finish_task, and of add_task, in a transaction with a row of the
// caller's own.
func finishOrReport(ctx context.Context, c *cutStore, owned []stint.OwnedTask) error {
	err := pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT stint.add_task('new', id => 'b', ensure => true)")
		if err == nil {
			_, err = tx.Exec(ctx, "INSERT INTO mine VALUES ('a')")
		}
		if err != nil {
			return err
		}
		return finishInTx(ctx, c.Store, tx, stint.Return{
			ID: owned[0].ID, Token: owned[0].Token, Code: stint.StatusCompleted, Status: "said",
		})
	})
	if refusalOf(err) == "again" {
		return &stint.TaskError{IDs: idsOf(owned), Err: stint.ErrAlreadyReturned}
	}
	return err
}

func returnInTx(ctx context.Context, store *stint.Store, tx pgx.Tx, r stint.Return) error {
	verdicts, err := store.WithTx(tx).ReturnTasks(ctx, []stint.Return{r})
	return errors.Join(append(verdicts, err)...)
}

func finishInTx(ctx context.Context, _ *stint.Store, tx pgx.Tx, r stint.Return) error {
	var retryAfter *time.Duration
	if r.RetryAfter > 0 {
		retryAfter = &r.RetryAfter
	}
	_, err := tx.Exec(ctx, "-- name: finish_task\n"+
		"SELECT stint.finish_task($1, $2::text::uuid, $3, $4, "+
		"result_bytes => $5, retry_after => $6, spent => $7)",
		r.ID, r.Token.String(), r.Code, r.Status, r.Result, retryAfter, r.Spent)
	return err
}

// refusalOf is the kind of an error.
func refusalOf(err error) string {
	var pgErr *pgconn.PgError
	code := ""
	if errors.As(err, &pgErr) {
		code = pgErr.Code
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, stint.ErrAlreadyReturned), code == "STI06":
		return "again"
	case errors.Is(err, stint.ErrInvalidToken), code == "STI05":
		return "invalid"
	case errors.Is(err, stint.ErrTooLarge), code == "STI03":
		return "too large"
	case errors.Is(err, stint.ErrInvalidArgument), code == "STI02":
		return "invalid argument"
	}
	return err.Error()
}

// lacks complains of rows that somebody does not leave.
func lacks(t *testing.T, who string, want, got []string) {
	t.Helper()
	for _, row := range want {
		if !slices.Contains(got, row) {
			t.Errorf("%s does not leave the row %s", who, row)
		}
	}
}

// rowsOf are the rows of all tables, but for those about sessions, without times and claims, which
// are only there or not.
func rowsOf(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	tables := yields[[]string](t, pool, `SELECT array_agg(relname::text ORDER BY relname)
		FROM pg_class WHERE relnamespace = 'stint'::regnamespace AND relkind = 'r'
		AND relname NOT IN ('sessions', 'actors', 'action_stats', 'origin', 'minutes')`)
	var all []string
	for _, table := range tables {
		rows := yields[[]string](t, pool, fmt.Sprintf(`
			SELECT coalesce(array_agg(line ORDER BY line), '{}')
			FROM (SELECT '%[1]s ' || jsonb_object_agg(field, CASE
				WHEN (field ~ '_at$' OR field IN ('claim', 'deadline', 'not_before'))
					AND jsonb_typeof(value) <> 'null'
				THEN '"some"' ELSE value END ORDER BY field)::text AS line
			FROM stint.%[1]s AS this, jsonb_each(to_jsonb(this)) AS one (field, value)
			GROUP BY this.ctid) AS row`, table))
		all = append(all, rows...)
	}
	return all
}
