//go:build unix

package taskstore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/taskstore"
)

// A step is what a client writes into a task: which of its steps it is, and how many steps of each
// client had returned before it began.
type step struct {
	Number int
	Before []int
}

// clients take steps at the same time. Each step adds a task to a log and updates a cursor, in one
// call.
type clients struct {
	store *taskstore.Store
	mutex sync.Mutex
	acked []int   // steps that have returned, by client
	ids   []int64 // of all tasks whose calls have returned
}

// walk takes steps until they fail.
func (c *clients) walk(ctx context.Context, client int, cursor taskstore.Task) {
	for number := 1; ; number++ {
		c.mutex.Lock()
		data, err := json.Marshal(step{number, c.acked})
		c.mutex.Unlock()
		if err != nil {
			return
		}
		tasks, err := c.store.Update(ctx, taskstore.Request{
			Client:  int64(client + 1),
			Adds:    []taskstore.Add{{Group: group("log", client), Data: data}},
			Updates: []taskstore.Change{{ID: cursor.ID, Data: data, TimeSpec: minute}},
		})
		if err != nil {
			return
		}
		cursor = tasks[1]
		c.mutex.Lock()
		c.acked[client] = number
		c.ids = append(c.ids, idsOf(tasks)...)
		c.mutex.Unlock()
	}
}

// have reports whether every client has taken so many steps.
func (c *clients) have(steps int) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return !slices.ContainsFunc(c.acked, func(n int) bool { return n < steps })
}

func group(kind string, client int) string { return fmt.Sprintf("%s/%d", kind, client) }

// steps are those in a group, in their order.
func steps(t *testing.T, store *taskstore.Store, group string) []step {
	t.Helper()
	tasks, err := store.Group(t.Context(), group, 0, true)
	wantErr(t, "Group", err, nil)
	all := make([]step, len(tasks))
	for i, task := range tasks {
		wantErr(t, "Unmarshal", json.Unmarshal(task.Data, &all[i]), nil)
	}
	return all
}

// After a crash the store is as it was at some moment. With Strict this is the moment of the crash,
// with Opportunistic it may be earlier: then all that came later is lost. IDs of lost tasks are not
// used again.
// Proves G131.
func TestStore_IsAsItWasAtSomeMomentAfterACrash(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, durability := range map[string]stint.Durability{
		"strict": stint.Strict, "opportunistic": stint.Opportunistic,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testdb.NewCrashServer(t)
			const n, enough = 4, 50
			strict := openStore(t, server.Pool(t), taskstore.Options{})
			c := &clients{
				store: openStore(t, server.Pool(t), taskstore.Options{Durability: durability}),
				acked: make([]int, n),
			}
			var wait sync.WaitGroup
			for client := range n {
				start, err := json.Marshal(step{Before: make([]int, n)})
				wantErr(t, "Marshal", err, nil)
				cursor := update(t, strict, taskstore.Request{
					Client: int64(client + 1),
					Adds: []taskstore.Add{
						{Group: group("cursor", client), Data: start, TimeSpec: minute},
					},
				})[0]
				wait.Go(func() { c.walk(t.Context(), client, cursor) })
			}
			for late := time.After(soon); !c.have(enough); {
				select {
				case <-late:
					t.Fatal("the clients do not get on")
				case <-time.After(time.Millisecond):
				}
			}
			server.Crash(t)
			wait.Wait()
			server.Restart(t)
			store := openStore(t, server.Pool(t), taskstore.Options{Durability: durability})
			left := c.wantOneMoment(t, store)
			lost := 0
			for client, acked := range c.acked {
				lost += max(acked-left[client], 0)
			}
			t.Logf("%v steps had returned, %v are left: %d were lost", c.acked, left, lost)
			if durability == stint.Strict && lost > 0 {
				t.Errorf("%d steps are lost that had returned", lost)
			}
			c.wantNewIDs(t, store)
		})
	}
}

// wantOneMoment checks that the steps which are left are all up to some moment, and returns how
// many they are, by client.
func (c *clients) wantOneMoment(t *testing.T, store *taskstore.Store) []int {
	t.Helper()
	left := make([]int, len(c.acked))
	logs := make([][]step, len(c.acked))
	for client := range left {
		logs[client] = steps(t, store, group("log", client))
		left[client] = len(logs[client])
		cursors := steps(t, store, group("cursor", client))
		if len(cursors) != 1 || cursors[0].Number != left[client] {
			t.Errorf("client %d has %d steps in its log, and the cursors %+v",
				client, left[client], cursors)
		}
		if left[client] > c.acked[client]+1 { // one may have been under way
			t.Errorf("client %d has %d steps, more than the %d it took",
				client, left[client], c.acked[client])
		}
	}
	for client, log := range logs {
		for i, step := range log {
			if step.Number != i+1 {
				t.Errorf("step %d of client %d is in the place of step %d",
					step.Number, client, i+1)
			}
			for other, before := range step.Before {
				if before > left[other] {
					t.Errorf("step %d of client %d is left, but not step %d of client %d, "+
						"which had returned before it began", step.Number, client, before, other)
				}
			}
		}
	}
	return left
}

// wantNewIDs checks that tasks get IDs that nobody was ever told.
func (c *clients) wantNewIDs(t *testing.T, store *taskstore.Store) {
	t.Helper()
	known, err := store.Tasks(t.Context(), c.ids)
	wantErr(t, "Tasks", err, nil)
	added := idsOf(add(t, store, "after", strings.Split(strings.Repeat("x", 200), "")...))
	if last := slices.Max(c.ids); slices.Min(added) <= last {
		t.Errorf("the IDs begin with %d again, %d was used before", slices.Min(added), last)
	}
	for i, task := range known {
		if task == nil {
			_, err := store.Update(t.Context(), taskstore.Request{
				Client: ann, Deletes: []int64{c.ids[i]},
			})
			wantConflict(t, err, taskstore.ConflictError{Deletes: []int64{c.ids[i]}})
		}
	}
}
