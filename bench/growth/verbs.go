package main

import (
	"context"
	"fmt"
	"time"

	"github.com/stint-tasks/stint"
)

// A verb is a call to measure: given owns the tasks that it is about, which is not measured.
type verb struct {
	name  string
	given func(context.Context, *stint.Store, *shape) ([]stint.OwnedTask, error)
	call  func(context.Context, *stint.Store, *shape, []stint.OwnedTask) error
	grows bool // it is about more tasks in the large store
}

const actor = "growth"

// owning is what a verb is given that is about n owned tasks with an action.
func owning(
	n int, action string,
) func(context.Context, *stint.Store, *shape) ([]stint.OwnedTask, error) {
	return func(ctx context.Context, store *stint.Store, _ *shape) ([]stint.OwnedTask, error) {
		owned, err := store.OwnTasks(ctx, actor, n, []string{action}, time.Hour)
		if err == nil && len(owned) == 0 {
			err = fmt.Errorf("none of %s is ready", action)
		}
		return owned, err
	}
}

// simple is a verb that is given nothing.
func simple(name string, call func(context.Context, *stint.Store, *shape) error) verb {
	return verb{name: name, call: func(
		ctx context.Context, store *stint.Store, s *shape, _ []stint.OwnedTask,
	) error {
		return call(ctx, store, s)
	}}
}

func (v verb) growing() verb {
	v.grows = true
	return v
}

func verbs() []verb {
	var all []verb
	for _, some := range [][]verb{
		looks(), lists(), ownVerbs(), ownedVerbs(), insertVerbs(), edgeVerbs(), endVerbs(),
	} {
		all = append(all, some...)
	}
	return all
}

func looks() []verb {
	explain := func(name string, id stint.TaskID) verb {
		return simple(name, func(ctx context.Context, store *stint.Store, _ *shape) error {
			_, err := store.Explain(ctx, id)
			return err
		})
	}
	graph := func(name string, id stint.TaskID) verb {
		return simple(name, func(ctx context.Context, store *stint.Store, _ *shape) error {
			_, err := store.Graph(ctx, id)
			return err
		})
	}
	get := func(n int) verb {
		name := fmt.Sprintf("GetTasks %d", n)
		return simple(name, func(ctx context.Context, store *stint.Store, s *shape) error {
			_, err := store.GetTasks(ctx, spread("plain", n, s.of(plainTasks)))
			return err
		})
	}
	return []verb{
		get(1), get(1000),
		simple("Stats", func(ctx context.Context, store *stint.Store, _ *shape) error {
			_, err := store.Stats(ctx)
			return err
		}),
		simple("Problems 10", func(ctx context.Context, store *stint.Store, _ *shape) error {
			_, err := store.Problems(ctx, 10)
			return err
		}).growing(), // reads all leases
		explain("Explain of a ready task", id("ready", 0)),
		explain("Explain of a join of 300", id("joining-join", 0)),
		explain("Explain of the large join", "bigjoin").growing(),
		explain("Explain of the large root", "bigroot"),
		graph("Graph of a join of 300", id("joining-join", 0)),
		simple("ListActors", func(ctx context.Context, store *stint.Store, _ *shape) error {
			_, err := store.ListActors(ctx)
			return err
		}),
		simple("Maintain, nothing due", func(
			ctx context.Context, store *stint.Store, _ *shape,
		) error {
			return store.Maintain(ctx)
		}),
	}
}

// spread are n IDs out of all tasks of a part.
func spread(name string, n, all int) []stint.TaskID {
	ids := make([]stint.TaskID, min(n, all))
	for i := range ids {
		ids[i] = id(name, i*(all/len(ids)))
	}
	return ids
}

