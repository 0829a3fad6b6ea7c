package client_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

// A far worker is a registered actor of a client behind a proxy.
type far struct {
	*client.Client
	proxy *testservice.Proxy
}

func newFar(t *testing.T, address string) *far {
	t.Helper()
	f := &far{proxy: testservice.NewProxy(t, strings.TrimPrefix(address, "http://"))}
	f.Client = testservice.Client(t, f.proxy.Address(), client.Options{})
	err := f.RegisterActor(t.Context(), "far", []string{"act"})
	wantErr(t, "RegisterActor", err, nil)
	return f
}

// waits owns a task that somebody else has lost, which is then in its second try.
func (r *remote) waits(t *testing.T) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	next, err := r.store.WaitToOwnTasks(ctx, "heir", 1, []string{"act"}, time.Hour)
	if err != nil || len(next) != 1 || next[0].Try != 2 {
		t.Fatalf("WaitToOwnTasks = %+v, %v, want the second try", next, err)
	}
	return time.Since(began)
}

// Proves G211.
func TestRegisterActor_HandsOnWhatADeadOrFrozenProcessOwns(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, end := range map[string]func(*testservice.Proxy){
		"dead":   func(p *testservice.Proxy) { p.Cut(true) },
		"frozen": func(p *testservice.Proxy) { p.Freeze(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, stint.Options{})
			f := newFar(t, r.address)
			r.insert(t, stint.Task{ID: "a", Action: "act"})
			owned, err := f.OwnTasks(t.Context(), "far", 1, []string{"act"}, time.Hour)
			if err != nil || len(owned) != 1 {
				t.Fatalf("OwnTasks = %q, %v", ids(owned), err)
			}
			end(f.proxy)
			t.Logf("handed on after %v", r.waits(t))
			f.proxy.Freeze(false)
			f.proxy.Cut(false)
			err = f.ReturnTask(t.Context(), "a", owned[0].Token, "", stint.StatusCompleted)
			wantErr(t, "ReturnTask", err, stint.ErrInvalidToken)
		})
	}
}

// A service is replaced, and the stream breaks: nobody loses anything.
func TestRegisterActor_SurvivesTheEndOfItsService(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	second, err := stint.New(r.pool, stint.Options{PollInterval: 20 * time.Millisecond})
	wantErr(t, "New", err, nil)
	t.Cleanup(func() {
		wantErr(t, "Close", second.Close(context.WithoutCancel(t.Context())), nil)
	})
	patient := service.Options{Grace: time.Hour} // so that a slow machine loses nothing either
	first, stop := testservice.Start(t, r.pool, r.store, patient)
	next, _ := testservice.Start(t, r.pool, second, patient)
	f := newFar(t, first)
	r.insert(t, stint.Task{ID: "a", Action: "act"}, stint.Task{ID: "b", Action: "act"})
	owned, err := f.OwnTasks(t.Context(), "far", 2, []string{"act"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	// What one watcher does is no matter of the others.
	all := func() []stint.OwnedTask { return owned }
	defer f.WatchOwnership(func() []stint.OwnedTask { panic("ouch") },
		func(stint.OwnedTask, error) {})()
	defer f.WatchOwnership(all, func(stint.OwnedTask, error) { panic("ouch") })()
	defer f.WatchOwnership(all, func(stint.OwnedTask, error) { runtime.Goexit() })()
	lost := make(chan stint.TaskID, 2)
	defer f.WatchOwnership(func() []stint.OwnedTask { return owned[1:] }, // a is returned
		func(task stint.OwnedTask, _ error) { lost <- task.ID })()

	f.proxy.Aim(strings.TrimPrefix(next, "http://"))
	wantErr(t, "stop", stop(), nil)
	r.awaitEpoch(t, 2)
	f.proxy.Cut(false)
	r.awaitEpoch(t, 3)
	infos, err := r.store.GetTasks(t.Context(), []stint.TaskID{"a", "b"})
	wantErr(t, "GetTasks", err, nil)
	for _, info := range infos {
		if info.State != stint.StateInProgress || info.Tries != 1 {
			t.Errorf("%s is %s in try %d, want in progress in the first", info.ID, info.State,
				info.Tries)
		}
	}
	err = f.ReturnTask(t.Context(), "a", owned[0].Token, "", stint.StatusCompleted)
	wantErr(t, "ReturnTask", err, nil)

	// Losses are told as before.
	_, err = r.store.AbortTasks(t.Context(), []stint.TaskID{"b"}, "")
	wantErr(t, "AbortTasks", err, nil)
	select {
	case id := <-lost:
		if id != "b" {
			t.Errorf("lost %s, want b", id)
		}
	case <-time.After(patience):
		t.Error("the loss is not told")
	}
	wantErr(t, "UnregisterActor", f.UnregisterActor(t.Context(), "far"), nil)
	actors, err := r.ListActors(t.Context())
	if err != nil || slices.ContainsFunc(actors, func(a stint.ActorInfo) bool {
		return a.Actor == "far"
	}) {
		t.Errorf("ListActors = %+v, %v", actors, err)
	}
}

// awaitEpoch waits until the connection of the actor with this number is attended.
func (r *remote) awaitEpoch(t *testing.T, want int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		var epoch int64
		err := r.pool.QueryRow(ctx, "SELECT coalesce(max(epoch), 0) FROM stint.actors").Scan(&epoch)
		if err != nil {
			t.Fatalf("wait for epoch %d: %v", want, err)
		}
		if epoch >= want {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("nobody attends the connection %d", want)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A stream that no service would take is not opened again and again, and leaves nothing behind.
func TestRegisterActor_RefusesWhatNoStreamCanShow(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := newRemote(t, stint.Options{})
	for _, c := range []struct {
		name    string
		actor   stint.ActorID
		actions []string
	}{
		{"no actor", "", []string{"act"}},
		{"no UTF-8", "bad\xff", []string{"act"}},
		{"a bad action", "far", []string{""}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := r.RegisterActor(ctx, c.actor, c.actions)
		cancel()
		if !errors.Is(err, stint.ErrInvalidArgument) {
			t.Errorf("RegisterActor with %s = %v, want an invalid argument", c.name, err)
		}
	}
}
