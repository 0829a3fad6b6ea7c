package command

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"
)

func (p *program) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "check",
		SuggestFor: []string{"doctor"},
		Short:      "Look for what is wrong with the tables and the server",
		Long: `Look for what is wrong, and say what to do about it:

  - whether the tables agree with one another, as the verb Check does
  - tables, indexes and columns that are missing, and indexes that are invalid
  - dead rows, autovacuum that is off, and old transactions, prepared transactions and
    replication slots that keep vacuum from its work
  - transaction numbers that run out
  - settings that lose what was committed, here or of other roles
  - connections that run out, a pooler in between, a hot standby, an old version
  - leases and deadlines that nobody sees to, processes that are gone and whose tasks
    nobody has taken over, actions that nobody asks for
  - finished tasks that stay for longer than their retention
  - the database's clock: whether it goes back, and how far it is from that of this
    machine

An error is something that must not be, a warning is something to act upon, a note is
something to know. The exit code is 9 if there are errors or warnings. It changes
nothing, and reads all tables from end to end: a second per few hundred thousand tasks.

The role stint_monitor is enough. What the role may not see is named in a note; to see
what the transactions of other roles hold up it needs pg_read_all_stats.

With --json: errors, warnings and notes, their numbers; and findings, a list of objects
with severity (error, warning or note), topic, text, and id where it is about one task.`,
		Example: `  stint check
  stint check --json | jq -r '.findings[] | select(.severity == "error").text'`,
		GroupID: groupOperations,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withStore(cmd.Context(), func(ctx context.Context, db *database) error {
				findings, err := p.check(ctx, db)
				if err != nil {
					return err
				}
				return p.printFindings(findings)
			})
		},
	}
}

// A checkup asks the questions of stint check.
type checkup struct {
	conn     *pgxpool.Conn
	schema   string
	findings []finding
}

func (p *program) check(ctx context.Context, db *database) ([]finding, error) {
	c := &checkup{schema: p.schema}
	standby := false
	if err := db.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) (err error) {
		c.conn = conn
		standby, err = c.examine(ctx)
		return err
	}); err != nil {
		return nil, err
	}
	if err := c.ask("pooler", func() error { return c.askPooler(ctx, db.pool) }); err != nil {
		return nil, err
	}
	if err := c.ask("retention", func() error {
		stats, err := db.store.Stats(ctx)
		c.find(pruningFindings(stats.PruningBehind)...)
		return err
	}); err != nil {
		return nil, err
	}
	if !standby {
		if err := c.ask("consistency", func() error {
			found, err := db.store.Check(ctx)
			c.find(inconsistent(found)...)
			return err
		}); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(c.findings, func(a, b finding) int {
		return cmp.Compare(a.Severity.rank(), b.Severity.rank())
	})
	return c.findings, nil
}

func (c *checkup) find(findings ...finding) { c.findings = append(c.findings, findings...) }

// ask asks a question. What the role may not see, and what cannot be seen since a table is missing,
// which is found elsewhere, is a finding; what cannot be asked at all is an error.
func (c *checkup) ask(topic string, question func() error) error {
	err := question()
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err
	}
	switch pgErr.Code {
	case codeInsufficientPrivilege, codeUndefinedTable, codeUndefinedColumn:
		c.find(unseen(topic, pgErr.Message))
		return nil
	}
	return err
}

