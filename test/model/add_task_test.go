package model_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// Tasks that are inserted by the function add_task and those that are inserted by InsertTasks are
// the same rows, and the same verbs make the same of them; finish_task ends them as ReturnTasks
// does.
// Proves G14, G333.
func TestAddTask_MakesWhatInsertTasksMakes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := plainPool(t)
	conn, err := pool.Acquire(t.Context())
	wantErr(t, "Acquire", err, nil)
	wantErr(t, "MigrateSchema", migrations.MigrateSchema(t.Context(), conn.Conn(), "twin"), nil)
	conn.Release()
	functions, err := migrations.Functions("twin")
	wantErr(t, "Functions", err, nil)
	exec(t, pool, functions)
	var stores [2]*stint.Store
	for i, schema := range []string{migrations.DefaultSchema, "twin"} {
		stores[i], err = stint.New(pool, stint.Options{
			Schema: schema, Maintenance: stint.MaintainNever,
			Retention: stint.Retention{Completed: 2 * step, Aborted: 4 * step},
		})
		wantErr(t, "New", err, nil)
	}
	checkWithin(t, pool, inBoth(emptyTables), func(t *rapid.T) {
		w := &twins{pool: pool, stores: stores, start: time.Now()}
		w.insert(t) // so that there is something to do from the start
		t.Repeat(map[string]func(*rapid.T){
			"":         w.check,
			"insert":   w.insert,
			"insert 2": w.insert,
			"insert 3": w.insert,
			"own":      w.own,
			"own 2":    w.own,
			"extend":   w.extend,
			"return":   w.returnTask,
			"return 2": w.returnTask,
			"status":   w.setStatus,
			"abort":    w.abort,
			"delete":   w.delete,
			"retry":    w.retry,
			"maintain": w.maintain,
			"time":     w.passTime,
			"time 2":   w.passTime,
		})
		w.finish(t)
	})
}

// inBoth is a statement without parameters, on the tables of both schemas.
func inBoth(statement string) string {
	return statement + ";" + strings.ReplaceAll(statement, "stint.", "twin.")
}

// Twins are two stores that are treated alike: the tasks of the first are inserted by InsertTasks,
// those of the second, in the schema twin, by add_task, and returned by finish_task.
type twins struct {
	pool   *pgxpool.Pool
	stores [2]*stint.Store
	start  time.Time
	// inserted counts the tasks, so that none has the times of another: the order of tasks that
	// become due at the same time is open.
	inserted time.Duration
	owned    [][2]stint.OwnedTask
}

// A proposal is a task to insert, with what Go cannot express.
type proposal struct {
	stint.Task
	onAbort string
	ensure  bool
}

// defects make a task one that must be refused.
var defects = []func(*proposal){
	func(p *proposal) { p.ID = stint.TaskID(strings.Repeat("x", 513)) },
	func(p *proposal) { p.ID = "a\x00b" },
	func(p *proposal) { p.ID = "a\xff" },
	func(p *proposal) { p.Action = "" },
	func(p *proposal) { p.Action = strings.Repeat("\u20ac", 86) },
	func(p *proposal) { p.Action = "\xed\xa0\x80" },
	func(p *proposal) { p.Key = strings.Repeat("\u20ac", 86) },
	func(p *proposal) { p.Key = "a\x00b" },
	func(p *proposal) { p.Key = "\xff" },
	func(p *proposal) { p.Headers = map[string]string{"Name": ""} },
	func(p *proposal) { p.Headers = map[string]string{"": ""} },
	func(p *proposal) { p.Headers = map[string]string{strings.Repeat("n", 65): ""} },
	func(p *proposal) { p.Headers = map[string]string{"n": strings.Repeat("\u20ac", 683)} },
	func(p *proposal) { p.Headers = seventeen() },
	func(p *proposal) { p.MaxTries = -2 },
	func(p *proposal) { p.MaxTries = math.MaxInt32 + 1 },
	func(p *proposal) { p.OnAbort, p.onAbort = 2, "wait" },
	func(p *proposal) { p.NotBefore = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
	func(p *proposal) { p.NotBefore = time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC) },
	func(p *proposal) { p.Deadline = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) },
	func(p *proposal) { p.Deadline = time.Date(0, 12, 31, 23, 59, 59, 0, time.UTC) },
}

