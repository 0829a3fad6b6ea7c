package stint

import (
	"context"
	"fmt"
	"slices"
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

func (s *Store) listSchedules(ctx context.Context, names []string) ([]ScheduleInfo, error) {
	if err := checkScheduleNames(names); err != nil {
		return nil, err
	}
	var all []ScheduleInfo
	const page = 1000
	for after, full := "", true; full; {
		var now time.Time
		before := len(all)
		err := s.run(ctx, step{
			name: "list_schedules", args: []any{names, after, page},
			read: func(rows pgx.Rows) error {
				found, err := readSchedules(rows, &now)
				all = append(all[:before], found...)
				return err
			},
		})
		if err != nil {
			return nil, err
		}
		if full = len(all)-before == page; full {
			after = all[len(all)-1].Name
		}
	}
	return slices.Clip(all), nil
}
