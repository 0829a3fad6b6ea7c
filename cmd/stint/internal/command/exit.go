package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/migrations"
	"github.com/stint-tasks/stint/shards"
)

// The exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitUnreachable = 4
	exitSchema      = 5
	exitRefused     = 6
	exitAborted     = 7
	exitTimedOut    = 8
	exitFindings    = 9
	exitNotAllowed  = 10
	exitInterrupted = 130 // Shells report it for a program that Ctrl-C has ended.
	exitReaderGone  = 141 // Shells report it for a program that SIGPIPE has ended.
)

// errTaken says that stint demo must not use a schema.
var errTaken = errors.New("schema is taken")

// errFindings is the error of stint check if it has found errors or warnings.
var errFindings = errors.New("something is wrong")

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What the exit codes mean",
		Long: `The exit codes of stint:

    0  done; of wait and submit --wait: completed or skipped; of worker: stopped when told to
    1  any other error; of abort, change, retry and delete with filters: tasks were refused,
       or it stopped on the way (those that begin or change meanwhile do not count);
       of insert --ensure: it stopped after a piece of a long input
    2  the command line or the input is wrong, or a question was not answered by yes;
       nothing was changed
    3  there is no such task or schedule; nothing was changed
    4  the database or the service cannot be reached, or the database does not let you in;
       with --topology: or one of the shards, and what it has is missing from the output
    5  the schema is missing, older than this release or too new for it (see: stint help
       migrate); or programs of an older release are connected (of limit and pause); or the
       database is not in UTF8, or distributed by Citus
    6  refused because of the state of tasks: an ID is taken, a task is in progress or has
       started, tasks would wait for each other, a predecessor was aborted; of demo: the
       schema is somebody else's; nothing was changed
    7  of wait and submit --wait: a task was aborted
    8  of wait and submit --wait: timed out: a task has not finished
    9  of check: there are errors or warnings
   10  the service does not know you, or does not let you do this; nothing was changed
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP; of worker: interrupted twice
  141  the reader of the output is gone

After 1, 4, 130 and 141 a change may or may not have been made. It is safe to run insert
(with IDs of your own), submit (with --prefix), abort, delete, prune and migrate again:
6 from insert and submit, and 3 from delete, then mean that it was made the first time.
Repeating retry is also safe, except that a task that has finished again meanwhile is
retried once more. So are schedule put, pause, resume and rm; schedule trigger inserts the
tasks once more.`,
	}
}

// These errors have an exit code and do not come from the library.
var (
	errInput       = errors.New("invalid input")
	errUnreachable = errors.New("database cannot be reached")
	errAborted     = errors.New("task was aborted")
	errTimedOut    = errors.New("timed out")
	errInterrupted = errors.New("interrupted")
)

// A saidError is an error of a kind, which decides the exit code, in words that need not say the
// kind.
type saidError struct {
	text string
	kind error
}

func said(kind error, format string, args ...any) error {
	return &saidError{fmt.Sprintf(format, args...), kind}
}

func (e *saidError) Error() string { return e.text }

func (e *saidError) Unwrap() error { return e.kind }

func exitCode(err error) int {
	var connecting *pgconn.ConnectError
	var parsing *pgconn.ParseConfigError
	var network *net.OpError
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case err == nil:
		return exitDone
	case is(syscall.EPIPE) && !errors.As(err, &network):
		return exitReaderGone
	case is(errInput, stint.ErrInvalidArgument, shards.ErrUnknownShard, shards.ErrWrongShard),
		errors.As(err, &parsing):
		return exitUsage
	case is(stint.ErrTaskNotFound, stint.ErrScheduleNotFound):
		return exitNotFound
	case is(stint.ErrSchemaVersion, migrations.ErrNewerSchema, migrations.ErrDistributed,
		migrations.ErrEncoding):
		return exitSchema
	case is(stint.ErrTaskExists, stint.ErrTaskInProgress, stint.ErrTaskStarted, stint.ErrCycle,
		stint.ErrNoPostResult, stint.ErrPredecessorAborted, stint.ErrTaskFinished,
		stint.ErrTaskBlocked, stint.ErrInvalidAnswerKey, errTaken):
		return exitRefused
	case is(errAborted):
		return exitAborted
	case is(errTimedOut):
		return exitTimedOut
	case is(errFindings):
		return exitFindings
	case is(stint.ErrRefused):
		return exitNotAllowed
	case is(errUnreachable, client.ErrUnavailable, shards.ErrNoAnswer),
		errors.As(err, &connecting), isLost(err):
		return exitUnreachable
	case is(context.Canceled, errInterrupted):
		return exitInterrupted
	}
	return exitFailed
}

// isLost reports whether err says that the connection broke, or that the server ended it.
func isLost(err error) bool {
	const classConnectionException, classOperatorIntervention = "08", "57P"
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		var network *net.OpError
		return errors.As(err, &network) || errors.Is(err, io.EOF) ||
			errors.Is(err, io.ErrUnexpectedEOF)
	}
	return strings.HasPrefix(pgErr.Code, classConnectionException) ||
		strings.HasPrefix(pgErr.Code, classOperatorIntervention)
}