func seventeen() map[string]string {
	headers := map[string]string{}
	for i := range 17 {
		headers[fmt.Sprint("n", i)] = ""
	}
	return headers
}

func (w *twins) propose(t *rapid.T) *proposal {
	drawn := drawTask(t)
	p := &proposal{Task: dated([]newTask{drawn})[0], onAbort: "abort-too"}
	if p.OnAbort == stint.RunAnyway {
		p.onAbort = "run-anyway"
	}
	switch rapid.IntRange(0, 9).Draw(t, "ID") {
	case 0:
		p.ID = ""
	case 1:
		p.ID = rapid.SampledFrom([]stint.TaskID{
			`it's "quoted" \ %s`, "\u00fc\U0001f41f", stint.TaskID(strings.Repeat("x", 512)),
		}).Draw(t, "awkward")
	}
	if one(t, 6, "other action") {
		p.Action = rapid.SampledFrom([]string{
			"stint.spontaneous", strings.Repeat("x", 255), `o'ne`,
		}).Draw(t, "action")
	}
	p.Priority = rapid.SampledFrom([]int16{
		0, 0, 1, -1, math.MaxInt16, math.MinInt16,
	}).Draw(t, "priority")
	p.MaxTries = rapid.SampledFrom([]int{
		stint.UnlimitedTries, 0, 1, 2, 3, math.MaxInt32,
	}).Draw(t, "tries")
	p.Body = rapid.SampledFrom([][]byte{
		nil, {}, {0, 255}, []byte("text"), []byte("\u00fc\\\n'"),
	}).Draw(t, "body")
	w.inserted++
	for _, moment := range []*time.Time{&p.NotBefore, &p.Deadline} {
		if !moment.IsZero() {
			*moment = moment.Add(w.inserted * time.Microsecond)
		}
	}
	if one(t, 6, "defect") {
		rapid.SampledFrom(defects).Draw(t, "what")(p)
	}
	return p
}

// insert inserts a task in both ways, in a transaction that may be rolled back.
func (w *twins) insert(t *rapid.T) {
	p := w.propose(t)
	p.ensure = p.NotBefore.IsZero() && one(t, 3, "ensure")
	rolledBack := one(t, 8, "rolled back")
	id, got := w.addTask(t, p, rolledBack)
	if p.ID == "" {
		p.ID = id
	}
	want := w.insertTask(t, p, rolledBack)
	if refusal(t, got) != refusal(t, want) {
		t.Fatalf("add_task of %+v = %v, InsertTasks = %v", p, got, want)
	}
	if got == nil && id != p.ID {
		t.Fatalf("add_task = %q, want %q", id, p.ID)
	}
}

func (w *twins) insertTask(t *rapid.T, p *proposal, rollback bool) (err error) {
	if !rollback && rapid.Bool().Draw(t, "alone") {
		return p.insert(t, w.stores[0])
	}
	leaveOut := error(nil)
	err = w.inTx(t, rollback, func(tx pgx.Tx) error {
		err := p.insert(t, w.stores[0].WithTx(tx))
		if p.ensure && errors.Is(err, stint.ErrTaskExists) {
			leaveOut, err = err, nil
		}
		return err
	})
	return cmp.Or(err, leaveOut)
}

// insert inserts the task. If EnsureTasks leaves it out, the error is ErrTaskExists.
func (p *proposal) insert(t *rapid.T, store *stint.Store) error {
	if !p.ensure {
		return store.InsertTasks(t.Context(), []stint.Task{p.Task})
	}
	existing, err := store.EnsureTasks(t.Context(), []stint.Task{p.Task})
	return cmp.Or(err, taskError(existing, stint.ErrTaskExists))
}

func (w *twins) inTx(t *rapid.T, rollback bool, work func(tx pgx.Tx) error) error {
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = work(tx)
	end := tx.Commit
	if rollback || err != nil {
		end = tx.Rollback
	}
	if endErr := end(t.Context()); endErr != nil {
		t.Fatal(endErr)
	}
	return err
}

