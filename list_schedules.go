package stint

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ListSchedules returns the schedules with these names, or all of them if none is named, sorted by
// name. Names that no schedule has are left out.
func (s *Store) ListSchedules(ctx context.Context, names ...string) ([]ScheduleInfo, error) {
	all, err := s.listSchedules(ctx, names)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	return all, nil
}

// CountScheduleBytes returns how many bytes the schedules with these names have, or all of them if
// none is named, which [Store.ListSchedules] would return, without reading their tasks. Bodies
// count with a third more than they have.
func (s *Store) CountScheduleBytes(ctx context.Context, names ...string) (int64, error) {
	if err := checkScheduleNames(names); err != nil {
		return 0, fmt.Errorf("count bytes of schedules: %w", err)
	}
	var size int64
	err := s.run(ctx, step{
		name: "schedule_bytes", args: []any{names, len(names) == 0},
		read: func(rows pgx.Rows) (err error) {
			size, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[int64])
			return err
		},
	})
	if err != nil {
		return 0, fmt.Errorf("count bytes of schedules: %w", err)
	}
	return size, nil
}

func (s *Store) listSchedules(ctx context.Context, names []string) ([]ScheduleInfo, error) {
	if err := checkScheduleNames(names); err != nil {
		return nil, err
	}
	if len(names) > 0 {
		all, _, err := s.findSchedules(ctx, "find_schedules", names)
		return all, err
	}
	const page = 1000
	var all []ScheduleInfo
	for after, full := "", true; full; {
		found, _, err := s.findSchedules(ctx, "list_schedules", after, page)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if full = len(found) == page; full {
			after = found[page-1].Name
		}
	}
	return all, nil
}

// findSchedules returns the schedules that a statement finds, and what the clock shows.
func (s *Store) findSchedules(
	ctx context.Context, statement string, args ...any,
) (found []ScheduleInfo, now time.Time, err error) {
	err = s.run(ctx, step{name: statement, args: args, read: func(rows pgx.Rows) (err error) {
		found, now, err = readSchedules(rows)
		return err
	}})
	return found, now, err
}

// readSchedules reads rows up to one whose definition is none, with which it ends, and an error.
func readSchedules(rows pgx.Rows) (all []ScheduleInfo, now time.Time, err error) {
	for rows.Next() {
		var info ScheduleInfo
		var text []byte
		var start, end, next, last, paused *time.Time
		var ids []string
		err := rows.Scan(&info.Name, &info.Spec, &info.Zone, &start, &end, &text, &next, &last,
			&ids, &info.Missed, &info.Skipped, &paused, &info.ChangedAt, &now)
		if err != nil {
			return nil, now, err
		}
		var kept definition
		unread := json.Unmarshal(text, &kept)
		name, spec, zone := info.Name, info.Spec, info.Zone
		info.Schedule = kept.schedule()
		info.Name, info.Spec, info.Zone = name, spec, zone
		info.From, info.To = orZero(start), orZero(end)
		info.NextAt, info.LastAt, info.PausedSince = orZero(next), orZero(last), orZero(paused)
		for _, id := range ids {
			info.LastIDs = append(info.LastIDs, TaskID(id))
		}
		all = append(all, info)
		if unread != nil {
			return all, now, &ScheduleError{Names: []string{name}, Err: unread}
		}
	}
	return all, now, rows.Err()
}
