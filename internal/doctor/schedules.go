package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/display"
)

// A lateSchedule is due, and nobody has inserted its tasks. Schedules is how many such there are.
type lateSchedule struct {
	Name      string
	Late      time.Duration
	Schedules int64
}

func (c *checkup) askSchedules(ctx context.Context) error {
	return c.askRows(ctx, "schedules", "check_schedules",
		readAll(c, pgx.RowToStructByName[lateSchedule], scheduleFindings))
}

// scheduleFindings are about the schedules that are late, the first of which are given.
func scheduleFindings(late []lateSchedule) []Finding {
	if len(late) == 0 {
		return nil
	}
	names := make([]string, len(late))
	for i, schedule := range late {
		names[i] = fmt.Sprintf("%q", schedule.Name)
	}
	list := strings.Join(names, ", ")
	if more := late[0].Schedules - int64(len(late)); more > 0 {
		list += " and " + display.Number(more) + " more"
	}
	are := "are"
	if late[0].Schedules == 1 {
		are = "is"
	}
	return []Finding{found(SeverityWarning, "schedules", "%s %s due, for up to %s: %s; either no "+
		"store maintains the schema: start a worker, or a store with MaintainAlways; or the tasks "+
		"cannot be inserted, and the logs of those who maintain say why: to do without them, run: "+
		"stint schedule pause %s", display.Count(late[0].Schedules, "schedule"), are,
		display.Span(late[0].Late), list, display.Word(late[0].Name))}
}
