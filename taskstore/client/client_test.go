package client_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/taskstore"
	"github.com/stint-tasks/stint/taskstore/client"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// serve serves a store of its own and returns the address.
func serve(tb testing.TB) string {
	tb.Helper()
	store, err := taskstore.New(testdb.New(tb), taskstore.Options{})
	wantErr(tb, "New", err, nil)
	server := httptest.NewServer(taskstore.Handler(store))
	tb.Cleanup(server.Close)
	return server.URL
}

func newClient(tb testing.TB, address string) *client.Client {
	tb.Helper()
	c, err := client.New(address, nil)
	wantErr(tb, "New", err, nil)
	return c
}

func wantErr(tb testing.TB, what string, err, want error) {
	tb.Helper()
	if !errors.Is(err, want) {
		tb.Fatalf("%s = %v, want %v", what, err, want)
	}
}

// A client does what the store does.
func TestClient_HasTheVerbsOfTheStore(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx, address := t.Context(), serve(t)
	ann, bob := newClient(t, address+"/"), newClient(t, address)
	if ann.ID() == bob.ID() || min(ann.ID(), bob.ID()) <= 0 {
		t.Errorf("the IDs are %d and %d", ann.ID(), bob.ID())
	}
	groups := []string{" ", "..", "a/b//../c?d#e%2F&f", "map", "é\U0001f642"}
	var adds []taskstore.Add
	for _, group := range groups {
		adds = append(adds, taskstore.Add{Group: group, Data: []byte("<" + group + ">\x00")})
	}
	tasks, err := ann.Update(ctx, taskstore.Request{Adds: adds})
	wantErr(t, "Update", err, nil)
	got, err := bob.Groups(ctx)
	if err != nil || !slices.Equal(got, groups) {
		t.Errorf("Groups = %q, %v, want %q", got, err, groups)
	}
	for i, group := range groups {
		list, err := bob.Group(ctx, group, 10, false)
		if err != nil || len(list) != 1 || list[0].ID != tasks[i].ID ||
			string(list[0].Data) != string(adds[i].Data) || list[0].Owner != ann.ID() {
			t.Errorf("Group(%q) = %+v, %v, want %+v", group, list, err, tasks[i])
		}
	}
}

// A task that one client owns is refused to another, unless it speaks in the name of the first.
func TestClient_OwnsWhatItClaims(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx, address := t.Context(), serve(t)
	ann, bob := newClient(t, address), newClient(t, address)
	tasks, err := ann.Update(ctx, taskstore.Request{
		Adds: []taskstore.Add{{Group: "other"}, {Group: "map"}},
	})
	wantErr(t, "Update", err, nil)
	claimed, found, err := ann.Claim(ctx, taskstore.Claim{
		Group: "map", Duration: time.Minute, Depends: []int64{tasks[0].ID},
	})
	if err != nil || !found || claimed.Owner != ann.ID() || claimed.Group != "map" {
		t.Errorf("Claim = %+v, %t, %v", claimed, found, err)
	}
	_, found, err = bob.Claim(ctx, taskstore.Claim{Group: "map", Duration: time.Minute})
	if err != nil || found {
		t.Errorf("Claim = %t, %v, want nothing", found, err)
	}
	if list, err := bob.Group(ctx, "map", 0, false); err != nil || len(list) != 0 {
		t.Errorf("Group = %v, %v, want nothing", list, err)
	}
	if list, err := bob.Group(ctx, "map", 0, true); err != nil || len(list) != 1 {
		t.Errorf("Group = %v, %v, want the owned task", list, err)
	}
	_, err = bob.Update(ctx, taskstore.Request{
		Updates: []taskstore.Change{{ID: 1 << 60}}, Deletes: []int64{claimed.ID, 1 << 61},
		Depends: []int64{1 << 62},
	})
	var conflict *taskstore.ConflictError
	if !errors.As(err, &conflict) || !slices.Equal(conflict.Changes, []int64{1 << 60}) ||
		!slices.Equal(conflict.Deletes, []int64{1 << 61}) ||
		!slices.Equal(conflict.Depends, []int64{1 << 62}) ||
		!slices.Equal(conflict.Owned, []int64{claimed.ID}) {
		t.Errorf("Update = %v, want a conflict with four lists", err)
	}
	// In the name of another.
	back, err := bob.Update(ctx, taskstore.Request{
		Client: ann.ID(), Updates: []taskstore.Change{{ID: claimed.ID, Data: []byte("new")}},
	})
	wantErr(t, "Update", err, nil)
	all, err := bob.Tasks(ctx, []int64{back[0].ID, claimed.ID, -1})
	if err != nil || len(all) != 3 || all[0] == nil || string(all[0].Data) != "new" ||
		all[1] != nil || all[2] != nil {
		t.Errorf("Tasks = %v, %v", all, err)
	}
	if task, found, err := ann.Get(ctx, back[0].ID); err != nil || !found ||
		task.TimeSpec != back[0].TimeSpec {
		t.Errorf("Get = %+v, %t, %v", task, found, err)
	}
	if _, found, err := ann.Get(ctx, claimed.ID); err != nil || found {
		t.Errorf("Get = %t, %v, want nothing", found, err)
	}
	if none, err := ann.Tasks(ctx, nil); err != nil || len(none) != 0 {
		t.Errorf("Tasks(nil) = %v, %v", none, err)
	}
}

