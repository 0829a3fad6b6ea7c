package stint_test

import (
	"bytes"
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
			filter, all := test.filter, []stint.TaskInfo(nil)
			for filter.Limit = limit; ; {
				page, err := store.ListTasks(t.Context(), filter)
				wantErr(t, "ListTasks", err, nil)
				if n := len(page.Tasks); limit > 0 && n > limit {
					t.Errorf("a page of %d has %d tasks", limit, n)
				}
				all = append(all, page.Tasks...)
				if filter.After = page.Next; page.Next == "" {
					break
				}
			}
			got = append(got, listedIDs(all))
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
	for _, filter := range []stint.Filter{
		{Body: "$.n >= 10010"},
		{Body: "$.n < 10", NewestFirst: true},
		{Body: "$.n >= 10010", States: []stint.State{stint.StateReady}},
	} {
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
}
