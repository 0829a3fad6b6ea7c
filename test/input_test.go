package stint_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

var badNames = map[string]string{
	"empty":         "",
	"with NUL":      "a\x00b",
	"not UTF-8":     "a\xff",
	"half a rune":   "\u20ac"[:2],
	"only NUL":      "\x00",
	"far too long":  strings.Repeat("x", 1<<20),
	"513 bytes":     strings.Repeat("x", 513),
	"513 in runes":  strings.Repeat("\u20ac", 171),
	"UTF-16 halves": "\xed\xa0\x80",
}

// cancelled returns a context that has ended.
func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

func TestVerbs_ReturnTheErrorOfACancelledContext(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for name, verb := range verbs(store) {
		wantErr(t, name, verb(cancelled(t)), context.Canceled)
	}
}

func TestVerbs_ReturnErrClosedAfterClose(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if err := store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, verb := range verbs(store) {
		wantErr(t, name, verb(t.Context()), stint.ErrClosed)
	}
	wantErr(t, "InsertTasks of nothing", store.InsertTasks(t.Context(), nil), stint.ErrClosed)
}

// Beside Citus, a schema that it does not distribute is one like any other.
func TestVerbs_WorkInASchemaThatCitusDoesNotDistribute(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	testdb.FakeCitus(t, pool, "")
	wholeLife(t, openStore(t, pool, stint.Options{}), nil)
}

// A schema says which releases work with it, so that processes may be replaced one by one.
func TestVerbs_WorkWithANewerSchemaThatSupportsThem(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	exec(t, pool, "UPDATE stint.stint_schema_version SET version = version + 1")
	wholeLife(t, openStore(t, pool, stint.Options{}), nil)
}

// Proves G164.
func TestVerbs_ReturnErrSchemaVersionWithoutOrWithAnotherSchema(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	newer := testdb.New(t)
	exec(t, newer, "UPDATE stint.stint_schema_version SET version = version + 1")
	exec(t, newer, "UPDATE stint.supported SET since = 3")
	older := testdb.New(t)
	exec(t, older, "UPDATE stint.stint_schema_version SET version = version - 1")
	distributed := testdb.New(t)
	testdb.FakeCitus(t, distributed, "stint")
	for name, test := range map[string]struct {
		pool   *pgxpool.Pool
		schema string
	}{
		"missing": {testdb.NewEmpty(t), ""},
		"newer":   {newer, ""},
		"older":   {older, ""},
		"other":   {newer, "other"},
		"citus":   {distributed, ""},
	} {
		store, err := stint.New(test.pool, stint.Options{
			Schema: test.schema, Maintenance: stint.MaintainNever,
		})
		if err != nil {
			t.Fatal(err)
		}
		for verbName, verb := range verbs(store) {
			wantErr(t, name+": "+verbName, verb(t.Context()), stint.ErrSchemaVersion)
		}
		tx, err := test.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		err = store.WithTx(tx).InsertTasks(t.Context(), []stint.Task{{ID: "a", Action: "a"}})
		wantErr(t, name+" in a transaction", err, stint.ErrSchemaVersion)
		if err := tx.Commit(t.Context()); err != nil {
			t.Errorf("%s: the transaction is unusable: %v", name, err)
		}
	}
}

func TestVerbs_DoNothingWithEmptyLists(t *testing.T) {
	t.Parallel()
	// Nobody listens there: a verb that asks the database fails.
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	kept, extendErr := store.ExtendTasksOwnership(ctx, "actor", nil, time.Hour)
	verdicts, returnErr := store.ReturnTasks(ctx, nil)
	infos, getErr := store.GetTasks(ctx, []stint.TaskID{})
	err = errors.Join(
		store.InsertTasks(ctx, nil), store.InsertTasks(ctx, []stint.Task{}),
		store.ReplaceTasks(ctx, nil), errOf(store.AbortTasks(ctx, nil, "")),
		errOf(store.DeleteTasks(ctx, nil)),
		extendErr, returnErr, getErr,
	)
	if err != nil || len(kept)+len(verdicts)+len(infos) != 0 {
		t.Errorf("empty lists: %v, %v, %v, %v", err, kept, verdicts, infos)
	}
}

func yearStart(year int) time.Time { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC) }

