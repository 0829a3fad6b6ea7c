package schedule

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/calendar"
	"github.com/stint-tasks/stint/internal/pg"
)

// mendPage is how many schedules are looked at in one statement.
const mendPage = 1000

// A Mender makes schedules occur that a clock that was ahead has left waiting: their next
// occurrence
// was reckoned from an instant that has not come yet. It remembers how far it has come.
type Mender struct {
	db    *pg.DB
	after string
}

// NewMender returns one that begins with the first schedule.
func NewMender(db *pg.DB) *Mender { return &Mender{db: db} }

// A reckoned schedule has a next occurrence, and maybe an instant in the future that says that this
// was reckoned from one.
type reckoned struct {
	timing Timing
	name   string
	next   *time.Time
	ahead  bool
}

// Mend looks at the next schedules, or at all, and returns how many it made occur earlier.
// The tasks
// of occurrences that were inserted ahead of their time exist, so they are not inserted again.
func (m *Mender) Mend(ctx context.Context, all bool) (mended int64, err error) {
	if all {
		m.after = ""
	}
	for first := true; first || all && m.after != ""; first = false {
		page, now, err := m.look(ctx)
		if err != nil {
			return mended, err
		}
		for i := range page {
			next, late := page[i].earlier(now)
			if !late {
				continue
			}
			err := m.db.Run(ctx, pg.Step{
				Name: "mend_schedule", Args: []any{page[i].name, page[i].next, next},
				Count: func(n int64) { mended += n },
			})
			if err != nil {
				return mended, err
			}
		}
	}
	return mended, nil
}

// look returns the next schedules. Those that cannot occur here are left out, and are named when
// they are due.
func (m *Mender) look(ctx context.Context) (page []reckoned, now time.Time, err error) {
	err = m.db.Run(ctx, pg.Step{
		Name: "reckoned_schedules", Args: []any{m.after, mendPage},
		Read: func(rows pgx.Rows) error {
			zones := map[string]*time.Location{}
			var one reckoned
			var spec, zone string
			var from, to *time.Time
			n := 0
			_, err := pgx.ForEachRow(rows, []any{
				&one.name, &spec, &zone, &from, &to, &one.next, &one.ahead, &now,
			}, func() error {
				n++
				m.after = one.name
				place, known := zones[zone]
				if !known {
					place, _ = calendar.Zone(cmp.Or(zone, "UTC"))
					zones[zone] = place
				}
				if place == nil {
					return nil
				}
				of, err := calendar.Parse(spec, place)
				if err == nil {
					one.timing = Timing{Calendar: of, From: pg.OrZero(from), To: pg.OrZero(to)}
					page = append(page, one)
				}
				return nil
			})
			if n < mendPage {
				m.after = ""
			}
			return err
		},
	})
	return page, now, err
}

// earlier returns the next occurrence from now on, and whether the one that is noted passes it over
// for want of a right clock. Where nothing says so, it has to pass over two: processes that know
// other rules for a zone differ by one.
func (r *reckoned) earlier(now time.Time) (time.Time, bool) {
	next, ok := r.timing.Next(now)
	if !ok || r.next != nil && !next.Before(*r.next) {
		return next, false
	}
	if r.ahead {
		return next, true
	}
	second, ok := r.timing.Next(next)
	return next, ok && (r.next == nil || !second.After(*r.next))
}
