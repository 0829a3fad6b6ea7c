// Growth measures what each verb costs in a small store and in one that is eighty times as large
// and of the same shape: pages of tables and indexes that it reads, and time.
package main

import (
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/migrations"
)

var (
	//go:embed sql/pages.sql
	pagesSQL string
	//go:embed sql/analyze.sql
	analyzeSQL string
)

func main() {
	small := flag.Float64("small", 0.012, "the small store, as a part of 9.2 million tasks")
	large := flag.Float64("large", 1, "the large one")
	rounds := flag.Int("rounds", 5, "how often to call each verb; the table has medians")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, []float64{*small, *large}, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}

// A cost is what a call of a verb takes.
type cost struct {
	pages int64
	took  time.Duration
}

func run(ctx context.Context, factors []float64, rounds int) (err error) {
	local, err := localpg.Start(ctx, localpg.Config{
		Settings: map[string]string{
			"fsync": "off", "shared_buffers": "3GB", "max_wal_size": "8GB", "max_connections": "50",
		},
		Announce: localpg.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, local.Close()) }()
	var all []map[string]cost
	for _, factor := range factors {
		costs, err := measure(ctx, local.URL("postgres"), newShape(factor), rounds)
		if err != nil {
			return fmt.Errorf("store of factor %g: %w", factor, err)
		}
		all = append(all, costs)
	}
	return printTable(all[0], all[1])
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// measure builds a store and calls each verb in a transaction that is rolled back.
func measure(
	ctx context.Context, url string, shape *shape, rounds int,
) (costs map[string]cost, err error) {
	schema := fmt.Sprintf("growth_%d", shape.of(plainTasks))
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	err = pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		return migrations.MigrateSchema(ctx, conn.Conn(), schema)
	})
	if err != nil {
		return nil, err
	}
	store, err := stint.New(pool, stint.Options{
		Schema: schema, Maintenance: stint.MaintainNever, PollInterval: time.Hour,
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = firstError(err, store.Close(context.WithoutCancel(ctx))) }()
	began := time.Now() //nolint:forbidigo // how long it takes
	if err := shape.build(ctx, store); err != nil {
		return nil, err
	}
	if _, err := pool.Exec(ctx, analyzeSQL); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "built factor %g in %v\n", shape.factor,
		time.Since(began).Round(time.Second))
	costs = map[string]cost{}
	for _, verb := range verbs() {
		var pages []int64
		var took []time.Duration
		for range rounds {
			c, err := call(ctx, pool, store, schema, shape, verb)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", verb.name, err)
			}
			pages, took = append(pages, c.pages), append(took, c.took)
		}
		slices.Sort(pages)
		slices.Sort(took)
		costs[verb.name] = cost{pages[rounds/2], took[rounds/2]}
	}
	return costs, nil
}

// call calls a verb once and undoes what it did.
func call(
	ctx context.Context, pool *pgxpool.Pool, store *stint.Store, schema string, shape *shape,
	verb verb,
) (cost, error) {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return cost{}, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	within := store.WithTx(tx)
	var given []stint.OwnedTask
	if verb.given != nil {
		if given, err = verb.given(ctx, within, shape); err != nil {
			return cost{}, err
		}
	}
	var before, after int64
	if err := tx.QueryRow(ctx, pagesSQL, schema).Scan(&before); err != nil {
		return cost{}, err
	}
	began := time.Now() //nolint:forbidigo // how long it takes
	err = verb.call(ctx, within, shape, given)
	took := time.Since(began)
	if err != nil {
		return cost{}, err
	}
	err = tx.QueryRow(ctx, pagesSQL, schema).Scan(&after)
	return cost{after - before, took}, err
}

// printTable prints the table. What works at more in the larger store is marked.
func printTable(small, large map[string]cost) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "verb\tpages, small\tlarge\tratio\tms, small\tlarge\tratio\t")
	for _, verb := range verbs() {
		a, b := small[verb.name], large[verb.name]
		mark := ""
		if verb.grows {
			mark = " *"
		}
		fmt.Fprintf(out, "%s%s\t%d\t%d\t%.1f\t%.2f\t%.2f\t%.1f\t\n", verb.name, mark,
			a.pages, b.pages, float64(b.pages)/float64(max(1, a.pages)),
			ms(a.took), ms(b.took), b.took.Seconds()/a.took.Seconds())
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(os.Stdout, "* is about more tasks in the large store")
	return err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
