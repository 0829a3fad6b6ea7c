package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/spf13/cobra"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pg"
)

func (p *program) statementsCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "statements [NAME]...",
		SuggestFor: []string{"sql", "queries"},
		Short:      "Print the SQL that the library sends",
		Long: `Print the statements of these names as the library sends them, for --schema, or the
names of all. The name of a statement is in its first line, which pg_stat_activity, the
log of the server and traces show; several that are made from one file share its name.

The command needs no database.`,
		Example: `  stint statements
  stint statements own_singly return_final`,
		GroupID:           groupOperations,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, names []string) error {
			return p.statements(cmd.Context(), names)
		},
	}
}

func (p *program) statements(ctx context.Context, names []string) (err error) {
	pool, err := pgxpool.New(ctx, "postgres://nowhere.invalid") // connects when it is used
	if err != nil {
		return err
	}
	defer pool.Close()
	options := p.storeOptions()
	options.Schema, options.PollOnly = p.schema, true
	store, err := stint.New(pool, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(ctx)) }()
	texts := pg.Of(store).Texts()
	if len(names) == 0 {
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			fmt.Fprintln(p.stdout, name)
		}
		return nil
	}
	for i, name := range names {
		text, ok := texts[name]
		if !ok {
			return said(errInput, "there is no statement %q; stint statements lists their names",
				name)
		}
		if i > 0 {
			fmt.Fprintln(p.stdout)
		}
		fmt.Fprintln(p.stdout, text)
	}
	return nil
}
