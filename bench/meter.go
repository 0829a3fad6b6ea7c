package main

import (
	"context"
	_ "embed"
	"errors"
	"time"
)

var (
	//go:embed sql/wal_position.sql
	walPositionSQL string
	//go:embed sql/backend_pid.sql
	backendPIDSQL string
)

// A meter is what has been spent up to an instant.
type meter struct {
	flights int64
	wal     int64 // bytes

	transactions int64

	// The time of the processor, which unlike that of the clock does not grow when the machine has
	// other things to do; zero where the system does not tell.
	server, client time.Duration
}

func (r *run) readMeter(ctx context.Context) (m meter, err error) {
	m.flights, m.client = r.flights.Load(), clientCPU()
	for _, server := range r.servers() {
		var pid int
		var wal, transactions int64
		err := errors.Join(server.QueryRow(ctx, backendPIDSQL).Scan(&pid),
			server.QueryRow(ctx, walPositionSQL).Scan(&wal),
			server.QueryRow(ctx, xactCommitsSQL).Scan(&transactions))
		if err != nil {
			return m, err
		}
		m.server, m.wal = m.server+serverCPU(pid), m.wal+wal
		m.transactions += transactions
	}
	return m, nil
}

// measure performs work and reports how long it took, and what it cost. Work returns how many tasks
// it moved.
func (r *run) measure(ctx context.Context, work func(ctx context.Context) (int, error)) error {
	if r.measured {
		return errMeasuredTwice
	}
	r.measured = true
	before, err := r.readMeter(ctx)
	if err != nil {
		return err
	}
	begun := now()
	tasks, err := work(ctx)
	if err != nil {
		return err
	}
	r.report.Tasks, r.report.Seconds = tasks, time.Since(begun).Seconds()
	after, err := r.readMeter(ctx)
	r.report.Flights = after.flights - before.flights
	r.report.WAL = after.wal - before.wal
	r.report.Transactions = after.transactions - before.transactions
	r.report.ServerCPU = (after.server - before.server).Seconds()
	r.report.ClientCPU = (after.client - before.client).Seconds()
	return err
}
