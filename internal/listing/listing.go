// Package listing says in which order tasks are listed: which statements look at them, one after
// the other, and where a page ends.
package listing

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/pg"
)

// A Want is what a list is to have, as far as the order depends on it.
type Want struct {
	NewestFirst bool
	IDPrefix    string
	Actor       string
	Actions     []string
	// States are those of the tasks; nil means all.
	States []State
	// After is the cursor of an earlier page; empty for the first.
	After string
}

// A State is one that has an order of its own.
type State string

// The states in the order in which their tasks are listed.
const (
	InProgress State = "in-progress"
	Ready      State = "ready"
	Scheduled  State = "scheduled"
	Blocked    State = "blocked"
	Aborted    State = "aborted"
	Skipped    State = "skipped"
	Completed  State = "completed"
)

// A Place is where a task is in the order of a source.
type Place struct {
	Began bool // otherwise it is before all tasks
	Key   int64
	At    int64 // in microseconds
	Rank  int64 // see ready.rank
	ID    string
}

// A Source is a statement that looks at tasks in its own order. Its arguments are where to begin,
// and how many tasks to look at.
type Source struct {
	Name string
	Args func(Place) []any
}

// ReadPlaces reads what a source has found.
func ReadPlaces(rows pgx.Rows) (places []Place, err error) {
	var key int64
	var at *time.Time
	var rank *int64
	var id *string
	_, err = pgx.ForEachRow(rows, []any{&key, &at, &rank, &id}, func() error {
		place := Place{Began: true, Key: key, Rank: pg.OrZero(rank), ID: pg.OrZero(id)}
		if at != nil {
			place.At = at.UnixMicro()
		}
		places = append(places, place)
		return nil
	})
	return places, err
}

// A Walk is sources one after the other, and a place in the first of those that are left.
type Walk struct {
	Sources []Source
	Place   Place

	byID bool
	all  []Source
}

// New returns the walk that is wanted, from its cursor on. It reports whether the cursor is one.
func New(want Want) (*Walk, bool) {
	if !want.NewestFirst && (want.IDPrefix != "" || want.States == nil && want.Actor == "") {
		walk := &Walk{byID: true, all: []Source{ofIDs(want.IDPrefix)}}
		walk.Sources, walk.Place.ID = walk.all, want.After
		return walk, true
	}
	walk := &Walk{}
	if want.NewestFirst {
		walk.all = []Source{ofNewest()}
	} else {
		walk.all = ofStates(want)
	}
	return walk, walk.goOn(want.After)
}

func ofIDs(prefix string) Source {
	return Source{"list_ids", func(place Place) []any {
		return []any{prefix, prefixEnd(prefix), place.ID}
	}}
}

func ofNewest() Source {
	return Source{"list_newest", func(place Place) []any {
		if !place.Began {
			place.Key = math.MaxInt64
		}
		return []any{place.Key}
	}}
}

func ofStates(want Want) []Source {
	var sources []Source
	add := func(state State, more ...Source) {
		if want.States == nil || slices.Contains(want.States, state) {
			sources = append(sources, more...)
		}
	}
	if want.Actor != "" {
		add(InProgress, byKey("list_owned", want.Actor))
	} else {
		add(InProgress, byKey("list_leased"))
		add(Ready, ofReady(want.Actions)...)
		add(Scheduled, Source{"list_scheduled", func(place Place) []any {
			if !place.Began {
				return []any{pg.FirstMoment(), int64(-1)}
			}
			return []any{time.UnixMicro(place.At), place.Key}
		}})
		add(Blocked, byKey("list_blocked"))
	}
	add(Aborted, ofFinished(Aborted))
	if want.Actor == "" { // nobody owned a task when it was skipped
		add(Skipped, ofFinished(Skipped))
	}
	add(Completed, ofFinished(Completed))
	return sources
}

func byKey(name string, first ...any) Source {
	return Source{name, func(place Place) []any {
		if !place.Began {
			place.Key = -1
		}
		return append(slices.Clone(first), place.Key)
	}}
}

func ofReady(actions []string) []Source {
	if len(actions) == 0 {
		return []Source{byKey("list_ready")}
	}
	var sources []Source
	for _, action := range slices.Compact(slices.Sorted(slices.Values(actions))) {
		sources = append(sources, Source{"list_queue", func(place Place) []any {
			if !place.Began {
				place.Rank, place.Key = math.MinInt64, -1 // parked tasks have negative ranks
			}
			return []any{action, place.Rank, place.Key}
		}})
	}
	return sources
}

func ofFinished(how State) Source {
	return Source{"list_finished", func(place Place) []any {
		if !place.Began {
			return []any{string(how), pgtype.Timestamptz{
				InfinityModifier: pgtype.Infinity, Valid: true,
			}, int64(math.MaxInt64)}
		}
		return []any{string(how), time.UnixMicro(place.At), place.Key}
	}}
}

// prefixEnd is the least text that sorts, by its bytes, behind everything that begins with prefix;
// nil if there is none.
func prefixEnd(prefix string) *string {
	for prefix != "" {
		last, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
		if last == utf8.MaxRune {
			continue
		}
		const firstSurrogate, lastSurrogate = 0xd800, 0xdfff // no runes, and not stored
		if last++; last == firstSurrogate {
			last = lastSurrogate + 1
		}
		end := prefix + string(last)
		return &end
	}
	return nil
}

// Next leaves the first of the sources that are left.
func (w *Walk) Next() { w.Sources, w.Place = w.Sources[1:], Place{} }

// Cursor is where the walk is: the ID of the last task or, where tasks are not in the order of
// their IDs, the number of the source and the place.
func (w *Walk) Cursor() string {
	source, p := len(w.all)-len(w.Sources), w.Place
	switch {
	case w.byID:
		return p.ID
	case !p.Began:
		return strconv.Itoa(source)
	default:
		return fmt.Sprintf("%d/%d/%d/%d", source, p.Key, p.At, p.Rank)
	}
}

// ScheduledAfter is the cursor of a list of scheduled tasks alone, behind those that are due by a
// time.
func ScheduledAfter(at time.Time) string {
	return fmt.Sprintf("0/%d/%d/0", int64(math.MaxInt64), at.UnixMicro())
}

// goOn moves a walk that is not in the order of IDs to the cursor of an earlier such walk. It
// reports whether that is one.
func (w *Walk) goOn(after string) bool {
	const parts = 4
	w.Sources = w.all
	if after == "" {
		return true
	}
	texts := strings.Split(after, "/")
	numbers := make([]int64, parts)
	if len(texts) != 1 && len(texts) != parts {
		return false
	}
	for i, text := range texts {
		var err error
		if numbers[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return false
		}
	}
	source := numbers[0]
	if source < 0 || source >= int64(len(w.all)) || !pg.IsStorable(time.UnixMicro(numbers[2])) {
		return false
	}
	w.Sources = w.all[source:]
	if len(texts) == parts {
		w.Place = Place{Began: true, Key: numbers[1], At: numbers[2], Rank: numbers[3]}
	}
	return true
}
