package taskstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/taskstore"
)

// roleNames are those of migrations/roles.sql.
var roleNames = []string{"owner", "producer", "worker", "monitor", "enqueuer", "operator"}

// newRoles applies migrations/roles.sql to a database of its own, with roles of its own, since
// roles belong to the whole server. It returns a store by role.
func newRoles(t *testing.T) (
	pool *pgxpool.Pool, stores map[string]*taskstore.Store, names func(string) string,
) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "migrations", "roles.sql"))
	wantErr(t, "ReadFile", err, nil)
	pool = testdb.New(t)
	suffix := "_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	names = func(role string) string { return "stint_" + role + suffix }
	script := string(text)
	for _, role := range roleNames {
		script = strings.ReplaceAll(script, "stint_"+role, names(role))
	}
	exec(t, pool, script)
	t.Cleanup(func() {
		for _, role := range roleNames {
			for _, statement := range []string{
				"REASSIGN OWNED BY " + names(role) + " TO CURRENT_USER",
				"DROP OWNED BY " + names(role), "DROP ROLE " + names(role),
			} {
				_, err := pool.Exec(context.WithoutCancel(t.Context()), statement)
				wantErr(t, statement, err, nil)
			}
		}
	})
	stores = map[string]*taskstore.Store{}
	for _, role := range roleNames {
		stores[role] = openStore(t, poolOf(t, pool, func(config *pgxpool.Config) {
			config.ConnConfig.RuntimeParams["role"] = names(role)
		}), taskstore.Options{})
	}
	return pool, stores, names
}

func wantRefused(t *testing.T, what string, err error) {
	t.Helper()
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "42501" {
		t.Errorf("%s = %v, want permission denied", what, err)
	}
}

// Workers may do everything, monitors only look, producers not even that.
func TestRoles_WorkersChangeTasksAndMonitorsLook(t *testing.T) {
	t.Parallel()
	_, stores, _ := newRoles(t)
	everyCall(t, stores["worker"])
	monitor := stores["monitor"]
	groups, err := monitor.Groups(t.Context())
	if err != nil || !slices.Equal(groups, []string{"map", "reduce"}) {
		t.Errorf("Groups of a monitor = %q, %v", groups, err)
	}
	wantData(t, monitor, "map", "b")
	wantErr(t, "Tasks", errOf(monitor.Tasks(t.Context(), []int64{1})), nil)
	for _, role := range []string{"monitor", "producer"} {
		_, err = stores[role].Update(t.Context(), taskstore.Request{Client: ann})
		wantRefused(t, "Update of a "+role, err)
		_, _, err = stores[role].Claim(t.Context(), taskstore.Claim{
			Client: ann, Group: "map", Duration: time.Hour,
		})
		wantRefused(t, "Claim of a "+role, err)
	}
	wantRefused(t, "Groups of a producer", errOf(stores["producer"].Groups(t.Context())))
}

// Without any of their privileges, workers and monitors cannot do what they may.
func TestRoles_HaveNoMoreThanTheyNeed(t *testing.T) {
	t.Parallel()
	pool, stores, names := newRoles(t)
	work := func() error {
		exec(t, pool, "ALTER SEQUENCE stint.taskstore_ids RESTART") // so that IDs are reserved
		tasks, err := stores["worker"].Update(t.Context(), taskstore.Request{
			Client: ann, Adds: []taskstore.Add{{Group: "g"}},
		})
		if err != nil {
			return err
		}
		_, err = stores["worker"].Update(t.Context(), taskstore.Request{
			Client: ann, Updates: []taskstore.Change{{ID: tasks[0].ID}},
		})
		return err
	}
	look := func() error { return errOf(stores["monitor"].Groups(t.Context())) }
	for role, call := range map[string]func() error{"worker": work, "monitor": look} {
		wantErr(t, role, call(), nil)
		privileges := yields[[]string](t, pool, `SELECT array_agg(
				format('%s ON stint.%I', privilege_type, table_name))
			FROM information_schema.table_privileges
			WHERE grantee = $1 AND table_name LIKE 'taskstore%'`, names(role))
		if role == "worker" {
			privileges = append(privileges, "UPDATE (place) ON stint.taskstore_tasks",
				"UPDATE ON SEQUENCE stint.taskstore_ids")
		}
		for _, privilege := range privileges {
			exec(t, pool, "REVOKE "+privilege+" FROM "+names(role))
			wantRefused(t, role+" without "+privilege, call())
			exec(t, pool, "GRANT "+privilege+" TO "+names(role))
		}
		if len(privileges) == 0 {
			t.Errorf("%s has no privileges", role)
		}
	}
}
