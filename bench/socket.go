package main

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// countRoundTrips counts those of every connection that is made with the configuration, at the
// socket, where a library cannot hide any.
func countRoundTrips(config *pgx.ConnConfig, flights *atomic.Int64) {
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &countingConn{Conn: conn, flights: flights}, nil
	}
}

// A countingConn counts round trips: writes that come after a read.
type countingConn struct {
	net.Conn
	flights *atomic.Int64
	read    atomic.Bool
}

func (c *countingConn) Write(p []byte) (int, error) {
	if c.read.Swap(false) {
		c.flights.Add(1)
	}
	return c.Conn.Write(p)
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Store(true)
	return n, err
}
