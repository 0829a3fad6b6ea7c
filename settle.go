package stint

import (
	"context"
	"errors"
	"math/rand/v2"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// How many rounds of settling are sent with a statement that ends tasks. One settles everything,
// except for tasks that others change at that moment, and for joins whose signals come from levels
// far apart. If no dependents are expected, none is sent, since even an idle round costs as much as
// half a return.
const (
	roundsUsual = 1
	roundsNone  = 0
)

// settle runs steps that end tasks, and after them rounds of settling, all in one round trip. If
// the rounds do not suffice, it begins again with more. The steps put the tasks that they end into
// the given round of the batch, and the changes that others may wait for into pending. The notices
// in expected are known before. The last steps run when everything is settled.
func (s *Store) settle(
	ctx context.Context, rounds int, expected *notices,
	steps func(batch int64, round int, pending *notices) []step, last ...step,
) error {
	const more = 4
	for ; ; rounds = max(rounds*more, roundsUsual) {
		batch, pending := rand.Int64(), &notices{} //nolint:gosec // no secret
		all := steps(batch, rounds, pending)
		for round := rounds; round > 0; round-- {
			all = append(all,
				step{name: "lock_dependents", args: []any{batch, round}},
				step{
					name: "settle_tasks", args: []any{batch, round, pending.counted},
					read: readSettled(pending),
				})
		}
		err := s.do(ctx, request{append(all, last...), expected, true})
		var pgErr *pgconn.PgError
		switch {
		case err == nil:
			pending.remove(expected)
			s.notify(ctx, pending)
			return nil
		case !errors.As(err, &pgErr) || pgErr.ConstraintName != "settling_rounds":
			return err
		}
	}
}

// readSettled reads actions of tasks that became ready, keys of tasks that ended, and how many of
// them ended for the counted cause.
func readSettled(pending *notices) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		for rows.Next() {
			var ready *string
			var finished, count *int64
			if err := rows.Scan(&ready, &finished, &count); err != nil {
				return err
			}
			if ready != nil {
				pending.addReady(*ready)
			}
			if finished != nil {
				pending.finished = append(pending.finished, *finished)
			}
			if count != nil {
				pending.count += int(*count)
			}
		}
		return rows.Err()
	}
}
