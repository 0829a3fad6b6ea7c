package command

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/programs"
	"github.com/stint-tasks/stint/worker"
)

// A workerSetup holds the flags of worker.
type workerSetup struct {
	dir, actor            string
	actions               []string
	concurrency           int
	timeout, lease, grace time.Duration
	retryBase, retryMax   time.Duration
	keep                  keepFlags
	copies                copyFlags
	logLevel              string
	metrics               metricsFlags
	pollOnly, fence       bool
}

// defaultDir is where the programs are unless --dir names another directory, as with enq.
const defaultDir = "/etc/enq/worker.d"

const (
	leaseDefault  = 30 * time.Second
	leaseShortest = 100 * time.Millisecond
	leaseLongest  = 24 * time.Hour
	graceDefault  = 20 * time.Second

	retryBaseDefault = time.Second
	retryMaxDefault  = 12 * time.Hour
	retryLongest     = 10 * 365 * 24 * time.Hour // for the worker
)

const workerHelp = `Perform tasks by running programs, in any language: the executable file
DIR/send-mail performs the tasks with the action send-mail. The directory is read once;
hidden files, and the copies that editors and package managers leave (send-mail~,
send-mail.bak), are ignored. With --action, only the programs named are run. DIR is
` + defaultDir + ` unless --dir names another directory.

A program is given the task's body on standard input, the worker's environment, and

  STINT_TASK_ID  the task's ID
  STINT_TASK_TOKEN
                 the token of this try, with which the program may end the task itself, in
                 a transaction of its own (the SQL function finish_task): it exits with
                 the status below for that end, soon after the commit
  STINT_ACTION   the task's action
  STINT_TRY      the number of this try, beginning with 1
  STINT_FENCE    with --fence, a number that grows from one owner of the task to the next: other
                 systems can refuse by it what a late owner writes
  STINT_INPUTS   the path of a JSON list with an object for each task that this one waited
                 for: id, status_code, result, and if there are any abort_cause and status
  STINT_SPENT    the path of a file into which it may write, as a whole number, what the try
                 has really cost, for limits that count costs (see: stint help limit)
  STINT_HEADER_TENANT_ID
                 the task's header tenant-id, and so on for each of its headers; those of
                 a trace also come as TRACEPARENT, TRACESTATE and BAGGAGE

In a body that is JSON, {"$result": ID} stands for the result of the task with that ID,
if this one waited for it; the program reads the result in its place.

What the program writes to standard output is the task's result, up to 64 MiB; a task with
more is aborted. The last 64 KiB of what it writes to standard error are the task's status,
its log (see: stint show). The exit status says how the task is returned:

   0  completed
  65  aborted, and so are the tasks that depend on it (EX_DATAERR)
  75  given back for another try after a pause (EX_TEMPFAIL); any other status does the same

A program that takes longer than --timeout, or whose task is aborted or given to somebody
else, is sent SIGTERM, together with all processes that it has started, and SIGKILL 5 s
later.

On Ctrl-C or SIGTERM the worker takes no more tasks, and stops when those under way have
ended. Programs that take longer than --grace are killed, and their tasks given back. A
second Ctrl-C kills them at once. If the worker itself is killed, its tasks are handed on
within about a second, but its programs keep running and their results are discarded.

A task whose program failed waits before its next try: after the first try a random time
between half of --retry-base and --retry-base, after each further try twice as much, and
never more than --retry-max.

The worker prunes finished tasks of all actions when they are older than --keep-completed
and --keep-aborted, except those that somebody may still ask for (see: stint help
prune). The shortest retention of any worker wins, so give all workers on a schema, your
own programs included, the same values. With --keep-tries it keeps how the tries of a task
ended, with the last lines that the program wrote to standard error, for stint show. It
aborts a task that --max-losses owners in a row have lost, since it seems to kill those who
perform it; a program that dies counts as failed. With --server the service does this, and
these flags are refused.

The worker logs on standard error, with --json as JSON lines: at the level info which
database it works on, and that it starts and stops; at warn programs that fail; at error
tasks that it could not return; and at debug when each task begins and ends. The first
program that fails for an action is logged at once, those of the next minute together,
with their number and the last of them; each by itself at debug, and in stint show.

With --poll-only the worker keeps no session to listen with: use it behind a pooler that
gives each transaction another connection. It then looks for tasks once a second, and its
death is noticed when its leases expire.

With --metrics the worker serves /metrics to Prometheus: how its tasks end, how long they
take, how many are under way, and how many there are in the database (with --server, the
service tells that). Without --insecure only this machine is answered.

It needs Unix, where it can end a program together with the processes that the program
started; elsewhere, write a worker in Go.`

