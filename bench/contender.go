package main

import (
	"context"
	"slices"
)

// A contender is a library that keeps tasks in PostgreSQL, or SQL written by hand that tells what
// the machine can do. To add one, write a file with a function that returns it, and name the
// function in contenders.
type contender struct {
	name  string // as -only takes it, such as "river"
	title string // as the table shows it, such as "River 0.51"

	// extension is one of the server that the contender needs; empty: none. Where the server lacks
	// it, the contender is left out.
	extension string

	// create makes the contender's tables in an empty database. It runs in a process of its own,
	// together with fill.
	create func(ctx context.Context, r *run) error

	// entries are the workloads that the contender takes part in.
	entries []entry
}

// An entry is how a contender performs a workload. It may perform one in several ways, its
// variants.
type entry struct {
	workload string // its ID, such as "W2"
	variant  string // what is particular, such as "verbs, kept"; empty if there is one way only

	// fill inserts r.Backlog tasks, in a process of its own, so that what it needs does not count.
	// It is nil if the workload begins with empty tables.
	fill func(ctx context.Context, r *run) error

	// measure performs the workload within one call of r.measure, makes sure that every task ended
	// as it should, and returns an error otherwise. What it prepares before that call is not timed.
	measure func(ctx context.Context, r *run) error

	// perform opens a worker in a process of its own, for the workloads that kill it.
	perform opener

	// second is where the entry has a second database. Default: it has none.
	second place

	// notQuick leaves the entry out of -quick.
	notQuick bool
}

// A place is where a second database is.
type place int

const (
	nowhere place = iota
	sameServer
	ownServer
)

// contenders are all contenders, in the order of the table.
func contenders() []contender {
	return []contender{stintContender(), riverContender(), pgqContender(), rawContender()}
}

// lookUp returns the entry that a job names.
func lookUp(j job) (contender, entry, bool) {
	for _, c := range contenders() {
		at := slices.IndexFunc(c.entries, func(e entry) bool {
			return e.workload == j.Workload && e.variant == j.Variant
		})
		if c.name == j.Contender && at >= 0 {
			return c, c.entries[at], true
		}
	}
	return contender{}, entry{}, false
}
