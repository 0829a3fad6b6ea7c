package command

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint/migrations"
)

func TestExitCode_TellsABrokenConnectionFromAReaderThatHasGone(t *testing.T) {
	t.Parallel()
	for want, errs := range map[int][]error{
		exitUnreachable: {
			io.EOF, io.ErrUnexpectedEOF, &pgconn.PgError{Code: "57P01"},
			&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)},
			&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)},
		},
		exitReaderGone: {&os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}},
		exitFailed:     {errors.New("other"), &pgconn.PgError{Code: "42501"}},
		exitSchema:     {migrations.ErrEncoding, migrations.ErrDistributed},
		exitUsage:      {fmt.Errorf("%w: line 1: %w", errInput, io.ErrUnexpectedEOF)},
	} {
		for _, err := range errs {
			if got := exitCode(fmt.Errorf("insert: %w", err)); got != want {
				t.Errorf("exitCode(%v) = %d, want %d", err, got, want)
			}
		}
	}
}
