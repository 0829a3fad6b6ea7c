package command

import (
	"cmp"
	"context"
	_ "embed" // for the statement
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/internal/sqlfile"
	"github.com/stint-tasks/stint/migrations"
)

func (p *program) migrateCommand() *cobra.Command {
	from, to, down, yes, printSQL := int32(0), int32(-1), false, false, false
	cmd := &cobra.Command{
		Use:        "migrate",
		SuggestFor: []string{"init", "upgrade"},
		Short:      "Bring the schema up to date",
		Long: `Bring the schema to the newest version that this release knows, creating it if
needed. It is safe to repeat: a schema that is up to date is left alone, and concurrent
calls wait for one another. A schema that is newer than this release is refused. After a
switchover by logical replication, which leaves sequences out, it sets them behind the
tables, so that no key is given out again.

The role needs CREATE on the database the first time, and later to own the schema.
Processes may work meanwhile. If a transaction holds a lock on a table, a dump for example,
it tries again until that ends, and says on standard error for which process it waits.

--to migrates to another version. Going back drops everything that the later versions
added, including the tasks in it (0 drops all, also of the task store), so it also needs
--down. It says how many tasks there are and how many stores are connected, and asks for
confirmation, unless --yes is given. Stop the workers first.

--print-sql instead prints the SQL, for a migration tool, and touches no database. The SQL
starts from an empty database, or from the version that --from names.

With --json: schema, version (before), newest (that this release knows); of migrate
itself also migrated_to, sequences (those set right), and with --print-sql sql.`,
		Example: `  STINT_DATABASE_URL=postgres://owner@localhost/app stint migrate
  stint migrate status
  stint migrate --to 1
  stint migrate --to 0 --down --yes
  stint migrate --print-sql > migrations/0007_stint.sql`,
		GroupID: groupOperations,
		Args:    subCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("to") {
				to = migrations.Version()
			}
			switch {
			case printSQL:
				return p.printMigration(from, to, down)
			case cmd.Flags().Changed("from"):
				return said(errInput, "--from is for --print-sql")
			}
			return p.migrate(cmd.Context(), to, down, yes)
		},
	}
	cmd.Flags().Int32Var(&to, "to", to, "go to this `version`, 0 for no tables (default: newest)")
	cmd.Flags().BoolVar(&down, "down", false, "let --to go back, which drops what it cannot keep")
	cmd.Flag("to").DefValue = "0" // the help says it in words
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask before going back")
	cmd.Flags().BoolVar(&printSQL, "print-sql", false, "print the SQL instead")
	cmd.Flags().Int32Var(&from, "from", 0, "with --print-sql: start from this `version`")
	cmd.AddCommand(p.migrateCommands()...)
	return cmd
}

// migrateCommands are the sub-commands of migrate.
func (p *program) migrateCommands() []*cobra.Command {
	return []*cobra.Command{{
		Use:     "up",
		Short:   "Bring the schema to the newest version, as migrate does",
		Long:    `Bring the schema to the newest version that this release knows, as migrate does.`,
		Example: "  stint migrate up",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.migrate(cmd.Context(), migrations.Version(), false, false)
		},
	}, {
		Use:   "status",
		Short: "Say which version the schema is at",
		Long: `Say which version the schema is at, and which one this release is made for. The exit
code is 0 if this release works with the schema, else 5. The command changes nothing.`,
		Example: "  stint migrate status --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.migrateStatus(cmd.Context())
		},
	}, p.functionsCommand()}
}

// A schemaJSON is what migrate prints.
type schemaJSON struct {
	Schema     string `json:"schema"`
	Version    int32  `json:"version"`
	Newest     int32  `json:"newest"`
	MigratedTo *int32 `json:"migrated_to,omitempty"`
	// Sequences are those that were behind the tables, and are set right.
	Sequences []string `json:"sequences,omitempty"`
	SQL       string   `json:"sql,omitempty"`
}

// checkVersion checks the version that a flag names.
func checkVersion(flag string, version int32) error {
	if newest := migrations.Version(); version < 0 || version > newest {
		return said(errInput, "invalid --%s %d: this release knows versions 0 to %d", flag,
			version, newest)
	}
	return nil
}

// dropped names what is lost on the way back to a version.
func dropped(to int32) string {
	if to < 1 {
		return "all tasks, those of the task store, schedules, limits and the log of changes"
	}
	return "limits, pauses, weights, schedules, recorded steps, histories, answer keys, " +
		"conditions, the log of changes, the minutes of the last day, the name of the " +
		"environment, which tasks fail fast, and the keys, headers and costs of tasks"
}

