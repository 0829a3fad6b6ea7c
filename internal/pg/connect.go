package pg

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// connectMax is how long it may take to open a connection.
const connectMax = 5 * time.Second

// Connect opens a connection as the pool does, but for what adapt changes.
func (db *DB) Connect(
	ctx context.Context, adapt func(*pgx.ConnConfig),
) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	pool := db.Pool.Config()
	config := pool.ConnConfig
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, config); err != nil {
			return nil, err
		}
	}
	adapt(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if pool.AfterConnect != nil {
		if err := pool.AfterConnect(ctx, conn); err != nil {
			return nil, errors.Join(err, conn.Close(ctx))
		}
	}
	return conn, nil
}
