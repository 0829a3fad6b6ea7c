package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
)

//go:embed sql/table_sizes.sql
var tableSizesSQL string

// A course is how a measurement went, from its beginning to its end. It is also what the JSON has.
type course struct {
	Workload  string `json:"workload"`
	Contender string `json:"contender"`
	Variant   string `json:"variant,omitempty"`
	Looks     []look `json:"looks"`
}

// A look is what there was at an instant.
type look struct {
	Seconds   float64     `json:"seconds"` // since the beginning
	Inserted  int64       `json:"inserted"`
	Completed int64       `json:"completed"` // by workers
	Pruned    int64       `json:"pruned"`
	WAL       int64       `json:"wal_position"` // in bytes
	Tables    []tableSize `json:"tables"`
}

// A tableSize is the size of a table. The numbers of rows are estimates.
type tableSize struct {
	Name       string `json:"name"`
	Inserted   int64  `json:"inserted"`
	Deleted    int64  `json:"deleted"`
	Live       int64  `json:"live"`
	Dead       int64  `json:"dead"`
	Bytes      int64  `json:"bytes"`
	IndexBytes int64  `json:"index_bytes"`
	Vacuums    int64  `json:"vacuums"` // by autovacuum
}

// bytes are those of all tables and their indexes.
func (l look) bytes() int64 {
	var sum int64
	for _, t := range l.Tables {
		sum += t.Bytes + t.IndexBytes
	}
	return sum
}

const (
	// lookEvery is about how often to look, unless that were less often than leastLooks.
	lookEvery  = 5 * time.Second
	leastLooks = 30

	// mostBytes is what the tables may grow to.
	mostBytes = 20 << 30
)

var errOutgrown = errors.New("the tables have grown too large")

// looks is how many there are in that time, of which each third and each tenth ends with one.
func looks(lasts time.Duration) int {
	return max(1, int(lasts/lookEvery/leastLooks)) * leastLooks
}

// lookOn looks at once, again and again until live ends, and then a last time.
func (r *run) lookOn(ctx, live context.Context, completed *atomic.Int64) error {
	begun := now()
	beat := time.NewTicker(r.Lasts / time.Duration(looks(r.Lasts)))
	defer beat.Stop()
	for live.Err() == nil {
		if err := r.look(ctx, begun, completed.Load()); err != nil {
			return err
		}
		select {
		case <-beat.C:
		case <-live.Done():
		}
	}
	return r.look(ctx, begun, completed.Load())
}

// look notes what there is in Stint's tables.
func (r *run) look(ctx context.Context, begun time.Time, completed int64) error {
	rows, err := r.observer.Query(ctx, tableSizesSQL)
	if err != nil {
		return err
	}
	l := look{Seconds: time.Since(begun).Seconds(), Completed: completed}
	if l.Tables, err = pgx.CollectRows(rows, pgx.RowToStructByPos[tableSize]); err != nil {
		return err
	}
	for _, t := range l.Tables {
		if t.Name == "tasks" {
			l.Inserted, l.Pruned = t.Inserted, t.Deleted
		}
	}
	if err := r.observer.QueryRow(ctx, walPositionSQL).Scan(&l.WAL); err != nil {
		return err
	}
	r.report.Looks = append(r.report.Looks, l)
	if l.bytes() > mostBytes {
		return fmt.Errorf("%w: %d bytes after %.0f s, with %d tasks inserted and %d pruned",
			errOutgrown, l.bytes(), l.Seconds, l.Inserted, l.Pruned)
	}
	return nil
}

// coursesOf are the courses of what was measured, where somebody looked.
func coursesOf(all []*measured) []course {
	var courses []course
	for _, m := range all {
		for _, r := range m.reports {
			if len(r.Looks) > 0 {
				courses = append(courses, course{
					Workload: m.workload.id, Contender: m.contender.name,
					Variant: m.entry.variant, Looks: r.Looks,
				})
			}
		}
	}
	return courses
}
