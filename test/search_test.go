package stint_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// listedIDs are the IDs of tasks on a page, in its order.
func listedIDs(tasks []stint.TaskInfo) string {
	ids := make([]string, len(tasks))
	for i := range tasks {
		ids[i] = string(tasks[i].ID)
	}
	return strings.Join(ids, " ")
}

// A search picks the tasks whose bodies are JSON that match, whatever bytes others have, with all
// other filters and in every order; in the caller's transaction, too, which goes on.
// Proves G336.
func TestListTasks_ByBody(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	for i, body := range []string{
		`{"customer": {"id": 7}, "tags": ["x", "y"]}`,
		` {"customer": {"id": 7.0}, "tags": "x"} `,
		`{"customer": {"id": "7"}}`,
		`[{"customer": {"id": 7}}]`,
		`{"customer": {"id": 7}}}`, // no JSON, as those below
		"{\"customer\": {\"id\": 7}, \"by\": \"\xff\"}",
		"\x00\x01", "", "customer 7", `{"customer": {"id": 7}, "a": "\u00"}`,
		`{"customer": {"id": 7}, "by": "\u0000\ud800", "n": 1e999999}`, // JSON, but no jsonb
	} {
		insert(t, store, stint.Task{
			ID: stint.TaskID(fmt.Sprint("t", i)), Action: []string{"even", "odd"}[i%2],
			Body: []byte(body),
		})
	}
	insert(t, store, stint.Task{ID: "none", Action: "even"})
	ready, odd := []stint.State{stint.StateReady}, []string{"odd"}
	for _, test := range []struct {
		filter stint.Filter
		want   string
	}{
		{stint.Filter{Body: "$.customer.id == 7"}, "t0 t1 t10 t3"},
		{stint.Filter{Body: `$.tags[*] == "x"`}, "t0 t1"},
		{stint.Filter{Body: "$.tags"}, "t0 t1"},
		{stint.Filter{Body: "!exists($.tags)"}, "t10 t2 t3"},
		{stint.Filter{Body: "$.nothing"}, ""},
		{stint.Filter{Body: "$"}, "t0 t1 t10 t2 t3"},
		{stint.Filter{Body: "$.customer.id == 7", Actions: odd}, "t1 t3"},
		{stint.Filter{Body: "$.customer.id == 7", Actions: odd, States: ready}, "t1 t3"},
		{stint.Filter{Body: "$.customer.id == 7", IDPrefix: "t1"}, "t1 t10"},
		{stint.Filter{Body: "$.customer.id == 7", NewestFirst: true}, "t10 t3 t1 t0"},
		{stint.Filter{Body: "$.customer.id == 7", MinAge: time.Hour}, ""},
	} {
		var got []string
		for limit := range 4 { // 0 is 100
			filter := test.filter
			filter.Limit = limit
			got = append(got, strings.Join(allListed(t, store, filter), " "))
		}
		if len(slices.Compact(got)) != 1 || got[0] != test.want {
			t.Errorf("%+v lists %q, want %q", test.filter, got, test.want)
		}
	}
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		within := store.WithTx(tx)
		_, err := within.ListTasks(t.Context(), stint.Filter{Body: "$.customer.id = 7"})
		wantErr(t, "a bad path", err, stint.ErrInvalidArgument)
		page, err := within.ListTasks(t.Context(), stint.Filter{Body: "$.customer.id == 7"})
		if got := listedIDs(page.Tasks); err != nil || got != "t0 t1 t10 t3" {
			t.Errorf("in a transaction %q, %v", got, err)
		}
		return within.InsertTasks(t.Context(), []stint.Task{{ID: "after", Action: "act"}})
	})
	wantErr(t, "the transaction", err, nil)
}

