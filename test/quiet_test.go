package stint_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// listenIn returns a function that reports the notifications to stores that were sent since, but
// for pings.
func listenIn(t *testing.T, pool *pgxpool.Pool) func() []string {
	t.Helper()
	conn, err := pgx.ConnectConfig(t.Context(), pool.Config().ConnConfig)
	wantErr(t, "connect", err, nil)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	_, err = conn.Exec(t.Context(), "LISTEN stint")
	wantErr(t, "LISTEN", err, nil)
	return func() (heard []string) {
		t.Helper()
		exec(t, pool, "NOTIFY stint, 'end'")
		for {
			notification, err := conn.WaitForNotification(t.Context())
			wantErr(t, "WaitForNotification", err, nil)
			switch notification.Payload {
			case "end":
				return heard
			case "ping":
			default:
				heard = append(heard, notification.Payload)
			}
		}
	}
}

// hearsAll has a store listen for whatever everyVerb does with this prefix.
func hearsAll(t *testing.T, pool *pgxpool.Pool, prefixes ...string) *heardStore {
	t.Helper()
	h := newHeardStoreOn(t, pool, stint.Options{})
	exec(t, pool, `INSERT INTO stint.sessions (id, grace, topics) VALUES (1, '1 day', $1)`,
		readyTopics(prefixes))
	return h
}

func readyTopics(prefixes []string) []string {
	topics := []string{"finished", "lost"}
	for _, prefix := range prefixes {
		topics = append(topics, "ready "+prefix+"act", "ready act")
	}
	return topics
}

// Neither a store that polls only nor a quiet transaction sends notifications, whatever the verb
// and whoever listens.
// Proves G85.
func TestQuiet_SendsNoNotification(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.New(t)
	quiet := stint.Options{PollOnly: true, Maintenance: stint.MaintainNever}
	loud := stint.Options{Maintenance: stint.MaintainNever}
	h := hearsAll(t, pool, "own ", "alone ", "within ", "quiet ", "loud ")
	heard := listenIn(t, pool)
	insert(t, h.Store, stint.Task{ID: "own", Action: "own act"})
	eventually(t, soon, "the listener has told of its own tasks", func() bool {
		return slices.Contains(heard(), "ready own act")
	})
	store := openStore(t, pool, quiet)
	everyVerb(t, store, false, "alone ")
	waitingVerbs(t, store, "alone ")
	within := func(store *stint.Store, wrap func(pgx.Tx) pgx.Tx, prefix string) []string {
		tx := begin(t, pool)
		everyVerb(t, store.WithTx(wrap(tx)), true, prefix)
		wantErr(t, "Commit", tx.Commit(t.Context()), nil)
		return heard()
	}
	asIs := func(tx pgx.Tx) pgx.Tx { return tx }
	for what, sent := range map[string][]string{
		"PollOnly":               heard(),
		"PollOnly, within":       within(store, asIs, "within "),
		"in a quiet transaction": within(openStore(t, pool, loud), stint.Quiet, "quiet "),
	} {
		if len(sent) > 0 {
			t.Errorf("%s: %q are sent", what, sent)
		}
	}
	if sent := within(openStore(t, pool, loud), asIs, "loud "); len(sent) == 0 {
		t.Error("nobody is told anything by the others either")
	}
	wantErr(t, "Close", h.Close(t.Context()), nil)
	exec(t, pool, "DELETE FROM stint.sessions")
	checkStore(t, pool)
}

// A quiet transaction can be prepared for two-phase commit though somebody listens, and those who
// wait find what it did when they poll.
// Proves G85.
func TestQuiet_LetsATransactionBePrepared(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	server, err := localpg.Start(t.Context(), localpg.Config{Settings: map[string]string{
		"fsync": "off", "max_prepared_transactions": "4",
	}})
	wantErr(t, "Start", err, nil)
	t.Cleanup(func() { wantErr(t, "stop", server.Close(), nil) })
	pool, err := pgxpool.New(t.Context(), server.URL("postgres"))
	wantErr(t, "pool", err, nil)
	t.Cleanup(pool.Close)
	wantErr(t, "Migrate", migrations.MigratePool(t.Context(), pool), nil)
	waits := newHeardStoreOn(t, pool, stint.Options{PollInterval: 20 * time.Millisecond})
	prepare := func(store *stint.Store, wrap func(pgx.Tx) pgx.Tx, id stint.TaskID) error {
		tx := begin(t, pool)
		insert(t, store.WithTx(wrap(tx)), stint.Task{ID: id, Action: "act"})
		if _, err := tx.Exec(t.Context(), "PREPARE TRANSACTION 'p'"); err != nil {
			return err
		}
		exec(t, pool, "COMMIT PREPARED 'p'")
		return nil
	}
	asIs := func(tx pgx.Tx) pgx.Tx { return tx }
	loud := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
	quiet := openStore(t, pool, stint.Options{
		Maintenance: stint.MaintainNever, PollOnly: true,
	})
	for id, call := range map[stint.TaskID]func() error{
		"quiet": func() error { return prepare(loud, stint.Quiet, "quiet") },
		"polls": func() error { return prepare(quiet, asIs, "polls") },
	} {
		awaiting := waits.await(t.Context(), t, 1)
		wantErr(t, "PREPARE TRANSACTION", call(), nil)
		wantOwned(t, awaiting, id)
	}
	var refused *pgconn.PgError
	if err := prepare(loud, asIs, "loud"); !errors.As(err, &refused) || refused.Code != "0A000" {
		t.Errorf("PREPARE TRANSACTION behind a notification = %v", err)
	}
}

// Where the queue of notifications is full, verbs that have committed succeed, and the log says
// what to do.
// Proves G84.
func TestVerbs_SucceedThoughTheQueueOfNotificationsIsFull(t *testing.T) {
	t.Parallel()
	pool := testdb.New(t)
	exec(t, pool, "ALTER TABLE stint.sessions RENAME TO elsewhere")
	exec(t, pool, `CREATE FUNCTION stint.full() RETURNS text[] LANGUAGE plpgsql AS $$
		BEGIN
			RAISE 'too many notifications in the NOTIFY queue' USING ERRCODE = '54000';
		END $$`)
	exec(t, pool, "CREATE VIEW stint.sessions AS SELECT 0::bigint AS id, stint.full() AS topics")
	var logged bytes.Buffer
	store, err := stint.New(pool, stint.Options{
		Maintenance: stint.MaintainNever, Logger: slog.New(slog.NewTextHandler(&logged, nil)),
	})
	wantErr(t, "New", err, nil)
	insert(t, store, numbered("t", 3)...)
	for _, task := range own(t, store, 3) {
		wantErr(t, "ReturnTask", store.ReturnTask(
			t.Context(), task.ID, task.Token, "", stint.StatusPending), nil)
	}
	wantErr(t, "Close", store.Close(t.Context()), nil)
	if !strings.Contains(logged.String(), "stint check") {
		t.Errorf("logged %s", &logged)
	}
}
