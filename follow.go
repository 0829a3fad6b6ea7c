package stint

import (
	"context"
	"errors"
)

// follow makes the transaction wait at its commit, for the disk and for synchronous standbys, as if
// it had changed something. A call that finds that there is nothing left to do tells its caller
// that an earlier one has done it, and that must be as safe as if the call had done it itself.
func (s *Store) follow(ctx context.Context) error {
	return s.run(ctx, step{name: "follow_commits", unplanned: true})
}

// followIf returns err, behind follow if err is what a call is told that was made before.
func (s *Store) followIf(ctx context.Context, err, repeated error) error {
	if errors.Is(err, repeated) {
		if followErr := s.follow(ctx); followErr != nil {
			return followErr
		}
	}
	return err
}
