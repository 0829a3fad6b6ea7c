package stint_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// branches are tasks with conditions about "origin", of every kind.
func branches() []stint.Task {
	run := when("anyway", answers("origin", "yes"))
	run.OnAbort = stint.RunAnyway
	return []stint.Task{
		after("other"), when("yes", answers("origin", "yes")), when("no", answers("origin", "no")),
		when("failed", ended("origin", isAborted)), run,
		when("however", ended("origin", isCompleted, isAborted, isSkipped)),
		whenAny("any", ended("origin"), ended("other")), whenAny("only", ended("origin")),
		after("behind", "yes"), after("plain", "origin"),
	}
}

// What the origin of conditions leaves undecided starts nothing, by whatever verb it goes: what
// waits for it is skipped, but for what another task may start.
// Proves R5, R17, R23.
func TestConditions_AreNotMetByAnOriginThatGoes(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	origin := after("origin")
	origin.NotBefore = time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		leave func(store *stint.Store) error
		plain stint.State // what becomes of a dependent without a condition
		again bool        // the ID is taken again
	}{
		"replace": {func(store *stint.Store) error {
			return store.ReplaceTasks(t.Context(), []stint.Task{after("origin")})
		}, stint.StateReady, true},
		"debounce": {func(store *stint.Store) error {
			return store.Debounce(t.Context(), after("origin"), time.Hour, time.Hour)
		}, stint.StateReady, true},
		"delete": {func(store *stint.Store) error {
			return errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"origin"}))
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			insert(t, store, append(branches(), origin)...)
			wantErr(t, name, c.leave(store), nil)
			want := map[stint.TaskID]stint.State{
				"other": stint.StateReady, "any": stint.StateBlocked, "plain": c.plain,
				"yes": isSkipped, "no": isSkipped, "failed": isSkipped, "anyway": isSkipped,
				"however": isSkipped, "only": isSkipped, "behind": isSkipped,
			}
			if c.plain == "" {
				delete(want, "plain")
			}
			got := statesOf(t, store)
			delete(got, "origin")
			if !maps.Equal(got, want) {
				t.Fatalf("the tasks are %v, want %v", got, want)
			}
			skipped := []stint.TaskID{"yes", "no", "failed", "anyway", "however", "only"}
			_, err := store.RetryTasks(t.Context(), skipped)
			wantErr(t, "RetryTasks", err, nil)
			for _, id := range skipped {
				if state := info(t, store, id).State; state != isSkipped {
					t.Errorf("%s is %s after a retry", id, state)
				}
			}
		})
	}
}

// What was decided stays decided when the origin leaves the store, also for a retry.
// Proves R18, R23.
func TestConditions_StayDecidedWithoutTheirOrigin(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, leave := range map[string]func(store *stint.Store) error{
		"replace": func(store *stint.Store) error {
			return store.ReplaceTasks(t.Context(), []stint.Task{after("origin")})
		},
		"delete": func(store *stint.Store) error {
			return errOf(store.DeleteTasks(t.Context(), []stint.TaskID{"origin"}))
		},
		"prune": func(store *stint.Store) error {
			_, err := store.Prune(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, pool := newStoreAndPool(t, stint.Options{})
			insert(t, store, append(branches(), after("origin"))...)
			play(t, store, map[stint.TaskID]string{"origin": "yes"}, "other")
			exec(t, pool, "UPDATE stint.finished SET finished_at = now() - interval '2 days' "+
				"WHERE lo = (SELECT key FROM stint.tasks WHERE id = 'origin')")
			wantErr(t, name, leave(store), nil)
			ids := []stint.TaskID{
				"yes", "no", "failed", "anyway", "however", "any", "only", "behind", "plain",
			}
			_, err := store.RetryTasks(t.Context(), ids)
			wantErr(t, "RetryTasks", err, nil)
			want := map[stint.TaskID]stint.State{
				"yes": stint.StateReady, "anyway": stint.StateReady, "any": stint.StateReady,
				"only": stint.StateReady, "however": stint.StateReady, "plain": stint.StateReady,
				"no": isSkipped, "failed": isSkipped, "behind": stint.StateBlocked,
			}
			for id, state := range want {
				if got := info(t, store, id).State; got != state {
					t.Errorf("%s is %s after a retry, want %s", id, got, state)
				}
			}
		})
	}
}

// A task that is replaced by one that names its dependents hands these over, with their conditions.
// Proves R5, R23.
func TestReplaceTasks_KeepsTheConditionsOfTheDependentsItNames(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for _, origin := range []string{"waits", "has ended"} {
		for _, result := range []string{"yes", "no"} {
			t.Run(origin+" "+result, func(t *testing.T) {
				t.Parallel()
				store := newStore(t)
				insert(t, store, after("origin"), stint.Task{ID: "held", Action: stint.External},
					when("yes", answers("origin", "yes"), ended("held")),
					whenAny("any", answers("origin", "yes"), ended("held")),
					when("left", answers("origin", "yes"), ended("held")),
					after("plain", "origin", "held"))
				if origin == "has ended" {
					owned := ownOne(t, store)
					err := store.ReturnTask(t.Context(), owned.ID, owned.Token, "",
						stint.StatusCompleted) // any, which is not met yet, waits on
					wantErr(t, "ReturnTask", err, nil)
				}
				named := []stint.TaskID{"any", "plain"}
				if origin == "waits" {
					named = append(named, "yes")
				}
				for range 2 {
					wantErr(t, "ReplaceTasks", store.ReplaceTasks(t.Context(), []stint.Task{
						{ID: "origin", Action: "act", ToSignalAfter: named},
					}), nil)
				}
				for _, id := range named {
					if state := info(t, store, id).State; state != stint.StateBlocked {
						t.Fatalf("%s is %s", id, state)
					}
				}
				if state := info(t, store, "left").State; state != isSkipped {
					t.Errorf("what is not named is %s, want %s", state, isSkipped)
				}
				play(t, store, map[stint.TaskID]string{"origin": result})
				_, err := store.AnswerTasks(t.Context(), "actor", []stint.Answer{
					{ID: "held", Code: stint.StatusSkipped},
				})
				wantErr(t, "AnswerTasks", err, nil)
				want := isSkipped
				if result == "yes" {
					want = isCompleted
				}
				if got := play(t, store, nil)["any"]; got != want {
					t.Errorf("any is %s, want %s", got, want)
				}
				if got := info(t, store, "yes").State; got != isSkipped {
					t.Errorf("yes is %s, want %s, since held was skipped", got, isSkipped)
				}
			})
		}
	}
}