// A page reads 16 MiB of bodies or a single larger one, says how many tasks that are, and the next
// page goes on behind them, so that each is looked at once. Bodies of tasks that other filters
// leave out are not read.
// Proves G336.
func TestListTasks_ReadsFewBodies(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const mebi = 1 << 20
	store := newStore(t)
	var tasks []stint.Task
	for i, size := range []int{
		5 * mebi, 5 * mebi, 5 * mebi, 5 * mebi, // more than 16 MiB together
		1 * mebi, 20 * mebi, 100, 17 * mebi, 30, 16*mebi - 30, 0, 0, 10, 15 * mebi,
	} {
		body := []byte(`{"n":1}`)
		if size > 0 {
			body = fmt.Appendf(nil, `{"n":%d}%s`, i%2, bytes.Repeat([]byte(" "), size-7))
		}
		tasks = append(tasks, stint.Task{
			ID: stint.TaskID(fmt.Sprintf("t%02d", i)), Action: "act", Body: body,
		}, stint.Task{
			ID: stint.TaskID(fmt.Sprintf("t%02d-", i)), Action: "other",
			Body: bytes.Repeat([]byte(" "), 3*mebi),
		})
	}
	insert(t, store, tasks...)
	filter := stint.Filter{Body: "$.n == 1", Actions: []string{"act"}}
	var pages []string
	for more := true; more; {
		page, err := store.ListTasks(t.Context(), filter)
		wantErr(t, "ListTasks", err, nil)
		pages = append(pages, fmt.Sprint(page.Looked, ": ", listedIDs(page.Tasks)))
		filter.After, more = page.Next, page.Next != ""
	}
	want := []string{
		"7: t01 t03", "4: t05", "4: t07", "4: t09", "9: t10 t11 t13",
	}
	if !slices.Equal(pages, want) {
		t.Errorf("pages are %q, want %q", pages, want)
	}
}

// insertTold inserts tasks in all states with statuses of all kinds, each as its own action.
func insertTold(t *testing.T, store *stint.Store) {
	t.Helper()
	for id, back := range map[stint.TaskID]stint.Return{
		"completed": {Code: stint.StatusCompleted, Status: `All is Done: 100% of a_b\c`},
		"aborted":   {Code: stint.StatusAborted, Status: "Connection REFUSED by 日本語 'Öl'\n\"y\""},
		"long": {
			Code: stint.StatusAborted, Status: strings.Repeat("Abc ", 16<<10-2) + "the End",
		},
		"mute":      {Code: stint.StatusAborted},
		"retried":   {Code: stint.StatusPending, Status: "connection refused once"},
		"scheduled": {Code: stint.StatusPending, Status: "refused", RetryAfter: time.Hour},
		"blocked":   {Code: stint.StatusPending, Status: "1000 of axb/c: done"},
		"owned":     {Status: "half done"},
	} {
		insert(t, store, stint.Task{ID: id, Action: string(id)})
		owned, err := store.OwnTasks(t.Context(), "ann", 1, []string{string(id)}, time.Hour)
		if err != nil || len(owned) != 1 {
			t.Fatalf("OwnTasks = %d tasks, %v", len(owned), err)
		}
		said := "nearly gone"
		if back.Code == "" {
			said = back.Status
		}
		wantErr(t, "SetStatus", store.SetStatus(t.Context(), owned[0], said, 0.5), nil)
		if back.Code == "" {
			continue
		}
		back.ID, back.Token = owned[0].ID, owned[0].Token
		errs, err := store.ReturnTasks(t.Context(), []stint.Return{back})
		wantErr(t, "ReturnTasks", errors.Join(append(errs, err)...), nil)
	}
	wantErr(t, "AddDependencies", addDependency(t, store, "owned", "blocked"), nil)
	together := numbered("ended", 3) // in one row
	insert(t, store, together...)
	var returns []stint.Return
	for _, task := range own(t, store, 3) {
		returns = append(returns, stint.Return{
			ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
		})
	}
	errs, err := store.ReturnTasks(t.Context(), returns)
	wantErr(t, "ReturnTasks", errors.Join(append(errs, err)...), nil)
	insert(t, store, numbered("new", 2)...)
}

