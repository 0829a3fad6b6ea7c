package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/names"
)

// checkTyped refuses names of actions, keys and the like that a person has typed with a slip in
// them. What is a flag or an argument. Names by which something is looked for, or undone, are not
// checked: programs may have used them.
func checkTyped(what string, typed ...string) error {
	for _, name := range typed {
		if slip := names.Slip(name); slip != "" {
			return said(errInput, "invalid %s %q: %s", what, name, slip)
		}
	}
	return nil
}

// lookedFor is how long a command looks for names before it does what it is told without.
const lookedFor = 2 * time.Second

// unknownActions says of which actions nothing was found in the store; with nearOnly, only of those
// that may be another one. It says nothing if that cannot be found out: nobody is held up by it.
func unknownActions(ctx context.Context, db *database, nearOnly bool, actions ...string) []string {
	if len(actions) == 0 {
		return nil
	}
	return unknownNames(ctx, db, func(
		ctx context.Context, store names.Store,
	) ([]names.Unknown, error) {
		return names.UnknownActions(ctx, store, nearOnly, actions...)
	})
}

// unknownKeys says of which keys of an action nothing was found, as unknownActions does.
func unknownKeys(ctx context.Context, db *database, action string, keys ...string) []string {
	return unknownNames(ctx, db, func(
		ctx context.Context, store names.Store,
	) ([]names.Unknown, error) {
		return names.UnknownKeys(ctx, store, action, keys...)
	})
}

func unknownNames(
	ctx context.Context, db *database,
	look func(ctx context.Context, store names.Store) ([]names.Unknown, error),
) (lines []string) {
	ctx, cancel := context.WithTimeout(ctx, lookedFor)
	defer cancel()
	store, err := db.named(ctx)
	if err != nil {
		return nil
	}
	found, err := look(ctx, store)
	if err != nil || len(found) == 0 {
		return nil
	}
	part := ""
	if db.client != nil {
		all, err := db.client.ReadsAll(ctx)
		if err != nil {
			return nil
		}
		if !all {
			part = " that you may see"
		}
	}
	return firstOf(found, namedMax, "and %s more", func(u names.Unknown) string {
		return u.In(part)
	})
}

// named is what knows names: the store, or all shards.
func (db *database) named(ctx context.Context) (names.Store, error) {
	if db.shards == nil {
		return db.store, nil
	}
	all, err := db.shards.all()
	if err != nil {
		return nil, err
	}
	var several names.Several
	for _, shard := range all {
		store, err := db.shards.Cluster().Store(ctx, shard)
		if err != nil {
			return nil, err
		}
		if one, ok := store.(names.Store); ok {
			several = append(several, one)
		}
	}
	return several, nil
}

// warn writes lines about what may be a slip.
func (p *program) warn(lines []string) {
	for _, line := range lines {
		fmt.Fprintf(p.stderr, "warning: %s\n", line)
	}
}

// warnAction warns of an action that nothing in the store has, and of keys of it: to limit or pause
// what is not there yet is right, and so it is done.
func (p *program) warnAction(ctx context.Context, db *database, action string, keys ...string) {
	var lines []string
	if len(keys) > 0 {
		if lines = unknownKeys(ctx, db, action, keys...); len(lines) == 0 {
			return // what has one of its keys has the action
		}
	}
	if of := unknownActions(ctx, db, false, action); len(of) > 0 {
		lines = of
	}
	p.warn(lines)
}

// warnFilter warns of names that a filter has and nothing in the store, where it found nothing.
func (p *program) warnFilter(ctx context.Context, db *database, filter *stint.Filter) {
	lines := unknownActions(ctx, db, false, filter.Actions...)
	switch slip := names.Slip(filter.Key); {
	case slip != "":
		lines = append(lines, slipLine("key", filter.Key, slip))
	case len(lines) == 0 && filter.Key != "" && len(filter.Actions) == 1:
		lines = unknownKeys(ctx, db, filter.Actions[0], filter.Key)
	}
	p.warn(lines)
}

// slipLine says what may be a slip in a name that is taken nevertheless.
func slipLine(what, name, slip string) string {
	return fmt.Sprintf("the %s %q may be a slip: %s", what, name, slip)
}

// warnTasks warns of tasks to insert that seem to have a name that was not meant: with a slip in
// it, or an action that nothing has, but something nearly.
func (p *program) warnTasks(ctx context.Context, db *database, tasks []stint.Task) {
	const most = 1000
	actions, slips := map[string]bool{}, map[string]bool{}
	var typed, lines []string
	note := func(what, name string) {
		if slip := names.Slip(name); slip != "" && !slips[what+name] {
			slips[what+name] = true
			lines = append(lines, slipLine(what, name, slip))
		}
	}
	for i := range tasks {
		task := &tasks[i]
		note("key", task.Key)
		if actions[task.Action] || len(typed) == most {
			continue
		}
		actions[task.Action] = true
		typed = append(typed, task.Action)
		note("action", task.Action)
	}
	p.warn(firstOf(lines, namedMax, "and %s more", strings.Clone))
	p.warn(unknownActions(ctx, db, true, typed...))
}
