package schedule

import (
	"bytes"
	"context"
	"slices"

	"github.com/stint-tasks/stint/internal/changes"
	"github.com/stint-tasks/stint/internal/pg"
)

// notePut notes, if the context names an author, which schedules they add or change.
func notePut(ctx context.Context, db *pg.DB, rows []Row) error {
	names := make([]string, len(rows))
	for i := range rows {
		names[i] = rows[i].Name
	}
	now, err := lockToNote(ctx, db, names)
	if err != nil {
		return err
	}
	var changed []string
	for i := range rows {
		if before, exists := now[rows[i].Name]; !exists || !rows[i].isAs(before) {
			changed = append(changed, rows[i].Name)
		}
	}
	slices.Sort(changed)
	return changes.Schedules(ctx, db, "PutSchedules", changed, "")
}

// isAs reports whether a schedule is as another one.
func (r *Row) isAs(other *Row) bool {
	return r.Spec == other.Spec && r.Zone == other.Zone && r.From.Equal(other.From) &&
		r.To.Equal(other.To) && bytes.Equal(r.Definition, other.Definition)
}

// notePauses notes, if the context names an author, which schedules they pause or resume.
func notePauses(ctx context.Context, db *pg.DB, verb string, names []string, pause bool) error {
	now, err := lockToNote(ctx, db, names)
	if err != nil {
		return err
	}
	var changed []string
	for name, row := range now {
		if row.PausedSince.IsZero() == pause {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changes.Schedules(ctx, db, verb, changed, "")
}

// lockToNote locks schedules, and returns them as they are, if the context names an author.
func lockToNote(ctx context.Context, db *pg.DB, names []string) (map[string]*Row, error) {
	if _, named := changes.Of(ctx); !named {
		return nil, nil //nolint:nilnil // nothing is noted
	}
	rows, _, err := Lock(ctx, db, names)
	found := make(map[string]*Row, len(rows))
	for i := range rows {
		found[rows[i].Name] = &rows[i]
	}
	return found, err
}
