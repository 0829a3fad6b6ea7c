package model_test

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/stint-tasks/stint"
)

// steps is the step of the model that a time of the database falls on.
func (m *machine) steps(t time.Time) int {
	if t.IsZero() {
		return never
	}
	return m.model.now + int(math.Round(float64(t.Sub(m.start))/float64(step)))
}

// A report is TaskInfo with times in steps.
type report struct {
	stint.TaskInfo
	Expires, Until, Owned int
}

func (m *machine) report(info stint.TaskInfo) report {
	r := report{
		TaskInfo: info, Expires: m.steps(info.Deadline), Owned: m.steps(info.OwnedAt),
	}
	r.Until = m.steps(cmp.Or(info.NotBefore, info.LeaseUntil, info.FinishedAt))
	r.Deadline, r.NotBefore, r.LeaseUntil = time.Time{}, time.Time{}, time.Time{}
	r.FinishedAt, r.InsertedAt, r.OwnedAt = time.Time{}, time.Time{}, time.Time{}
	return r
}

// report is what [stint.Store] should report of the task.
func (t *referenceTask) report() report {
	r := report{
		TaskInfo: stint.TaskInfo{
			ID: t.ID, Action: t.Action, Key: t.Key, Body: t.Body, Priority: t.Priority,
			MaxTries: t.MaxTries, Headers: t.Headers,
			PostResult: t.PostResult, OnAbort: t.OnAbort, State: t.state,
			StatusCode: stint.StatusCode(t.state), AbortCause: t.cause, Tries: t.tries,
			Actor: t.actor, Status: t.status,
		},
		Expires: t.expires, Until: t.until, Owned: never,
	}
	switch t.state {
	case stint.StateReady:
		r.StatusCode, r.Actor, r.Until = stint.StatusPending, "", never
	case stint.StateScheduled:
		r.StatusCode, r.Actor = stint.StatusPending, ""
	case stint.StateInProgress:
		r.Progress, r.Owned = t.progress, t.ownedAt
	default:
		r.Result, r.Owned = t.result, t.ownedAt
	}
	return r
}

// check compares everything the store knows with the model, and looks at the rows behind it.
func (m *machine) check(t *rapid.T) {
	var want []report
	for _, task := range m.model.sorted() {
		want = append(want, task.report())
	}
	infos, err := m.queue.GetTasks(t.Context(), slices.Sorted(maps.Keys(m.model.tasks)))
	requireError(t, "GetTasks", err, nil)
	m.requireReports(t, "GetTasks", infos, want)
	m.requireNone(t, inconsistencies)
}

func (m *machine) requireReports(
	t *rapid.T, verb string, infos []stint.TaskInfo, want []report,
) {
	t.Helper()
	if len(infos) != len(want) {
		t.Fatalf("%s = %d tasks, want %d", verb, len(infos), len(want))
	}
	for i, info := range infos {
		if got := m.report(info); !reflect.DeepEqual(got, want[i]) {
			t.Fatalf("%s[%d] =\n%+v, want\n%+v", verb, i, got, want[i])
		}
	}
}

func (m *machine) get(t *rapid.T) {
	ids := m.ids(t)
	var want []report
	var missing []stint.TaskID
	for _, id := range ids {
		if task := m.model.tasks[id]; task != nil {
			want = append(want, task.report())
		} else if !slices.Contains(missing, id) {
			missing = append(missing, id)
		}
	}
	var wantErr error
	if len(missing) > 0 {
		slices.Sort(missing)
		wantErr = &stint.TaskError{IDs: missing, Err: stint.ErrTaskNotFound}
	}
	infos, err := m.queue.GetTasks(t.Context(), ids)
	requireError(t, "GetTasks", err, wantErr)
	m.requireReports(t, "GetTasks", infos, want)
}

