package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/display"
)

// What a clock that was ahead has left: so many rows of a kind, the last of which lies so far in
// the future.
type ahead struct {
	Kind  string
	Rows  int64
	Ahead time.Duration
}

// heldKind are tasks that callers have scheduled meanwhile: nobody knows for when they meant them.
const heldKind = "scheduled tasks"

func (c *checkup) askFuture(ctx context.Context) error {
	err := c.askRows(ctx, "clock", "check_future", func(rows pgx.Rows) error {
		ahead, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[*time.Duration])
		if err == nil && ahead != nil {
			c.find(futureFindings(*ahead)...)
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.askRows(ctx, "clock", "check_ahead",
		readAll(c, pgx.RowToStructByName[ahead], aheadFindings))
}

func futureFindings(ahead time.Duration) []Finding {
	if ahead < time.Second {
		return nil
	}
	return []Finding{found(SeverityWarning, "clock", "there are rows from %s in the future, so "+
		"the database's clock was put back: leases last that much longer; let the server's clock "+
		"be slewed, not set", display.Span(ahead))}
}

// aheadFindings are about what a clock that was ahead has left.
func aheadFindings(all []ahead) []Finding {
	var findings []Finding
	var kinds []string
	var most time.Duration
	for _, a := range all {
		if a.Kind == heldKind {
			continue
		}
		kinds = append(kinds, display.Number(a.Rows)+" "+a.Kind)
		most = max(most, a.Ahead)
	}
	if len(kinds) > 0 {
		findings = append(findings, found(SeverityWarning, "clock", "the database's clock was "+
			"ahead by up to %s, and left instants in the future: %s; a store that maintains puts "+
			"them right within a minute, and those of rates the next fetch does: start a "+
			"worker, or a store with MaintainAlways; tasks that were returned meanwhile to be "+
			"tried again later may wait as much longer", display.Span(most),
			strings.Join(kinds, ", ")))
	}
	i := slices.IndexFunc(all, func(a ahead) bool { return a.Kind == heldKind })
	if i >= 0 {
		findings = append(findings, found(SeverityNote, "clock", "%s inserted by a clock that "+
			"was ahead by up to %s, and wait for the times that callers gave: if these were "+
			"reckoned by that clock, list them with stint ls --state scheduled, and begin them "+
			"with stint change --start-now", tasksWere(all[i].Rows), display.Span(all[i].Ahead)))
	}
	return findings
}

func tasksWere(n int64) string {
	if n == 1 {
		return "1 scheduled task was"
	}
	return display.Number(n) + " scheduled tasks were"
}
