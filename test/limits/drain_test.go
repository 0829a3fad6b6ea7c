package limits_test

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
)

// drain ends all tasks under the limits as they are by now. Without maintenance, one explicit call
// may be needed.
func (p *play) drain() {
	ctx := p.t.Context()
	for _, action := range actions() {
		for _, key := range keys() {
			if key != "" {
				p.repeat("ResumeKeys", func() error { return p.store.ResumeKeys(ctx, action, key) })
			}
		}
		p.repeat("Resume", func() error { return p.store.Resume(ctx, action) })
	}
	const still = 4 * time.Second // longer than leases, waits for a try, and three intervals
	maintained := 0
	for last := time.Now(); ; {
		n, err := p.performAll(ctx)
		p.want("OwnTasks and ReturnTasks", err)
		if n > 0 {
			last = time.Now()
			continue
		}
		if p.left() == 0 {
			break
		}
		if time.Since(last) > still {
			if p.maintenance != "never" || maintained == 1 {
				p.tellLeft()
				p.t.Fatalf("%v, maintained %d times: %d", errStuck, maintained, p.left())
			}
			maintained++
			err := p.store.Maintain(ctx)
			p.want("Maintain", err)
			last = time.Now()
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.t.Logf("drained; maintained %d times", maintained)
}

// repeat repeats a call whose connection may have been cut before.
func (p *play) repeat(what string, call func() error) {
	err := call()
	for range 10 {
		if err == nil {
			return
		}
		err = call()
	}
	p.want(what, err)
}

// performAll owns and completes tasks.
func (p *play) performAll(ctx context.Context) (int, error) {
	owned, err := p.store.OwnTasks(ctx, "drain", 200, actions(), time.Minute)
	if err != nil || len(owned) == 0 {
		return 0, err
	}
	returns := make([]stint.Return, len(owned))
	for i, task := range owned {
		returns[i] = stint.Return{ID: task.ID, Token: task.Token, Code: stint.StatusCompleted}
	}
	verdicts, err := p.store.ReturnTasks(ctx, returns)
	for _, verdict := range verdicts {
		if verdict != nil {
			return 0, fmt.Errorf("a return: %w", verdict)
		}
	}
	return len(owned), err
}

// left is how many tasks have not ended.
func (p *play) left() (n int) {
	err := p.pool.QueryRow(p.t.Context(),
		"SELECT count(*) FROM stint.task_states WHERE state < 10").Scan(&n)
	p.want("count", err)
	return n
}

// tellLeft says what holds tasks up.
func (p *play) tellLeft() {
	for what, query := range map[string]string{
		"limits": "SELECT coalesce(string_agg(limits::text, E'\\n'), '') FROM stint.limits",
		"ready": `SELECT coalesce(string_agg(ready::text, E'\n'), '') FROM (
			SELECT position, rank, lo, hi, action, priority, tries, limit_key, late
			FROM stint.ready ORDER BY action, rank LIMIT 30) AS ready`,
		"turns": "SELECT coalesce(string_agg(turns::text, E'\\n'), '') FROM stint.turns",
		"rates": "SELECT coalesce(string_agg(r::text, E'\\n'), '') FROM stint.key_rates AS r",
		"slots": "SELECT coalesce(string_agg(slots::text, E'\\n'), '') FROM stint.slots",
		"keys":  "SELECT coalesce(string_agg(k::text, E'\\n'), '') FROM stint.limited_keys AS k",
		"states": `SELECT string_agg(s::text, ' ') FROM (
			SELECT state, count(*) FROM stint.task_states GROUP BY state) AS s`,
		"leased": `SELECT coalesce(string_agg(l::text, E'\n'), '') FROM (
			SELECT * FROM stint.leased JOIN stint.leases USING (claim, part) LIMIT 20) AS l`,
	} {
		var text string
		p.want(what, p.pool.QueryRow(p.t.Context(), query).Scan(&text))
		p.t.Logf("%s:\n%s", what, text)
	}
}

// wantNothingLeft checks that all tasks have ended, and nothing holds up others.
func (p *play) wantNothingLeft() {
	ctx := p.t.Context()
	for _, query := range []string{
		"SELECT count(*) FROM stint.ready",
		"SELECT count(*) FROM stint.leased",
		"SELECT count(*) FROM stint.scheduled",
		"SELECT count(*) FROM stint.slots JOIN stint.leased ON leased.claim = slots.claim",
	} {
		var n int
		p.want(query, p.pool.QueryRow(ctx, query).Scan(&n))
		if n > 0 {
			p.t.Errorf("%s = %d", query, n)
		}
	}
	var ids []stint.TaskID
	for id, kept := range p.inserted {
		if kept && !p.deleted[id] {
			ids = append(ids, id)
		}
	}
	var there int
	err := p.pool.QueryRow(ctx, "SELECT count(*) FROM stint.tasks WHERE id = ANY ($1)", ids).
		Scan(&there)
	p.want("count", err)
	if there != len(ids) {
		p.t.Errorf("of %d tasks, %d are there", len(ids), there)
	}
}

// wantRoom checks that as many tasks as a limit allows are fetched at once.
func (p *play) wantRoom() {
	const perKey = 3
	ctx := p.t.Context()
	for turns, limits := range []stint.Limits{{}, {Fair: true}, {Fair: true, FairGroup: "room"}} {
		var want int
		for _, action := range actions() {
			limits.Concurrency, limits.ConcurrencyPerKey = 12, perKey
			p.want("SetLimits", p.store.SetLimits(ctx, action, limits))
			var tasks []stint.Task
			for i, key := range keys() {
				for n := range perKey + 1 {
					if key != "" {
						id := stint.TaskID(fmt.Sprint("room", turns, action, i, n))
						tasks = append(tasks, stint.Task{ID: id, Action: action, Key: key})
					}
				}
			}
			p.want("InsertTasks", p.store.InsertTasks(ctx, tasks))
			want += limits.Concurrency
		}
		got := 0
		for more := true; more; {
			owned, err := p.store.OwnTasks(ctx, "room", 100, actions(), time.Minute)
			p.want("OwnTasks", err)
			got, more = got+len(owned), len(owned) > 0
		}
		if got != want {
			p.tellLeft()
			p.t.Errorf("below %+v, %d of %d tasks were fetched", limits, got, want)
		}
		_, err := p.store.AbortTasks(context.WithoutCancel(ctx), p.owned(), "")
		p.want("AbortTasks", err)
	}
}

// owned are the tasks in progress, and those that wait.
func (p *play) owned() (ids []stint.TaskID) {
	rows, err := p.pool.Query(p.t.Context(), "SELECT id FROM stint.task_states WHERE state < 10")
	p.want("Query", err)
	for rows.Next() {
		var id stint.TaskID
		p.want("Scan", rows.Scan(&id))
		ids = append(ids, id)
	}
	p.want("Query", rows.Err())
	return ids
}
