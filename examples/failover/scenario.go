//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/migrations"
)

// The faults, in the order of the table.
func scenarios() []string { return []string{"kill", "freeze", "switchover", "cut"} }

const (
	warmUp      = 3 * time.Second
	afterwards  = 5 * time.Second
	recoveryMax = 2 * time.Minute
	heldAction  = "held"
	heldTasks   = 5
)

// A run is one scenario on a cluster of its own.
type run struct {
	*cluster
	scenario string
	logger   *slog.Logger
	primary  *node // before the fault
	url      string
	load     *load
	held     []stint.OwnedTask
}

// play plays a scenario.
func play(
	ctx context.Context, p programs, scenario string, logger *slog.Logger,
) (v *verdict, err error) {
	c, err := startCluster(ctx, p)
	if err != nil {
		return nil, err
	}
	defer func() {
		keep := err != nil || v.bad()
		if err = errors.Join(err, c.close(keep)); keep {
			logger.WarnContext(ctx, "the logs are kept", slog.String("dir", c.dir))
		}
	}()
	r := &run{cluster: c, scenario: scenario, logger: logger}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.load.close()) }()
	if err := pause(ctx, warmUp); err != nil {
		return nil, err
	}
	if err := r.primary.findPostmaster(); err != nil {
		return nil, err
	}
	r.load.ledger.strike()
	if err := r.strike(ctx); err != nil {
		return nil, err
	}
	accepted, err := r.tryOldPrimary(ctx)
	if err != nil {
		return nil, err
	}
	successor, err := r.awaitSuccessor(ctx, r.primary)
	if err != nil {
		return nil, err
	}
	if err := r.load.awaitPerformed(ctx); err != nil {
		return nil, err
	}
	if scenario == "freeze" {
		if accepted, err = r.thaw(ctx); err != nil {
			return nil, err
		}
	}
	if err := pause(ctx, afterwards); err != nil {
		return nil, err
	}
	if scenario == "cut" {
		r.primary.heal()
	}
	// An old primary that goes on lets itself be read until Patroni has made it a standby.
	r.url = r.cluster.url(successor)
	if v, err = r.load.drain(ctx, r.url, logger); err != nil {
		return nil, err
	}
	v.acceptedByOld = accepted
	return v, r.returnHeld(ctx)
}

// prepare makes the tables, owns some tasks that it does not return, and starts the load.
func (r *run) prepare(ctx context.Context) (err error) {
	if r.primary, err = r.awaitWhole(ctx); err != nil {
		return err
	}
	r.url = r.cluster.url(r.primary)
	config, err := pgx.ParseConfig(r.direct())
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	if err := errors.Join(migrations.Migrate(ctx, conn), conn.Close(ctx)); err != nil {
		return err
	}
	c, err := openClient(ctx, r.url, r.logger)
	if err != nil {
		return err
	}
	defer c.close() //nolint:errcheck // nothing depends on it
	tasks := make([]stint.Task, heldTasks)
	for i := range tasks {
		tasks[i].Action = heldAction
	}
	if err := c.store.InsertTasks(ctx, tasks); err != nil {
		return err
	}
	r.held, err = c.store.OwnTasks(ctx, "holder", heldTasks, []string{heldAction}, time.Hour)
	if err != nil {
		return err
	}
	r.load, err = startLoad(ctx, r.url, r.logger)
	return err
}

// direct is the address of the old primary alone, whatever it has become.
func (r *run) direct() string {
	return fmt.Sprintf("postgres://postgres:%s@%s/postgres?sslmode=disable&connect_timeout=2",
		r.primary.Password, r.primary.Postgres)
}

// strike does what the scenario says to the primary.
func (r *run) strike(ctx context.Context) error {
	switch r.scenario {
	case "kill":
		return r.primary.kill()
	case "freeze":
		return r.primary.freeze()
	case "switchover":
		return r.switchover(ctx, r.primary)
	case "cut":
		r.primary.cut()
		return nil
	}
	return fmt.Errorf("no scenario %q", r.scenario)
}

// thaw lets the old primary go on, first without its Patroni: the hardest case, since nobody is
// there to make it a standby. It returns how many returns the old primary has accepted.
func (r *run) thaw(ctx context.Context) (int, error) {
	if err := r.primary.signalPostgres(syscall.SIGCONT); err != nil {
		return 0, err
	}
	accepted, err := r.callOldPrimary(ctx, 2)
	return accepted, errors.Join(err, r.primary.signalPatroni(syscall.SIGCONT))
}

// tryOldPrimary calls a primary that is cut off, until it no longer is one.
func (r *run) tryOldPrimary(ctx context.Context) (int, error) {
	if r.scenario != "cut" {
		return 0, nil
	}
	const rounds = 3
	return r.callOldPrimary(ctx, rounds)
}

// callOldPrimary returns the held tasks at the old primary, and tries to own others there and to
// return them. It does so more than once: the answer to a repeated call must not be that the first
// one has taken place.
func (r *run) callOldPrimary(ctx context.Context, rounds int) (accepted int, err error) {
	c, err := openClient(ctx, r.direct(), r.logger)
	if err != nil {
		return 0, err
	}
	defer c.close() //nolint:errcheck // it is lost
	for range rounds {
		verdicts, err := returnAll(ctx, c.store, r.held)
		accepted += verdicts
		r.logger.InfoContext(ctx, "returned at the old primary",
			slog.Int("accepted", verdicts), slog.Any("error", err))
		owned, err := ownOne(ctx, c.store)
		if err == nil && len(owned) > 0 {
			verdicts, err = returnAll(ctx, c.store, owned)
			accepted += verdicts
		}
		r.logger.InfoContext(ctx, "owned at the old primary",
			slog.Int("tasks", len(owned)), slog.Any("error", err))
	}
	return accepted, nil
}

func ownOne(ctx context.Context, store *stint.Store) ([]stint.OwnedTask, error) {
	ctx, cancel := context.WithTimeout(ctx, callMax/2)
	defer cancel()
	return store.OwnTasks(ctx, "stale", 1, []string{action}, time.Minute)
}

// returnAll returns tasks, and counts the returns that were accepted.
func returnAll(
	ctx context.Context, store *stint.Store, owned []stint.OwnedTask,
) (accepted int, err error) {
	ctx, cancel := context.WithTimeout(ctx, callMax/2)
	defer cancel()
	returns := make([]stint.Return, len(owned))
	for i, task := range owned {
		returns[i] = stint.Return{
			ID: task.ID, Token: task.Token, Code: stint.StatusCompleted,
			Result: []byte(resultOf(task.Token)),
		}
	}
	verdicts, err := store.ReturnTasks(ctx, returns)
	for _, verdict := range verdicts {
		if isAccepted(verdict) {
			accepted++
		}
	}
	return accepted, errors.Join(append(verdicts, err)...)
}

// returnHeld returns the held tasks at the new primary, which must accept the tokens of the old.
func (r *run) returnHeld(ctx context.Context) error {
	c, err := openClient(ctx, r.url, r.logger)
	if err != nil {
		return err
	}
	defer c.close() //nolint:errcheck // nothing depends on it
	accepted, err := returnAll(ctx, c.store, r.held)
	if accepted != len(r.held) {
		return fmt.Errorf("the new primary accepts %d of %d returns: %w",
			accepted, len(r.held), err)
	}
	return nil
}
