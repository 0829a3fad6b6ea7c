//go:build unix

package stint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// crashClients make calls at the same time: each inserts a task, owns it and returns it, then the
// next. The calls of a client are numbered from 1, so the task with index n is inserted by call
// 3n+1.
type crashClients struct {
	store *stint.Store
	mutex sync.Mutex
	acked []int // calls that have returned, by client
	// owned are the tasks that the clients were fetched, by index.
	owned []map[int]stint.OwnedTask
}

const callsPerTask = 3

func newCrashClients(store *stint.Store, n int) *crashClients {
	c := &crashClients{
		store: store, acked: make([]int, n), owned: make([]map[int]stint.OwnedTask, n),
	}
	for client := range n {
		c.owned[client] = map[int]stint.OwnedTask{}
	}
	return c
}

func crashAction(client int) string { return fmt.Sprintf("client-%d", client) }

func crashID(client, index int) stint.TaskID {
	return stint.TaskID(fmt.Sprintf("%d/%d", client, index))
}

// work makes calls until one fails.
func (c *crashClients) work(ctx context.Context, client int) error {
	for index := 0; ; index++ {
		before, err := json.Marshal(c.counts())
		if err != nil {
			return err
		}
		err = c.store.InsertTasks(ctx, []stint.Task{{
			ID: crashID(client, index), Action: crashAction(client), Body: before,
		}})
		if err != nil {
			return err
		}
		c.returned(client)
		owned, err := c.store.OwnTasks(ctx, "actor", 1, []string{crashAction(client)}, time.Hour)
		if err != nil || len(owned) != 1 {
			return fmt.Errorf("owned %v: %w", owned, err)
		}
		c.mutex.Lock()
		c.owned[client][index] = owned[0]
		c.mutex.Unlock()
		c.returned(client)
		err = c.store.ReturnTask(ctx, owned[0].ID, owned[0].Token, "", stint.StatusCompleted)
		if err != nil {
			return err
		}
		c.returned(client)
	}
}

func (c *crashClients) returned(client int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.acked[client]++
}

// counts is how many calls of each client have returned.
func (c *crashClients) counts() []int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return slices.Clone(c.acked)
}

// await waits until every client has had so many calls returned.
func (c *crashClients) await(t *testing.T, calls int) {
	t.Helper()
	eventually(t, soon, "the clients get on", func() bool {
		return !slices.ContainsFunc(c.counts(), func(n int) bool { return n < calls })
	})
}

// After a crash of the server, under load, the store is as it was at some moment, and its tables
// agree. With Strict this is the moment of the crash. With Opportunistic it may be earlier, but not
// before the last commit of a strict store.
// Proves G157.
func TestStore_IsAsItWasAtSomeMomentAfterACrashOfTheServer(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, durability := range map[string]stint.Durability{
		"strict": stint.Strict, "opportunistic": stint.Opportunistic,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const clients, enough = 4, 60
			server := testdb.NewCrashServer(t)
			pool := server.Pool(t)
			c := newCrashClients(openStore(t, pool, stint.Options{
				Durability: durability, Maintenance: stint.MaintainNever, PollOnly: true,
			}), clients)
			strict := openStore(t, pool, stint.Options{Maintenance: stint.MaintainNever})
			var working sync.WaitGroup
			for client := range clients {
				working.Go(func() {
					if err := c.work(t.Context(), client); err == nil {
						t.Error("a client ended without an error")
					}
				})
			}
			c.await(t, enough)
			synced := c.counts()
			insert(t, strict, stint.Task{ID: "synced", Action: "act"})
			for client := range synced {
				synced[client] += enough
			}
			c.await(t, slices.Max(synced))
			for client := range synced {
				synced[client] -= enough
			}
			server.Crash(t)
			working.Wait()
			server.Restart(t)
			if durability == stint.Strict {
				synced = c.counts()
			}
			store := openStore(t, server.Pool(t), stint.Options{Maintenance: stint.MaintainNever})
			wantChecked(t, store)
			wantState(t, store, stint.StateReady, "synced")
			left := c.wantOneMoment(t, store)
			t.Logf("%v calls had returned, %v before the last strict one; %v are left",
				c.acked, synced, left)
			for client, calls := range left {
				if calls < synced[client] {
					t.Errorf("%d calls of client %d are left, of %d at least",
						calls, client, synced[client])
				}
			}
			c.wantTokens(t, store, left)
			wantChecked(t, store)
		})
	}
}

// wantOneMoment checks that the calls which have taken effect are all up to some moment, and
// returns how many they are, by client.
func (c *crashClients) wantOneMoment(t *testing.T, store *stint.Store) []int {
	t.Helper()
	left := make([]int, len(c.acked))
	befores := make([][][]int, len(c.acked))
	for client, acked := range c.acked {
		ids := make([]stint.TaskID, acked/callsPerTask+1)
		for index := range ids {
			ids[index] = crashID(client, index)
		}
		infos, err := store.GetTasks(t.Context(), ids)
		if err != nil {
			wantErr(t, "GetTasks", err, stint.ErrTaskNotFound)
		}
		for _, info := range infos {
			index := slices.Index(ids, info.ID)
			if left[client] != index*callsPerTask {
				t.Errorf("task %d of client %d is there, but only %d calls before it",
					index, client, left[client])
			}
			left[client] += map[stint.State]int{
				stint.StateReady: 1, stint.StateInProgress: 2, stint.StateCompleted: 3,
			}[info.State]
			var before []int
			wantErr(t, "Unmarshal", json.Unmarshal(info.Body, &before), nil)
			befores[client] = append(befores[client], before)
		}
		if left[client] > acked+1 { // one may have been under way
			t.Errorf("%d calls of client %d are left, of %d", left[client], client, acked)
		}
	}
	for client, tasks := range befores {
		for index, before := range tasks {
			for other, calls := range before {
				if calls > left[other] {
					t.Errorf("task %d of client %d is left, but not call %d of client %d, which "+
						"had returned before", index, client, calls, other)
				}
			}
		}
	}
	return left
}

// wantTokens checks that an owner keeps its task if the fetch is left, and is refused otherwise.
func (c *crashClients) wantTokens(t *testing.T, store *stint.Store, left []int) {
	t.Helper()
	for client, tasks := range c.owned {
		for index, task := range tasks {
			err := store.ReturnTask(
				t.Context(), task.ID, task.Token, "", stint.StatusCompleted)
			var want error
			switch calls := left[client] - index*callsPerTask; {
			case calls <= 1: // of a task that is lost, or ready again
				want = stint.ErrInvalidToken
			case calls >= callsPerTask:
				want = stint.ErrAlreadyReturned
			}
			wantErr(t, fmt.Sprintf("ReturnTask of %s", task.ID), err, want)
		}
	}
}