// addTask calls add_task. What is the default is left out, or null, or named.
func (w *twins) addTask(t *rapid.T, p *proposal, rollback bool) (id stint.TaskID, err error) {
	var names []string
	var args []any
	give := func(name string, value any) {
		args = append(args, value)
		names = append(names, fmt.Sprintf("%s => $%d", name, len(args)))
	}
	giveOr := func(name string, isDefault bool, value any) {
		way := 0
		if isDefault {
			way = rapid.IntRange(0, 2).Draw(t, name)
		}
		switch way {
		case 0:
			give(name, value)
		case 1:
			give(name, nil)
		}
	}
	give("action", p.Action)
	switch {
	case p.ID != "":
		give("id", string(p.ID))
	case rapid.Bool().Draw(t, "null ID"):
		give("id", nil)
	}
	switch {
	case p.Key != "":
		give("key", p.Key)
	case rapid.Bool().Draw(t, "null key"):
		give("key", nil)
	}
	giveOr("headers", len(p.Headers) == 0, p.Headers)
	isText := utf8.Valid(p.Body) && !slices.Contains(p.Body, 0)
	switch {
	case p.Body == nil:
	case isText && rapid.Bool().Draw(t, "as text"):
		give("body", string(p.Body))
	default:
		give("body_bytes", p.Body)
	}
	giveOr("priority", p.Priority == 0, p.Priority)
	giveOr("max_tries", p.MaxTries == 0, p.MaxTries)
	giveOr("post_result", !p.PostResult, p.PostResult)
	giveOr("on_abort", p.OnAbort == stint.AbortToo, p.onAbort)
	if !p.NotBefore.IsZero() {
		give("not_before", p.NotBefore)
	}
	if !p.Deadline.IsZero() {
		give("deadline", p.Deadline)
	}
	giveOr("ensure", !p.ensure, p.ensure)
	var made *stint.TaskID
	err = w.inTx(t, rollback, func(tx pgx.Tx) error {
		return tx.QueryRow(t.Context(), "SELECT twin.add_task("+strings.Join(names, ", ")+")",
			args...).Scan(&made)
	})
	switch {
	case err != nil:
		return "", err
	case made == nil:
		return "", taskError([]stint.TaskID{p.ID}, stint.ErrTaskExists)
	}
	return *made, nil
}

// refusal is the kind of an error. PostgreSQL itself refuses what is no text.
func refusal(t *rapid.T, err error) string {
	var pgErr *pgconn.PgError
	code := ""
	if errors.As(err, &pgErr) {
		code = pgErr.Code
	}
	switch {
	case err == nil:
		return ""
	case errors.Is(err, stint.ErrTaskExists), code == "STI01":
		return "exists"
	case errors.Is(err, stint.ErrTooLarge), code == "STI03":
		return "too large"
	case errors.Is(err, stint.ErrInvalidArgument), code == "STI02", code == "22021":
		return "invalid"
	}
	t.Fatalf("an insert fails: %v", err)
	return ""
}

func (w *twins) own(t *rapid.T) {
	actor := rapid.SampledFrom(actors).Draw(t, "actor")
	limit := rapid.SampledFrom([]int{1, 2, 10}).Draw(t, "limit")
	wanted := rapid.SampledFrom([][]string{
		actions, actions, actions[1:], {"wash", "stint.spontaneous"},
	}).Draw(t, "actions")
	lease := rapid.SampledFrom(leases).Draw(t, "lease")
	var owned [2][]stint.OwnedTask
	for i, store := range w.stores {
		var err error
		owned[i], err = store.OwnTasks(t.Context(), actor, limit, wanted, lease)
		requireError(t, "OwnTasks", err, nil)
	}
	if len(owned[0]) != len(owned[1]) {
		t.Fatalf("OwnTasks = %v, of the twin %v", owned[0], owned[1])
	}
	for i := range owned[0] {
		pair := [2]stint.OwnedTask{owned[0][i], owned[1][i]}
		w.owned = append(w.owned, pair)
		for j := range pair { // what no two fetches have in common
			pair[j].Token, pair[j].LeaseUntil = stint.Token{}, time.Time{}
			pair[j].InsertedAt = time.Time{}
		}
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Fatalf("OwnTasks gave %+v, of the twin %+v", pair[0], pair[1])
		}
	}
}