// A list finds the tasks whose statuses contain a text, wherever the store keeps them and whatever
// else the filter says. No character of the text stands for others.
// Proves G336.
func TestListTasks_ByStatus(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	insertTold(t, store)
	var alike bool // the collation knows letters beyond ASCII
	wantErr(t, "lower", pool.QueryRow(t.Context(), "SELECT lower('ÖÉ') = 'öé'").Scan(&alike), nil)
	oil := "aborted"
	if !alike {
		oil = ""
	}
	ready := []stint.State{stint.StateReady}
	for _, test := range []struct {
		filter stint.Filter
		want   string
	}{
		{stint.Filter{Status: "refused"}, "aborted retried scheduled"},
		{stint.Filter{Status: "CONNECTION refused"}, "aborted retried"},
		{stint.Filter{Status: "done"}, "blocked completed owned"},
		{stint.Filter{Status: "nearly gone"}, ""}, // others have replaced it
		{stint.Filter{Status: "100%"}, "completed"},
		{stint.Filter{Status: "%"}, "completed"},
		{stint.Filter{Status: "A_B"}, "completed"},
		{stint.Filter{Status: `_b\`}, "completed"},
		{stint.Filter{Status: ".*"}, ""},
		{stint.Filter{Status: "日本"}, "aborted"},
		{stint.Filter{Status: "'Öl'"}, "aborted"},
		{stint.Filter{Status: "'öL'"}, oil},
		{stint.Filter{Status: "'\n\"Y"}, "aborted"},
		{stint.Filter{Status: "c the end"}, "long"},
		{stint.Filter{Status: strings.Repeat("abc ", 128)}, "long"},
		{stint.Filter{Status: " "}, "aborted blocked completed long owned retried"},
		{stint.Filter{Status: "done", Actions: []string{"owned", "mute"}}, "owned"},
		{stint.Filter{Status: "refused", States: ready}, "retried"},
		{stint.Filter{Status: "refused", IDPrefix: "a"}, "aborted"},
		{stint.Filter{Status: "done", Actor: "ann"}, "completed owned"},
		{stint.Filter{Status: "done", MinAge: time.Hour}, ""},
		{stint.Filter{Status: "refused", Body: "$"}, ""},
	} {
		for limit := range 4 { // 0 is 100
			for _, newest := range []bool{false, true} {
				filter := test.filter
				filter.Limit, filter.NewestFirst = limit, newest
				got := allListed(t, store, filter)
				slices.Sort(got)
				if want := strings.Fields(test.want); !slices.Equal(got, want) {
					t.Errorf("%+v lists %q, want %q", filter, got, want)
				}
			}
		}
	}
}

// allListed are the IDs on all pages of a list.
func allListed(t *testing.T, store *stint.Store, filter stint.Filter) (ids []string) {
	t.Helper()
	for {
		page, err := store.ListTasks(t.Context(), filter)
		wantErr(t, "ListTasks", err, nil)
		if n := len(page.Tasks); filter.Limit > 0 && n > filter.Limit {
			t.Errorf("a page of %d has %d tasks", filter.Limit, n)
		}
		ids = append(ids, strings.Fields(listedIDs(page.Tasks))...)
		if filter.After = page.Next; page.Next == "" {
			return ids
		}
	}
}

// Proves G336.
func TestListTasks_SearchesTenThousandTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	tasks := numbered("t", 10_020)
	for i := range tasks {
		tasks[i].Body = fmt.Appendf(nil, `{"n": %d}`, i)
	}
	insert(t, store, tasks...)
	found := func(filter stint.Filter) {
		t.Helper()
		page, err := store.ListTasks(t.Context(), filter)
		if err != nil || page.Looked != 10_000 || len(page.Tasks) > 0 || page.Next == "" {
			t.Fatalf("%+v: looked at %d, %d tasks, next %q, %v", filter, page.Looked,
				len(page.Tasks), page.Next, err)
		}
		filter.After = page.Next
		page, err = store.ListTasks(t.Context(), filter)
		if err != nil || page.Looked != 20 || len(page.Tasks) != 10 || page.Next != "" {
			t.Errorf("%+v then: looked at %d, %d tasks, next %q, %v", filter, page.Looked,
				len(page.Tasks), page.Next, err)
		}
	}
	found(stint.Filter{Body: "$.n >= 10010"})
	found(stint.Filter{Body: "$.n < 10", NewestFirst: true})
	found(stint.Filter{Body: "$.n >= 10010", States: []stint.State{stint.StateReady}})
	_, err := store.AbortTasks(t.Context(), named(tasks[10_010:]), "Too late")
	wantErr(t, "AbortTasks", err, nil)
	found(stint.Filter{Status: "too Late"})
}