// Proves G1.
func TestInsertTasks_RefusesBadTasksAndInsertsNothing(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	long := stint.TaskID(strings.Repeat("x", 513))
	bad := map[string]stint.Task{
		"body over 64 MiB":  {ID: "x", Action: "a", Body: make([]byte, 64<<20+1)},
		"negative tries":    {ID: "x", Action: "a", MaxTries: -2},
		"absurd tries":      {ID: "x", Action: "a", MaxTries: math.MaxInt32 + 1},
		"unknown policy":    {ID: "x", Action: "a", OnAbort: 2},
		"start too late":    {ID: "x", Action: "a", NotBefore: yearStart(10_000)},
		"deadline in 1 BC":  {ID: "x", Action: "a", Deadline: yearStart(0)},
		"action of 256":     {ID: "x", Action: strings.Repeat("x", 256)},
		"key of 256":        {ID: "x", Action: "x", Key: strings.Repeat("x", 256)},
		"empty predecessor": {ID: "x", Action: "a", After: []stint.TaskID{"good0", ""}},
		"dependent of 513":  {ID: "x", Action: "a", ToSignalAfter: []stint.TaskID{long}},
	}
	for name, text := range badNames {
		if text != "" { // which asks for a random ID
			bad["ID "+name] = stint.Task{ID: stint.TaskID(text), Action: "a"}
			bad["key "+name] = stint.Task{ID: "x", Action: "a", Key: text} // and none is allowed
		}
		bad["action "+name] = stint.Task{ID: "x", Action: text}
	}
	for name, task := range bad {
		for _, more := range []int{1, 100} {
			tasks := append(numbered("good", more), task)
			_, streamErr := store.InsertTasksFrom(t.Context(), stream(tasks, nil))
			for verb, err := range map[string]error{
				"InsertTasks":     store.InsertTasks(t.Context(), tasks),
				"ReplaceTasks":    store.ReplaceTasks(t.Context(), tasks),
				"InsertTasksFrom": streamErr,
			} {
				wantErr(t, verb+" with "+name, err, stint.ErrInvalidArgument)
				var argument *stint.ArgumentError
				if !errors.As(err, &argument) || argument.Index != more {
					t.Errorf("%s with %s = %v, want the index %d", verb, name, err, more)
				}
				if len(err.Error()) > 1000 {
					t.Errorf("%s with %s: an error of %d bytes", verb, name, len(err.Error()))
				}
			}
		}
	}
	list, err := listTasks(t.Context(), store, stint.Filter{})
	if err != nil || len(list) != 0 {
		t.Errorf("%d tasks were inserted, %v", len(list), err)
	}
}

// Proves G3.
func TestInsertTasks_TakesValuesAtTheirLimits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	if testing.Short() {
		t.Skip("moves 64 MiB")
	}
	store := newStore(t)
	task := stint.Task{
		ID: stint.TaskID(strings.Repeat("i", 512)), Action: strings.Repeat("a", 255),
		Body: make([]byte, 64<<20), Priority: math.MinInt16, MaxTries: math.MaxInt32,
		Key: strings.Repeat("k", 255),
	}
	insert(t, store, task)
	actor := stint.ActorID(strings.Repeat("w", 255))
	owned, err := store.OwnTasks(t.Context(), actor, math.MaxInt, []string{task.Action},
		10*365*24*time.Hour)
	if err != nil || len(owned) != 1 || len(owned[0].Body) != len(task.Body) {
		t.Fatalf("OwnTasks = %d tasks, %v", len(owned), err)
	}
	verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{{
		ID: task.ID, Token: owned[0].Token, Code: stint.StatusCompleted,
		Result: make([]byte, 64<<20),
	}})
	if err != nil || verdicts[0] != nil {
		t.Errorf("ReturnTasks = %v, %v", verdicts, err)
	}
}

// Proves G167.
func TestOwnTasks_RefusesBadArguments(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	act := []string{"act"}
	for name, test := range map[string]struct {
		actor   stint.ActorID
		n       int
		actions []string
		lease   time.Duration
	}{
		"no tasks":             {"actor", 0, act, time.Hour},
		"negative tasks":       {"actor", -1, act, time.Hour},
		"nil actions":          {"actor", 1, nil, time.Hour},
		"empty actions":        {"actor", 1, []string{}, time.Hour},
		"zero lease":           {"actor", 1, act, 0},
		"negative lease":       {"actor", 1, act, -time.Second},
		"lease of 1 ns":        {"actor", 1, act, 1},
		"lease of 11 years":    {"actor", 1, act, 11 * 365 * 24 * time.Hour},
		"actor of 256 bytes":   {stint.ActorID(strings.Repeat("x", 256)), 1, act, time.Hour},
		"too many actions":     {"actor", 1, make([]string, 10_001), time.Hour},
		"one empty action":     {"actor", 1, []string{"act", ""}, time.Hour},
		"one action not UTF-8": {"actor", 1, []string{"act", "\xff"}, time.Hour},
	} {
		_, err := store.OwnTasks(t.Context(), test.actor, test.n, test.actions, test.lease)
		wantErr(t, "OwnTasks with "+name, err, stint.ErrInvalidArgument)
	}
	for name, text := range badNames {
		actor := stint.ActorID(text)
		_, err := store.OwnTasks(t.Context(), actor, 1, act, time.Hour)
		wantErr(t, "OwnTasks by actor "+name, err, stint.ErrInvalidArgument)
		_, err = store.ExtendTasksOwnership(t.Context(), actor, nil, time.Hour)
		wantErr(t, "ExtendTasksOwnership by actor "+name, err, stint.ErrInvalidArgument)
	}
	task := ownOne(t, store) // the refused calls took nothing
	for _, lease := range []time.Duration{0, -time.Second, math.MinInt64} {
		_, err := store.ExtendTasksOwnership(
			t.Context(), "actor", []stint.OwnedTask{task}, lease)
		wantErr(t, "ExtendTasksOwnership", err, stint.ErrInvalidArgument)
	}
}

