package pgcut_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func newProxy(t *testing.T) (proxy *pgcut.Proxy, through, direct *pgxpool.Pool) {
	t.Helper()
	direct = testdb.New(t)
	if _, err := direct.Exec(t.Context(), "CREATE TABLE kept (n integer)"); err != nil {
		t.Fatal(err)
	}
	proxy = pgcut.New(t, direct)
	return proxy, proxy.Pool(t, 1), direct
}

func count(t *testing.T, pool *pgxpool.Pool, query string, args ...any) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestProxy_CountsRoundTrips(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	proxy, through, _ := newProxy(t)
	batch := func() error {
		batch := &pgx.Batch{}
		batch.Queue("BEGIN")
		batch.Queue("INSERT INTO kept VALUES ($1)", 1)
		batch.Queue("COMMIT")
		return through.SendBatch(t.Context(), batch).Close()
	}
	if err := batch(); err != nil { // prepares its statements
		t.Fatal(err)
	}
	for name, trip := range map[string]struct {
		call func() error
		want int
	}{
		"simple query": {want: 1, call: func() error {
			_, err := through.Exec(t.Context(), "SELECT 1")
			return err
		}},
		"batch": {want: 1, call: batch},
		"copy, the table described first": {want: 2, call: func() error {
			rows := pgx.CopyFromRows([][]any{{1}, {2}})
			_, err := through.CopyFrom(t.Context(), pgx.Identifier{"kept"}, []string{"n"}, rows)
			return err
		}},
	} {
		before := proxy.RoundTrips()
		if err := trip.call(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := proxy.RoundTrips() - before; got != trip.want {
			t.Errorf("%s: %d round trips, want %d", name, got, trip.want)
		}
	}
}

// By the time the client notices the cut, the session is over: committed or undone, for good.
func TestProxy_CutEndsTheSessionFirst(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	proxy, through, direct := newProxy(t)
	for rows, at := range []pgcut.Instant{pgcut.AtRequest, pgcut.AtReply} {
		trap := proxy.Cut(at, pgcut.Executes("commit"))
		err := pgx.BeginFunc(t.Context(), through, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "INSERT INTO kept VALUES (1)")
			return err
		})
		var pgErr *pgconn.PgError
		if err == nil || errors.As(err, &pgErr) {
			t.Errorf("cut at the %s: %v, want the error of a connection", at, err)
		}
		sessions := "SELECT count(*) FROM pg_stat_activity WHERE pid = $1"
		if n := count(t, direct, sessions, trap.PID()); n != 0 {
			t.Errorf("cut at the %s: the session goes on", at)
		}
		if n := count(t, direct, "SELECT count(*) FROM kept"); n != rows {
			t.Errorf("cut at the %s: there are %d rows, want %d", at, n, rows)
		}
	}
}

func TestProxy_AbandonedRequestArrivesOnRelease(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	proxy, through, direct := newProxy(t)
	const statement = "INSERT INTO kept VALUES (1)"
	trap := proxy.Hold(pgcut.AtRequest, pgcut.Executes(statement))
	done := make(chan error)
	go func() {
		_, err := through.Exec(t.Context(), statement)
		done <- err
	}()
	trap.Abandon()
	if err := <-done; err == nil {
		t.Error("the abandoned request succeeded")
	}
	if n := count(t, direct, "SELECT count(*) FROM kept"); n != 0 {
		t.Errorf("before the release there are %d rows", n)
	}
	trap.Release()
	<-trap.Answered()
	if n := count(t, direct, "SELECT count(*) FROM kept"); n != 1 {
		t.Errorf("after the release there are %d rows", n)
	}
}

func TestProxy_PassesCancelRequestsOn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, through, direct := newProxy(t)
	locker, err := direct.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Rollback(t.Context()) // only to unlock
	if _, err := locker.Exec(t.Context(), "LOCK TABLE kept"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := through.Exec(ctx, "DELETE FROM kept")
		done <- err
	}()
	waiting := "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'kept'::regclass"
	for waits := 0; waits == 0; {
		waits = count(t, direct, waiting)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Exec = %v, want that it was cancelled", err)
	}
	through.Close() // waits until the server has let go of the statement
	if n := count(t, direct, waiting); n != 0 {
		t.Error("the statement goes on waiting")
	}
}

func TestProxy_RefusesEncryptionAndPassesRefusalsOn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	_, through, _ := newProxy(t)
	config := through.Config().ConnConfig
	prefer, err := pgx.ParseConfig("sslmode=prefer")
	if err != nil {
		t.Fatal(err)
	}
	config.TLSConfig = prefer.TLSConfig
	config.Fallbacks = []*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port}}
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("connect with sslmode=prefer: %v", err)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Error(err)
	}
	config.RuntimeParams = map[string]string{"no_such_setting": "on"}
	_, err = pgx.ConnectConfig(t.Context(), config)
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || pgErr.Code != "42704" {
		t.Errorf("connect with a setting that is none: %v, want 42704", err)
	}
}

func TestProxy_DropNotificationsKeepsThemFromTheClientAlone(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	proxy, through, _ := newProxy(t)
	conn, err := through.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for _, statement := range []string{"LISTEN news", "NOTIFY news, 'heard'"} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	notification, err := conn.Conn().WaitForNotification(t.Context())
	if err != nil || notification.Payload != "heard" {
		t.Fatalf("WaitForNotification = %v, %v", notification, err)
	}
	proxy.DropNotifications()
	if _, err := conn.Exec(t.Context(), "NOTIFY news, 'dropped'"); err != nil {
		t.Fatal(err)
	}
	var one int
	if err := conn.QueryRow(t.Context(), "SELECT 1").Scan(&one); err != nil || one != 1 {
		t.Fatalf("the connection = %d, %v", one, err)
	}
	// What the connection has read so far would be returned at once.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	notification, err = conn.Conn().WaitForNotification(ctx)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("WaitForNotification = %v, %v", notification, err)
	}
}

func TestProxy_RefuseTurnsNewClientsAway(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	proxy, through, _ := newProxy(t)
	if err := through.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.Refuse(true)
	if err := through.Ping(t.Context()); err != nil {
		t.Errorf("on a connection that stood Ping = %v", err)
	}
	through.Reset()
	var connectErr *pgconn.ConnectError
	if err := through.Ping(t.Context()); !errors.As(err, &connectErr) {
		t.Errorf("Ping = %v, want a ConnectError", err)
	}
	proxy.Refuse(false)
	if err := through.Ping(t.Context()); err != nil {
		t.Errorf("Ping = %v", err)
	}
}

func TestProxy_StallLetsRequestsThroughAndNoAnswers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	proxy, through, direct := newProxy(t)
	var pid uint32
	if err := through.QueryRow(t.Context(), "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		t.Fatal(err)
	}
	if proxy.Stall(pid + 1) {
		t.Error("a session that there is not is stalled")
	}
	if !proxy.Stall(pid) {
		t.Fatal("the session is not stalled")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := through.Exec(ctx, "INSERT INTO kept VALUES (1)")
		done <- err
	}()
	for count(t, direct, "SELECT count(*) FROM kept") == 0 {
		select {
		case err := <-done:
			t.Fatalf("Exec = %v before its request arrived", err)
		default:
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Exec = %v", err)
	}
}
