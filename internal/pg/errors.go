package pg

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrClosed is what calls return after [DB.Close].
	ErrClosed = errors.New("store is closed")

	// ErrSchemaVersion is what calls return if the schema has another version.
	ErrSchemaVersion = errors.New("schema version does not match this release")
)

// PostgreSQL's codes for the errors that are told apart.
const (
	CodeUniqueViolation      = "23505"
	CodeSerializationFailure = "40001"
	CodeDeadlockDetected     = "40P01"
	CodeUndefinedTable       = "42P01"
	CodeLockNotAvailable     = "55P03"
	CodeLimitExceeded        = "54000"

	codeDuplicatePrepared     = "42P05"
	codeCompletionUnknown     = "40003"
	codeFeatureNotSupported   = "0A000"
	codeReadOnly              = "25006"
	codeInsufficientPrivilege = "42501"
	classConnectionException  = "08"
	classSyntaxError          = "42"
)

// IsCode reports whether the server sent an error with this code.
func IsCode(err error, code string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == code
}

// Violates reports whether err is a violation of a unique constraint.
func Violates(err error, constraint string) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == CodeUniqueViolation &&
		pgErr.ConstraintName == constraint
}

// AsSerializationFailure is the error of a transaction that collides at every attempt with a row
// that it cannot see, since its snapshot is older. It is the violation as a serialization failure:
// PostgreSQL reports the same collision of an INSERT ... ON CONFLICT so. A new transaction sees the
// row.
func AsSerializationFailure(violation error) error {
	var pgErr *pgconn.PgError
	if !errors.As(violation, &pgErr) {
		return violation
	}
	failure := *pgErr
	failure.Code = CodeSerializationFailure
	failure.Message = "could not serialize access due to concurrent insert: " + pgErr.Message
	return &failure
}

// WasCutOff reports whether a call failed because its connection broke, so that it may have taken
// effect. If the server sent an error, the call has not taken effect, unless that error was the
// last thing that the server, or a pooler in between, sent.
func WasCutOff(err error) bool {
	if err == nil {
		return false
	}
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.SeverityUnlocalized == "FATAL" || pgErr.SeverityUnlocalized == "PANIC" ||
			strings.HasPrefix(pgErr.Code, classConnectionException) ||
			pgErr.Code == codeCompletionUnknown
	}
	var connectErr *pgconn.ConnectError
	return !errors.As(err, &connectErr) && !errors.Is(err, ErrClosed) && !errors.Is(err, errDead) &&
		!errors.Is(err, ErrCopy) && !isUnsent(err)
}

// An unsentError is that of a call whose context has ended while it waited for a connection.
type unsentError struct{ error }

func (e *unsentError) Unwrap() error { return e.error }

func isUnsent(err error) bool {
	var unsent *unsentError
	return errors.As(err, &unsent)
}

// unsentIf marks the error of a call that got no connection, if its context has ended.
func unsentIf(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return &unsentError{err}
}

// isUnprepared reports whether the server could not make sense of a statement. The driver has
// statements prepared before the settings apply, and then somebody else's operator may fit better
// than PostgreSQL's own. In a transaction that begins with the settings, the statement is prepared
// correctly, and stays so for the rest of the connection.
func isUnprepared(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return false
	}
	switch pgErr.Code {
	case codeInsufficientPrivilege, CodeUndefinedTable, codeDuplicatePrepared:
		return false
	case codeFeatureNotSupported: // such as a plan whose result is of another type
		return true
	}
	return strings.HasPrefix(pgErr.Code, classSyntaxError)
}
