package stint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// isSerializationFailure reports what the retry loop of a caller looks for.
func isSerializationFailure(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == "40001"
}

// An ID that was taken behind the snapshot is there, but not to be seen: a caller who begins again
// sees it.
// Proves G74.
func TestWithTx_AnIDTakenBehindAStrictSnapshotIsASerializationFailure(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	many := func(last stint.Task) []stint.Task { return append(numbered("many", 100), last) }
	for name, insertInto := range map[string]func(*stint.Store, stint.TaskID) error{
		"one": func(s *stint.Store, id stint.TaskID) error {
			return s.InsertTasks(t.Context(), []stint.Task{{ID: id, Action: "act"}})
		},
		"few": func(s *stint.Store, id stint.TaskID) error {
			return s.InsertTasks(t.Context(), []stint.Task{after("n" + id), after(id)})
		},
		"many": func(s *stint.Store, id stint.TaskID) error {
			return s.InsertTasks(t.Context(), many(stint.Task{ID: id, Action: "act"}))
		},
		"linked": func(s *stint.Store, id stint.TaskID) error {
			return s.InsertTasks(t.Context(), []stint.Task{after("n" + id), after(id, "n"+id)})
		},
		"behind a stored one": func(s *stint.Store, id stint.TaskID) error {
			return s.InsertTasks(t.Context(), []stint.Task{after(id, "stored")})
		},
		"ahead of a stored one": func(s *stint.Store, id stint.TaskID) error {
			return s.InsertTasks(t.Context(), []stint.Task{
				{ID: id, Action: "act", ToSignalAfter: []stint.TaskID{"stored"}},
			})
		},
		"stream": func(s *stint.Store, id stint.TaskID) error {
			_, err := s.InsertTasksFrom(t.Context(),
				stream(many(stint.Task{ID: id, Action: "act"}), nil))
			return err
		},
		"ensure one": func(s *stint.Store, id stint.TaskID) error {
			return errOf(s.EnsureTasks(t.Context(), []stint.Task{after(id)}))
		},
		"ensure many": func(s *stint.Store, id stint.TaskID) error {
			return errOf(s.EnsureTasks(t.Context(), many(after(id))))
		},
		"replace": func(s *stint.Store, id stint.TaskID) error {
			return s.ReplaceTasks(t.Context(), []stint.Task{{ID: id, Action: "act"}})
		},
	} {
		for _, level := range strictLevels {
			id := stint.TaskID(fmt.Sprint(name, " ", level))
			if _, err := store.GetTasks(t.Context(), []stint.TaskID{"stored"}); err != nil {
				insert(t, store, after("stored"))
			}
			tx := beginStrict(t, pool, level)
			insert(t, store, after(id))
			err := insertInto(store.WithTx(tx), id)
			if !isSerializationFailure(err) || errors.Is(err, stint.ErrTaskExists) {
				t.Errorf("%s at %s = %v, want a serialization failure", name, level, err)
			}
			if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
				t.Errorf("%s at %s leaves the transaction unusable: %v", name, level, err)
			}
			wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
			tx = beginStrict(t, pool, level)
			err = insertInto(store.WithTx(tx), id)
			if name == "replace" || strings.HasPrefix(name, "ensure") {
				wantErr(t, name+", begun again", err, nil)
			} else {
				wantTasks(t, name+", begun again", err, stint.ErrTaskExists, id)
			}
			wantErr(t, "Rollback", tx.Rollback(t.Context()), nil)
		}
	}
}

// A party is what a strict transaction and another caller get hold of: a task in progress with a
// neighbour of the same fetch, a late one with a neighbour, a blocked one, a ready one, a
// scheduled one, one that was completed and one that was aborted.
type party struct {
	store  *stint.Store
	prefix stint.TaskID
	action string
	owned  []stint.OwnedTask // two of one fetch
	late   []stint.OwnedTask // two of another one, whose lease expired
}

func (p *party) id(name stint.TaskID) stint.TaskID { return p.prefix + name }

func (p *party) ids(names ...stint.TaskID) []stint.TaskID {
	for i := range names {
		names[i] = p.id(names[i])
	}
	return names
}

