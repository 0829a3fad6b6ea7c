package shards_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// wantSound fails if Check finds something.
func wantSound(t *testing.T, c *shards.Cluster) {
	t.Helper()
	found, err := c.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
}

// A network over several shards loses the same tasks as it does in one database.
// Proves G148.
func TestDeleteTasks_LeavesWhatItDoesInOneDatabase(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	network := []shards.Task{
		task("1/a"), task("1/z"), task("2/b", "1/a"), task("3/c", "2/b"), task("1/d", "3/c"),
		task("2/e", "1/a", "1/z"), task("3/f", "2/e"), task("1/g", "1/a", "3/c"),
		task("2/h", "2/b", "1/z"),
	}
	for name, deleted := range map[string][]string{
		"the first": {"1/a"}, "one in between": {"2/b"}, "both that are first": {"1/a", "1/z"},
		"two that are joined": {"1/a", "3/c"}, "the last": {"1/d"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one, several := newDatabases(t, "1"), newDatabases(t, "1", "2", "3")
			var local []stint.Task
			for _, sharded := range network {
				all := sharded.Task
				all.ID = stint.TaskID(shards.ID{Shard: sharded.Shard, Task: all.ID}.String())
				for _, before := range sharded.After {
					all.After = append(all.After, stint.TaskID(before.String()))
				}
				local = append(local, all)
			}
			wantErr(t, "InsertTasks", one.stores["1"].InsertTasks(t.Context(), local), nil)
			c := several.cluster(t, shards.Options{})
			wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), slices.Clone(network)), nil)
			stop := several.relay(t, shards.Options{})
			several.awaitDecided(t)
			stop()
			var ids []shards.ID
			var localIDs []stint.TaskID
			for _, id := range deleted {
				ids, localIDs = append(ids, idOf(id)), append(localIDs, stint.TaskID(id))
			}
			_, err := one.stores["1"].DeleteTasks(t.Context(), localIDs)
			wantErr(t, "DeleteTasks in one database", err, nil)
			affected, err := c.DeleteTasks(t.Context(), ids)
			if err != nil || len(affected.Tasks) != len(ids) {
				t.Fatalf("DeleteTasks = %v, %v", affected, err)
			}
			for _, task := range local {
				want, got := one.state(t, "1/"+string(task.ID)), several.state(t, string(task.ID))
				if got != want {
					t.Errorf("%s is %s, want %s as in one database", task.ID, got, want)
				}
			}
			wantSound(t, c)
		})
	}
}

// The dependents of a task that has finished stay, and are told how it ended.
func TestDeleteTasks_OfAFinishedTaskKeepsItsDependents(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{task("1/a"), task("2/b", "1/a")})
	wantErr(t, "InsertTasks", err, nil)
	d.perform(t, "1/a", stint.Return{})
	_, err = c.DeleteTasks(t.Context(), []shards.ID{idOf("1/a")})
	wantErr(t, "DeleteTasks", err, nil)
	wantSound(t, c)
	d.relay(t, shards.Options{})
	if got := d.perform(t, "2/b", stint.Return{}); got.Completed == 0 || got.Aborted != 0 {
		t.Errorf("2/b was told of %d completed and %d aborted tasks", got.Completed, got.Aborted)
	}
}

// What is refused on one shard is deleted on none, also if a shard with dependents is away.
func TestDeleteTasks_DeletesNothingIfItCannot(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	c := d.cluster(t, shards.Options{})
	insertAll(t, c, "2/owned")
	d.own(t, "2")
	err := c.InsertTasks(t.Context(), []shards.Task{task("1/a"), task("2/b", "1/a")})
	wantErr(t, "InsertTasks", err, nil)
	remove := func(ids ...string) error {
		var all []shards.ID
		for _, id := range ids {
			all = append(all, idOf(id))
		}
		_, err := c.DeleteTasks(t.Context(), all)
		return err
	}
	err = remove("1/a", "2/none")
	wantErr(t, "DeleteTasks", err, stint.ErrTaskNotFound)
	var at *shards.ShardError
	if !errors.As(err, &at) || at.Shard != "2" {
		t.Errorf("DeleteTasks = %v, want an error of shard 2", err)
	}
	wantErr(t, "DeleteTasks", remove("1/a", "2/owned"), stint.ErrTaskInProgress)
	wantErr(t, "DeleteTasks", remove("1/a", "3/x"), shards.ErrUnknownShard)
	d.away.Store("2", true)
	wantErr(t, "DeleteTasks", remove("1/a"), errAway)
	d.away.Clear()
	for _, id := range []string{"1/a", "2/b"} {
		if got := d.state(t, id); got == "none" {
			t.Errorf("%s was deleted", id)
		}
	}
	wantErr(t, "DeleteTasks", remove("1/a", "1/a"), nil)
	wantErr(t, "DeleteTasks", remove("1/a"), stint.ErrTaskNotFound)
	wantErr(t, "DeleteTasks", remove(), nil)
}