// pair draws a fetch of a task, rather a late one than an early one.
func (w *twins) pair(t *rapid.T) [2]stint.OwnedTask {
	if len(w.owned) == 0 {
		t.Skip("nothing was owned yet")
	}
	back := rapid.IntRange(0, len(w.owned)-1).Draw(t, "back")
	return w.owned[len(w.owned)-1-back]
}

func (w *twins) extend(t *rapid.T) {
	pair := w.pair(t)
	actor := rapid.SampledFrom(actors).Draw(t, "actor")
	lease := rapid.SampledFrom(leases).Draw(t, "lease")
	requireAlike(t, "ExtendTasksOwnership", func(i int) (any, error) {
		return w.stores[i].ExtendTasksOwnership(t.Context(), actor, pair[i:i+1], lease)
	})
}

func (w *twins) returnTask(t *rapid.T) {
	pair, outcome := w.pair(t), drawOutcome(t)
	requireAlike(t, "ReturnTasks", func(i int) (any, error) {
		given := outcome
		given.ID, given.Token = pair[i].ID, pair[i].Token
		if i == 1 && !given.Release {
			return nil, w.finishTask(t, given)
		}
		verdicts, err := w.stores[i].ReturnTasks(t.Context(), []stint.Return{given})
		return nil, errors.Join(append(verdicts, err)...)
	})
}

// finishTask returns a task of the twin by finish_task.
func (w *twins) finishTask(t *rapid.T, r stint.Return) error {
	_, err := w.pool.Exec(t.Context(), "SELECT twin.finish_task($1, $2::text::uuid, $3, $4, "+
		"result_bytes => $5, retry_after => $6)",
		r.ID, r.Token.String(), r.Code, r.Status, r.Result, r.RetryAfter)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	verdict := map[string]error{
		"STI05": stint.ErrInvalidToken, "STI06": stint.ErrAlreadyReturned,
	}[pgErr.Code]
	if strings.Contains(pgErr.Message, "not found") {
		verdict = errors.Join(verdict, stint.ErrTaskNotFound)
	}
	if verdict == nil {
		return err
	}
	return taskError([]stint.TaskID{r.ID}, verdict)
}

func (w *twins) setStatus(t *rapid.T) {
	pair := w.pair(t)
	requireAlike(t, "SetStatus", func(i int) (any, error) {
		return nil, w.stores[i].SetStatus(t.Context(), pair[i], "half", 0.5)
	})
}

func (w *twins) abort(t *rapid.T) {
	ids := rapid.SliceOfN(rapid.SampledFrom(fewIDs), 1, 2).Draw(t, "ids")
	requireAlike(t, "AbortTasks", func(i int) (any, error) {
		return w.stores[i].AbortTasks(t.Context(), ids, "enough")
	})
}

func (w *twins) delete(t *rapid.T) {
	ids := rapid.SliceOfN(rapid.SampledFrom(fewIDs), 1, 2).Draw(t, "ids")
	requireAlike(t, "DeleteTasks", func(i int) (any, error) {
		return w.stores[i].DeleteTasks(t.Context(), ids)
	})
}

func (w *twins) retry(t *rapid.T) {
	ids := rapid.SliceOfN(rapid.SampledFrom(fewIDs), 1, 2).Draw(t, "ids")
	requireAlike(t, "RetryTasks", func(i int) (any, error) {
		return w.stores[i].RetryTasks(t.Context(), ids)
	})
}

func (w *twins) maintain(t *rapid.T) {
	requireAlike(t, "Maintain", func(i int) (any, error) {
		return nil, w.stores[i].Maintain(t.Context())
	})
}

// requireAlike calls a verb of the store with that number, of both of them, which must answer the
// same.
func requireAlike(t *rapid.T, verb string, call func(i int) (any, error)) {
	t.Helper()
	got, err := call(0)
	twin, twinErr := call(1)
	requireError(t, verb, err, twinErr)
	if !reflect.DeepEqual(got, twin) {
		t.Fatalf("%s = %+v, of the twin %+v", verb, got, twin)
	}
}

func (w *twins) passTime(t *rapid.T) {
	n := rapid.IntRange(1, 3).Draw(t, "steps")
	aged := strings.ReplaceAll(ageTables, "$1::interval", "$1")
	aged = strings.ReplaceAll(aged, "$1", fmt.Sprintf("interval '%d minutes'",
		n*int(step/time.Minute)))
	if _, err := w.pool.Exec(t.Context(), inBoth(aged)); err != nil {
		t.Fatal(err)
	}
}

