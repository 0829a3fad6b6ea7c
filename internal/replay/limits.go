package replay

import (
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// limits are those of an action, with what they let pass so far.
type limits struct {
	concurrency, perKey int // 0: none
	ordered, byCost     bool
	rate, keyRate       rate
	keysSince           uint64 // the transaction as of which slots count the tasks of keys

	// since is when that was committed. Fetches that had begun by then know nothing of the limits.
	since time.Time

	bucket  bucket
	buckets map[string]*bucket // of keys
	holders map[string]int64   // of keys: the task that was fetched last
}

// A rate lets a number of tasks pass at once, and further ones at even distances.
type rate struct {
	every time.Duration // 0: there is none
	burst int
}

// A bucket is how many tokens were left at a time.
type bucket struct {
	tokens float64
	at     time.Time
}

// A fetch is a task that somebody was given.
type fetch struct {
	key int64
	row *row
}

func (s *state) applyLimits(t *txn, c change, old values) error {
	action := old["action"]
	if c.kind != "DELETE" {
		action = c.new["action"]
	}
	was := s.limits[action]
	if c.kind == "DELETE" {
		delete(s.limits, action)
		return nil
	}
	now, err := c.new.limits()
	if err != nil {
		return err
	}
	if was == nil {
		now.keysSince, now.since = t.number, t.stamp
		now.buckets, now.holders = map[string]*bucket{}, map[string]int64{}
	} else {
		now.keysSince, now.since, now.bucket = was.keysSince, was.since, was.bucket
		now.buckets, now.holders = was.buckets, was.holders
		if was.perKey != now.perKey || was.ordered != now.ordered {
			now.keysSince, now.since, now.holders = t.number, t.stamp, map[string]int64{}
		}
		if was.rate != now.rate || was.byCost != now.byCost {
			now.bucket = bucket{}
		}
		if was.keyRate != now.keyRate || was.byCost != now.byCost {
			now.buckets = map[string]*bucket{}
		}
	}
	s.limits[action] = now
	return nil
}

func (v values) limits() (*limits, error) {
	var err error
	number := func(column string) int {
		text, found := v[column]
		if !found || err != nil {
			return 0
		}
		var n int
		n, err = strconv.Atoi(text)
		return n
	}
	of := func(tasks, per, burst string) rate {
		n := number(tasks)
		if n == 0 || err != nil {
			return rate{}
		}
		var span pgtype.Interval
		if err = span.Scan(v[per]); err != nil {
			return rate{}
		}
		whole := time.Duration(span.Microseconds)*time.Microsecond +
			time.Duration(span.Days+30*span.Months)*24*time.Hour
		return rate{whole / time.Duration(n), number(burst)}
	}
	l := &limits{
		concurrency: number("concurrency"), perKey: number("per_key"),
		ordered: v.is("ordered"), byCost: v.is("by_cost"),
		rate:    of("rate_tasks", "rate_per", "rate_burst"),
		keyRate: of("key_tasks", "key_per", "key_burst"),
	}
	if err != nil {
		return nil, fmt.Errorf("a row of limits: %w", err)
	}
	return l, nil
}

// is reports whether a column is true.
func (v values) is(column string) bool { return v[column] == "t" || v[column] == "true" }

// A spending is what a performance has spent more than its task costs.
type spending struct {
	action, limitKey string
	more             float64
}

// applySpent keeps what was spent, and takes it from the buckets when the row goes: what has come
// in until then is not forgotten, so a bucket has as many tokens as that of the store at least.
func (s *state) applySpent(c change, old values) error {
	name := func(v values) string { return v["action"] + "\x00" + v["key"] + "\x00" + v["claim"] }
	if c.kind == "INSERT" {
		more, err := strconv.ParseFloat(c.new["more"], 64)
		if err != nil {
			return fmt.Errorf("a row of spent: %w", err)
		}
		s.spent[name(c.new)] = spending{c.new["action"], c.new["limit_key"], more}
		return nil
	}
	of := s.spent[name(old)]
	delete(s.spent, name(old))
	l := s.limits[of.action]
	if c.kind != "DELETE" || l == nil || !l.byCost {
		return nil
	}
	l.bucket.tokens -= of.more
	if b := l.buckets[of.limitKey]; b != nil {
		b.tokens -= of.more
	}
	return nil
}

// count keeps the tasks in progress that count towards limits.
func (h *History) count(key int64, was, now *row, of *task) {
	if was != nil && was.table == leased && was.limited != "" {
		h.owned[was.limited]--
		if of != nil {
			delete(h.ownedOfKey[was.limited+"\x00"+of.limitKey], key)
		}
	}
	if now != nil && now.table == leased && now.limited != "" {
		h.owned[now.limited]++
		if of != nil && of.limitKey != "" {
			name := now.limited + "\x00" + of.limitKey
			if h.ownedOfKey[name] == nil {
				h.ownedOfKey[name] = map[int64]bool{}
			}
			h.ownedOfKey[name][key] = true
		}
	}
	if now != nil && (now.table == finished || now.table == blocked) && of != nil {
		l := h.state.limits[of.action]
		if l != nil && l.holders[of.limitKey] == key {
			delete(l.holders, of.limitKey) // also if it is opened again: RetryTasks takes it back
		}
	}
}

// checkLimits checks that the fetches of a transaction were within the limits of their actions.
func (h *History) checkLimits(t *txn, fetches []fetch) {
	for _, f := range fetches {
		of := h.definition(t, f.key)
		if of == nil {
			continue
		}
		l := h.state.limits[of.action]
		begun, found := h.state.leaseOf(t, f.row)
		if l == nil || found && l.unknownTo(f.row, begun.owned) {
			continue
		}
		h.counts.Limited++
		if n := h.owned[of.action]; l.concurrency > 0 && n > l.concurrency {
			h.violate(t, f.key, "is one of %d in progress, of at most %d", n, l.concurrency)
		}
		if of.limitKey != "" {
			h.checkKey(t, f.key, of, l)
		}
		h.checkRates(t, f, of, l)
	}
}

// seenWithin is how long after the time that a commit has others see it, at the latest: a commit
// gets its time before it is flushed.
const seenWithin = 10 * time.Second

// unknownTo says that a fetch that began at a time need not have known of the limits.
func (l *limits) unknownTo(fetched *row, began time.Time) bool {
	return began.Before(l.since) || fetched.limited == "" && began.Before(l.since.Add(seenWithin))
}

func (h *History) checkKey(t *txn, key int64, of *task, l *limits) {
	if l.perKey > 0 {
		n := 0
		for other := range h.ownedOfKey[of.action+"\x00"+of.limitKey] {
			if task := h.state.tasks[other]; task != nil && task.fetched >= l.keysSince {
				n++
			}
		}
		if n > l.perKey {
			h.violate(t, key, "is one of %d in progress with the key %q, of at most %d", n,
				of.limitKey, l.perKey)
		}
	}
	if !l.ordered {
		return
	}
	holder, found := l.holders[of.limitKey]
	l.holders[of.limitKey] = key
	if !found || holder == key || h.state.rows[finished].at(holder) != nil {
		return
	}
	if other := h.state.tasks[holder]; other != nil && other.limitKey == of.limitKey {
		h.violate(t, key, "was fetched while %q holds the key %q", other.id, of.limitKey)
	}
}

// checkRates takes tokens out of the buckets of an action and of a key. The time is that of the
// fetch, by the clock of the server.
func (h *History) checkRates(t *txn, f fetch, of *task, l *limits) {
	lease, found := h.state.leaseOf(t, f.row)
	if !found || h.options.ClockJumps {
		return
	}
	cost := 1.0
	if l.byCost {
		cost = of.cost
	}
	if !l.bucket.take(l.rate, lease.owned, cost) {
		h.violate(t, f.key, "was fetched faster than the rate of the action %q", of.action)
	}
	if l.keyRate.every == 0 || of.limitKey == "" {
		return
	}
	b := l.buckets[of.limitKey]
	if b == nil {
		b = &bucket{}
		l.buckets[of.limitKey] = b
	}
	if !b.take(l.keyRate, lease.owned, cost) {
		h.violate(t, f.key, "was fetched faster than the rate of the key %q", of.limitKey)
	}
}

// take takes what a task costs, and reports whether there was a token. A bucket begins full.
func (b *bucket) take(r rate, at time.Time, cost float64) bool {
	if r.every == 0 {
		return true
	}
	if b.at.IsZero() {
		b.tokens, b.at = float64(r.burst), at
	} else if gap := at.Sub(b.at); gap > 0 {
		b.tokens = min(float64(r.burst), b.tokens+float64(gap)/float64(r.every))
		b.at = at
	}
	const rounding = 1e-3 // of a token
	if b.tokens < 1-rounding {
		return false
	}
	b.tokens -= cost
	return true
}
