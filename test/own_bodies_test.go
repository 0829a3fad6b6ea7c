package stint_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// readsBodies returns a store that reads bodies of more than half a megabyte behind the fetch,
// which the proxy can keep, and another store on its database.
func readsBodies(t *testing.T) (far, near *stint.Store, proxy *pgcut.Proxy) {
	t.Helper()
	pool := testdb.New(t)
	proxy = pgcut.New(t, pool)
	const conns, fetch, piece = 4, 1 << 20, 16 << 10
	never := stint.Options{Maintenance: stint.MaintainNever}
	far, near = openStore(t, proxy.Pool(t, conns), never), openStore(t, pool, never)
	shorten(far, fetch, piece, time.Minute)
	return far, near, proxy
}

func withBody(id stint.TaskID, bytesOf int) stint.Task {
	return stint.Task{
		ID: id, Action: "act", Body: bytes.Repeat([]byte(id), bytesOf)[:bytesOf],
	}
}

// A task that was deleted or replaced while its body was read is not fetched without the body.
// The others of the fetch are ready again, and their tries do not count.
// Proves G26.
func TestOwnTasks_HandsOutNoTaskWithoutItsBody(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	large, short := withBody("large", 600<<10), withBody("short", 300<<10)
	other := withBody("large", 10)
	for what, change := range map[string]func(*stint.Store) error{
		"deleted": func(s *stint.Store) error {
			return errOf(s.DeleteTasks(t.Context(), []stint.TaskID{"large"}))
		},
		"replaced": func(s *stint.Store) error {
			return s.ReplaceTasks(t.Context(), []stint.Task{other})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			far, near, proxy := readsBodies(t)
			insert(t, near, large, short)
			trap := proxy.Hold(pgcut.AtRequest, pgcut.Executes("read_bodies"))
			var owned []stint.OwnedTask
			done := hold(t, trap, func() (err error) {
				owned, err = far.OwnTasks(t.Context(), "actor", 9, []string{"act"}, time.Hour)
				return err
			})
			wantErr(t, "AbortTasks",
				errOf(near.AbortTasks(t.Context(), []stint.TaskID{"large"}, "")), nil)
			wantErr(t, what, change(near), nil)
			trap.Release()
			if err := <-done; err == nil || len(owned) > 0 {
				t.Fatalf("OwnTasks = %d tasks, %v, want none and an error", len(owned), err)
			}
			eventually(t, soon, "the other task is given back", func() bool {
				return info(t, near, "short").State == stint.StateReady
			})
			want := map[stint.TaskID][]byte{"short": short.Body}
			if what == "replaced" {
				want["large"] = other.Body
			}
			owned = own(t, near, 9)
			for _, task := range owned {
				if !bytes.Equal(task.Body, want[task.ID]) || task.Try != 1 {
					t.Errorf("%s has %d bytes on try %d", task.ID, len(task.Body), task.Try)
				}
			}
			if len(owned) != len(want) {
				t.Errorf("%v are ready, want %d", idsOf(owned), len(want))
			}
		})
	}
}

// The leases of a fetch are extended again and again while its bodies are on their way, before
// they expire, also those of tasks whose bodies have come.
// Proves G26.
func TestOwnTasks_KeepsItsLeasesUntilItsBodiesHaveCome(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	far, near, proxy := readsBodies(t)
	insert(t, near, withBody("large", 600<<10), stint.Task{ID: "small", Action: "act"})
	trap := proxy.Hold(pgcut.AtReply, pgcut.Executes("read_bodies"))
	const lease = 6 * time.Second
	var owned []stint.OwnedTask
	done := hold(t, trap, func() (err error) {
		owned, err = far.OwnTasks(t.Context(), "actor", 9, []string{"act"}, lease)
		return err
	})
	until := func(id stint.TaskID) time.Time { return info(t, near, id).LeaseUntil }
	last := map[stint.TaskID]time.Time{"large": until("large"), "small": until("small")}
	for range 2 {
		for id, before := range last {
			eventually(t, soon, "the lease is extended", func() bool {
				last[id] = until(id)
				return last[id].After(before)
			})
			if late := last[id].Add(-lease).Sub(before); late > 0 {
				t.Errorf("the lease of %s was extended %v after it had expired", id, late)
			}
		}
	}
	trap.Release()
	wantErr(t, "OwnTasks", <-done, nil)
	if len(owned) != 2 {
		t.Errorf("owned %v", idsOf(owned))
	}
}
