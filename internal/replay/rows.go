package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The tables that hold the state of tasks.
const (
	blocked = iota
	scheduled
	ready
	leased
	finished
	tables
)

// numbers are the tables by their names.
//
//nolint:gochecknoglobals // never changes
var numbers = map[string]int{
	"blocked": blocked, "scheduled": scheduled, "ready": ready, "leased": leased,
	"finished": finished,
}

// A row says that the tasks with the keys lo to hi are in a state.
type row struct {
	table  int
	lo, hi int64

	claim    int64
	hasClaim bool
	tries    int
	cause    int
	late     bool
	parked   bool
	part     string // of the lease
	limited  string // the action, if the tasks count towards its limits
	result   string // with which a task has completed, as bytea prints it

	txn uint64 // of which transaction it is, counted from the beginning
}

// read makes a row of the columns of a table.
func (v values) row(table int) (*row, error) {
	r := &row{
		table: table, part: shared(v["part"]), limited: shared(v["limited_action"]),
		result: strings.Clone(v["result"]),
	}
	from, to := "key", "key"
	if table == ready || table == leased || table == finished {
		from, to = "lo", "hi"
	}
	var err error
	number := func(column string) int64 {
		text, found := v[column]
		if !found || err != nil {
			return 0
		}
		var n int64
		if n, err = strconv.ParseInt(text, 10, 64); err != nil {
			err = fmt.Errorf("column %s: %w", column, err)
		}
		return n
	}
	r.lo, r.hi = number(from), number(to)
	r.claim, r.tries, r.cause = number("claim"), int(number("tries")), int(number("cause"))
	_, r.hasClaim = v["claim"]
	r.late = v["late"] == "true" || v["late"] == "t"
	r.parked = number("position") < 0
	return r, err
}

// same reports whether two rows say the same of their tasks.
func (r *row) same(other *row) bool {
	return r.table == other.table && r.claim == other.claim && r.hasClaim == other.hasClaim &&
		r.tries == other.tries && r.cause == other.cause && r.late == other.late &&
		r.parked == other.parked
}

// spans are the rows of a table, by the block of keys in which they lie, in the order of keys. A
// span lies within one block.
type spans map[int64][]*row

const blockBits = 10

// find returns the place of the last row of the block that begins at a key or ahead of it.
func find(block []*row, key int64) (int, bool) {
	return slices.BinarySearchFunc(block, key, func(r *row, key int64) int {
		switch {
		case r.lo < key:
			return -1
		case r.lo > key:
			return 1
		}
		return 0
	})
}

// at returns the row that holds a key, or nil.
func (s spans) at(key int64) *row {
	block := s[key>>blockBits]
	place, exact := find(block, key)
	if !exact {
		place--
	}
	if place < 0 || block[place].hi < key {
		return nil
	}
	return block[place]
}

// put adds a row; it returns the one that was there with the same first key, if there was one.
func (s spans) put(r *row) *row {
	block := s[r.lo>>blockBits]
	place, exact := find(block, r.lo)
	if exact {
		old := block[place]
		block[place] = r
		return old
	}
	s[r.lo>>blockBits] = slices.Insert(block, place, r)
	return nil
}

// take removes the row with a first key and returns it, or nil.
func (s spans) take(lo int64) *row {
	block := s[lo>>blockBits]
	place, exact := find(block, lo)
	if !exact {
		return nil
	}
	r := block[place]
	if block = slices.Delete(block, place, place+1); len(block) == 0 {
		delete(s, lo>>blockBits)
	} else {
		s[lo>>blockBits] = block
	}
	return r
}

// size returns the number of rows.
func (s spans) size() int {
	n := 0
	for _, block := range s {
		n += len(block)
	}
	return n
}

// moment reads a time of the server, or the zero time for infinity.
func moment(text string) time.Time {
	const layout = "2006-01-02 15:04:05.999999-07"
	for _, layout := range []string{layout, layout + ":00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	return time.Time{}
}
