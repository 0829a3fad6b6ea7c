package command

import (
	"context"
	_ "embed" // for the statement
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/bulk"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/internal/doctor"
	"github.com/stint-tasks/stint/internal/sqlfile"
)

//go:embed sql/networks.sql
var networksFile string

// batchTasksMax is how many tasks that a filter has found are changed in one transaction, unless
// more of them hang together.
const batchTasksMax = 10_000

// cut cuts the tasks of a change into batches, each of which is one transaction. What a change does
// to a task depends on which others are changed with it, and a change reaches other tasks along
// dependencies. So tasks that can be reached from one another, or that reach the same task, are in
// one batch, however many they are. A service does not tell what hangs together: it is sent all in
// one request.
func (c *change) cut(
	ctx context.Context, db *database, tasks []bulk.Task,
) (batches [][]bulk.Task, err error) {
	switch {
	case c.separate:
		return slices.Collect(slices.Chunk(tasks, c.batchMax)), nil
	case db.client != nil:
		return [][]bulk.Task{tasks}, db.checkRequest(ctx, c, tasks)
	case len(tasks) <= c.batchMax:
		return [][]bulk.Task{tasks}, nil
	}
	networks, err := db.networks(ctx, tasks)
	if err != nil {
		return nil, err
	}
	var batch []bulk.Task
	for _, network := range networks {
		if len(batch) > 0 && len(batch)+len(network) > c.batchMax {
			batches, batch = append(batches, batch), nil
		}
		batch = append(batch, network...)
	}
	return append(batches, batch), nil
}

// checkRequest refuses a change that is too large for one request to the service.
func (db *database) checkRequest(ctx context.Context, c *change, tasks []bulk.Task) error {
	info, err := db.client.ServiceInfo(ctx)
	if err != nil || info.RequestBytesMax == 0 {
		return err
	}
	const (
		names      = 2  // the ID comes in the list of the verb, and with what was seen of the task
		bytesOther = 48 // at most, for what else was seen
	)
	bytes := int64(0)
	for i := range tasks {
		bytes += names*int64(len(tasks[i].ID)) + bytesOther
	}
	if bytes <= info.RequestBytesMax {
		return nil
	}
	return said(errInput, "the filters choose %s, more than one request to the service can name: "+
		"%s fewer at a time, with narrower filters, or give --database-url",
		display.Count(int64(len(tasks)), "task"), c.verb)
}

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
