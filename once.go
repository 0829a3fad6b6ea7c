package stint

import "time"

// OncePer returns an ID for a task that is inserted once in each period: the ID with the start of
// the period that a time is in. Whoever inserts a task with it first in a period adds it; for all
// others [Store.InsertTasks] returns [ErrTaskExists], which then means that the period has had its
// task.
//
// Periods follow one another from 1970-01-01T00:00:00Z on, whatever the location of the time: days
// of 24 hours begin at midnight UTC, hours on the hour, and weeks of 168 hours on a Thursday.
//
//	OncePer("report/tenant-7", at, 24*time.Hour) // report/tenant-7@2026-11-22T00:00:00Z
//	OncePer("report/tenant-7", at, time.Hour)    // report/tenant-7@2026-11-22T13:00:00Z
//
// For days elsewhere, put the date there into an ID of your own. A task whose period changes, such
// as from a day to an hour, may be inserted twice in the old period, or not in the first new one,
// since both may have the same ID.
//
// The time may come from a process's clock: where clocks differ, they differ about when a period
// begins, but no period gets two tasks. The ID stays taken until the task is pruned. So the
// retention of completed and aborted tasks ([Retention]) must be at least the period; with
// [KeepNone] the ID is free as soon as the task has ended.
//
// The ID gets up to 31 bytes longer, and inserts refuse IDs of more than 512 bytes. OncePer panics
// if the ID is empty, with which all tasks of a period would be one, or the period is not positive.
func OncePer(id TaskID, at time.Time, period time.Duration) TaskID {
	if id == "" || period <= 0 {
		//nolint:forbidigo // a mistake in the program, and there is no error to return
		panic("stint: OncePer needs an ID and a positive period")
	}
	// Truncate counts from the year 1 on, which is no multiple of most periods before 1970.
	epoch := time.Unix(0, 0)
	offset := epoch.Sub(epoch.Truncate(period))
	start := at.Add(-offset).Truncate(period).Add(offset)
	return id + "@" + TaskID(start.UTC().Format(time.RFC3339Nano))
}