func lists() []verb {
	list := func(name string, filter stint.Filter) verb {
		return simple("ListTasks, "+name, func(
			ctx context.Context, store *stint.Store, _ *shape,
		) error {
			_, err := store.ListTasks(ctx, filter)
			return err
		})
	}
	in := func(state stint.State) []stint.State { return []stint.State{state} }
	return []verb{
		list("first page", stint.Filter{}),
		list("prefix of one", stint.Filter{IDPrefix: "bigroot"}),
		list("prefix of none, ahead", stint.Filter{IDPrefix: "aaa"}),
		list("prefix of none, behind", stint.Filter{IDPrefix: "zzz"}),
		list("prefix of ten", stint.Filter{IDPrefix: "ready-000001"}),
		list("prefix of many", stint.Filter{IDPrefix: "plain"}),
		list("an action", stint.Filter{Actions: []string{"queue1"}}),
		list("no action", stint.Filter{Actions: []string{"none"}}),
		list("ready, an action", stint.Filter{
			Actions: []string{"queue1"}, States: in(stint.StateReady),
		}),
		list("in progress", stint.Filter{States: in(stint.StateInProgress)}),
		list("scheduled", stint.Filter{States: in(stint.StateScheduled)}),
		list("blocked", stint.Filter{States: in(stint.StateBlocked)}),
		list("completed", stint.Filter{States: in(stint.StateCompleted)}),
		list("aborted", stint.Filter{States: in(stint.StateAborted)}),
		list("owned by an actor", stint.Filter{
			Actor: "actor7", States: in(stint.StateInProgress),
		}),
		list("of a last second", stint.Filter{MaxAge: time.Second}),
	}
}

func ownVerbs() []verb {
	const few = 50
	own := func(name string, n int, actions func(*shape) []string) verb {
		return simple("OwnTasks "+name, func(
			ctx context.Context, store *stint.Store, s *shape,
		) error {
			_, err := store.OwnTasks(ctx, actor, n, actions(s), time.Hour)
			return err
		})
	}
	one := func(action string) func(*shape) []string {
		return func(*shape) []string { return []string{action} }
	}
	some := func(s *shape) []string { return s.actions[:min(few, len(s.actions))] }
	all := func(s *shape) []string { return s.actions }
	return []verb{
		own("1", 1, one("joining")),
		own("1,000 in spans", 1000, one("joining")),
		own("1,000 in rows of their own", 1000, one("limited")),
		own("1 of 50 queues", 1, some),
		own("100 of 50 queues", 100, some),
		own("1,000 of 50 queues", 1000, some),
		own("1 of all queues", 1, all).growing(), // one probe of each
		own("1,000 of all queues", 1000, all).growing(),
		own("of nothing", 1, one("none")),
	}
}

func ownedVerbs() []verb {
	returning := func(name string, n int, action string, code stint.StatusCode) verb {
		call := func(
			ctx context.Context, store *stint.Store, _ *shape, given []stint.OwnedTask,
		) error {
			returns := make([]stint.Return, len(given))
			for i, task := range given {
				returns[i] = stint.Return{ID: task.ID, Token: task.Token, Code: code}
			}
			_, err := store.ReturnTasks(ctx, returns)
			return err
		}
		return verb{name: name, given: owning(n, action), call: call}
	}
	extending := func(name string, n int, action string, skip int) verb {
		call := func(
			ctx context.Context, store *stint.Store, _ *shape, given []stint.OwnedTask,
		) error {
			_, err := store.ExtendTasksOwnership(ctx, actor, given[skip:], time.Hour)
			return err
		}
		return verb{name: name, given: owning(n, action), call: call}
	}
	const many = 6000
	return []verb{
		extending("Extend 1,000, whole", 1000, "joining", 0),
		extending("Extend 1 of 1,000", 1000, "joining", 999),
		extending("Extend all but 3 of 6,000 rows", many, "limited", 3),
		returning("Return 1, completed", 1, "limited", stint.StatusCompleted),
		returning("Return 1, aborted", 1, "limited", stint.StatusAborted),
		returning("Return 1, pending", 1, "limited", stint.StatusPending),
		returning("Return 1,000", 1000, "joining", stint.StatusCompleted),
		returning("Return 1 of the large join", 1, "bigin", stint.StatusCompleted),
		{
			name: "SetStatus", given: owning(1, "limited"),
			call: func(
				ctx context.Context, store *stint.Store, _ *shape, given []stint.OwnedTask,
			) error {
				return store.SetStatus(ctx, given[0], "half", 0.5)
			},
		},
	}
}

