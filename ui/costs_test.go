package ui_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/ui"
)

// looksPerMinute is how often the script of an open page asks for it.
const looksPerMinute = 30

// forPage marks the context of a request, and of the statements that are sent for it.
type forPage struct{}

// A sentCount counts the transactions and statements that are sent for requests, and no others.
type sentCount struct{ transactions, statements atomic.Int64 }

func (c *sentCount) note(ctx context.Context, sql string) {
	if ctx.Value(forPage{}) == nil {
		return
	}
	c.statements.Add(1)
	if strings.HasPrefix(sql, "begin") {
		c.transactions.Add(1)
	}
}

func (c *sentCount) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData,
) context.Context {
	c.note(ctx, data.SQL)
	return ctx
}

func (*sentCount) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (*sentCount) TraceBatchStart(
	ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData,
) context.Context {
	return ctx
}

func (c *sentCount) TraceBatchQuery(
	ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchQueryData,
) {
	c.note(ctx, data.SQL)
}

func (*sentCount) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// countedStore is a store with tasks of two actions, a limit, a schedule and a minute that was
// noted, where nothing needs attention, and the count of what it sends.
func countedStore(t *testing.T) (*stint.Store, *sentCount) {
	t.Helper()
	ctx, plain := t.Context(), testdb.New(t)
	counted := &sentCount{}
	config := plain.Config()
	config.ConnConfig.Tracer = counted
	pool, err := pgxpool.NewWithConfig(ctx, config)
	wantNil(t, err)
	t.Cleanup(pool.Close)
	store, err := stint.New(pool, stint.Options{Maintenance: stint.MaintainNever})
	wantNil(t, err)
	t.Cleanup(func() { wantNil(t, store.Close(context.WithoutCancel(ctx))) })
	insert(t, store, stint.Task{ID: "a", Action: "mail"}, stint.Task{ID: "b", Action: "copy"})
	own(t, store, "mail")
	wantNil(t, store.SetLimits(ctx, "copy", stint.Limits{Concurrency: 3}))
	wantNil(t, store.PutSchedules(ctx, []stint.Schedule{{
		Name: "nightly", Spec: "0 3 * * *", Tasks: []stint.Task{{Action: "copy"}},
	}}))
	_, err = plain.Exec(ctx, `INSERT INTO stint.minutes (minute, since, until, all_tries,
			all_retries, completed, failed, ready, estimated, action)
		SELECT date_trunc('minute', now(), 'UTC'), now() - interval '1 min', now(), 1, 0, 7, 0, 1,
		       false, ''`)
	wantNil(t, err)
	return store, counted
}

// Each look of a tab sends as many statements as the documentation says, and looks of other tabs at
// the same time send none: the store is asked once a second at most, whoever looks.
func TestCosts_OfManyTabsAreThoseOfOne(t *testing.T) {
	t.Parallel()
	const tabs = 50
	documented, err := os.ReadFile("../docs/guides/web.md")
	wantNil(t, err)
	for _, page := range []struct {
		path, name               string
		transactions, statements int64
	}{
		{"/", "overview", 9, 45},
		{"/tasks", "list", 3, 18},
	} {
		store, sent := countedStore(t)
		look := func(h http.Handler) {
			ctx := context.WithValue(t.Context(), forPage{}, true)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, page.path, nil))
			if w.Code != http.StatusOK {
				t.Errorf("GET %s: %d", page.path, w.Code)
			}
		}
		look(ui.New(store, ui.Options{}))
		transactions, statements := sent.transactions.Swap(0), sent.statements.Swap(0)
		if transactions != page.transactions || statements != page.statements {
			t.Errorf("a look at the %s sends %d statements in %d transactions, want %d in %d",
				page.name, statements, transactions, page.statements, page.transactions)
		}
		h, begun := ui.New(store, ui.Options{}), time.Now()
		var all sync.WaitGroup
		for range tabs {
			all.Go(func() { look(h) })
		}
		all.Wait()
		rounds := 1 + int64(time.Since(begun)/time.Second) // more than one only if it took long
		if got := sent.statements.Load(); got == 0 || got > rounds*page.statements {
			t.Errorf("%d looks at the %s send %d statements within %d s, want %d a second at most",
				tabs, page.name, got, rounds, page.statements)
		}
		said := fmt.Sprintf("%s %s statements in %d transactions", page.name,
			display.Number(page.statements*looksPerMinute), page.transactions*looksPerMinute)
		if !strings.Contains(strings.Join(strings.Fields(string(documented)), " "), said) {
			t.Errorf("web.md does not say: %s", said)
		}
	}
}
