// Package doctor finds what is wrong with the tables of a schema, the server and the connection to
// it, and says what to do. The command stint check and the service's CheckStore run it.
package doctor

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

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/sqlfile"
	"github.com/stint-tasks/stint/migrations"
)

// PostgreSQL's codes for a question that cannot be answered.
const (
	codeInsufficientPrivilege = "42501"
	codeUndefinedTable        = "42P01"
	codeUndefinedColumn       = "42703"
)

// A checkup asks all questions.
type checkup struct {
	conn     *pgxpool.Conn
	schema   string
	findings []Finding
}

// Examine looks for what is wrong with the tables of a schema, and with the server, and returns its
// findings, the worst first. It changes nothing, and reads all tables from end to end. If the role
// may not see something, that is a finding; if a question cannot be asked at all, that is an error.
func Examine(
	ctx context.Context, pool *pgxpool.Pool, store *stint.Store, schema string,
) ([]Finding, error) {
	c := &checkup{schema: schema}
	standby := false
	if err := pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) (err error) {
		c.conn = conn
		standby, err = c.examine(ctx)
		return err
	}); err != nil {
		return nil, err
	}
	if err := c.ask("pooler", func() error { return c.askPooler(ctx, pool) }); err != nil {
		return nil, err
	}
	if err := c.ask("retention", func() error {
		stats, err := store.Stats(ctx)
		c.find(pruningFindings(stats.PruningBehind)...)
		c.find(copyFindings(stats.Copy)...)
		if stats.Copy != "" { // where nobody maintains before it is adopted
			c.findings = slices.DeleteFunc(c.findings, isOfMaintenance)
		}
		return err
	}); err != nil {
		return nil, err
	}
	if !standby {
		if err := c.ask("consistency", func() error {
			found, err := store.Check(ctx)
			c.find(inconsistent(found)...)
			return err
		}); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(c.findings, func(a, b Finding) int {
		return cmp.Compare(a.Severity.rank(), b.Severity.rank())
	})
	return c.findings, nil
}

func (c *checkup) find(findings ...Finding) { c.findings = append(c.findings, findings...) }

// ask asks a question. If the role may not see the answer, or a table is missing, which is also
// found elsewhere, that is a finding. If the question cannot be asked at all, that is an error.
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
	server, settings, err := c.examineServer(ctx)
	if err != nil {
		return false, err
	}
	questions := []func() error{
		func() error {
			return c.askRows(ctx, "settings", "check_overrides",
				readAll(c, pgx.RowTo[string], overrideFindings))
		},
		func() error {
			reported := c.conn.Conn().PgConn().ParameterStatus("client_encoding")
			say := func(e encodings) []Finding { return encodingFindings(e, reported) }
			return c.askRows(ctx, "encoding", "check_encoding", readEach(c, say))
		},
		func() error { return c.askSchema(ctx) },
		func() error {
			say := func(tables []secured) []Finding { return securityFindings(c.schema, tables) }
			return c.askRows(ctx, "row security", "check_row_security",
				readAll(c, pgx.RowToStructByName[secured], say), c.schema)
		},
		func() error {
			say := func(h horizon) []Finding { return horizonFindings("database", h, settings) }
			return c.askRows(ctx, "wraparound", "check_databases", readEach(c, say))
		},
		func() error { return c.askClock(ctx) },
		func() error {
			return c.askRows(ctx, "notifications", "check_notifications",
				readEach(c, queueFindings))
		},
	}
	if !server.Standby {
		questions = append(questions, c.working(ctx, settings)...)
	}
	for _, question := range questions {
		if err := question(); err != nil {
			return false, err
		}
	}
	return server.Standby, nil
}

func (c *checkup) examineServer(
	ctx context.Context,
) (server server, settings map[string]string, err error) {
	if server, settings, err = c.askServer(ctx); err == nil {
		c.find(serverFindings(server, settings)...)
	}
	return server, settings, err
}

// working are the questions that only a primary can answer.
func (c *checkup) working(ctx context.Context, settings map[string]string) []func() error {
	return []func() error{
		func() error {
			say := func(t table) []Finding {
				return append(tableFindings(c.schema, t),
					horizonFindings("table", t.horizon, settings)...)
			}
			return c.askRows(ctx, "vacuum", "check_tables", readEach(c, say), c.schema)
		},
		func() error {
			say := func(h holder) []Finding { return holderFindings(h, settings) }
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
		func() error { return c.askLimits(ctx) },
		func() error { return c.askSchedules(ctx) },
		func() error { return c.askFuture(ctx) },
		func() error {
			return c.ask("sequences", func() error {
				behind, err := migrations.SequencesBehind(ctx, c.conn.Conn(), c.schema)
				c.find(sequenceFindings(behind)...)
				return err
			})
		},
	}
}

func (c *checkup) askLimits(ctx context.Context) error {
	return c.askRows(ctx, "limits", "check_limits", readEach(c, limitFindings))
}

//go:embed sql/check_*.sql
var checkStatements embed.FS

// statement returns a statement of sql/, for the schema.
func (c *checkup) statement(name string) (string, error) {
	text, err := checkStatements.ReadFile("sql/" + name + ".sql")
	if err != nil {
		return "", err
	}
	quoted := pgx.Identifier{c.schema}.Sanitize()
	return strings.ReplaceAll(sqlfile.Statement(string(text)), "stint.", quoted+"."), nil
}

// askRows runs a statement and passes its rows to read.
func (c *checkup) askRows(
	ctx context.Context, topic, name string, read func(pgx.Rows) error, args ...any,
) error {
	text, err := c.statement(name)
	if err != nil {
		return err
	}
	err = c.ask(topic, func() error {
		return InTx(ctx, c.conn, func(tx pgx.Tx) error {
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

// askSchema asks for the parts of the schema, and for the SQL functions.
func (c *checkup) askSchema(ctx context.Context) error {
	objects := func(objects []object) []Finding {
		return objectFindings(c.schema, expectedObjects(), objects)
	}
	err := c.askRows(ctx, "schema", "check_objects",
		readAll(c, pgx.RowToStructByName[object], objects), c.schema)
	if err != nil {
		return err
	}
	return c.askRows(ctx, "schema", "check_functions",
		readAll(c, pgx.RowToStructByName[function], functionFindings), c.schema)
}

// readAll reads rows, and adds the findings about all of them together.
func readAll[T any](
	c *checkup, read pgx.RowToFunc[T], say func(all []T) []Finding,
) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		all, err := pgx.CollectRows(rows, read)
		if err == nil {
			c.find(say(all)...)
		}
		return err
	}
}

// readEach reads rows, and adds the findings about each of them.
func readEach[T any](c *checkup, say func(one T) []Finding) func(pgx.Rows) error {
	return readAll(c, pgx.RowToStructByName[T], func(all []T) []Finding {
		var findings []Finding
		for _, one := range all {
			findings = append(findings, say(one)...)
		}
		return findings
	})
}

// askClock reads the database's clock a few times, and this machine's before and after.
func (c *checkup) askClock(ctx context.Context) error {
	const readings = 5
	var taken []reading
	err := InTx(ctx, c.conn, func(tx pgx.Tx) error {
		for range readings {
			var r reading
			var err error
			r.before = time.Now() //nolint:forbidigo // compared with the database's, for people
			if r.database, err = Now(ctx, tx); err != nil {
				return err
			}
			r.trip = time.Since(r.before)
			taken = append(taken, r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	c.find(clockFindings(taken)...)
	return nil
}
