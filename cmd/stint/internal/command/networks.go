package command

import (
	"context"
	_ "embed" // for the statement
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/internal/sqlfile"
)

//go:embed sql/networks.sql
var networksFile string

// networks returns the tasks, those together that hang together, in the order of their first ones.
// Tasks that are gone meanwhile are alone.
func (db *database) networks(
	ctx context.Context, tasks []bulk.Task,
) (networks [][]bulk.Task, err error) {
	ids := make([]string, len(tasks))
	for i, task := range tasks {
		ids[i] = string(task.ID)
	}
	joined := forest{}
	keys := make([]int64, len(tasks)) // 0 is none
	schema := pgx.Identifier{db.direct.Schema()}.Sanitize() + "."
	statement := strings.ReplaceAll(sqlfile.Statement(networksFile), "stint.", schema)
	err = doctor.InTx(ctx, db.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, statement, ids)
		if err != nil {
			return err
		}
		var key int64
		var run, place *int64
		_, err = pgx.ForEachRow(rows, []any{&key, &run, &place}, func() error {
			if place != nil {
				keys[*place-1] = key
			} else {
				joined.join(key, *run)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	places := map[int64]int{}
	for i, task := range tasks {
		root := joined.root(keys[i])
		place, ok := places[root]
		if !ok || keys[i] == 0 {
			place = len(networks)
			places[root] = place
			networks = append(networks, nil)
		}
		networks[place] = append(networks[place], task)
	}
	return networks, nil
}

// A forest is sets of numbers: two are in one set if they have the same root. It maps each number
// to another one of its set; a number that is missing is a root.
type forest map[int64]int64

func (f forest) root(n int64) int64 {
	for {
		above, ok := f[n]
		if !ok {
			return n
		}
		if further, ok := f[above]; ok {
			f[n] = further // so that the way is half as long the next time
		}
		n = above
	}
}

func (f forest) join(a, b int64) {
	if a, b = f.root(a), f.root(b); a != b {
		f[max(a, b)] = min(a, b)
	}
}
