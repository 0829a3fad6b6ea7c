//go:build linux

package faults

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/chaos/system"
)

func connectionFaults() []Fault {
	return []Fault{{
		Name: "no-connections", Do: takeConnections,
		Text: "connections break, and a stranger takes all that the server has, so new ones are " +
			"refused",
	}}
}

// takeConnections takes each connection as it becomes free.
func takeConnections(
	ctx context.Context, s *system.System, r *rand.Rand, d time.Duration,
) (err error) {
	const rest, tooMany = 20 * time.Millisecond, "53300"
	var taken []*pgx.Conn
	defer heal(ctx, &err, func(ctx context.Context) (err error) {
		for _, conn := range taken {
			err = errors.Join(err, conn.Close(ctx))
		}
		return err
	})
	for _, proxy := range s.Proxies {
		proxy.HangUp()
	}
	return repeat(ctx, r, d, rest, rest, func() error {
		for {
			conn, err := pgx.Connect(ctx, s.Server.Address())
			if err == nil {
				taken = append(taken, conn)
				continue
			}
			var refused *pgconn.PgError
			if errors.As(err, &refused) && refused.Code == tooMany {
				return nil
			}
			return ended(ctx, err)
		}
	})
}