func (p *program) printMigration(from, to int32, down bool) error {
	if err := cmp.Or(checkVersion("from", from), checkVersion("to", to)); err != nil {
		return err
	}
	if from > to && !down {
		return said(errInput, "going back from version %d to %d drops %s, and needs --down",
			from, to, dropped(to))
	}
	script, err := migrations.SQL(p.schema, from, to)
	if err != nil {
		return err
	}
	if p.json {
		return p.printJSON(schemaJSON{
			Schema: p.schema, Version: from, Newest: migrations.Version(), MigratedTo: &to,
			SQL: script,
		})
	}
	return p.printf("%s", script)
}

func (p *program) migrate(ctx context.Context, to int32, down, yes bool) error {
	if err := checkVersion("to", to); err != nil {
		return err
	}
	return p.withDatabase(ctx, func(ctx context.Context, db *database) error {
		return db.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
			stop := p.tellHolders(ctx, db.pool)
			defer stop()
			return p.migrateOn(ctx, db, conn, to, down, yes)
		})
	})
}

func (p *program) migrateOn(
	ctx context.Context, db *database, conn *pgxpool.Conn, to int32, down, yes bool,
) error {
	before, err := migrations.CurrentVersion(ctx, conn.Conn(), p.schema)
	if err != nil {
		return err
	}
	if before > to && before <= migrations.Version() && !down {
		return said(errInput, "schema %q is at version %d; going back to %d drops %s, "+
			"and needs --down", p.schema, before, to, dropped(to))
	}
	if before > to && before <= migrations.Version() && !yes {
		if err := p.confirmDrop(ctx, db, conn, to); err != nil {
			return err
		}
	}
	var behind []string
	if before == to && to == migrations.Version() {
		behind, err = migrations.SequencesBehind(ctx, conn.Conn(), p.schema)
		if err != nil && !isCode(err, codeInsufficientPrivilege) {
			return err
		}
	}
	if err := migrations.MigrateTo(ctx, conn.Conn(), p.schema, to); err != nil {
		return err
	}
	if p.json {
		return p.printJSON(schemaJSON{
			Schema: p.schema, Version: before, Newest: migrations.Version(), MigratedTo: &to,
			Sequences: behind,
		})
	}
	if len(behind) > 0 {
		return p.printf("schema %q is already at version %d; its sequences %s were behind "+
			"the tables, and are set right\n", p.schema, to, strings.Join(behind, " and "))
	}
	if before == to {
		return p.printf("schema %q is already at version %d\n", p.schema, to)
	}
	return p.printf("migrated schema %q from version %d to %d\n", p.schema, before, to)
}

//go:embed sql/count_dropped.sql
var countDropped string

// confirmDrop asks whether to go back to a version, which drops what others may still use.
func (p *program) confirmDrop(
	ctx context.Context, db *database, conn *pgxpool.Conn, to int32,
) error {
	var tasks, stored, stores int64
	schema := pgx.Identifier{p.schema}.Sanitize() + "."
	statement := strings.ReplaceAll(sqlfile.Statement(countDropped), "stint.", schema)
	err := doctor.InTx(ctx, conn, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, statement).Scan(&tasks, &stored, &stores)
	})
	if err != nil {
		return fmt.Errorf("count what would be dropped: %w", err)
	}
	counts := []string{display.Count(tasks, "task")}
	if to < 1 { // else the task store stays
		counts = append(counts, display.Count(stored, "task")+" of the task store")
	}
	if stores > 0 {
		counts = append(counts, display.Count(stores, "store")+" connected")
	}
	holds := counts[0]
	if last := len(counts) - 1; last > 0 {
		holds = strings.Join(counts[:last], ", ") + " and " + counts[last]
	}
	loses := fmt.Sprintf("drop %s %s, with %s", dropped(to), p.where(db), holds)
	if !isTerminal(p.stdin) {
		return said(errInput, "this would %s; there is no terminal to ask for confirmation: give "+
			"--yes", loses)
	}
	return p.confirm(ctx, loses)
}

func (p *program) migrateStatus(ctx context.Context) error {
	newest := migrations.Version()
	var current int32
	err := p.withConn(ctx, func(conn *pgxpool.Conn) (err error) {
		if current, err = migrations.CurrentVersion(ctx, conn.Conn(), p.schema); err != nil {
			return err
		}
		if p.json {
			err = p.printJSON(schemaJSON{Schema: p.schema, Version: current, Newest: newest})
		} else {
			err = p.printf("schema %q is at version %d, this release is made for %d\n",
				p.schema, current, newest)
		}
		if err != nil {
			return err
		}
		return p.checkSchema(ctx, conn.Conn())
	})
	if err != nil || current <= newest {
		return err
	}
	return p.withStore(ctx, func(ctx context.Context, db *database) error {
		_, err := db.store.ListTasks(ctx, stint.Filter{Limit: 1}) // if the schema lets it
		return err
	})
}