func (m *machine) list(t *rapid.T) {
	states := []stint.State{
		stint.StateBlocked, stint.StateScheduled, stint.StateReady, stint.StateInProgress,
		stint.StateCompleted, stint.StateAborted,
	}
	filter := stint.Filter{
		Actions:  rapid.SampledFrom([][]string{nil, actions[:1], actions}).Draw(t, "actions"),
		States:   rapid.SliceOfN(rapid.SampledFrom(states), 0, 2).Draw(t, "states"),
		IDPrefix: rapid.SampledFrom([]string{"", "n", "n00", "a", "z"}).Draw(t, "prefix"),
		Key:      rapid.SampledFrom([]string{"", "", "k"}).Draw(t, "key"),
		Headers:  rapid.SampledFrom(someHeaders).Draw(t, "headers"),
		Body:     rapid.SampledFrom([]string{"", "", "$.n == 7"}).Draw(t, "search"),
		Status:   rapid.SampledFrom([]string{"", "", "N", "lf"}).Draw(t, "status"),
		Actor:    rapid.SampledFrom([]stint.ActorID{"", "", "ann"}).Draw(t, "actor"),
		Limit:    rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "limit"),
	}
	byID := filter.IDPrefix != "" || len(filter.States) == 0 && filter.Actor == ""
	if byID {
		filter.After = rapid.SampledFrom([]stint.Cursor{"", "a", "c", "n010"}).Draw(t, "after")
	}
	var want []report
	for _, task := range m.model.sorted() {
		r := task.report()
		matches := (filter.Body == "" || string(r.Body) == sevens) &&
			strings.Contains(strings.ToLower(r.Status), strings.ToLower(filter.Status))
		r.Body, r.Result = nil, nil
		id := string(r.ID)
		if strings.HasPrefix(id, filter.IDPrefix) && id > string(filter.After) &&
			(filter.Actions == nil || slices.Contains(filter.Actions, r.Action)) &&
			(len(filter.States) == 0 || slices.Contains(filter.States, r.State)) &&
			(filter.Key == "" || r.Key == filter.Key) && hasAll(r.Headers, filter.Headers) &&
			(filter.Actor == "" || r.Actor == filter.Actor) && matches {
			want = append(want, r)
		}
	}
	var infos []stint.TaskInfo
	for more := true; more; {
		page, err := m.queue.ListTasks(t.Context(), filter)
		requireError(t, "ListTasks", err, nil)
		if n := len(page.Tasks); n > cmp.Or(filter.Limit, 100) || n > page.Looked {
			t.Fatalf("ListTasks gave %d tasks of %d", n, page.Looked)
		}
		infos = append(infos, page.Tasks...)
		filter.After, more = page.Next, page.Next != ""
	}
	if !byID {
		requireInStates(t, infos)
		slices.SortFunc(infos, func(a, b stint.TaskInfo) int { return cmp.Compare(a.ID, b.ID) })
	}
	m.requireReports(t, "ListTasks", infos, want)
}

// hasAll reports whether headers have those that are asked for.
func hasAll(headers, asked map[string]string) bool {
	for name, value := range asked {
		if has, ok := headers[name]; !ok || has != value {
			return false
		}
	}
	return true
}

// requireInStates checks the order of tasks that are listed state by state.
func requireInStates(t *rapid.T, infos []stint.TaskInfo) {
	order := []stint.State{
		stint.StateInProgress, stint.StateReady, stint.StateScheduled, stint.StateBlocked,
		stint.StateAborted, stint.StateCompleted,
	}
	for i := range max(0, len(infos)-1) {
		a, b := infos[i], infos[i+1]
		before := slices.Index(order, b.State) - slices.Index(order, a.State)
		if before < 0 || before == 0 && b.FinishedAt.After(a.FinishedAt) {
			t.Fatalf("ListTasks gave %+v ahead of %+v", a, b)
		}
	}
}

func (m *machine) requireNone(t *rapid.T, query string) {
	t.Helper()
	rows, err := m.db.Query(t.Context(), query)
	found, collectErr := pgx.CollectRows(rows, pgx.RowTo[string])
	if err = errors.Join(err, collectErr); err != nil || len(found) > 0 {
		t.Fatalf("rows are inconsistent: %v %v", found, err)
	}
}

