package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/migrations"
)

const order stint.TaskID = "order/7"

// demonstrate has workers perform an order, kills them on the way, and says what came of it.
func demonstrate(ctx context.Context, url string, kills int, stdout io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "stint-steps-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	journal := filepath.Join(dir, "journal")
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	err = pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return migrations.Migrate(ctx, conn.Conn())
	})
	if err != nil {
		return err
	}
	store, err := stint.New(pool, stint.Options{
		Maintenance: stint.MaintainAlways, MaxLosses: stint.UnlimitedLosses,
	})
	if err != nil {
		return err
	}
	defer store.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the process ends
	err = store.InsertTasks(ctx, []stint.Task{{ID: order, Action: action, PostResult: true}})
	if err != nil {
		return err
	}
	// The first workers are killed behind the first calls, the last one behind the last call.
	for n := range kills {
		after := 1 + n*len(steps())/max(kills, 1)
		recorded, err := untilKilled(ctx, store, url, journal, after)
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "killed a worker behind the call of %q: %d of %d steps are recorded\n",
			steps()[min(after, len(steps()))-1], len(recorded), len(steps()))
	}
	if _, err := untilKilled(ctx, store, url, journal, 0); err != nil {
		return err
	}
	info, err := store.WaitForTask(ctx, order)
	if err != nil {
		return err
	}
	called, err := os.ReadFile(journal) //nolint:gosec // it is this program's own
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(called)), "\n")
	fmt.Fprintf(stdout, "the order is %s: %s\n%d calls of %d steps in %d tries, and no recorded "+
		"step was called again\n", info.State, info.Status, len(lines), len(steps()), info.Tries)
	return nil
}

// untilKilled runs a worker, and kills it once it has called a step, by its number, before that is
// recorded; 0 lets it finish. It returns the steps that are recorded then. A worker that calls a
// step which was recorded when it began is an error.
func untilKilled(
	ctx context.Context, store *stint.Store, url, journal string, number int,
) (recorded []string, err error) {
	before, err := recordedSteps(ctx, store)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	//nolint:gosec // it is this program
	cmd := exec.CommandContext(ctx, program, "-database-url", url, "-worker", journal)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	leave, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	killed := false
	calls := bufio.NewScanner(output)
	for calls.Scan() {
		name := calls.Text()
		if slices.Contains(before, name) {
			err = errors.Join(err, fmt.Errorf("%q is recorded, and was called again", name))
		}
		if number > 0 && slices.Index(steps(), name) >= number-1 {
			killed = true
			err = errors.Join(err, cmd.Process.Kill())
			break
		}
		// If the worker is gone, Wait tells.
		_, _ = fmt.Fprintln(leave)
	}
	if waited := cmd.Wait(); !killed {
		err = errors.Join(err, waited)
	}
	if err != nil {
		return nil, err
	}
	return recordedSteps(ctx, store)
}

func recordedSteps(ctx context.Context, store *stint.Store) ([]string, error) {
	why, err := store.Explain(ctx, order)
	if err != nil {
		return nil, err
	}
	var recorded []string
	for _, step := range why.Steps {
		recorded = append(recorded, step.Name)
	}
	return recorded, nil
}
