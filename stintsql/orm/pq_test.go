package orm_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	_ "github.com/lib/pq" // the driver "postgres"

	"github.com/stint-tasks/stint/stintsql"
)

func wantErr(t *testing.T, err, want error, text string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, want %v with %q", err, want, text)
	}
}

// The transaction is usable afterwards.
func TestPq_IsRefused(t *testing.T) {
	t.Parallel()
	s := openShop(t.Context())
	defer s.close(context.WithoutCancel(t.Context()))
	db, err := sql.Open("postgres", s.pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	_, err = stintsql.PgxTx(t.Context(), tx)
	wantErr(t, err, stintsql.ErrNotPgx, "stdlib.OpenDBFromPool")
	if _, err := tx.ExecContext(t.Context(), "SELECT 1"); err != nil {
		t.Error(err)
	}
}
