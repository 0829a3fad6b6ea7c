// Package replay checks the history of a store: it reads all commits from the write-ahead log of
// the server, by logical decoding, and replays them against the transitions of
// docs/design/lifecycle.md. All state of the protocol is in rows, and each verb is one transaction,
// so the log has every state that anybody can have seen, in the order of the commits. The store
// need not know of it.
//
// It checks that
//
//   - a task is in one state at each commit, and moves only as the page allows
//   - nobody owns a task who was not given it out of the queue, and no claim comes back
//   - tries count up by one, to the limit of the task at most
//   - no lease is taken back ahead of its end
//   - a task is aborted as lost only when enough owners in a row have lost it, and then for sure
//   - a task starts, or is skipped or aborted, as its predecessors and its conditions say
//   - of a key in strict order one task is under way, until that has ended
//   - limits and rates of actions and keys are never exceeded
//   - the state that the log gives is that of the tables ([History.Compare])
//
// It needs wal_level = logical, a free replication slot, and an account that may replicate. While
// the slot is there, the server keeps the log from the oldest transaction on that was not read.
package replay

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/sqlfile"
)

//go:embed sql/snapshot.sql
var statements string

// violationsMax is how many violations are kept; all are counted.
const violationsMax = 1000

// Options say what to replay.
type Options struct {
	Schema string // of the store; stint if empty
	Slot   string // the name of the replication slot, which must not exist

	// Temporary drops the slot with the connection, whatever ends that. Otherwise the slot
	// outlives it, so that a history can go on behind a crash of the server: until Close.
	Temporary bool

	// ClockJumps says that the clock of the server is not to be trusted: times are not compared.
	ClockJumps bool

	// MaxLosses is the option of all stores by which they give tasks up that owners lose; 0: any.
	MaxLosses int
}

// Counts are what a history has shown so far.
type Counts struct {
	Commits, Changes, Moves int64
	TakenBack               int64 // tasks whose lease had expired
	Settled                 int64 // tasks that stopped waiting for others
	Limited                 int64 // fetches under limits
	Violations              int64
}

// A History follows a store from a moment on. It is for one goroutine.
type History struct {
	// OnMove, if it is set, is told of each move, in the order of the commits. Set it ahead of the
	// first call of Read.
	OnMove func(Move)

	options Options
	config  *pgx.ConnConfig
	stream  *pgx.Conn // on which the slot sends what is committed
	asking  *pgx.Conn // for everything else
	made    bool      // the slot is there
	rules   rules
	state   *state
	lines   []change // of a transaction that is being read
	last    uint64   // the end of the last transaction that was replayed
	heard   uint64   // up to where the slot has sent everything
	txns    uint64

	owned      map[string]int            // tasks in progress under limits, by action
	ownedOfKey map[string]map[int64]bool // and by action and key

	counts     Counts
	violations []Violation
}

// Open makes a replication slot and reads what the store has at that moment. The context limits
// both. Without an error the caller calls Close.
func Open(ctx context.Context, config *pgx.ConnConfig, options Options) (*History, error) {
	if options.Schema == "" {
		options.Schema = "stint"
	}
	all, err := readRules()
	if err != nil {
		return nil, err
	}
	h := &History{
		options: options, config: config, rules: all, state: newState(), owned: map[string]int{},
		ownedOfKey: map[string]map[int64]bool{},
	}
	if err := h.begin(ctx); err != nil {
		return nil, errors.Join(err, h.Close(context.WithoutCancel(ctx)))
	}
	return h, nil
}

