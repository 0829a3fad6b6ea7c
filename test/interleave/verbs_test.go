package interleave_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/pg"
)

// A call is one call of a verb.
type call struct {
	ctx context.Context //nolint:containedctx // of the call
	*stint.Store
	pool  *pgxpool.Pool // of the session
	world *world
	actor stint.ActorID
}

// A verb is a call that tests make, on the tasks of some fixtures.
type verb struct {
	name string
	in   []string // names of fixtures
	call func(c call) (answer string)

	// before is called ahead of all, and undone in the database: stores remember limits; nil: not.
	before func(c call) (answer string)
	// again finds what the verb has passed over since others held it; nil if it does not.
	again func(c call) (answer string)
	// several says that the verb is several transactions, so that others may come between them.
	several bool
	// sampled says that it has too many orders to try each, with whatever other verb.
	sampled bool
	options func(*stint.Options)
}

// duties are parts of maintenance, as verbs: each is several transactions, and passes over what
// others hold.
func duties(in []string, name, work string) verb {
	return verb{name: name, in: in, call: duty(work), again: duty(work), several: true}
}

// Kinds of fixtures.
var (
	waiting  = []string{"ready", "span", "due", "scheduled", "deadline", "late"}
	taken    = []string{"owned", "owned span", "expired", "expired last", "owned deadline"}
	held     = slices.Concat(taken, []string{"late"})
	behind   = []string{"blocked", "conditions", "any", "spontaneous", "fail fast", "failed"}
	ended    = []string{"completed", "aborted", "old"}
	outside  = []string{"external", "external deadline"}
	budgets  = []string{"budget", "budget of a key"}
	counted  = []string{"per key", "concurrency", "ordered", "fair"}
	limits   = slices.Concat(counted, budgets)
	debounce = []string{"debounced", "debounced twice"}

	unfinished = slices.Concat(waiting, taken, behind, outside, limits, debounce)
	everywhere = slices.Concat(unfinished, ended)
)