func (p *party) give(t *testing.T, names ...stint.TaskID) []stint.OwnedTask {
	t.Helper()
	tasks := make([]stint.Task, len(names))
	for i, name := range names {
		tasks[i] = stint.Task{ID: p.id(name), Action: p.action}
	}
	insert(t, p.store, tasks...)
	owned, err := p.store.OwnTasks(t.Context(), "actor", len(names), []string{p.action}, time.Hour)
	if err != nil || len(owned) != len(names) {
		t.Fatalf("OwnTasks = %d tasks, %v", len(owned), err)
	}
	return owned
}

func newParty(t *testing.T, store *stint.Store, pool *pgxpool.Pool, name string) *party {
	t.Helper()
	p := &party{store: store, prefix: stint.TaskID(name + " "), action: name}
	for _, ended := range p.give(t, "completed", "aborted") {
		code := stint.StatusCompleted
		if ended.ID == p.id("aborted") {
			code = stint.StatusAborted
		}
		wantErr(t, "ReturnTask",
			store.ReturnTask(t.Context(), ended.ID, ended.Token, "", code), nil)
	}
	p.late = p.give(t, "late", "late too")
	exec(t, pool, "UPDATE stint.leases SET deadline = statement_timestamp() - interval '1 s' "+
		"WHERE claim = $1", insideOf(store).ClaimOf(p.late[0].ID, p.late[0].Token))
	maintain(t, store)
	// The late ones must not be fetched again.
	p.action += "'s own"
	p.owned = p.give(t, "owned", "owned too")
	p.action = name
	insert(t, store, stint.Task{ID: p.id("ready"), Action: p.action + " ready"},
		stint.Task{ID: p.id("scheduled"), Action: "x", NotBefore: time.Now().Add(time.Hour)},
		after(p.id("blocked"), p.id("owned"), p.id("ready")))
	return p
}

// partyVerbs are calls on what a party has.
var partyVerbs = map[string]func(context.Context, *stint.Store, *party) error{
	"insert": func(ctx context.Context, s *stint.Store, p *party) error {
		return s.InsertTasks(ctx, []stint.Task{after(p.id("new"), p.ids("owned", "completed")...)})
	},
	"insert ahead": func(ctx context.Context, s *stint.Store, p *party) error {
		return s.InsertTasks(ctx, []stint.Task{{
			ID: p.id("new"), Action: "x", ToSignalAfter: p.ids("ready", "blocked", "scheduled"),
		}})
	},
	"replace": func(ctx context.Context, s *stint.Store, p *party) error {
		return s.ReplaceTasks(ctx, []stint.Task{
			after(p.id("ready")), after(p.id("blocked")), after(p.id("completed")),
		})
	},
	"own": func(ctx context.Context, s *stint.Store, p *party) error {
		actions := []string{p.action, p.action + " ready"}
		_, err := s.OwnTasks(ctx, "heir", 10, actions, time.Hour)
		return err
	},
	"extend one": func(ctx context.Context, s *stint.Store, p *party) error {
		_, err := s.ExtendTasksOwnership(ctx, "actor", p.owned[:1], 2*time.Hour)
		return err
	},
	"extend the other": func(ctx context.Context, s *stint.Store, p *party) error {
		_, err := s.ExtendTasksOwnership(ctx, "actor", p.owned[1:], 3*time.Hour)
		return err
	},
	"extend late": func(ctx context.Context, s *stint.Store, p *party) error {
		_, err := s.ExtendTasksOwnership(ctx, "actor", p.late[:1], time.Hour)
		return err
	},
	"extend the other late": func(ctx context.Context, s *stint.Store, p *party) error {
		_, err := s.ExtendTasksOwnership(ctx, "actor", p.late[1:], time.Hour)
		return err
	},
	"return": func(ctx context.Context, s *stint.Store, p *party) error {
		return s.ReturnTask(ctx, p.owned[0].ID, p.owned[0].Token, "", stint.StatusCompleted)
	},
	"return the other": func(ctx context.Context, s *stint.Store, p *party) error {
		return s.ReturnTask(ctx, p.owned[1].ID, p.owned[1].Token, "", stint.StatusPending)
	},
	"return late": func(ctx context.Context, s *stint.Store, p *party) error {
		return returnOutcome(s.ReturnTasks(ctx, completed(p.late[:1])))
	},
	"return the other late": func(ctx context.Context, s *stint.Store, p *party) error {
		return returnOutcome(s.ReturnTasks(ctx, completed(p.late[1:])))
	},
	"status": func(ctx context.Context, s *stint.Store, p *party) error {
		return errors.Join(s.SetStatus(ctx, p.owned[0], "half", 0.5),
			s.SetStatus(ctx, p.late[0], "half", 0.5))
	},
	"hold": func(ctx context.Context, s *stint.Store, p *party) error {
		return s.HoldOwnership(ctx, p.owned)
	},
	"inputs": func(ctx context.Context, s *stint.Store, p *party) error {
		_, err := s.Inputs(ctx, p.owned[0])
		return err
	},
	"add": func(ctx context.Context, s *stint.Store, p *party) error {
		return s.AddDependencies(ctx, []stint.Dependency{
			{Predecessor: p.id("owned"), Dependent: p.id("ready")},
			{Predecessor: p.id("owned too"), Dependent: p.id("scheduled")},
		})
	},
	"add the same": func(ctx context.Context, s *stint.Store, p *party) error {
		return s.AddDependencies(ctx, []stint.Dependency{
			{Predecessor: p.id("owned"), Dependent: p.id("blocked")},
			{Predecessor: p.id("owned"), Dependent: p.id("ready")},
		})
	},
	"abort": func(ctx context.Context, s *stint.Store, p *party) error {
		ids := p.ids("owned", "late", "ready", "scheduled", "completed")
		return errOf(s.AbortTasks(ctx, ids, ""))
	},
	"delete": func(ctx context.Context, s *stint.Store, p *party) error {
		return errOf(s.DeleteTasks(ctx, p.ids("ready", "scheduled", "completed")))
	},
	"retry": func(ctx context.Context, s *stint.Store, p *party) error {
		return errOf(s.RetryTasks(ctx, p.ids("completed", "aborted")))
	},
	"maintain": func(ctx context.Context, s *stint.Store, _ *party) error {
		return s.Maintain(ctx)
	},
	"get": func(ctx context.Context, s *stint.Store, p *party) error {
		_, err := s.GetTasks(ctx, p.ids("owned", "ready", "completed"))
		return err
	},
}

