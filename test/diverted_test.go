package stint_test

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// A trap tells which fakes ran.
type trap struct {
	mutex sync.Mutex
	ran   map[string]bool
}

func (tr *trap) notice(_ *pgconn.PgConn, notice *pgconn.Notice) {
	if fake, ok := strings.CutPrefix(notice.Message, "diverted: "); ok {
		tr.mutex.Lock()
		defer tr.mutex.Unlock()
		tr.ran[fake] = true
	}
}

// wantNone checks that no fake ran.
func (tr *trap) wantNone(t *testing.T) {
	t.Helper()
	tr.mutex.Lock()
	defer tr.mutex.Unlock()
	for fake := range tr.ran {
		t.Errorf("somebody else's code ran: %s", fake)
	}
}

// hostilePaths are search paths with which fakes are found.
var hostilePaths = map[string]string{
	"behind": `"$user", evil`,    // as public is by default
	"first":  `evil, pg_catalog`, // before PostgreSQL's own
}

// lured returns a pool on the database of another one, whose path leads to fakes.
func lured(t *testing.T, pool *pgxpool.Pool, path string, mode pgx.QueryExecMode) (
	*pgxpool.Pool, *trap,
) {
	t.Helper()
	testdb.Fake(t, pool)
	tr := &trap{ran: map[string]bool{}}
	other := poolOf(t, pool, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["search_path"] = path
		config.ConnConfig.DefaultQueryExecMode = mode
		config.ConnConfig.OnNotice = tr.notice
	})
	return other, tr
}

// Who may create in a schema that the path names, or temporary objects, cannot have code of his run
// by the verbs, nor change what they answer.
// Proves G154.
func TestVerbs_CallNobodysFunctions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	modes := []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeSimpleProtocol,
		pgx.QueryExecModeExec, pgx.QueryExecModeCacheDescribe,
	}
	names := slices.Sorted(maps.Keys(hostilePaths))
	for _, c := range testrun.Third(testrun.Pairs(names, modes), 0) {
		t.Run(c.A+" "+c.B.String(), func(t *testing.T) {
			t.Parallel()
			clean := testdb.New(t)
			pool, tr := lured(t, clean, hostilePaths[c.A], c.B)
			store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
			wantErr(t, "New", err, nil)
			everyVerb(t, store, false, "alone ")
			waitingVerbs(t, store, "waited ")
			tx := begin(t, pool)
			before := pathOf(t, tx)
			everyVerb(t, store.WithTx(tx), true, "in a transaction ")
			if got := pathOf(t, tx); got != before {
				t.Errorf("the verbs leave the path %s, it was %s", got, before)
			}
			wantErr(t, "Commit", tx.Commit(t.Context()), nil)
			wantErr(t, "Close", store.Close(context.WithoutCancel(t.Context())), nil)
			tr.wantNone(t)
			checkStore(t, clean)
		})
	}
}

// pathOf is the path in a transaction, asked for in a way that no path diverts.
func pathOf(t *testing.T, tx pgx.Tx) (path string) {
	t.Helper()
	wantErr(t, "SHOW", tx.QueryRow(t.Context(), "SHOW search_path").Scan(&path), nil)
	return path
}

// The tables that migrations make hold on to functions and operators: to those of PostgreSQL.
// Proves G154.
func TestMigrate_CallsNobodysFunctions(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, path := range hostilePaths {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clean := testdb.NewEmpty(t)
			pool, tr := lured(t, clean, path, pgx.QueryExecModeCacheStatement)
			for range 2 {
				err := pool.AcquireFunc(t.Context(), func(conn *pgxpool.Conn) error {
					return migrations.Migrate(t.Context(), conn.Conn())
				})
				wantErr(t, "Migrate", err, nil)
			}
			held := yields[[]string](t, clean, `
				SELECT array_agg(pg_describe_object(classid, objid, objsubid))
				FROM pg_depend
				WHERE (refclassid, refobjid) IN (
					SELECT 'pg_proc'::regclass, oid FROM pg_proc
					WHERE pronamespace = 'evil'::regnamespace
					UNION ALL
					SELECT 'pg_operator'::regclass, oid FROM pg_operator
					WHERE oprnamespace = 'evil'::regnamespace
					UNION ALL
					SELECT 'pg_type'::regclass, oid FROM pg_type
					WHERE typnamespace = 'evil'::regnamespace
				)
				AND (classid, objid) NOT IN (
					SELECT 'pg_proc'::regclass, oid FROM pg_proc
					WHERE pronamespace = 'evil'::regnamespace
					UNION ALL
					SELECT 'pg_operator'::regclass, oid FROM pg_operator
					WHERE oprnamespace = 'evil'::regnamespace
					UNION ALL
					SELECT 'pg_type'::regclass, oid FROM pg_type
					WHERE typnamespace = 'evil'::regnamespace
					UNION ALL
					SELECT 'pg_constraint'::regclass, oid FROM pg_constraint WHERE contypid <> 0
				)`)
			for _, object := range held {
				t.Errorf("%s depends on what is somebody else's", object)
			}
			tr.wantNone(t)
		})
	}
}