func TestOwnTasks_TakesRepeatedActionsOnce(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, numbered("t", 3)...)
	owned, err := store.OwnTasks(t.Context(), "actor", 10,
		[]string{"act", "act", "nobody's", "act"}, time.Hour)
	if err != nil || len(owned) != 3 {
		t.Errorf("OwnTasks gave %d tasks, want 3, %v", len(owned), err)
	}
}

// Proves G167.
func TestReturnTask_RefusesBadArgumentsAndKeepsTheTask(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	token := ownOne(t, store).Token
	huge := make([]byte, 64<<20+1)
	endless := time.Duration(math.MaxInt64)
	for name, bad := range map[string]stint.Return{
		"no code":           {ID: "a", Token: token},
		"unknown code":      {ID: "a", Token: token, Code: "Completed"},
		"in-progress":       {ID: "a", Token: token, Code: stint.StatusInProgress},
		"result over limit": {ID: "a", Token: token, Code: stint.StatusCompleted, Result: huge},
		"result of pending": {ID: "a", Token: token, Code: stint.StatusPending, Result: []byte{}},
		"negative wait":     {ID: "a", Token: token, Code: stint.StatusPending, RetryAfter: -1},
		"endless wait": {
			ID: "a", Token: token, Code: stint.StatusPending, RetryAfter: endless,
		},
		"wait of completed": {ID: "a", Token: token, Code: stint.StatusCompleted, RetryAfter: 1},
		"release of done":   {ID: "a", Token: token, Code: stint.StatusAborted, Release: true},
		"no ID":             {Token: token, Code: stint.StatusCompleted},
	} {
		verdicts, err := store.ReturnTasks(t.Context(), []stint.Return{bad})
		if err != nil || !errors.Is(verdicts[0], stint.ErrInvalidArgument) {
			t.Errorf("ReturnTasks with %s = %v, %v", name, verdicts, err)
		}
	}
	err := store.ReturnTask(t.Context(), "a", token, "", stint.StatusCompleted)
	if err != nil {
		t.Errorf("ReturnTask = %v", err)
	}
}

// Proves G167.
func TestVerbsWithIDs_RefuseBadIDs(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	insert(t, store, stint.Task{ID: "a", Action: "act"})
	for name, text := range badNames {
		ids := []stint.TaskID{"a", stint.TaskID(text)}
		_, getErr := store.GetTasks(t.Context(), ids)
		returnErr := store.ReturnTask(
			t.Context(), ids[1], stint.Token{}, "", stint.StatusCompleted)
		for verb, err := range map[string]error{
			"AbortTasks":  errOf(store.AbortTasks(t.Context(), ids, "")),
			"DeleteTasks": errOf(store.DeleteTasks(t.Context(), ids)),
			"GetTasks":    getErr,
			"ReturnTask":  returnErr,
			"SetStatus":   store.SetStatus(t.Context(), stint.OwnedTask{ID: ids[1]}, "", 0),
			"Steps":       errOf(store.Steps(t.Context(), stint.OwnedTask{ID: ids[1]})),
		} {
			wantErr(t, verb+" with an ID "+name, err, stint.ErrInvalidArgument)
		}
	}
	ownOne(t, store)
}

func TestNew_RefusesBadOptions(t *testing.T) {
	t.Parallel()
	pool := testdb.NewEmpty(t)
	if _, err := stint.New(nil, stint.Options{}); !errors.Is(err, stint.ErrInvalidArgument) {
		t.Errorf("New without a pool = %v", err)
	}
	for name, opts := range map[string]stint.Options{
		"schema too long":  {Schema: strings.Repeat("x", 64)},
		"schema with NUL":  {Schema: "a\x00"},
		"negative age":     {Retention: stint.Retention{Completed: -time.Hour}},
		"negative age too": {Retention: stint.Retention{Aborted: -time.Hour}},
		"maintenance":      {Maintenance: 17},
	} {
		_, err := stint.New(pool, opts)
		wantErr(t, "New with a bad "+name, err, stint.ErrInvalidArgument)
	}
}