// examine asks what one connection can answer. On a hot standby it leaves out what only the primary
// knows.
func (c *checkup) examine(ctx context.Context) (standby bool, err error) {
	var server server
	var settings map[string]string
	questions := []func() error{
		func() (err error) {
			if server, settings, err = c.askServer(ctx); err == nil {
				c.find(serverFindings(server, settings)...)
			}
			return err
		},
		func() error {
			return c.askRows(ctx, "settings", "check_overrides",
				readAll(c, pgx.RowTo[string], overrideFindings))
		},
		func() error {
			say := func(objects []object) []finding {
				return objectFindings(c.schema, expectedObjects(), objects)
			}
			return c.askRows(ctx, "schema", "check_objects",
				readAll(c, pgx.RowToStructByName[object], say), c.schema)
		},
		func() error {
			say := func(h horizon) []finding { return horizonFindings("database", h, settings) }
			return c.askRows(ctx, "wraparound", "check_databases", readEach(c, say))
		},
		func() error { return c.askClock(ctx) },
	}
	working := []func() error{
		func() error {
			say := func(t table) []finding {
				return append(tableFindings(c.schema, t),
					horizonFindings("table", t.horizon, settings)...)
			}
			return c.askRows(ctx, "vacuum", "check_tables", readEach(c, say), c.schema)
		},
		func() error {
			say := func(h holder) []finding { return holderFindings(h, settings) }
			return c.askRows(ctx, "vacuum", "check_holders", readEach(c, say))
		},
		func() error {
			return c.askRows(ctx, "maintenance", "check_overdue",
				readAll(c, pgx.RowToStructByName[overdue], overdueFindings))
		},
		func() error {
			return c.askRows(ctx, "maintenance", "check_sessions",
				readAll(c, pgx.RowToStructByName[goneSession], sessionFindings))
		},
		func() error {
			return c.askRows(ctx, "actions", "check_unserved",
				readAll(c, pgx.RowToStructByName[unserved], unservedFindings))
		},
		func() error { return c.askFuture(ctx) },
	}
	for _, question := range questions {
		if err := question(); err != nil {
			return false, err
		}
	}
	if server.Standby {
		return true, nil
	}
	for _, question := range working {
		if err := question(); err != nil {
			return false, err
		}
	}
	return false, nil
}

//go:embed sql/check_*.sql
var checkStatements embed.FS

// statement is one of sql/, for the schema. Of the comment on top of it the name stays.
func (c *checkup) statement(name string) (string, error) {
	text, err := checkStatements.ReadFile("sql/" + name + ".sql")
	if err != nil {
		return "", err
	}
	var kept []string
	for i, line := range strings.Split(string(text), "\n") {
		if i == 0 || !strings.HasPrefix(line, "--") {
			kept = append(kept, line)
		}
	}
	quoted := pgx.Identifier{c.schema}.Sanitize()
	return strings.ReplaceAll(strings.Join(kept, "\n"), "stint.", quoted+"."), nil
}

// askRows runs a statement and has its rows read.
func (c *checkup) askRows(
	ctx context.Context, topic, name string, read func(pgx.Rows) error, args ...any,
) error {
	text, err := c.statement(name)
	if err != nil {
		return err
	}
	err = c.ask(topic, func() error {
		return asking(ctx, c.conn, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, text, args...)
			if err != nil {
				return err
			}
			defer rows.Close()
			if err := read(rows); err != nil {
				return err
			}
			return rows.Err()
		})
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (c *checkup) askServer(ctx context.Context) (server, map[string]string, error) {
	var s server
	err := c.askRows(ctx, "server", "check_server", func(rows pgx.Rows) (err error) {
		s, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[server])
		return err
	})
	if err != nil {
		return s, nil, err
	}
	settings := map[string]string{}
	err = c.askRows(ctx, "settings", "check_settings", func(rows pgx.Rows) error {
		var name, setting string
		_, err := pgx.ForEachRow(rows, []any{&name, &setting}, func() error {
			settings[name] = setting
			return nil
		})
		return err
	}, settingNames())
	return s, settings, err
}

// readAll reads rows, and finds what there is to say of all of them.
func readAll[T any](
	c *checkup, read pgx.RowToFunc[T], say func(all []T) []finding,
) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, read)
		if err == nil {
			c.find(say(all)...)
		}
		return err
	}
}

// readEach reads rows, and finds what there is to say of each.
func readEach[T any](c *checkup, say func(one T) []finding) func(pgx.Rows) error {
	return readAll(c, pgx.RowToStructByName[T], func(all []T) []finding {
		var findings []finding
		for _, one := range all {
			findings = append(findings, say(one)...)
		}
		return findings
	})
}

func (c *checkup) askFuture(ctx context.Context) error {
	return c.askRows(ctx, "clock", "check_future", func(rows pgx.Rows) error {
		ahead, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[*time.Duration])
		if err == nil && ahead != nil {
			c.find(futureFindings(*ahead)...)
		}
		return err
	})
}

// askClock reads the database's clock a few times, and this machine's before and after.
func (c *checkup) askClock(ctx context.Context) error {
	const readings = 5
	var taken []reading
	err := asking(ctx, c.conn, func(tx pgx.Tx) error {
		for range readings {
			var r reading
			r.before = time.Now() //nolint:forbidigo // compared with the database's, for people
			if err := tx.QueryRow(ctx, clock).Scan(&r.database); err != nil {
				return err
			}
			r.trip = time.Since(r.before)
			taken = append(taken, r)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	c.find(clockFindings(taken)...)
	return nil
}
