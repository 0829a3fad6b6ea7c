package pg

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
)

// readsTexts reports whether the server reads the texts of a connection as the driver writes them:
// in UTF-8, with no escapes in literals. The server reports each change of these settings, and
// poolers pass the reports on. A transaction of stintsql has its connection only during a call, and
// tells what the last call left.
func readsTexts(wire wire, conn *pgx.Conn) bool {
	reported, ok := wire.(interface{ ParameterStatus(name string) string })
	if !ok {
		if conn.IsClosed() {
			return true // whatever is sent fails
		}
		reported = conn.PgConn()
	}
	encoding := reported.ParameterStatus("client_encoding")
	return (encoding == "" || encoding == "UTF8") &&
		reported.ParameterStatus("standard_conforming_strings") != "off"
}

// open sends the statements that open a transaction or a savepoint ahead of all others, with
// read_texts behind them: what is sent together with them would be read before it.
func (db *DB) open(ctx context.Context, wire wire, opening ...string) error {
	_, err := wire.Exec(ctx, strings.Join(append(opening, db.text("read_texts")), ";\n"))
	return err
}
