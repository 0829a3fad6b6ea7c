//go:build unix

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/chaos/join"
	"github.com/stint-tasks/stint/chaos/work"
	"github.com/stint-tasks/stint/internal/replay"
)

//go:embed sql/ends.sql
var endsSQL string

//go:embed sql/receipts.sql
var receiptsSQL string

//go:embed sql/receipts_table.sql
var receiptsTableSQL string

// lossesMost is how many owners in a row may lose a task, as by default.
const lossesMost = 3

// A history is what a place has committed since a moment.
type history struct {
	*replay.History
	place
}

// openHistories opens the histories of all places from now on.
func (r *round) openHistories(ctx context.Context) error {
	for i, p := range r.places() {
		if err := r.openHistory(ctx, i, p); err != nil {
			return err
		}
	}
	return nil
}

func (r *round) openHistory(ctx context.Context, number int, p place) error {
	replayed, err := replay.Open(ctx, p.server.Pool().Config().ConnConfig, replay.Options{
		Schema: p.schema, ClockJumps: r.fault.Jumps, MaxLosses: lossesMost,
		Slot: fmt.Sprintf("chaos_%d_%d_%d", r.number, number, len(r.histories)),
	})
	if err != nil {
		return err
	}
	r.histories = append(r.histories, &history{replayed, p})
	if r.long > 0 {
		return nil // moves of hours have no journals to be joined with
	}
	replayed.OnMove = func(m replay.Move) {
		r.deeds[m.Task] = append(r.deeds[m.Task],
			fmt.Sprintf("%s %s %s: from %+v to %+v, claim %x, try %d",
				m.At.Format("15:04:05.000"), p.name, m.LSN, m.From, m.To, m.Claim, m.Tries))
		r.moves = append(r.moves, join.Move{
			ID: stint.TaskID(m.Task), Key: m.Key, From: m.From, To: m.To, Claim: m.Claim,
		})
	}
	return nil
}

// renewHistories begins those anew of the server that is another one.
func (r *round) renewHistories(ctx context.Context) error {
	before := r.histories
	r.histories = nil
	for i, h := range before {
		if h.server != r.server {
			r.histories = append(r.histories, h)
			continue
		}
		_ = h.Close(ctx) // its slot was the other server's
		if err := r.openHistory(ctx, len(before)+i, h.place); err != nil {
			return err
		}
	}
	return nil
}

// readHistories replays all that was committed, when nothing happens any more.
func (r *round) readHistories(ctx context.Context) error {
	const attempts = 3
	for _, h := range r.histories {
		var err error
		for range attempts { // its connection may be one to a server that was killed
			if err = h.Read(ctx); err == nil {
				break
			}
		}
		if err == nil {
			err = h.Compare(ctx)
		}
		if err != nil {
			return fmt.Errorf("the history of %s: %w", h.name, err)
		}
		for _, v := range h.Violations() {
			r.violated("%s: %s", h.name, v)
		}
		counts := h.Counts()
		r.result.Commits += counts.Commits
		r.result.Moves += counts.Moves
	}
	return nil
}

// judge looks for what should not be.
func (r *round) judge(ctx context.Context) error {
	if err := r.check(ctx); err != nil {
		return err
	}
	in := join.Input{Loses: r.fault.Loses, Replaces: r.fault.Replaces}
	if err := r.readHistories(ctx); err != nil {
		return err
	}
	in.Moves = r.moves
	follows := !r.fault.Loses && !r.fault.Jumps && !r.fault.Replaces
	if follows {
		if err := r.followRest(ctx); err != nil {
			return err
		}
	}
	r.result.Errors = map[string]int{}
	paths, err := filepath.Glob(filepath.Join(r.dir, "*.jsonl"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		file, err := os.Open(path) //nolint:gosec // of the round
		if err != nil {
			return err
		}
		err = work.Read(file, func(call work.Call) {
			in.Calls = append(in.Calls, call)
			r.result.Calls++
			if call.Error != "" {
				r.result.Errors[call.Error]++
			}
		})
		_ = file.Close() // it was read
		if err != nil {
			return err
		}
	}
	if in.Ends, err = r.ends(ctx, r.places()...); err != nil {
		return err
	}
	if follows {
		if in.Followed, err = r.ends(ctx, r.places()[0]); err != nil {
			return err
		}
	}
	in.Prefix = r.prefix()
	if in.Receipts, err = r.receipts(ctx); err != nil {
		return err
	}
	found := join.Join(in)
	r.result.Tasks = found.Inserted
	for _, v := range found.Violations {
		r.violated("%s", v)
	}
	return nil
}

// check looks for inconsistencies as the command stint check does.
func (r *round) check(ctx context.Context) error {
	for _, p := range r.places() {
		store, err := p.open()
		if err != nil {
			return err
		}
		found, err := store.Check(ctx)
		for _, f := range found {
			r.violated("%s is inconsistent: %v", p.name, f)
		}
		if err := errors.Join(err, store.Close(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// An endRow is a row of endsSQL.
type endRow struct {
	ID, State, Cause string
	At               int64
}

// ends are the states of the tasks of the round in places.
func (r *round) ends(
	ctx context.Context, places ...place,
) (map[stint.TaskID]join.End, error) {
	ends := map[stint.TaskID]join.End{}
	for _, p := range places {
		rows, err := query[endRow](ctx, p, endsSQL, r.prefix())
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			ends[stint.TaskID(row.ID)] = join.End{
				State: stint.State(row.State), Cause: row.Cause, At: row.At,
			}
		}
	}
	return ends, nil
}
