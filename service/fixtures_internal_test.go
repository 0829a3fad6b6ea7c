package service

import (
	"context"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
)

// newService returns a service on a new database, which nothing serves yet, and its store.
func newService(t *testing.T, options Options) (*Service, *stint.Store) {
	t.Helper()
	pool := testdb.New(t)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close(context.WithoutCancel(t.Context())) })
	s, err := New(pool, store, options)
	if err != nil {
		t.Fatal(err)
	}
	return s, store
}
