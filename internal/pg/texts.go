package pg

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// reported returns a setting of a connection of which the server reports each change, as poolers
// do, or nothing. A transaction of stintsql has its connection only during a call, and tells what
// the last call left.
func reported(wire wire, conn *pgx.Conn, setting string) string {
	if lent, ok := wire.(interface{ ParameterStatus(name string) string }); ok {
		return lent.ParameterStatus(setting)
	}
	if conn.IsClosed() {
		return "" // whatever is sent fails
	}
	return conn.PgConn().ParameterStatus(setting)
}

// readsTexts reports whether the server reads the texts of a connection as the driver writes them:
// in UTF-8, with no escapes in literals.
func readsTexts(wire wire, conn *pgx.Conn) bool {
	encoding := reported(wire, conn, "client_encoding")
	return (encoding == "" || encoding == "UTF8") &&
		reported(wire, conn, "standard_conforming_strings") != "off"
}

// open sends the statements that open a transaction or a savepoint ahead of all others, with
// read_texts behind them: what is sent together with them would be read before it.
func (db *DB) open(ctx context.Context, wire wire, opening ...string) error {
	_, err := wire.Exec(ctx, strings.Join(append(opening, db.text("read_texts")), ";\n"))
	return err
}
