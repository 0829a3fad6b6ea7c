package testdb

import (
	"context"
	_ "embed"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

//go:embed wal_bytes.sql
var walBytes string

// WALBytes is how many bytes of WAL the server has written.
func WALBytes(tb testing.TB, pool *pgxpool.Pool) int64 {
	tb.Helper()
	var bytes int64
	err := pool.QueryRow(context.WithoutCancel(tb.Context()), walBytes).Scan(&bytes)
	if err != nil {
		tb.Fatal(err)
	}
	return bytes
}

// A Traffic is what passes between a pool and the server, for benchmarks.
type Traffic struct {
	Pool       *pgxpool.Pool
	roundTrips atomic.Int64
}

// NewTraffic returns the traffic of a pool of its own, on a new database.
func NewTraffic(tb testing.TB) *Traffic {
	tb.Helper()
	t := &Traffic{}
	config := New(tb).Config()
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(
		ctx context.Context, network, address string,
	) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		return &countingConn{Conn: conn, roundTrips: &t.roundTrips}, err
	}
	var err error
	t.Pool, err = pgxpool.NewWithConfig(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(t.Pool.Close)
	return t
}

// Measure returns a function that returns how many round trips there have been since, and how many
// bytes of WAL the server has written since.
func (t *Traffic) Measure(tb testing.TB) (since func() (roundTrips, walBytes int64)) {
	tb.Helper()
	before := WALBytes(tb, t.Pool)
	trips := t.roundTrips.Load()
	return func() (int64, int64) {
		return t.roundTrips.Load() - trips, WALBytes(tb, t.Pool) - before
	}
}

// A countingConn counts round trips: writes that come after a read.
type countingConn struct {
	net.Conn
	roundTrips *atomic.Int64
	read       atomic.Bool
}

func (c *countingConn) Write(p []byte) (int, error) {
	if c.read.Swap(false) {
		c.roundTrips.Add(1)
	}
	return c.Conn.Write(p)
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Store(true)
	return n, err
}