// listed fills a store with 1007 tasks, which are in all states but blocked.
func listed(t *testing.T) *stint.Store {
	t.Helper()
	store, pool := newStoreAndPool(t, stint.Options{})
	oneInEachState(t, store)
	insert(t, store, stint.Task{ID: "sp%_1", Action: "other"},
		stint.Task{ID: "sp\U0010ffffz", Action: "other"})
	exec(t, pool, `UPDATE stint.tasks SET inserted_at = inserted_at - interval '2 hours'
		WHERE id = 'sp%_1'`)
	return store
}

var (
	inProgress         = []stint.State{stint.StateInProgress}
	scheduledOrAborted = []stint.State{stint.StateScheduled, stint.StateAborted}
)

// filters each choose so many of the listed tasks.
var filters = map[string]struct {
	filter stint.Filter
	want   int
}{
	"default limit": {stint.Filter{}, 100},
	"all":           {stint.Filter{Limit: 10_000}, 1007},
	"prefix":        {stint.Filter{IDPrefix: "span0005"}, 100},
	"literal":       {stint.Filter{IDPrefix: "sp%"}, 1},
	"last rune":     {stint.Filter{IDPrefix: "sp\U0010ffff"}, 1},
	"no such":       {stint.Filter{IDPrefix: "spb"}, 0},
	"action":        {stint.Filter{Actions: []string{"other", "none"}}, 2},
	"empty actions": {stint.Filter{Actions: []string{}, Limit: 5}, 5},
	"completed":     {stint.Filter{States: []stint.State{stint.StateCompleted}}, 1},
	"aborted":       {stint.Filter{States: []stint.State{stint.StateAborted}}, 1},
	"in progress":   {stint.Filter{States: inProgress, Actor: "actor"}, 1},
	"scheduled":     {stint.Filter{States: []stint.State{stint.StateScheduled}}, 1},
	"blocked":       {stint.Filter{States: []stint.State{stint.StateBlocked}}, 0},
	"two states":    {stint.Filter{States: scheduledOrAborted}, 2},
	"actor":         {stint.Filter{Actor: "actor"}, 3},
	"stranger":      {stint.Filter{Actor: "stranger"}, 0},
	"old":           {stint.Filter{MinAge: time.Hour}, 1},
	"older":         {stint.Filter{MinAge: 3 * time.Hour}, 0},
	"young":         {stint.Filter{MaxAge: time.Hour, Limit: 10_000}, 1006},
	"between":       {stint.Filter{MinAge: time.Hour, MaxAge: 3 * time.Hour}, 1},
	"after":         {stint.Filter{After: "span000998", IDPrefix: "span"}, 1},
}

func TestListTasks_Filters(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := listed(t)
	for name, test := range filters {
		list, err := listTasks(t.Context(), store, test.filter)
		if err != nil || len(list) != test.want {
			t.Errorf("%s: ListTasks gave %d tasks, want %d, %v", name, len(list), test.want, err)
		}
	}
}

func TestListTasks_GivesEachTaskOnOnePage(t *testing.T) {
	t.Parallel()
	store := listed(t)
	seen := map[stint.TaskID]bool{}
	filter := stint.Filter{Limit: 101}
	for {
		page, err := store.ListTasks(t.Context(), filter)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range page.Tasks {
			if seen[task.ID] {
				t.Errorf("%q is on two pages", task.ID)
			}
			seen[task.ID] = true
		}
		if filter.After = page.Next; page.Next == "" {
			break
		}
	}
	if len(seen) != 1007 {
		t.Errorf("%d tasks on all pages, want 1007", len(seen))
	}
}

func TestListTasks_RefusesBadFilters(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for name, bad := range map[string]stint.Filter{
		"state":  {States: []stint.State{"unheard of"}},
		"limit":  {Limit: 10_001},
		"many":   {Actions: strings.Split(strings.Repeat("a,", 1000)+"a", ",")},
		"below":  {Limit: -1},
		"age":    {MinAge: -1},
		"youth":  {MaxAge: -time.Hour},
		"prefix": {IDPrefix: "\xff"},
		"key":    {Key: strings.Repeat("k", 256)},
		"actor":  {Actor: "a\x00"},
		"action": {Actions: []string{""}},
		"after":  {After: stint.Cursor(strings.Repeat("x", 513))},
		"cursor": {After: "x", States: inProgress},
		"body":   {Body: "$.customer.id = 7"},
		"path":   {Body: "$" + strings.Repeat("[0]", 171)},
		"text":   {Status: "a\x00"},
		"bytes":  {Status: strings.Repeat("ä", 256) + "b"},
	} {
		_, err := store.ListTasks(t.Context(), bad)
		wantErr(t, "ListTasks with a bad "+name, err, stint.ErrInvalidArgument)
	}
}
