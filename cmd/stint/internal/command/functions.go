package command

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint/migrations"
)

func (p *program) functionsCommand() *cobra.Command {
	printSQL := false
	cmd := &cobra.Command{
		Use:   "functions",
		Short: "Make the SQL functions add_task and finish_task, or bring them up to date",
		Long: `Make the SQL functions add_task and finish_task, with which programs in any language
insert tasks, and end those that they own, in their own transactions; or bring them up to
date. Migrate the schema first. It is safe to repeat.

The role needs to own the schema. Nobody else may call the functions at first. The role
stint_enqueuer of migrations/roles.sql may, if there is one, and others may after:

  GRANT USAGE ON SCHEMA stint TO web;
  GRANT EXECUTE ON FUNCTION stint.add_task, stint.finish_task TO web;

--print-sql instead prints the SQL, for a migration tool, and touches no database.

With --json: schema, and with --print-sql sql.`,
		Example: `  stint migrate functions
  stint migrate functions --schema other --print-sql | psql -1 -v ON_ERROR_STOP=1 app`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if printSQL {
				return p.printFunctions()
			}
			return p.makeFunctions(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&printSQL, "print-sql", false, "print the SQL instead")
	return cmd
}

// A functionsJSON is what migrate functions prints.
type functionsJSON struct {
	Schema string `json:"schema"`
	SQL    string `json:"sql,omitempty"`
}

func (p *program) printFunctions() error {
	text, err := migrations.Functions(p.schema)
	switch {
	case err != nil:
		return said(errInput, "%v", err)
	case p.json:
		return p.printJSON(functionsJSON{p.schema, text})
	}
	return p.printf("%s", text)
}

func (p *program) makeFunctions(ctx context.Context) error {
	text, err := migrations.Functions(p.schema)
	if err != nil {
		return said(errInput, "%v", err)
	}
	return p.withConn(ctx, func(conn *pgxpool.Conn) error {
		if err := p.checkSchema(ctx, conn.Conn()); err != nil {
			return err
		}
		current, err := migrations.CurrentVersion(ctx, conn.Conn(), p.schema)
		switch {
		case err != nil:
			return err
		case current > migrations.Version(): // it may have a newer function
			return said(migrations.ErrNewerSchema, "schema %q is at version %d, this release "+
				"knows %d; use the release that migrated it", p.schema, current,
				migrations.Version())
		}
		options := pgx.TxOptions{AccessMode: pgx.ReadWrite}
		err = pgx.BeginTxFunc(ctx, conn.Conn(), options, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, text)
			return err
		})
		if err != nil {
			return err
		}
		if p.json {
			return p.printJSON(functionsJSON{Schema: p.schema})
		}
		return p.printf("schema %q has the functions add_task and finish_task of this release\n",
			p.schema)
	})
}