// check compares all rows of the twins.
func (w *twins) check(t *rapid.T) {
	var rows [2][]string
	for i, schema := range []string{"stint.", "twin."} {
		query := strings.ReplaceAll(allRows, "stint.", schema)
		found, err := w.pool.Query(t.Context(), query, w.start)
		if err == nil {
			rows[i], err = pgx.CollectRows(found, pgx.RowTo[string])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(rows[0], rows[1]) {
		t.Fatalf("the rows are\n%s\nof the twin\n%s", strings.Join(rows[0], "\n"),
			strings.Join(rows[1], "\n"))
	}
}

// finish asks both stores whether their tables agree, once nothing is due.
func (w *twins) finish(t *rapid.T) {
	w.maintain(t)
	w.check(t)
	for _, store := range w.stores {
		found, err := store.Check(t.Context())
		if err != nil || len(found) > 0 {
			t.Errorf("Check = %v, %v", found, err)
		}
	}
}

// allRows are the rows of all tables that hold tasks, a line for each task, with all columns but
// those that two inserts cannot have in common: keys, positions, claims, and times of the server's
// clock, which are counted in steps. The order of the ready tasks is among them.
const allRows = `
WITH named AS MATERIALIZED (
	SELECT tasks.key, tasks.id FROM stint.tasks
), place (key, line) AS (
	SELECT tasks.key, format('task %s', to_jsonb(tasks) - '{key,inserted_at}'::text[])
	FROM stint.tasks
	UNION ALL
	SELECT span.key, format('ready as number %s, later %s, claimed %s, %s',
		row_number() OVER (ORDER BY ready.rank, ready.hi, span.key), ready.ready_at IS NOT NULL,
		ready.claim IS NOT NULL,
		to_jsonb(ready) - '{lo,hi,position,rank,claim,ready_at}'::text[])
	FROM stint.ready CROSS JOIN LATERAL generate_series(ready.lo, ready.hi) AS span (key)
	UNION ALL
	SELECT scheduled.key, format('scheduled for %s, claimed %s, %s',
		round((extract(epoch FROM not_before) - extract(epoch FROM $1::timestamptz)) / 1800),
		claim IS NOT NULL, to_jsonb(scheduled) - '{key,not_before,claim}'::text[])
	FROM stint.scheduled
	UNION ALL
	SELECT span.key, format('leased by %s from %s to %s, %s', leases.actor,
		round((extract(epoch FROM leases.owned_at) - extract(epoch FROM $1::timestamptz)) / 1800),
		round((extract(epoch FROM leases.deadline) - extract(epoch FROM $1::timestamptz)) / 1800),
		to_jsonb(leased) - '{lo,hi,claim,ready_at}'::text[])
	FROM stint.leased CROSS JOIN LATERAL generate_series(leased.lo, leased.hi) AS span (key)
	LEFT JOIN stint.leases ON leases.claim = leased.claim AND leases.part = leased.part
	UNION ALL
	SELECT span.key, format('finished at %s, claimed %s, %s',
		round((extract(epoch FROM finished_at) - extract(epoch FROM $1::timestamptz)) / 1800),
		claim IS NOT NULL,
		to_jsonb(finished) - '{lo,hi,claim,finished_at,owned_at,ready_at}'::text[])
	FROM stint.finished CROSS JOIN LATERAL generate_series(finished.lo, finished.hi) AS span (key)
	UNION ALL
	SELECT deadlines.key, format('deadline %s', deadlines.deadline) FROM stint.deadlines
	UNION ALL
	SELECT blocked.key, to_jsonb(blocked)::text FROM stint.blocked
	UNION ALL
	SELECT edges.run, to_jsonb(edges)::text FROM stint.edges
	UNION ALL
	SELECT joined.key, to_jsonb(joined)::text FROM stint.joined
	UNION ALL
	SELECT settling.key, to_jsonb(settling)::text FROM stint.settling
)
SELECT format('%s: %s', named.id, place.line)
FROM place LEFT JOIN named ON named.key = place.key
ORDER BY 1`
