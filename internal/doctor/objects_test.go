package doctor

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/golden"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// After a new migration: go test -run Objects ./internal/doctor -update.
func TestObjects_AreThoseThatTheMigrationsMake(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	var names []string
	err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
		c := &checkup{conn: conn, schema: "stint"}
		return c.askRows(t.Context(), "schema", "check_objects", func(rows pgx.Rows) error {
			objects, err := pgx.CollectRows(rows, pgx.RowToStructByName[object])
			for _, o := range objects {
				names = append(names, o.Name)
			}
			return err
		}, "stint")
	})
	if err != nil {
		t.Fatal(err)
	}
	golden.Want(t, "objects.txt", strings.Join(names, "\n")+"\n")
}