// returnOutcome is what is wrong with a return of tasks, or with one of them.
func returnOutcome(verdicts []error, err error) error {
	return errors.Join(append(verdicts, err)...)
}

// Whatever another caller has done behind the snapshot, each verb succeeds, refuses with an error
// of this package, or fails with a serialization failure; and the tables agree.
// Proves G74.
func TestWithTx_StricterVerbsFailWithSerializationErrorsOnly(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	known := []error{
		stint.ErrTaskExists, stint.ErrTaskNotFound, stint.ErrTaskInProgress, stint.ErrTaskStarted,
		stint.ErrTaskFinished, stint.ErrInvalidToken, stint.ErrInvalidArgument,
	}
	failed, done := 0, 0
	names := slices.Sorted(maps.Keys(partyVerbs))
	for i, strictName := range testrun.Few(names) {
		strict := partyVerbs[strictName]
		for j, otherName := range names {
			other, level := partyVerbs[otherName], strictLevels[(i+j)%len(strictLevels)]
			name := fmt.Sprintf("%s, begun at %s ahead of %s", strictName, level, otherName)
			p := newParty(t, store, pool, name)
			tx := beginStrict(t, pool, level)
			_ = other(t.Context(), store, p) // what it may do at this moment is for other tests
			err := strict(t.Context(), store.WithTx(tx), p)
			if err == nil {
				err = tx.Commit(t.Context())
			}
			isKnown := isSerializationFailure(err)
			for _, sentinel := range known {
				isKnown = isKnown || errors.Is(err, sentinel)
			}
			switch {
			case err == nil:
				done++
			case isSerializationFailure(err):
				failed++
			case !isKnown:
				t.Errorf("%s: %v", name, err)
			}
			_ = tx.Rollback(t.Context())
		}
	}
	t.Logf("%d succeeded, %d failed with serialization failures", done, failed)
	if failed == 0 || done == 0 {
		t.Error("the callers did not meet")
	}
}
