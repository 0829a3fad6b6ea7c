package command

import (
	"errors"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// The codes of PostgreSQL's errors that this package treats specially.
const (
	codeInvalidCatalogName    = "3D000"
	codeInsufficientPrivilege = "42501"
)

func isCode(err error, code string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == code
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
