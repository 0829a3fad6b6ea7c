package stint_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/callctx"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

var errCrowded = errors.New("no room")

// noRoom is what a call asks that gets no room. It tells which room it was asked for.
func noRoom(t *testing.T, asked *int64) context.Context {
	t.Helper()
	return callctx.WithRoom(t.Context(), func(_ context.Context, bytes int64) error {
		*asked = bytes
		return errCrowded
	})
}

// Long bodies are read once there is room for all that the call is given, and no sooner; the lease
// lasts until then.
func TestClaimTasks_AsksForRoomAheadOfLongBodies(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const lease, size = time.Second, 60 << 10
	c := newCutStore(t, stint.Options{})
	body := bytes.Repeat([]byte("body"), size/4)
	insert(t, c.truth, stint.Task{ID: "a", Action: "act", Body: []byte("short")},
		stint.Task{ID: "b", Action: "act", Body: body},
		stint.Task{ID: "c", Action: "act", Body: body},
		stint.Task{ID: "d", Action: "act", Body: body})
	asked := false
	ctx := callctx.WithRoom(t.Context(), func(_ context.Context, bytes int64) error {
		asked = true
		if bytes < 5+size || bytes > 5+3*size+4*4<<10 {
			t.Errorf("asked for room for %d bytes", bytes)
		}
		first := info(t, c.truth, "a").LeaseUntil
		eventually(t, soon, "the leases are extended", func() bool {
			return info(t, c.truth, "a").LeaseUntil.After(first.Add(lease))
		})
		return nil
	})
	owned, err := c.Remote().ClaimTasks(ctx, newClaim(t), "actor", 4, []string{"act"}, lease)
	wantErr(t, "ClaimTasks", err, nil)
	if !asked || len(owned) < 2 || string(owned[0].Body) != "short" ||
		!bytes.Equal(owned[1].Body, body) {
		t.Errorf("owned %q, asked: %v", idsOf(owned), asked)
	}
}

// Bodies that are small together come with the fetch, in one round trip.
func TestClaimTasks_AsksForNoRoomForSmallTasks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	c := newCutStore(t, stint.Options{})
	for name, of := range map[string]struct{ tasks, bytes int }{
		"few": {1, 100 << 10}, "some": {60, 2 << 10}, "many": {1000, 256},
	} {
		for i := range 3 { // the first two prepare statements
			asked := int64(0)
			tasks := numbered(name, of.tasks)
			for j := range tasks {
				tasks[j].ID, tasks[j].Action = "", name
				tasks[j].Body = make([]byte, of.bytes)
			}
			insert(t, c.truth, tasks...)
			before := c.proxy.RoundTrips()
			owned, err := c.Remote().ClaimTasks(noRoom(t, &asked), newClaim(t), "actor", of.tasks,
				[]string{name}, time.Hour)
			trips := c.proxy.RoundTrips() - before
			if err != nil || len(owned) != of.tasks || asked > 0 || i == 2 && trips != 1 {
				t.Errorf("%s: %d tasks in %d round trips, %d bytes asked for, %v", name,
					len(owned), trips, asked, err)
			}
		}
	}
}

// A fetch that gets no room is undone, also under limits, and its claim is spent.
func TestClaimTasks_WithoutRoomGivesTheTasksBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store := newStore(t)
	body := make([]byte, 1<<20)
	insert(t, store, stint.Task{ID: "a", Action: "act", Body: body, MaxTries: 1},
		stint.Task{ID: "b", Action: "act", Body: body, MaxTries: 1})
	for _, kind := range fetchKinds() {
		wantErr(t, "SetLimits", store.SetLimits(t.Context(), "act", kind.limits), nil)
		asked, claim := int64(0), newClaim(t)
		_, err := claims(noRoom(t, &asked), store, claim, 2)
		wantErr(t, "ClaimTasks without room", err, errCrowded)
		if asked < 2<<20 {
			t.Errorf("asked for room for %d bytes", asked)
		}
		wantState(t, store, stint.StateReady, "a", "b")
		_, err = claims(t.Context(), store, claim, 2)
		wantErr(t, "ClaimTasks under the claim", err, stint.ErrClaimSpent)
	}
	for _, task := range own(t, store, 2) {
		if task.Try != 1 || len(task.Body) != len(body) {
			t.Errorf("%s is in its try %d, with %d bytes", task.ID, task.Try, len(task.Body))
		}
	}
}

// What a call gets no room for is its repetition's, if there is one, which asks for room itself.
func TestClaimTasks_WithoutRoomLeavesTheTasksToARepetition(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t, stint.Options{})
	other := openStore(t, pool, stint.Options{})
	insert(t, store, stint.Task{ID: "a", Action: "act", Body: make([]byte, 1<<20)})
	claim := newClaim(t)
	repeated := claim
	repeated.Repeated = true
	ctx := callctx.WithRoom(t.Context(), func(context.Context, int64) error {
		asked := int64(0)
		_, err := claims(noRoom(t, &asked), other, repeated, 1)
		wantErr(t, "ClaimTasks, repeated, without room", err, errCrowded)
		wantClaimed(t, other, repeated, 1, 1, "a")
		return errCrowded
	})
	_, err := claims(ctx, store, claim, 1)
	wantErr(t, "ClaimTasks without room", err, errCrowded)
	owned := wantClaimed(t, store, repeated, 1, 1, "a")
	complete(t, store, owned...)
}
