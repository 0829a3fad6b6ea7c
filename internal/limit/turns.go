package limit

import (
	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/pg"
)

// Turns are in which ways keys take turns, and whether tasks are fetched one at a time, since costs
// count: a set of the following, whose numbers the statements know.
type Turns int

const (
	// Own are turns of the keys of one action among one another.
	Own Turns = 1 << iota
	// Shared are turns of keys in a group of actions together.
	Shared
	// Costs says that rates and turns count what tasks cost.
	Costs

	// Fair are all turns of keys.
	Fair = Own | Shared
)

// Lock returns the step that locks actions with limits: one fetch at a time.
func (t Turns) Lock(actions []string) pg.Step {
	if t&Shared != 0 {
		return pg.Step{Name: "lock_shared", Args: []any{actions}}
	}
	return pg.Step{Name: "lock_limits", Args: []any{actions}}
}

// Deal adds the steps behind the lock that put tasks of fair actions into the queues of their keys,
// which sets queued if there are such tasks, and bring those back whose turn it is; anew says that
// tasks whose turn has come before do not count.
func (t Turns) Deal(
	steps []pg.Step, actions []string, maxTasks int, anew bool, queued *bool,
	read func(rows pgx.Rows) error,
) []pg.Step {
	queue := "queue_turns"
	if t&Shared != 0 {
		queue = "queue_shared"
	}
	if t&Fair != 0 {
		steps = append(steps, pg.Step{
			Name: queue, Args: []any{actions}, Count: func(n int64) { *queued = n > 0 },
		})
	}
	for _, deal := range []struct {
		turns Turns
		name  string
	}{{Own, "deal_turns"}, {Shared, "deal_shared"}} {
		if deal.turns == Shared && t&Costs != 0 { // those of one action may be all that are dealt
			maxTasks = 1
		}
		if t&deal.turns != 0 {
			steps = append(steps, pg.Step{
				Name: deal.name, Args: []any{actions, maxTasks, anew}, Read: read,
			})
		}
	}
	return steps
}