func (p *program) workerCommand() *cobra.Command {
	var s workerSetup
	cmd := &cobra.Command{
		Use:        "worker",
		SuggestFor: []string{"run", "start"},
		Short:      "Perform tasks by running programs",
		Long:       workerHelp,
		Example: `  stint worker
  stint worker --dir programs --concurrency 16 --timeout 10m
  stint worker --dir programs --retry-base 30s --retry-max 1h --log-level warn
  stint worker --dir programs --keep-completed 7d --keep-aborted forever
  stint worker --dir programs --metrics localhost:9464`,
		GroupID: groupTasks,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(s.check(cmd), p.checkKeep(cmd)); err != nil {
				return err
			}
			return p.work(cmd.Context(), s)
		},
	}
	s.addFlags(cmd)
	return cmd
}

func (s *workerSetup) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.dir, "dir", defaultDir, "run the programs in this `directory`")
	flags.StringArrayVar(&s.actions, "action", nil,
		"perform only tasks with this `action` (repeatable; default: those of all programs)")
	flags.StringVar(&s.actor, "actor", "",
		"`name` of the worker (default: the host, the process and a random part)")
	flags.IntVar(&s.concurrency, "concurrency", 0,
		"run at most `n` programs at once (default: the number of CPUs)")
	flags.DurationVar(&s.timeout, "timeout", 0,
		"kill programs after this `time`, such as 90s or 1h30m (default: never)")
	flags.DurationVar(&s.lease, "lease", leaseDefault,
		"`length` of the lease, renewed while a task runs: how long a lost connection is tolerated")
	flags.DurationVar(&s.grace, "grace", graceDefault,
		"let programs continue for this `time` when the worker stops")
	flags.DurationVar(&s.retryBase, "retry-base", retryBaseDefault,
		"longest `time` to wait after the first try, doubled after each further one")
	flags.DurationVar(&s.retryMax, "retry-max", retryMaxDefault,
		"longest `time` to wait for the next try")
	flags.BoolVar(&s.fence, "fence", false,
		"give each program a number by which other systems can refuse late owners")
	flags.StringVar(&s.logLevel, "log-level", logLevels()[1],
		"log records of this `level` and above: "+strings.Join(logLevels(), ", "))
	completeWith(cmd, "log-level", logLevels())
	s.keep.add(cmd)
	s.metrics.add(cmd)
	addPollOnly(cmd, &s.pollOnly)
	s.copies.add(cmd)
	cobra.CheckErr(cmd.MarkFlagDirname("dir")) // there is no such flag, which any test would find
}

// check refuses what the worker would refuse, but names the flags and does so before anything is
// done. It also sets the defaults.
func (s *workerSetup) check(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch {
	case s.dir == "":
		return said(errInput, "--dir is empty: it names the directory of the programs")
	case changed("actor") && checkNames("actor", s.actor) != nil:
		return checkNames("actor", s.actor)
	case checkTyped("--action", s.actions...) != nil:
		return checkTyped("--action", s.actions...)
	case s.concurrency < 0, s.concurrency == 0 && changed("concurrency"):
		return said(errInput, "invalid --concurrency %d: must be at least 1", s.concurrency)
	case s.lease < leaseShortest, s.lease > leaseLongest:
		return said(errInput, "invalid --lease %v: must be %v to %v", s.lease, leaseShortest,
			leaseLongest)
	case s.grace < 0:
		return said(errInput, "invalid --grace %v: must not be negative", s.grace)
	case s.retryBase <= 0, s.retryBase > retryLongest:
		return said(errInput, "invalid --retry-base %v: must be more than 0 and at most ten years",
			s.retryBase)
	case s.retryMax < s.retryBase && changed("retry-max"), s.retryMax > retryLongest:
		return said(errInput, "invalid --retry-max %v: must be at least %v, the --retry-base, and "+
			"at most ten years", s.retryMax, s.retryBase)
	}
	if err := checkLogLevel(s.logLevel); err != nil {
		return err
	}
	s.retryMax = max(s.retryMax, s.retryBase)
	if s.concurrency == 0 {
		s.concurrency = runtime.GOMAXPROCS(0)
	}
	s.grace = max(s.grace, 1) // for the worker, 0 means its default
	return cmp.Or(s.metrics.check(), checkTimeout(cmd, s.timeout))
}