// verbs are all calls that are made with one another.
var verbs = []verb{
	{
		name: "own", in: slices.Concat(waiting, taken, behind, counted, debounce),
		call: own, again: own, several: true,
	},
	{
		// It has up to seven transactions, of which most ask for the lock of the limits, and more
		// where it gets to know these: so many orders are too many.
		name: "own, knowing limits", in: budgets,
		call: own, before: own, again: own, several: true, sampled: true,
	},
	{name: "extend t", in: slices.Concat(held, limits), call: extend("t")},
	{name: "set status of t", in: []string{"owned", "expired", "owned span"}, call: setStatus("t")},
	{name: "record step of t", in: []string{"owned", "late"}, call: recordStep("t")},
	{
		name: "complete t", in: slices.Concat(held, limits, debounce[1:]),
		call: giveBack("t", stint.Return{Code: stint.StatusCompleted, Result: []byte("yes")}),
	},
	{
		name: "complete t, kept not", in: []string{"owned", "late"},
		call:    giveBack("t", stint.Return{Code: stint.StatusCompleted}),
		options: func(o *stint.Options) { o.Retention.Completed = stint.KeepNone },
	},
	{
		name: "return t aborted", in: []string{"owned", "expired", "late", "debounced twice"},
		call: giveBack("t", stint.Return{Code: stint.StatusAborted, Status: "no"}),
	},
	{
		name: "return t", in: slices.Concat(held, limits),
		call: giveBack("t", stint.Return{Code: stint.StatusPending, Status: "again"}),
	},
	{
		name: "return t for later", in: []string{"owned", "expired last", "per key"},
		call: giveBack("t", stint.Return{Code: stint.StatusPending, RetryAfter: day}),
	},
	{
		name: "release t", in: []string{"owned", "expired last", "ordered"},
		call: giveBack("t", stint.Return{Code: stint.StatusPending, Release: true}),
	},
	{
		name: "complete t and own", in: []string{"owned span", "per key", "concurrency"},
		call:  exchange("t"),
		again: own, several: true,
	},
	{
		name: "complete p", in: slices.Concat(behind, ended[:2]),
		call: giveBack("p", stint.Return{Code: stint.StatusCompleted, Result: []byte("yes")}),
	},
	{
		name: "return p aborted", in: slices.Concat(behind, ended[:2]),
		call: giveBack("p", stint.Return{Code: stint.StatusAborted}),
	},
	{
		name: "complete q", in: behind[:5],
		call: giveBack("q", stint.Return{Code: stint.StatusCompleted, Result: []byte("no")}),
	},
	{
		name: "return q aborted", in: behind[:5],
		call: giveBack("q", stint.Return{Code: stint.StatusAborted}),
	},
	{
		name: "complete t, spent less", in: budgets,
		call: giveBack("t", stint.Return{Code: stint.StatusCompleted, Spent: new(40)}),
	},
	{
		name: "return t, spent more", in: budgets,
		call: giveBack("t", stint.Return{Code: stint.StatusPending, Spent: new(150)}),
	},
	{
		name: "finish t in SQL", in: slices.Concat(held, limits, debounce[1:]),
		call: finish("t", stint.StatusCompleted, nil),
	},
	{
		name: "finish t in SQL, spent less", in: budgets,
		call: finish("t", stint.StatusCompleted, new(40)),
	},
	{
		name: "abort t in SQL", in: []string{"owned", "expired", "late", "debounced twice"},
		call: finish("t", stint.StatusAborted, nil),
	},
	{
		name: "give t back in SQL", in: slices.Concat(held, limits),
		call: finish("t", stint.StatusPending, nil),
	},
	{
		name: "finish p in SQL", in: slices.Concat(behind, ended[:2]),
		call: finish("p", stint.StatusCompleted, nil),
	},
	{name: "answer t", in: outside, call: answer("t", stint.StatusCompleted)},
	{name: "answer t aborted", in: outside, call: answer("t", stint.StatusAborted)},

	{name: "abort t", in: everywhere, call: abort("t")},
	{name: "abort d", in: []string{"owned", "blocked", "any", "aborted"}, call: abort("d")},
	{name: "abort p", in: []string{"blocked", "conditions", "any", "failed"}, call: abort("p")},
	{name: "retry t", in: slices.Concat(ended, taken[:1]), call: retry("t")},
	{name: "retry d", in: slices.Concat(ended, []string{"failed"}), call: retry("d")},
	{name: "delete t", in: everywhere, call: remove("t")},
	{
		name: "delete d", in: []string{"owned", "blocked", "any", "aborted", "old"},
		call: remove("d"),
	},
	{
		name: "change priority of t", in: []string{"ready", "span", "blocked", "scheduled"},
		call: change("t", stint.TaskChanges{Priority: new(int16(7))}),
	},
	{
		name: "change key of t", in: slices.Concat(waiting[:2], limits),
		call: change("t", stint.TaskChanges{Key: new("l")}),
	},
	{name: "change key of u", in: limits, call: change("u", stint.TaskChanges{Key: new("l")})},
	{
		name: "delay t", in: slices.Concat(waiting, behind[:1]),
		call: change("t", stint.TaskChanges{StartAfter: 5 * day}),
	},
	{
		name: "start t now", in: slices.Concat(waiting, behind[:1], debounce),
		call: change("t", stint.TaskChanges{StartNow: true}),
	},

	{name: "insert n", in: []string{"schedule"}, call: insert(act("n"))},
	{name: "insert t", in: ended, call: insert(act("t"))},
	{name: "insert n after t", in: everywhere, call: insert(other("n", "t"))},
	{
		name: "insert n after t and d", in: slices.Concat(ended, behind[:1]),
		call: insert(other("n", "t", "d")),
	},
	{
		name: "insert n, if t is aborted",
		in:   []string{"ready", "owned", "any", "aborted", "completed"},
		call: insert(stint.Task{ID: "n", Action: "other", When: []stint.Condition{
			{After: "t", States: []stint.State{stint.StateAborted}},
		}}),
	},
	{
		name: "insert n ahead of t",
		in:   []string{"ready", "span", "late", "due", "blocked", "owned"},
		call: insert(stint.Task{ID: "n", Action: "other", ToSignalAfter: []stint.TaskID{"t"}}),
	},
	{
		name: "ensure t and n after t", in: []string{"old", "aborted", "owned", "ready"},
		call: ensure(act("t"), other("n", "t")),
	},
	{name: "replace t", in: everywhere, call: replace(act("t"))},
	{
		name: "replace d after t", in: []string{"owned", "blocked", "aborted", "old"},
		call: replace(other("d", "t")),
	},
	{
		name: "debounce t", in: slices.Concat(debounce, ended[:1], waiting[:1], taken[:1]),
		call: debounceTask("t"),
	},
	{
		name: "x ahead of t",
		in:   []string{"ready", "span", "late", "due", "blocked", "any", "owned", "expired"},
		call: depend("x", "t"),
	},
	{name: "x after t", in: everywhere, call: depend("t", "x")},
	{name: "d ahead of x", in: slices.Concat(behind[:1], ended), call: depend("d", "x")},

	{name: "x after d", in: []string{"two chains"}, call: depend("d", "x")},
	{name: "t after y", in: []string{"two chains"}, call: depend("y", "t")},

	duties(slices.Concat(waiting, taken, outside[1:], debounce), "settle what is due",
		"hand on and end tasks that are due"),
	duties(ended, "prune", "prune finished tasks"),
	duties([]string{"failed", "fail fast"}, "fail fast", "abort what only aborted tasks need"),
	duties(limits, "unpark", "unpark tasks below limits"),
	duties([]string{"schedule"}, "fire", "insert tasks of schedules"),
	{
		name: "set limits", in: limits, call: setLimits(stint.Limits{ConcurrencyPerKey: 2}),
		several: true,
	},
	{name: "set no limits", in: limits, call: setLimits(stint.Limits{}), several: true},
	{name: "pause", in: limits, call: func(c call) string { return said(c.Pause(c.ctx, "act")) }},
	{
		name: "pause k", in: limits,
		call: func(c call) string { return said(c.PauseKeys(c.ctx, "act", "k")) },
	},

	{
		name: "pause schedule", in: []string{"schedule"},
		call: func(c call) string { return said(c.PauseSchedules(c.ctx, "s")) },
	},
	{
		name: "delete schedule", in: []string{"schedule"},
		call: func(c call) string { return said(c.DeleteSchedules(c.ctx, "s")) },
	},
	{name: "put schedule", in: []string{"schedule"}, call: func(c call) string {
		return said(c.PutSchedules(c.ctx, []stint.Schedule{daily}))
	}},
}

