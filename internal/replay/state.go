package replay

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unique"
)

// A task is what the history needs of a definition.
type task struct {
	id, action, limitKey string
	cost                 float64
	maxTries             int
	runsAnyway           bool
	deadline             time.Time
	past
}

// A past is what has become of a task.
type past struct {
	claims  []int64 // under which it was owned, in order
	fetched uint64  // the transaction that fetched it last

	// lost is how many owners in a row have lost it, up to the try lostTry.
	lost, lostTry int
}

// An edge is what a dependent asks of a predecessor.
type edge struct {
	accepts int
	results string // as an array of bytea prints; empty if any will do
}

// A lease is how long, and since when, tasks are owned.
type lease struct{ owned, deadline time.Time }

// shared returns a text that all equal ones share.
func shared(text string) string { return unique.Make(text).Value() }

// A state is what the tables of a store hold.
type state struct {
	rows   [tables]spans
	tasks  map[int64]*task
	edges  map[int64]map[int64]edge // of a dependent, by its predecessors
	leases map[string]lease         // by claim and part
	limits map[string]*limits       // by action
	spent  map[string]spending      // by action, key and claim
}

func newState() *state {
	s := &state{
		tasks: map[int64]*task{}, edges: map[int64]map[int64]edge{},
		leases: map[string]lease{}, limits: map[string]*limits{},
		spent: map[string]spending{},
	}
	for table := range s.rows {
		s.rows[table] = spans{}
	}
	return s
}

// A txn is what a transaction has changed so far.
type txn struct {
	number uint64
	lsn    string
	stamp  time.Time

	before map[int64][]*row         // rows that are gone, by each key that they held
	path   map[int64][]*row         // rows that came, even if they have gone again
	cut    map[int64]map[int64]edge // edges that are gone
	ended  map[string]lease         // leases that are gone
	dead   map[int64]*task          // definitions that are gone
	born   map[int64]bool           // definitions that came
}

func newTxn(number uint64, lsn string) *txn {
	return &txn{
		number: number, lsn: lsn, before: map[int64][]*row{}, path: map[int64][]*row{},
		cut: map[int64]map[int64]edge{}, ended: map[string]lease{}, dead: map[int64]*task{},
		born: map[int64]bool{},
	}
}

// apply makes a change to the state and notes it in its transaction.
func (s *state) apply(t *txn, c change) error {
	if c.kind == "TRUNCATE" {
		return fmt.Errorf("somebody has truncated the table %s", c.table)
	}
	old := c.old
	if old == nil && c.kind == "UPDATE" {
		old = c.new // what identifies the row has not changed
	}
	if table, found := numbers[c.table]; found {
		return s.applyRow(t, table, c, old)
	}
	switch c.table {
	case "tasks":
		return s.applyTask(t, c, old)
	case "edges":
		return s.applyEdge(t, c)
	case "leases":
		return s.applyLease(t, c, old)
	case "limits":
		return s.applyLimits(t, c, old)
	case "spent":
		return s.applySpent(c, old)
	}
	return nil
}

func (s *state) applyRow(t *txn, table int, c change, old values) error {
	result := ""
	if c.kind != "INSERT" {
		gone, err := old.row(table)
		if err != nil {
			return err
		}
		r := s.rows[table].take(gone.lo)
		if r == nil {
			return fmt.Errorf("a row of %s goes that never came: %v", c.table, old)
		}
		result = r.result
		if r.txn != t.number {
			for key := r.lo; key <= r.hi; key++ {
				t.before[key] = append(t.before[key], r)
			}
		}
	}
	if c.kind == "DELETE" {
		return nil
	}
	r, err := c.new.row(table)
	if err != nil {
		return err
	}
	if r.result == unknown {
		r.result = result
	}
	r.txn = t.number
	if twin := s.rows[table].put(r); twin != nil {
		return fmt.Errorf("two rows of %s begin at %d", c.table, r.lo)
	}
	for key := r.lo; key <= r.hi; key++ {
		t.path[key] = append(t.path[key], r)
	}
	return nil
}

func (s *state) applyTask(t *txn, c change, old values) error {
	var was *task
	if c.kind != "INSERT" {
		key, err := strconv.ParseInt(old["key"], 10, 64)
		if err != nil {
			return err
		}
		if was = s.tasks[key]; was == nil {
			return fmt.Errorf("a row of tasks goes that never came: %d", key)
		}
		if c.kind == "DELETE" {
			delete(s.tasks, key)
			if t.born[key] {
				delete(t.born, key)
			} else {
				t.dead[key] = was
			}
			return nil
		}
	}
	key, now, err := c.new.task()
	if err != nil {
		return err
	}
	if was != nil {
		now.past = was.past
	} else {
		t.born[key] = true
	}
	s.tasks[key] = now
	return nil
}

func (v values) task() (int64, *task, error) {
	key, err := strconv.ParseInt(v["key"], 10, 64)
	if err != nil {
		return 0, nil, fmt.Errorf("a row of tasks: %w", err)
	}
	tries, err := strconv.Atoi(v["max_tries"])
	if err != nil {
		return 0, nil, fmt.Errorf("a row of tasks: %w", err)
	}
	now := &task{ // a column is a part of a line that has the body, too
		id: strings.Clone(v["id"]), action: shared(v["action"]), limitKey: shared(v["limit_key"]),
		maxTries: tries, cost: 1,
		runsAnyway: v["on_abort"] == "1", deadline: moment(v["deadline"]),
	}
	if text, found := v["cost"]; found {
		if now.cost, err = strconv.ParseFloat(text, 64); err != nil {
			return 0, nil, fmt.Errorf("a row of tasks: %w", err)
		}
	}
	return key, now, nil
}

func (s *state) applyEdge(t *txn, c change) error {
	if c.kind != "INSERT" {
		after, run, e, err := c.old.edge()
		if err != nil {
			return err
		}
		delete(s.edges[run], after)
		if len(s.edges[run]) == 0 {
			delete(s.edges, run)
		}
		if t.cut[run] == nil {
			t.cut[run] = map[int64]edge{}
		}
		t.cut[run][after] = e
	}
	if c.kind == "DELETE" {
		return nil
	}
	after, run, e, err := c.new.edge()
	if err != nil {
		return err
	}
	if s.edges[run] == nil {
		s.edges[run] = map[int64]edge{}
	}
	s.edges[run][after] = e
	return nil
}

func (v values) edge() (after, run int64, e edge, err error) {
	if after, err = strconv.ParseInt(v["after"], 10, 64); err == nil {
		run, err = strconv.ParseInt(v["run"], 10, 64)
	}
	if text, found := v["accepts"]; found && err == nil {
		e.accepts, err = strconv.Atoi(text)
	}
	e.results = strings.Clone(v["results"])
	return after, run, e, err
}

func (s *state) applyLease(t *txn, c change, old values) error {
	if c.kind != "INSERT" {
		of := old["claim"] + "/" + old["part"]
		if c.kind == "DELETE" {
			t.ended[of] = s.leases[of]
		}
		delete(s.leases, of)
	}
	if c.kind != "DELETE" {
		s.leases[c.new["claim"]+"/"+c.new["part"]] = lease{
			moment(c.new["owned_at"]), moment(c.new["deadline"]),
		}
	}
	return nil
}

// leaseOf returns the lease of a row of leased, also if it has ended in the transaction.
func (s *state) leaseOf(t *txn, r *row) (lease, bool) {
	of := strconv.FormatInt(r.claim, 10) + "/" + r.part
	if l, found := s.leases[of]; found {
		return l, true
	}
	l, found := t.ended[of]
	return l, found
}
