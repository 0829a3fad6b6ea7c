package service_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/service"
)

// Ready names the reason, but nothing of the database; that is in the log.
func TestReady_SaysWhyNot(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	var log bytes.Buffer
	newService := func(options stint.Options) (*stint.Store, *service.Service) {
		store, err := stint.New(pool, options)
		wantErr(t, "New", err, nil)
		s, err := service.New(pool, store, service.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		wantErr(t, "New", err, nil)
		return store, s
	}
	wantReady := func(s *service.Service, want string) {
		t.Helper()
		got := "ready"
		if err := s.Ready(t.Context()); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("Ready = %q, want %q", got, want)
		}
	}
	store, s := newService(stint.Options{Maintenance: stint.MaintainNever})
	wantReady(s, "ready")
	s.Drain()
	wantReady(s, "the service drains")
	wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil)

	_, s = newService(stint.Options{Schema: "nothing_here", Maintenance: stint.MaintainNever})
	wantReady(s, stint.ErrSchemaVersion.Error())
	if !strings.Contains(log.String(), "nothing_here") {
		t.Errorf("the log has no cause:\n%s", log.String())
	}
	store, s = newService(stint.Options{Maintenance: stint.MaintainNever})
	_, err := pool.Exec(t.Context(), "ALTER VIEW stint.task_states RENAME TO states")
	wantErr(t, "Exec", err, nil)
	wantReady(s, "the tables are not those of this release (SQLSTATE 42P01); the log says why")
	if !strings.Contains(log.String(), "task_states") {
		t.Errorf("the log has no cause:\n%s", log.String())
	}
	_, away := newService(stint.Options{Maintenance: stint.MaintainNever})
	wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil)
	wantReady(s, "the store is closed")
	pool.Close()
	wantReady(away, "the database does not answer")
	if !strings.Contains(log.String(), "closed pool") {
		t.Errorf("the log has no cause:\n%s", log.String())
	}
}