// kinds are the errors that callers tell apart, by name.
var kinds = map[string]error{
	"exists": stint.ErrTaskExists, "not found": stint.ErrTaskNotFound,
	"in progress": stint.ErrTaskInProgress, "started": stint.ErrTaskStarted,
	"finished": stint.ErrTaskFinished, "blocked": stint.ErrTaskBlocked, "cycle": stint.ErrCycle,
	"predecessor aborted": stint.ErrPredecessorAborted, "invalid token": stint.ErrInvalidToken,
	"already returned": stint.ErrAlreadyReturned, "busy": stint.ErrBusy,
	"schedule not found": stint.ErrScheduleNotFound,
}

// said is how a call ended.
func said(err error) string {
	if err == nil {
		return "ok"
	}
	var of []string
	for name, kind := range kinds {
		if errors.Is(err, kind) {
			of = append(of, name)
		}
	}
	if len(of) == 0 {
		return err.Error()
	}
	slices.Sort(of)
	text := strings.Join(of, " and ")
	var about *stint.TaskError
	if errors.As(err, &about) {
		text += fmt.Sprintf(" %q", about.IDs)
	}
	return text
}

func affected(of stint.Affected, err error) string {
	return fmt.Sprintf("%q, others %d, in progress %d, %s", of.Tasks, of.Others, of.InProgress,
		said(err))
}

func verdictsOf(verdicts []error, err error) string {
	var texts []string
	for _, verdict := range verdicts {
		texts = append(texts, said(verdict))
	}
	return strings.Join(append(texts, said(err)), ", ")
}

// named names the tasks of a fetch.
func named(owned []stint.OwnedTask) string {
	var names []string
	for _, one := range owned {
		names = append(names, fmt.Sprintf("%s on try %d, %d completed, %d aborted", one.ID, one.Try,
			one.Completed, one.Aborted))
	}
	slices.Sort(names)
	return strings.Join(names, "; ")
}

func own(c call) string {
	owned, err := c.OwnTasks(c.ctx, c.actor, 2, []string{"act"}, 3*day)
	if errors.Is(err, stint.ErrCopy) { // else all orders would be alike
		c.world.t.Errorf("OwnTasks = %v", err)
	}
	if err != nil {
		return said(err)
	}
	return named(owned)
}