func insertVerbs() []verb {
	insert := func(name string, n int, change func(*stint.Task, int, *shape)) verb {
		return simple("Insert "+name, func(
			ctx context.Context, store *stint.Store, s *shape,
		) error {
			tasks := make([]stint.Task, n)
			for i := range tasks {
				tasks[i] = s.task("new", i)
				if change != nil {
					change(&tasks[i], i, s)
				}
			}
			return store.InsertTasks(ctx, tasks)
		})
	}
	after := func(ids ...stint.TaskID) func(*stint.Task, int, *shape) {
		return func(task *stint.Task, _ int, _ *shape) { task.After = ids }
	}
	return []verb{
		insert("1", 1, nil),
		insert("1,000", 1000, nil),
		insert("1 after a ready one", 1, after(id("ready", 7))),
		insert("1 after a finished one", 1, after(id("plain", 7))),
		insert("1,000 after one each", 1000, func(task *stint.Task, i int, _ *shape) {
			task.After = []stint.TaskID{id("ready", i)}
		}),
		insert("1 into a chain, after a ready one", 1, func(task *stint.Task, _ int, _ *shape) {
			task.After = []stint.TaskID{id("ready", 7)}
			task.ToSignalAfter = []stint.TaskID{id("chain0", 1)}
		}),
		insert("1 after the large root", 1, after("bigroot")),
		insert("1 into the large join", 1, func(task *stint.Task, _ int, _ *shape) {
			task.ToSignalAfter = []stint.TaskID{"bigjoin"}
		}),
	}
}

func edgeVerbs() []verb {
	add := func(name string, run stint.TaskID) verb {
		return simple("AddDependencies to "+name, func(
			ctx context.Context, store *stint.Store, _ *shape,
		) error {
			return store.AddDependencies(ctx, []stint.Dependency{
				{Predecessor: id("ready", 7), Dependent: run},
			})
		})
	}
	return []verb{
		add("a ready task", id("ready", 8)),
		add("the head of a chain", id("chain0", 1)),
		add("the large root", "bigroot"),
		add("the large join", "bigjoin"),
	}
}

func endVerbs() []verb {
	on := func(name string, verb func(*stint.Store, context.Context, []stint.TaskID) error,
		ids ...stint.TaskID,
	) verb {
		return simple(name, func(ctx context.Context, store *stint.Store, _ *shape) error {
			return verb(store, ctx, ids)
		})
	}
	abort := func(store *stint.Store, ctx context.Context, ids []stint.TaskID) error {
		_, err := store.AbortTasks(ctx, ids, "")
		return err
	}
	remove := func(store *stint.Store, ctx context.Context, ids []stint.TaskID) error {
		_, err := store.DeleteTasks(ctx, ids)
		return err
	}
	retry := func(store *stint.Store, ctx context.Context, ids []stint.TaskID) error {
		_, err := store.RetryTasks(ctx, ids)
		return err
	}
	return []verb{
		on("Abort a ready task", abort, id("ready", 7)),
		on("Abort the large root", abort, "bigroot").growing(),
		on("Abort a chain", abort, id("chain0", 0)).growing(),
		on("Delete a ready task", remove, id("ready", 7)),
		on("Delete a finished task", remove, id("plain", 7)),
		on("Delete 1 of the large join", remove, id("bigin", 7)),
		on("Retry an aborted task", retry, id("aborted", 7)),
		on("Retry a finished task", retry, id("plain", 7)),
		simple("Replace a ready task", func(
			ctx context.Context, store *stint.Store, s *shape,
		) error {
			return store.ReplaceTasks(ctx, []stint.Task{s.task("ready", 7)})
		}),
	}
}
