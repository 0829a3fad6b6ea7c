package command

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/localpg"
)

// hint says what to do about an error that does not say it.
func hint(err error) string {
	switch {
	case errors.Is(err, stint.ErrPredecessorAborted):
		return "; name that one, and the tasks aborted because of it are retried too"
	case errors.Is(err, stint.ErrScheduleNotFound):
		return "; to see which there are: stint schedule ls"
	case errors.Is(err, stint.ErrTaskInProgress):
		return "; abort it first, or wait for its end"
	case errors.Is(err, stint.ErrRefused):
		return "; it knows you by the token of --token-file, " + tokenFileVariable + " or " +
			tokenVariable
	case errors.Is(err, localpg.ErrUnsupported):
		return "; name a server of yours by --database-url or " + urlVariable
	case isCode(err, codeInsufficientPrivilege):
		return "; what roles need: " +
			"https://github.com/stint-tasks/stint/blob/main/docs/operations/roles.md#roles"
	}
	return ""
}

// A refusal is the error of a connection that failed, in fewer words than pgx uses.
type refusal struct {
	text string
	err  *pgconn.ConnectError
}

// inFewerWords shortens the error of a connection that failed. It leaves out that a server knows no
// TLS if TLS was not required, and reasons that pgx gives twice.
func inFewerWords(err error) error {
	var connecting *pgconn.ConnectError
	if !errors.As(err, &connecting) {
		return err
	}
	const withoutTLS = "tls error: server refused TLS connection"
	lines := strings.Split(connecting.Error(), "\n\t")
	var reasons []string
	for _, line := range lines[1:] {
		said := slices.ContainsFunc(reasons, func(reason string) bool {
			return strings.HasSuffix(reason, line)
		})
		if !said && !strings.HasSuffix(line, withoutTLS) {
			reasons = append(reasons, line)
		}
	}
	switch {
	case len(lines) == 1:
		return err
	case len(reasons) == 0:
		reasons = lines[1:]
	}
	if len(reasons) == 1 {
		return &refusal{lines[0] + " " + reasons[0], connecting}
	}
	return &refusal{lines[0] + "\n\t" + strings.Join(reasons, "\n\t"), connecting}
}

func (r *refusal) Error() string { return r.text }

func (r *refusal) Unwrap() error { return r.err }