func exchange(id stint.TaskID) func(call) string {
	return func(c call) string {
		token := c.world.owned[id].Token
		verdicts, owned, err := c.ReturnAndOwnTasks(c.ctx,
			[]stint.Return{{ID: id, Token: token, Code: stint.StatusCompleted}},
			stint.Want{Actor: c.actor, MaxTasks: 1, Actions: []string{"act"}, Lease: 3 * day})
		if err == nil && errors.Is(verdicts[0], stint.ErrBusy) { // then returns are made singly
			verdicts[0] = c.ReturnTask(c.ctx, id, token, "", stint.StatusCompleted)
		}
		return verdictsOf(verdicts, err) + "; " + named(owned)
	}
}

func extend(id stint.TaskID) func(call) string {
	return func(c call) string {
		kept, err := c.ExtendTasksOwnership(c.ctx, "first", []stint.OwnedTask{c.world.owned[id]},
			2*day)
		return fmt.Sprint(kept, said(err))
	}
}

func setStatus(id stint.TaskID) func(call) string {
	return func(c call) string {
		return said(c.SetStatus(c.ctx, c.world.owned[id], "half", 0.5))
	}
}

func recordStep(id stint.TaskID) func(call) string {
	return func(c call) string {
		result, err := c.RecordStep(c.ctx, c.world.owned[id], "step", []byte(c.actor))
		return string(result) + " " + said(err)
	}
}

func giveBack(id stint.TaskID, with stint.Return) func(call) string {
	return func(c call) string {
		with := with
		with.ID, with.Token = id, c.world.owned[id].Token
		return verdictsOf(c.ReturnTasks(c.ctx, []stint.Return{with}))
	}
}

// finish returns a task by finish_task, in a transaction.
func finish(id stint.TaskID, code stint.StatusCode, spent *int) func(call) string {
	return func(c call) string {
		err := pgx.BeginFunc(c.ctx, c.pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(c.ctx, statement("finish_task"), string(id),
				c.world.owned[id].Token.String(), string(code), "in SQL", spent)
			return err
		})
		var refused *pgconn.PgError
		if errors.As(err, &refused) && strings.HasPrefix(refused.Code, "STI") {
			return refused.Code
		}
		return said(err)
	}
}

func answer(id stint.TaskID, code stint.StatusCode) func(call) string {
	return func(c call) string {
		return verdictsOf(c.AnswerTasks(c.ctx, c.actor, []stint.Answer{{ID: id, Code: code}}))
	}
}

func abort(id stint.TaskID) func(call) string {
	return func(c call) string {
		return affected(c.AbortTasks(c.ctx, []stint.TaskID{id}, "off"))
	}
}

func retry(id stint.TaskID) func(call) string {
	return func(c call) string { return affected(c.RetryTasks(c.ctx, []stint.TaskID{id})) }
}

func remove(id stint.TaskID) func(call) string {
	return func(c call) string { return affected(c.DeleteTasks(c.ctx, []stint.TaskID{id})) }
}

func change(id stint.TaskID, to stint.TaskChanges) func(call) string {
	return func(c call) string { return affected(c.ChangeTasks(c.ctx, []stint.TaskID{id}, to)) }
}

func insert(tasks ...stint.Task) func(call) string {
	return func(c call) string { return said(c.InsertTasks(c.ctx, slices.Clone(tasks))) }
}

func ensure(tasks ...stint.Task) func(call) string {
	return func(c call) string {
		existing, err := c.EnsureTasks(c.ctx, slices.Clone(tasks))
		return fmt.Sprintf("%q, %s", existing, said(err))
	}
}

func replace(tasks ...stint.Task) func(call) string {
	return func(c call) string { return said(c.ReplaceTasks(c.ctx, slices.Clone(tasks))) }
}

func debounceTask(id stint.TaskID) func(call) string {
	return func(c call) string {
		return said(c.Debounce(c.ctx, act(id), 4*day, 8*day))
	}
}

func depend(before, after stint.TaskID) func(call) string {
	return func(c call) string {
		return said(c.AddDependencies(c.ctx, []stint.Dependency{
			{Predecessor: before, Dependent: after},
		}))
	}
}

func setLimits(to stint.Limits) func(call) string {
	return func(c call) string { return said(c.SetLimits(c.ctx, "act", to)) }
}

// duty is a part of maintenance.
func duty(name string) func(call) string {
	return func(c call) string {
		inside := pg.Of(c.Store).Inside.(interface {
			Duty(name string) (all, some func(context.Context) error)
		})
		all, _ := inside.Duty(name)
		if err := all(c.ctx); err != nil {
			return said(err)
		}
		return ""
	}
}
