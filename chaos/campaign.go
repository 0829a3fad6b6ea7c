//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/chaos/faults"
	"github.com/stint-tasks/stint/chaos/record"
	"github.com/stint-tasks/stint/chaos/system"
	"github.com/stint-tasks/stint/chaos/work"
	"github.com/stint-tasks/stint/migrations"
)

const schema = "stint"

// A campaign is rounds on one server.
type campaign struct {
	options
	dir    string
	cast   []cast
	server *system.Server
	other  *system.Server // of a shard
	number int            // of the round
	commit string         // of the sources when it began: the programs are built by then
	full   float64        // tasks a second without faults and without a pace; 0: not measured
}

// begin starts the server and makes the tables.
func begin(ctx context.Context, o options) (*campaign, error) {
	dir, err := os.MkdirTemp("", "stint-chaos-")
	if err != nil {
		return nil, err
	}
	const enter = 0o755 // the account of the server
	if err := os.Chmod(dir, enter); err != nil {
		return nil, err
	}
	c := &campaign{options: o, dir: dir, commit: commit(ctx)}
	var missing []string
	c.cast, missing = casts()
	for _, text := range missing {
		fmt.Fprintln(os.Stderr, text)
	}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.end(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// open starts the servers.
func (c *campaign) open(ctx context.Context) (err error) {
	settings := map[string]string{
		"wal_level": "logical", "max_replication_slots": "20", "max_wal_senders": "20",
		"max_connections": "200", "shared_buffers": "256MB", "fsync": "on", "max_wal_size": "4GB",
	}
	if c.server, err = system.New(ctx, filepath.Join(c.dir, "server"), settings); err != nil {
		return err
	}
	settings["shared_buffers"] = "32MB"
	if c.other, err = system.New(ctx, filepath.Join(c.dir, "shard"), settings); err != nil {
		return err
	}
	functions, err := migrations.Functions(schema)
	if err != nil {
		return err
	}
	for _, p := range c.places() {
		err := p.server.Pool().AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			return migrations.MigrateSchema(ctx, conn.Conn(), p.schema)
		})
		if err != nil {
			return err
		}
	}
	for _, text := range []string{functions, receiptsTableSQL} {
		if _, err := c.server.Pool().Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// A place is where tasks are.
type place struct {
	name   string
	server *system.Server
	schema string
}

// places are where tasks of a round are: most of them in the first.
func (c *campaign) places() []place {
	return []place{
		{"the store", c.server, schema},
		{"the shard here", c.server, work.ShardSchema},
		{"the shard there", c.other, schema},
	}
}

// end stops the servers. Their directory stays if there is something to look at.
func (c *campaign) end(ctx context.Context) error {
	var err error
	for _, s := range []*system.Server{c.server, c.other} {
		if s != nil {
			err = errors.Join(err, s.Close(ctx))
		}
	}
	if kept, _ := filepath.Glob(filepath.Join(c.dir, "round-*")); len(kept) > 0 || c.keep {
		return err
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// rounds runs the rounds of each fault. One that fails does not keep the next from being run.
func (c *campaign) rounds(ctx context.Context, chosen []faults.Fault) error {
	var failed error
	for _, f := range chosen {
		for range c.options.rounds {
			c.number++
			r, err := c.play(ctx, f)
			switch {
			case errors.Is(err, faults.ErrNotHere):
				fmt.Fprintln(os.Stdout, err)
			case ctx.Err() != nil:
				return errors.Join(failed, ctx.Err())
			case err != nil:
				fmt.Fprintf(os.Stdout, "%s, seed %d: %v\n  %s has the journals\n", f.Name, r.Seed,
					err, r.Kept)
				failed = errors.Join(failed, fmt.Errorf("%s: %w", f.Name, err))
				if err := errors.Join(c.server.Start(ctx), c.other.Start(ctx)); err != nil {
					return errors.Join(failed, err)
				}
			default:
				failed = errors.Join(failed, c.report(r))
			}
		}
	}
	return failed
}

// report prints a round and adds it to the record.
func (c *campaign) report(r record.Round) error {
	const shown = 5
	fmt.Fprintln(os.Stdout, r)
	for _, v := range r.Violations[:min(shown, len(r.Violations))] {
		fmt.Fprintln(os.Stdout, "  "+v)
	}
	err := record.Append(c.record, r)
	if r.Found > 0 {
		err = errors.Join(err, fmt.Errorf("%s: %w", r.Fault, errViolated))
	}
	return err
}

// recordPath is that of the record, in the directory of the module.
const recordPath = "record.jsonl"

// seedOf is the seed of the round.
func (c *campaign) seedOf() uint64 { return c.seed + uint64(c.number) - 1 } //nolint:gosec // from 1