func TestClient_TellsWhatTheServiceRefuses(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	c := newClient(t, serve(t))
	large := []taskstore.Add{{Group: "g", Data: make([]byte, 1<<20+1)}}
	for what, test := range map[string]struct{ err, want error }{
		"no group": {errOf(c.Group(ctx, "", 0, true)), stint.ErrInvalidArgument},
		"limit":    {errOf(c.Group(ctx, "g", -1, true)), stint.ErrInvalidArgument},
		"many":     {errOf(c.Tasks(ctx, make([]int64, 10_001))), stint.ErrTooLarge},
		"large":    {errOf(c.Update(ctx, taskstore.Request{Adds: large})), stint.ErrTooLarge},
		"no client": {
			errOf(c.Update(ctx, taskstore.Request{Client: -1})), stint.ErrInvalidArgument,
		},
		"not UTF-8": {errOf(c.Update(ctx, taskstore.Request{
			Adds: []taskstore.Add{{Group: "g", Data: []byte("\xff")}},
		})), stint.ErrInvalidArgument},
		"update not UTF-8": {errOf(c.Update(ctx, taskstore.Request{
			Updates: []taskstore.Change{{ID: 1, Data: []byte("\xff")}},
		})), stint.ErrInvalidArgument},
	} {
		if !errors.Is(test.err, test.want) {
			t.Errorf("%s: %v, want %v", what, test.err, test.want)
		}
	}
	_, _, err := c.Claim(ctx, taskstore.Claim{Group: "g"})
	wantErr(t, "Claim", err, stint.ErrInvalidArgument)
	_, _, err = c.Claim(ctx, taskstore.Claim{Group: "\xff", Duration: time.Hour})
	wantErr(t, "Claim", err, stint.ErrInvalidArgument)
}

func errOf[T any](_ T, err error) error { return err }

func TestClient_TellsAnAnswerOfSomethingElse(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		body   string
		part   string
	}{
		{200, "<html>", "not that of a task store"},
		{404, "<html>", "status 404"},
		{409, "{}", "status 409"},
		{502, `{"error": {"bugs": ["down"]}}`, "status 502: down"},
	} {
		server := httptest.NewServer(http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = w.Write([]byte(test.body))
			}))
		_, err := newClient(t, server.URL).Groups(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.part) {
			t.Errorf("Groups = %v, want an error with %q", err, test.part)
		}
		server.Close()
		if _, err := newClient(t, server.URL).Groups(t.Context()); err == nil {
			t.Error("Groups of a service that is gone succeeds")
		}
	}
	_, err := newClient(t, "http://127.0.0.1:1").Update(t.Context(), taskstore.Request{})
	if err == nil {
		t.Error("Update of a service that is not there succeeds")
	}
}

func TestNew_RefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "localhost:8048", "ftp://host", "http://", "http://host?a=b", "http://host/#a",
		"http://a b",
	} {
		_, err := client.New(address, nil)
		wantErr(t, address, err, stint.ErrInvalidArgument)
	}
}
