package outage

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// The codes and routines of PostgreSQL by which the errors are told apart: texts may be translated.
const (
	codeDuplicatePrepared = "42P05"
	codeUnknownPrepared   = "26000"
	codeProtocolViolation = "08P01"
	codeIdleInTransaction = "25P03"
	codeNotPrivileged     = "42501"
	codeReadOnly          = "25006"
	codeNotSupported      = "0A000"

	routineBind      = "exec_bind_message"
	routineSecurity  = "check_enable_rls"
	routineTemporary = "InitTempTableNamespace"
)

const (
	pooler = "a pooler seems to stand between that gives each transaction another connection and " +
		"does not support prepared statements, such as PgBouncer before 1.21: add " +
		"default_query_exec_mode=exec to the URL of the database, as in " +
		"?default_query_exec_mode=exec"
	rowSecurity = "row level security hides tasks from this role, so nothing can be relied upon: " +
		"ALTER TABLE ... DISABLE ROW LEVEL SECURITY, or, for the owner, ... NO FORCE ROW LEVEL " +
		"SECURITY, or ALTER ROLE ... BYPASSRLS; stint check names the tables"
	temporary = "a dry run, which previews make, does its work in temporary tables: " +
		"GRANT TEMPORARY ON DATABASE ... TO this role, or make the change without a preview"
	standby = "the connection leads to a hot standby, which changes nothing: name all hosts and " +
		"target_session_attrs=read-write in the URL of the database, so that connections are " +
		"made to the primary"
	readOnly = "the transaction is READ ONLY, or the server is a standby: begin it READ WRITE"
	idle     = "the server ended the transaction since the process did not go on with it for the " +
		"five seconds that Stint allows, or for less by the server's " +
		"idle_in_transaction_session_timeout: it was stopped, or got no processor; nothing was " +
		"done, so call again"
)

// An advised error is an error of the server with what to do about it.
type advised struct {
	err    error
	advice string
}

func (a *advised) Error() string { return a.err.Error() + ": " + a.advice }
func (a *advised) Unwrap() error { return a.err }

// Advise adds to an error of the server what to do about it, where the server's text does not help.
func Advise(err error) error {
	var already *advised
	if text := adviceOn(err); text != "" && !errors.As(err, &already) {
		return &advised{err, text}
	}
	return err
}

// AdviseIdling returns err with the advice for a transaction that idled for too long.
func AdviseIdling(err error) error { return &advised{err, idle} }

func adviceOn(err error) string {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return ""
	}
	switch pgErr.Code {
	case codeDuplicatePrepared, codeUnknownPrepared:
		return pooler
	case codeProtocolViolation:
		if pgErr.Routine == routineBind {
			return pooler
		}
	case codeIdleInTransaction:
		return idle
	case codeNotPrivileged:
		switch pgErr.Routine {
		case routineSecurity:
			return rowSecurity
		case routineTemporary:
			return temporary
		}
	case codeReadOnly, codeNotSupported:
		switch pgErr.Routine {
		case "PreventCommandDuringRecovery", "call_bool_check_hook": // of LISTEN, of BEGIN
			return standby
		case "PreventCommandIfReadOnly":
			return readOnly
		}
	}
	return ""
}