// checkKeep refuses flags that are about pruning where the worker prunes nothing.
func (p *program) checkKeep(cmd *cobra.Command) error {
	remote, err := p.onService()
	if err != nil || !remote {
		return err
	}
	for _, name := range append(keepNames(), "poll-only", "environment", "act-in-copies") {
		if cmd.Flags().Changed(name) {
			return said(errInput, "--%s is for a database; a service has its own", name)
		}
	}
	return nil
}

func (p *program) work(ctx context.Context, s workerSetup) error {
	// Not storeOptions: callers that wait are to know at once, and dead workers are to be noticed.
	options, err := s.keep.options()
	if err != nil {
		return err
	}
	directory, err := programs.Open(s.dir, s.actions...)
	if err != nil {
		return said(errInput, "no programs to run: %v; --dir names another directory", err)
	}
	directory.Fence = s.fence
	logger, err := p.logger(s.logLevel)
	if err != nil {
		return err
	}
	options.Logger, options.PollOnly = logger, s.pollOnly
	s.copies.set(&options)
	p.quiet = logger.Enabled(ctx, slog.LevelInfo) // the log says it, as JSON if asked for
	return p.withStoreOf(ctx, options, func(ctx context.Context, db *database) error {
		if db.client != nil {
			logger.LogAttrs(ctx, slog.LevelInfo, "connected to the service",
				slog.String("service", db.address))
		} else {
			logger.LogAttrs(ctx, slog.LevelInfo, "connected to the database",
				slog.String("database", db.name()))
		}
		for _, line := range unknownActions(ctx, db, true, directory.Actions()...) {
			logger.LogAttrs(ctx, slog.LevelWarn, "the name of a program may be a slip",
				slog.String("found", line))
		}
		return s.work(ctx, db, directory, logger)
	})
}

// work performs tasks until ctx ends.
func (s *workerSetup) work(
	ctx context.Context, db *database, directory *programs.Directory, logger *slog.Logger,
) (err error) {
	options := worker.Options{
		Actor: stint.ActorID(s.actor), Concurrency: s.concurrency, Lease: s.lease,
		StopGrace: s.grace, Logger: logger,
		Retry: worker.Retry{Base: s.retryBase, Max: s.retryMax},
	}
	if s.metrics.address != "" {
		metrics, stop, err := s.metrics.serve(ctx, logger, db)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
		options.Metrics = metrics
	}
	var handling []worker.HandlerOption
	if s.timeout > 0 {
		handling = append(handling, worker.WithTimeout(s.timeout))
	}
	// Only the verbs: programs hold no connection, so the pool is large enough for all slots.
	queue := struct{ worker.Queue }{db.store}
	w, err := worker.New(queue, options, directory.Handlers(handling...)...)
	if err != nil {
		return err
	}
	return runWorker(ctx, w, directory)
}

// runWorker runs the worker until ctx has ended and the programs under way have ended, or the user
// does not want to wait for them.
func runWorker(ctx context.Context, w *worker.Worker, directory *programs.Directory) error {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ended, killed := make(chan struct{}), false
	var watching sync.WaitGroup
	watching.Go(func() {
		if killed = signalledTwice(signals, ended); killed {
			signal.Reset(os.Interrupt, syscall.SIGTERM) // a third one ends the command on the spot
			directory.Close()
		}
	})
	err := w.Run(ctx)
	close(ended)
	watching.Wait()
	directory.Close()
	if err == nil && killed {
		return context.Canceled
	}
	return err
}

// signalledTwice reports whether a signal and then Ctrl-C came before ended was closed. A second
// SIGTERM does not count: some senders, such as timeout(1), send it to the process and then to its
// group.
func signalledTwice(signals <-chan os.Signal, ended <-chan struct{}) bool {
	for first := true; ; first = false {
		select {
		case s := <-signals:
			if !first && s == os.Interrupt {
				return true
			}
		case <-ended:
			return false
		}
	}
}