// What Check names may be deleted as it says: then nothing waits in vain.
// Proves G146.
func TestDeleteTasks_RepairsWhatCheckFinds(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2", "3")
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/a"), task("2/b", "1/a"), task("3/c", "2/b"),
	})
	wantErr(t, "InsertTasks", err, nil)
	_, err = d.stores["1"].DeleteTasks(t.Context(), []stint.TaskID{"a"})
	wantErr(t, "DeleteTasks", err, nil)
	found, err := c.Check(t.Context())
	if err != nil || len(found) != 1 {
		t.Fatalf("Check = %v, %v", found, err)
	}
	affected, err := c.DeleteTasks(t.Context(), []shards.ID{{
		Shard: found[0].Shard, Task: found[0].ID,
	}})
	wantErr(t, "DeleteTasks", err, nil)
	if affected.Others == 0 {
		t.Errorf("DeleteTasks = %+v, want others", affected)
	}
	wantSound(t, c)
	for _, id := range []string{"2/b", "3/c"} {
		if got := d.state(t, id); got != "none" {
			t.Errorf("%s is %s", id, got)
		}
	}
}

// A placeholder that was retried by itself waits in vain: that is found.
// Proves G146.
func TestCheck_FindsPlaceholdersThatWereRetried(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	err := c.InsertTasks(t.Context(), []shards.Task{task("1/a"), task("2/b", "1/a")})
	wantErr(t, "InsertTasks", err, nil)
	d.perform(t, "1/a", stint.Return{Code: stint.StatusAborted})
	d.awaitState(t, "2/b", "aborted")
	page, err := d.stores["1"].ListTasks(t.Context(), stint.Filter{IDPrefix: "stint.report/"})
	wantErr(t, "ListTasks", err, nil)
	d.awaitState(t, "1/"+string(page.Tasks[0].ID), "completed")
	wantSound(t, c)
	page, err = d.stores["2"].ListTasks(t.Context(), stint.Filter{IDPrefix: "stint.remote/"})
	wantErr(t, "ListTasks", err, nil)
	stands := page.Tasks[0].ID
	_, err = d.stores["2"].RetryTasks(t.Context(), []stint.TaskID{stands})
	wantErr(t, "RetryTasks", err, nil)
	if got := d.state(t, "2/b"); got != "blocked" {
		t.Errorf("2/b is %s", got)
	}
	found, err := c.Check(t.Context())
	if err != nil || len(found) != 1 || found[0].ID != stands {
		t.Errorf("Check = %v, %v, want %s", found, err, stands)
	}
	_, err = c.AbortTasks(t.Context(), []shards.ID{{Shard: "2", Task: stands}}, "in vain")
	wantErr(t, "AbortTasks", err, nil)
	_, err = c.RetryTasks(t.Context(), []shards.ID{idOf("1/a")})
	wantErr(t, "RetryTasks", err, nil)
	d.perform(t, "1/a", stint.Return{})
	d.perform(t, "2/b", stint.Return{})
}

// What becomes of a task does not depend on whether a predecessor on one shard ends first, or that
// on another is deleted first; and a condition about a deleted task is not met.
// Proves G280, R17, R23.
func TestDeleteTasks_LeavesTheSameInWhateverOrder(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, deletedFirst := range map[string]bool{"ended first": false, "deleted first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDatabases(t, "1", "2", "3")
			c := d.cluster(t, shards.Options{})
			err := c.InsertTasks(t.Context(), []shards.Task{
				task("1/a"), task("3/b"), task("2/told", "1/a"), task("2/run", "1/a", "3/b"),
				when("2/branch", ends("1/a"), ends("3/b")), task("3/behind", "2/branch"),
			})
			wantErr(t, "InsertTasks", err, nil)
			d.relay(t, shards.Options{})
			d.awaitDecided(t)
			remove := func() {
				_, err := c.DeleteTasks(t.Context(), []shards.ID{idOf("3/b")})
				wantErr(t, "DeleteTasks", err, nil)
			}
			if deletedFirst {
				remove()
			}
			d.perform(t, "1/a", stint.Return{})
			d.awaitState(t, "2/told", "ready")
			if !deletedFirst {
				remove()
			}
			d.awaitState(t, "2/run", "ready")
			d.awaitState(t, "2/branch", "skipped")
			d.awaitState(t, "3/behind", "skipped")
		})
	}
}

// That an insert over several shards was decided is no end that anybody waited for.
// Proves G148, R17.
func TestDeleteTasks_OfAllThatWasThereBeforeDeletesWhatWaits(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "1", "2")
	d.relay(t, shards.Options{})
	c := d.cluster(t, shards.Options{})
	insertAll(t, c, "1/old")
	err := c.InsertTasks(t.Context(), []shards.Task{
		task("1/here", "1/old"), task("2/there", "1/old"), task("2/one"), task("2/two"),
		task("2/three"), task("2/four"),
	})
	wantErr(t, "InsertTasks", err, nil)
	d.awaitState(t, "1/here", "blocked")
	d.awaitDecided(t)
	_, err = c.DeleteTasks(t.Context(), []shards.ID{idOf("1/old")})
	wantErr(t, "DeleteTasks", err, nil)
	for _, id := range []string{"1/here", "2/there"} {
		d.awaitState(t, id, "none")
	}
}
