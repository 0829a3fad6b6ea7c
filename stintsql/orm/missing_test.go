package orm_test

import (
	"context"
	"testing"

	entsql "entgo.io/ent/dialect/sql"
	"github.com/jmoiron/sqlx"
	"github.com/uptrace/bun"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"

	"github.com/stint-tasks/stint/stintsql"
)

// The transactions of each library, forgotten.
// Proves G295.
func TestPgxTx_RefusesTransactionsThatWereForgotten(t *testing.T) {
	t.Parallel()
	s := openShop(t.Context())
	defer s.close(context.WithoutCancel(t.Context()))
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: s.db}), &gorm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	prepared := db.Session(&gorm.Session{PrepareStmt: true})
	var none *sqlx.Tx
	var nothing stintsql.Execer
	for name, tx := range map[string]stintsql.Execer{
		"nil": nothing, "sqlx": none, "sqlx, empty": &sqlx.Tx{},
		"bun": bun.Tx{}.Tx, "bun itself": bun.Tx{},
		"gorm": db.Statement.ConnPool, "gorm, prepared": prepared.Statement.ConnPool,
		"gorm, no pool": (&gorm.Statement{}).ConnPool,
		"ent":           entsql.ExecQuerier(nil),
	} {
		bound, err := stintsql.PgxTx(t.Context(), tx)
		if wantErr(t, err, stintsql.ErrNoTransaction, ""); bound != nil {
			t.Errorf("%s: PgxTx returns a transaction", name)
		}
	}
}