// A fake whose result is of another type keeps statements from being prepared, which the driver
// does under the path of the connection.
// Proves G154.
func TestVerbs_ArePreparedWhateverFunctionsThereAre(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	clean := testdb.New(t)
	exec(t, clean, "CREATE SCHEMA evil")
	for _, element := range []string{"bigint", "text"} {
		exec(t, clean, "CREATE FUNCTION evil.unnest("+element+"[]) RETURNS SETOF point "+
			"LANGUAGE sql AS 'SELECT NULL::point'")
	}
	callEveryVerbUnder(t, clean, `"$user", evil`)
}

// So do operators whose results are, ahead of PostgreSQL's own. In the caller's transaction nothing
// can be done about these.
// Proves G154.
func TestVerbs_ArePreparedWhateverOperatorsThereAre(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	clean := testdb.New(t)
	exec(t, clean, "CREATE SCHEMA evil")
	for _, types := range []string{
		"bigint, bigint", "numeric, bigint", "text, text", "timestamptz, timestamptz",
		"smallint, integer", "boolean, boolean", "timestamptz, interval",
	} {
		exec(t, clean, "CREATE FUNCTION evil.fake("+types+") RETURNS point "+
			"LANGUAGE sql AS 'SELECT NULL::point'")
		left, right, _ := strings.Cut(types, ", ")
		for _, operator := range []string{"=", "<", "<=", ">", ">=", "+", "-", "<>"} {
			exec(t, clean, "CREATE OPERATOR evil."+operator+
				" (LEFTARG = "+left+", RIGHTARG = "+right+", FUNCTION = evil.fake)")
		}
	}
	callEveryVerbUnder(t, clean, `evil, pg_catalog`)
}

// callEveryVerbUnder calls every verb through connections with that path.
func callEveryVerbUnder(t *testing.T, clean *pgxpool.Pool, path string) {
	t.Helper()
	pool := poolOf(t, clean, func(config *pgxpool.Config) {
		config.ConnConfig.RuntimeParams["search_path"] = path
	})
	store := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	everyVerb(t, store, false, "")
	waitingVerbs(t, store, "waited ")
	checkStore(t, clean)
}

// Functions and types of statements are qualified when they are loaded, and every parameter has a
// type: objects that the path leads to are not used even while a statement is prepared. Operators
// that compare rows are qualified, too: PostgreSQL prepares such a comparison only with those of an
// index.
// Proves G154.
func TestStatements_NameFunctionsAndTypesInFull(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	functions := yields[[]string](t, pool, "SELECT array_agg(DISTINCT proname::text) FROM pg_proc")
	types := yields[[]string](t, pool, `SELECT array_agg(typname::text) FROM pg_type
		WHERE typnamespace = 'pg_catalog'::regnamespace AND typname NOT IN ('interval')`)
	call := regexp.MustCompile(`([\w.]+)\(`)
	cast := regexp.MustCompile(`::([\w.]+)`)
	bare := regexp.MustCompile(`\$\d+($|[^\d:])`)
	compared := regexp.MustCompile(`, [\w.]+\)\s*([<=>]+|(NOT )?IN)\s*\(`)
	for name, text := range statements(t) {
		for _, found := range call.FindAllStringSubmatchIndex(text, -1) {
			function := text[found[2]:found[3]]
			if function == "unnest" && arguments(text[found[1]:]) > 1 {
				continue // which the grammar takes for PostgreSQL's own
			}
			if slices.Contains(functions, function) {
				t.Errorf("%s calls %s by its mere name", name, function)
			}
		}
		for _, found := range cast.FindAllStringSubmatch(text, -1) {
			if slices.Contains(types, found[1]) {
				t.Errorf("%s names the type %s by its mere name", name, found[1])
			}
		}
		if found := bare.FindString(text); found != "" {
			t.Errorf("%s has a parameter without a type: %s", name, found)
		}
		if found := compared.FindString(text); found != "" {
			t.Errorf("%s compares rows by an operator's mere name: %s", name, found)
		}
	}
}

// arguments counts the arguments of a call up to its closing parenthesis.
func arguments(text string) int {
	n, depth := 1, 0
	for _, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			if depth--; depth < 0 {
				return n
			}
		case ',':
			if depth == 0 {
				n++
			}
		}
	}
	return n
}
