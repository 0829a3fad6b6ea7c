package listing

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stint-tasks/stint/internal/jsonpath"
	"github.com/stint-tasks/stint/internal/pg"
)

// searchedBytesMax is how many bytes of bodies a search reads, but for the last body.
const searchedBytesMax = 16 << 20

// A Search looks for tasks whose bodies match a path, for one page. A nil one looks at no bodies.
type Search struct {
	path    *jsonpath.Path
	left    int64 // how many bytes of bodies it may still read
	through int   // the place of the last body
}

// NewSearch returns the search for a path; nil for an empty one.
func NewSearch(path string) (*Search, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // as the comment says
	}
	parsed, err := jsonpath.Parse(path)
	return &Search{path: parsed, left: searchedBytesMax}, err
}

// IsTired reports whether the search has read as much as it may.
func (s *Search) IsTired() bool { return s != nil && s.left <= 0 }

// Wants returns how many of some tasks are to be picked, so that limit of them may match.
func (s *Search) Wants(limit int, looked []Place) int {
	if s == nil {
		return limit
	}
	return len(looked)
}

// Through returns those of the tasks that were looked at to which the search came.
func (s *Search) Through(looked []Place) []Place {
	if s.IsTired() {
		return looked[:s.through]
	}
	return looked
}

// Match returns the indexes of those of some tasks whose bodies match, limit of them at most. The
// tasks are those that pass the rest of a filter, at places in looked, from 1 on: bodies of others
// are not read. It reads one body after the other, until it is tired.
func (s *Search) Match(
	ctx context.Context, db *pg.DB, looked []Place, places []int64, limit int,
) (matching []int, err error) {
	if len(places) == 0 {
		return nil, nil
	}
	keys := make([]int64, len(places))
	for i, place := range places {
		keys[i] = looked[place-1].Key
	}
	before := s.left
	err = db.Run(ctx, pg.Step{
		Name: "list_bodies", Args: []any{keys, before},
		Read: func(rows pgx.Rows) error {
			matching, s.left = nil, before
			var n int
			var body pgtype.DriverBytes // not a copy
			_, err := pgx.ForEachRow(rows, []any{&n, &body}, func() error {
				s.left -= int64(len(body))
				s.through = int(places[n-1])
				if len(matching) < limit && s.path.Matches(body) {
					matching = append(matching, n-1)
				}
				return ctx.Err()
			})
			return err
		},
	})
	return matching, err
}
