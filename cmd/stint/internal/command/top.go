package command

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/cmd/stint/internal/top"
)

func (p *program) topCommand() *cobra.Command {
	interval := time.Second
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch tasks on a terminal",
		Long: `Watch tasks in three lists. The tab key switches between them:

  actions  how many tasks there are in each state (~: an estimate), how long ago the oldest
           ready task was inserted, and how many tasks were fetched per second in the
           last ten seconds, for their first try or another one
  tasks    the tasks in progress for longest, the tasks that wait for another try, and the
           tasks that failed last; with a filter, also tasks of any state whose IDs begin
           with it
  actors   the live actors

Enter opens a task and shows its fields and what explain prints. a aborts it with everything
that depends on it, r retries it once it has finished; both ask first. / filters, s changes the
order, p pauses, ? names all keys, q quits with exit code 0, Ctrl-C with 130.

The lists refresh --interval after the previous refresh finished. While the database cannot
be reached, top says so, and continues when it is back. With --topology, actions and actors
are named SHARD/NAME, and top names a shard that is away and shows the rest.

It needs a terminal as standard input and output. top has no --json: scripts should use
stint stats, ls and actors.`,
		Example: `  stint top
  stint top --interval 10s`,
		GroupID: groupTasks,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.checkTop(interval); err != nil {
				return err
			}
			p.quiet = true // the view names the database
			return p.withTasks(p.byUser(cmd), func(ctx context.Context, db *database) error {
				return p.top(ctx, db, interval)
			})
		},
	}
	cmd.Flags().DurationVar(&interval, "interval", interval,
		"pause for this `time` between two refreshes, such as 500ms or 10s")
	return cmd
}

func (p *program) checkTop(interval time.Duration) error {
	const shortest = 100 * time.Millisecond
	switch {
	case p.json:
		return said(errInput, "top shows a live view and prints nothing; "+
			"for JSON use: stint stats --json")
	case interval < shortest:
		return said(errInput, "invalid --interval %v: must be at least %v", interval, shortest)
	case !isTerminal(p.stdin) || !isDrawable(p.stdout):
		return said(errInput, "top needs a terminal to draw on; in scripts use: stint stats")
	}
	return nil
}

func (p *program) top(ctx context.Context, db *database, interval time.Duration) error {
	if db.client != nil { // a service may let us in, and yet not show us tasks
		if _, err := db.client.Stats(ctx); err != nil {
			return err
		}
	}
	store := top.Store{Verbs: db.tasks(), Clock: db.now}
	if db.client != nil {
		store.ReadsAll = db.client.ReadsAll
	}
	var source top.Source = store
	if db.shards != nil {
		source = shardedSource{store, db.shards}
	}
	err := top.Run(ctx, source, top.Options{
		Database: db.name(), Interval: interval, Colours: bool(p.painter()),
	}, p.stdin, p.stdout)
	if errors.Is(err, top.ErrInterrupted) {
		return errInterrupted
	}
	return err
}

// A shardedSource says of each snapshot which shards are away.
type shardedSource struct {
	top.Source
	shards *sharded
}

// Read is that of the source.
func (s shardedSource) Read(ctx context.Context, prefix string) (top.Snapshot, error) {
	snapshot, err := s.Source.Read(ctx, prefix)
	snapshot.Away = s.shards.takeAway()
	return snapshot, err
}
