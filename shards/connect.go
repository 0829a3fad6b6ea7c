package shards

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
)

// schemaParameter is the part of a shard's URL that names the schema of its store.
const schemaParameter = "stint_schema"

// Connect opens the store of a shard at a URL of PostgreSQL. Its parameter stint_schema names the
// schema, so that several shards may lie in one database. Closing the store closes its pool.
func Connect(ctx context.Context, shard, address string) (Store, error) {
	return ConnectWith(stint.Options{})(ctx, shard, address)
}

// ConnectWith returns a function that is [Connect] for stores with these options, but for the
// schema, which the URL names.
func ConnectWith(
	options stint.Options,
) func(ctx context.Context, shard, address string) (Store, error) {
	return func(ctx context.Context, _, address string) (Store, error) {
		if !strings.HasPrefix(address, "postgres://") &&
			!strings.HasPrefix(address, "postgresql://") {
			return nil, badTopology("the URL of a shard must begin with postgres://")
		}
		config, err := pgxpool.ParseConfig(address)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		options := options
		options.Schema = config.ConnConfig.RuntimeParams[schemaParameter]
		delete(config.ConnConfig.RuntimeParams, schemaParameter)
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
		store, err := stint.New(pool, options)
		if err != nil {
			pool.Close()
			return nil, err
		}
		return &pooled{store, pool}, nil
	}
}

// pooled is a store with a pool of its own.
type pooled struct {
	*stint.Store
	pool *pgxpool.Pool
}

// Close closes the store and its pool. It waits for connections no longer than ctx allows, and no
// longer than some seconds: their server may be silent.
func (p *pooled) Close(ctx context.Context) error {
	err := p.Store.Close(ctx)
	closed := make(chan struct{})
	go func() {
		p.pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-ctx.Done():
	case <-time.After(settleFor):
	}
	return err
}
