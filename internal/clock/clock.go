// Package clock puts right what a server's clock has left in the tables that was ahead for a while,
// and was put back: instants in the future that no call can have meant. What callers choose, such
// as when a task may begin, it leaves alone. The instants of limits need no such look: each
// fetch under limits puts right those that it meets.
package clock

import (
	"context"
	"embed"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

//go:embed sql/*.sql
var files embed.FS

// Statements are those of this package.
//
//nolint:gochecknoglobals // never changes
var Statements = pg.NewStatements(files)

// mendedMax is how many rows of a kind one transaction puts right.
const mendedMax = 1000

// A Mender puts instants in the future right, and says so.
type Mender struct {
	DB     *pg.DB
	Logger *slog.Logger

	// Schedules puts the next occurrences of schedules right, of some of them or of all, and
	// returns how many it did.
	Schedules func(ctx context.Context, all bool) (int64, error)
}

// Some looks at some of the schedules, as it is done in the background, and at everything else.
func (m *Mender) Some(ctx context.Context) error { return m.mend(ctx, false) }

// All looks at everything.
func (m *Mender) All(ctx context.Context) error { return m.mend(ctx, true) }

// mended is how many rows of a kind were put right, and by how much the clock was ahead.
type mended struct {
	rows  int64
	ahead time.Duration
}

func (m *Mender) mend(ctx context.Context, all bool) error {
	var leases, finished, asked mended
	sum := func() int64 { return leases.rows + finished.rows + asked.rows }
	for before := int64(-mendedMax); sum()-before >= mendedMax; {
		before = sum()
		err := m.DB.Run(ctx, m.step("mend_leases", &leases), m.step("mend_finished", &finished),
			m.step("mend_asked", &asked))
		if err != nil {
			return err
		}
	}
	schedules, err := m.Schedules(ctx, all)
	if sum()+schedules > 0 {
		m.Logger.WarnContext(ctx, "the database's clock was ahead, and what it has left in the "+
			"future was put right; tasks that were scheduled by it may wait as much longer: let "+
			"the clock be slewed, not set",
			slog.Duration("ahead", max(leases.ahead, finished.ahead, asked.ahead)),
			slog.Int64("schedules", schedules), slog.Int64("leases", leases.rows),
			slog.Int64("finished", finished.rows))
	}
	return err
}

// step adds what a statement puts right.
func (m *Mender) step(name string, sum *mended) pg.Step {
	return pg.Step{Name: name, Args: []any{mendedMax}, Read: func(rows pgx.Rows) error {
		var n int64
		var ahead *time.Duration
		_, err := pgx.ForEachRow(rows, []any{&n, &ahead}, func() error {
			sum.rows, sum.ahead = sum.rows+n, max(sum.ahead, pg.OrZero(ahead))
			return nil
		})
		return err
	}}
}