// inconsistencies says what is wrong with the rows, whatever the model says.
const inconsistencies = `
WITH held AS (
	SELECT ready.lo + n.n AS key, 'ready' AS state, ready.tries, ready.action, ready.priority,
	       ready.deadline, ready.lo = ready.hi AS alone
	FROM stint.ready CROSS JOIN LATERAL generate_series(0, ready.hi - ready.lo) AS n (n)
	UNION ALL SELECT key, 'scheduled', tries, NULL, NULL, NULL, true FROM stint.scheduled
	UNION ALL SELECT n.n, 'leased', tries, NULL, NULL, NULL, true
	FROM stint.leased CROSS JOIN LATERAL generate_series(lo, hi) AS n (n)
	UNION ALL SELECT n.n, 'finished', tries, NULL, NULL, NULL, true
	FROM stint.finished CROSS JOIN LATERAL generate_series(lo, hi) AS n (n)
	UNION ALL SELECT key, 'blocked', 0, NULL, NULL, NULL, true FROM stint.blocked WHERE missing > 0
)
SELECT format('task %s is in the states %s', task.id, array_agg(held.state))
FROM stint.tasks AS task LEFT JOIN held ON held.key = task.key
GROUP BY task.id HAVING count(held.state) <> 1
UNION ALL
SELECT format('%s row of key %s has no task', held.state, held.key)
FROM held LEFT JOIN stint.tasks AS task ON task.key = held.key
LEFT JOIN stint.finished ON held.state = 'finished' AND finished.lo = held.key
WHERE task.key IS NULL AND finished.cause IS DISTINCT FROM 5
UNION ALL
SELECT format('ready row of %s is not like the task', task.id)
FROM held JOIN stint.tasks AS task ON task.key = held.key
WHERE held.state = 'ready' AND ((held.action, held.priority) <> (task.action, task.priority)
	OR held.deadline IS DISTINCT FROM task.deadline)
UNION ALL
SELECT format('%s task %s has no tries left', held.state, task.id)
FROM held JOIN stint.tasks AS task ON task.key = held.key
WHERE task.max_tries > 0 AND (held.tries > task.max_tries
	OR held.state IN ('ready', 'scheduled') AND held.tries = task.max_tries)
UNION ALL
SELECT format('leased row of key %s has no lease that spans it', leased.lo)
FROM stint.leased LEFT JOIN stint.leases AS lease
	ON lease.claim = leased.claim AND lease.part = leased.part
WHERE NOT EXISTS (SELECT FROM generate_subscripts(lease.spans, 1) AS n
	WHERE leased.lo >= lease.spans[n][1] AND leased.hi <= lease.spans[n][2])
UNION ALL
SELECT format('lease %s/%s of %s holds %s tasks of %s', lease.claim, lease.part, lease.size,
	held.size, span.size)
FROM stint.leases AS lease
CROSS JOIN LATERAL (SELECT coalesce(sum(hi - lo + 1), 0) AS size FROM stint.leased
	WHERE leased.claim = lease.claim AND leased.part = lease.part) AS held
CROSS JOIN LATERAL (SELECT sum(lease.spans[n][2] - lease.spans[n][1] + 1) AS size
	FROM generate_subscripts(lease.spans, 1) AS n) AS span
WHERE lease.part >= 0 AND NOT (held.size <= lease.size AND lease.size <= span.size)
UNION ALL
SELECT format('task %s has no row for its deadline', task.id)
FROM stint.tasks AS task
WHERE task.deadline IS NOT NULL
  AND NOT EXISTS (SELECT FROM stint.finished WHERE task.key BETWEEN finished.lo AND finished.hi)
  AND NOT EXISTS (SELECT FROM stint.deadlines
	WHERE deadlines.key = task.key AND deadlines.deadline = task.deadline)`