// begin makes the slot, reads the tables as of the same moment, and has the slot stream from there.
func (h *History) begin(ctx context.Context) error {
	var err error
	if h.asking, err = h.connect(ctx, false); err != nil {
		return err
	}
	if h.stream, err = h.connect(ctx, true); err != nil {
		return err
	}
	if _, err := h.stream.Exec(ctx, h.statement("begin_snapshot")); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	command := "CREATE_REPLICATION_SLOT " + pgx.Identifier{h.options.Slot}.Sanitize()
	if h.options.Temporary {
		command += " TEMPORARY"
	}
	command += " LOGICAL test_decoding USE_SNAPSHOT"
	if err := h.stream.PgConn().Exec(ctx, command).Close(); err != nil {
		return fmt.Errorf("replay: make a replication slot, which needs wal_level = logical and "+
			"an account with REPLICATION: %w", err)
	}
	h.made = true
	if err := h.awaitCommits(ctx); err != nil {
		return fmt.Errorf("replay: wait for the transactions that are under way: %w", err)
	}
	if h.state, err = h.snapshot(ctx, h.stream); err != nil {
		return err
	}
	for _, of := range h.state.tasks {
		of.lost = unknownLosses
	}
	for _, block := range h.state.rows[leased] {
		for _, r := range block {
			for key := r.lo; key <= r.hi; key++ {
				h.count(key, nil, r, h.state.tasks[key])
				if of := h.state.tasks[key]; of != nil {
					of.claims = append(of.claims, r.claim)
				}
			}
		}
	}
	if _, err := h.stream.Exec(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return h.startStream(ctx)
}

// awaitCommits waits until all transactions have ended that are under way. The snapshot of a new
// slot goes by the log, so it has transactions whose commit is in the log and not yet in the
// server's list of commits. Whoever reads a row of theirs by it before it is in that list takes
// them for aborted, and marks the row so for everybody: the server then has lost it.
func (h *History) awaitCommits(ctx context.Context) error {
	const look = 5 * time.Millisecond
	var next string
	err := h.asking.QueryRow(ctx, h.statement("next_transaction")).Scan(&next)
	for ended := false; err == nil && !ended; {
		err = h.asking.QueryRow(ctx, h.statement("transactions_ended"), next).Scan(&ended)
		if err == nil && !ended {
			select {
			case <-time.After(look):
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
	}
	return err
}

// snapshot reads the tables of the store.
func (h *History) snapshot(ctx context.Context, conn *pgx.Conn) (*state, error) {
	s := newState()
	t := newTxn(0, "")
	for _, table := range []string{
		"tasks", "blocked", "scheduled", "ready", "leased", "finished", "leases", "edges", "limits",
		"spent",
	} {
		rows, err := conn.Query(ctx, h.statement("snapshot_"+table))
		if err != nil {
			return nil, fmt.Errorf("replay: read the table %s: %w", table, err)
		}
		for rows.Next() {
			v := values{}
			for i, raw := range rows.RawValues() {
				if raw != nil {
					v[rows.FieldDescriptions()[i].Name] = string(raw)
				}
			}
			if err := s.apply(t, change{kind: "INSERT", table: table, new: v}); err != nil {
				rows.Close()
				return nil, fmt.Errorf("replay: %w", err)
			}
		}
		if err := rows.Err(); err != nil {
			return nil, fmt.Errorf("replay: read the table %s: %w", table, err)
		}
	}
	return s, nil
}

// statement returns a statement for the schema of the store.
func (h *History) statement(name string) string {
	text := sqlfile.Statement(sqlfile.Split(statements)[name])
	return strings.ReplaceAll(text, "stint.", pgx.Identifier{h.options.Schema}.Sanitize()+".")
}

// line reads a line of the slot, and replays its transaction if it ends it. A slot goes back a
// little when the server crashes: what was replayed before is passed over.
func (h *History) line(lsn uint64, data string) error {
	c, err := parseChange(data, h.options.Schema)
	if err != nil {
		return err
	}
	switch {
	case c.kind == "COMMIT":
		changes := h.lines
		h.lines = h.lines[:0]
		if lsn <= h.last {
			return nil
		}
		h.last = lsn
		return h.replay(fmt.Sprintf("%X/%X", lsn>>32, lsn&0xFFFFFFFF), moment(c.stamp), changes)
	case c.table != "":
		h.lines = append(h.lines, c)
	}
	return nil
}

// replay makes the changes of a transaction, and checks them.
func (h *History) replay(lsn string, stamp time.Time, changes []change) error {
	h.txns++
	t := newTxn(h.txns, lsn)
	t.stamp = stamp
	for _, c := range changes {
		h.counts.Changes++
		if err := h.state.apply(t, c); err != nil {
			return err
		}
	}
	h.commit(t)
	return nil
}

// parseLSN reads a place in the log.
func parseLSN(text string) (uint64, error) {
	var high, low uint32
	if _, err := fmt.Sscanf(text, "%X/%X", &high, &low); err != nil {
		return 0, fmt.Errorf("%q is no place in the log: %w", text, err)
	}
	return uint64(high)<<32 | uint64(low), nil
}

// Compare replays the rest and reports where the state that it gives is not that of the tables.
// Nobody may change the store meanwhile.
func (h *History) Compare(ctx context.Context) error {
	if err := h.Read(ctx); err != nil {
		return err
	}
	if _, err := h.asking.Exec(ctx, h.statement("begin_snapshot")); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	stored, err := h.snapshot(ctx, h.asking)
	if err != nil {
		return err
	}
	if _, err := h.asking.Exec(ctx, "COMMIT"); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	t := newTxn(h.txns, "at the end")
	for table := range h.state.rows {
		h.compareRows(t, h.state.rows[table], stored.rows[table])
	}
	if len(h.state.tasks) != len(stored.tasks) || len(h.state.leases) != len(stored.leases) {
		h.violate(t, 0, "the log gives %d tasks and %d leases, the tables have %d and %d",
			len(h.state.tasks), len(h.state.leases), len(stored.tasks), len(stored.leases))
	}
	return nil
}

func (h *History) compareRows(t *txn, replayed, table spans) {
	for _, block := range replayed {
		for _, r := range block {
			other := table.at(r.lo)
			if other == nil || other.lo != r.lo || other.hi != r.hi || !other.same(r) {
				h.violate(t, r.lo, "is %s by the log, and not by the tables", words(r.state()))
			}
		}
	}
	if replayed.size() != table.size() {
		h.violate(t, 0, "the log gives %d rows where a table has %d", replayed.size(), table.size())
	}
}

// Behind returns how many bytes of the log the server keeps for the slot.
func (h *History) Behind(ctx context.Context) (bytes int64, err error) {
	err = h.asking.QueryRow(ctx, h.statement("wal_behind"), h.options.Slot).Scan(&bytes)
	return bytes, err
}

// Counts returns what the history has shown so far.
func (h *History) Counts() Counts { return h.counts }

// Tasks returns how many tasks the store has, as far as the history was read.
func (h *History) Tasks() int { return len(h.state.tasks) }

// Violations returns the first violations, at most 1,000.
func (h *History) Violations() []Violation { return h.violations }

// Close drops the slot.
func (h *History) Close(ctx context.Context) error {
	var err error
	if h.stream != nil {
		err = h.stream.Close(ctx) // which ends the slot if it is temporary
	}
	if h.made && !h.options.Temporary {
		err = errors.Join(err, h.drop(ctx))
	}
	if h.asking != nil {
		err = errors.Join(err, h.asking.Close(ctx))
	}
	return err
}

// drop drops a slot that outlives its connection, once the server has noticed that nobody reads it.
func (h *History) drop(ctx context.Context) error {
	if h.asking.IsClosed() {
		var err error
		if h.asking, err = h.connect(ctx, false); err != nil {
			return err
		}
	}
	return untilFree(ctx, func() error {
		_, err := h.asking.Exec(ctx, h.statement("drop_slot"), h.options.Slot)
		return err
	})
}
