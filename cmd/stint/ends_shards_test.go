//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// abortNew inserts a task, and aborts it.
func (d *database) abortNew(t *testing.T, id stint.TaskID) {
	t.Helper()
	d.insert(t, stint.Task{ID: id, Action: "act"})
	if _, err := d.store.AbortTasks(t.Context(), []stint.TaskID{id}, "off"); err != nil {
		t.Fatal(err)
	}
}

// One place goes on at all shards, of which one may be away, or behind a service.
//
// Proves G153, G332.
func TestEnds_OfAllShardsGoOnAtOnePlace(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	euPool, usPool := testdb.New(t), testdb.New(t)
	eu, us := databaseOn(t, euPool), databaseOn(t, usPool)
	both := "static:eu=" + testdb.URL(euPool) + ",us="
	eu.abortNew(t, "a")
	us.abortNew(t, "a")
	ends := func(place, of string, args ...string) ran {
		args = append([]string{"ends", "--from", place, "--topology", both + of}, args...)
		return run(t, nil, "", args...)
	}
	place := func(r ran) string {
		_, place, found := strings.Cut(strings.TrimSpace(r.stderr), "go on: --from ")
		if place, _, _ = strings.Cut(place, "\n"); !found {
			t.Fatalf("stderr names no place: %s", r.stderr)
		}
		return place
	}
	wantLines := func(r ran, names ...string) {
		t.Helper()
		r.wantOutput(t, names...)
		if got := strings.Count(r.stdout, "\n"); got != len(names) {
			t.Errorf("ends lists %d tasks, want %q:\n%s", got, names, r.stdout)
		}
	}
	first := ends("", testdb.URL(usPool)).wantExit(t, 0)
	wantLines(first, "act eu/a: off", "act us/a: off")
	eu.abortNew(t, "b")
	us.abortNew(t, "b")
	half := ends(place(first), nowhere).wantExit(t, 4, "shard us is away")
	wantLines(half, "act eu/b: off")
	wantLines(ends(place(half), testdb.URL(usPool)).wantExit(t, 0), "act us/b: off")
	served := us.serve(t)
	wantLines(ends(place(half), served.address).wantExit(t, 0), "act us/b: off")
	rest := ends(place(half), testdb.URL(usPool), "--json", "--action", "act").wantExit(t, 0)
	ids, next := endedIDs(t, strings.NewReader(rest.stdout), 2)
	if !slices.Equal(ids, []string{"us/b"}) || next == "" || !strings.Contains(rest.stdout,
		`"shard":"us"`) {
		t.Errorf("ends --json lists %s", rest.stdout)
	}
	ends("now", nowhere).wantExit(t, 4, "shard us", "all shards must answer")
	ends("1/2/3", nowhere).wantExit(t, 2)
}

// Proves G153, G332.
func TestEnds_FollowShardsOfWhichOneIsAway(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	eu, us := newDatabase(t), newDatabase(t)
	proxy, _ := us.throughProxy(t)
	config := proxy.Pool(t, 1).Config().ConnConfig
	way := url.URL{
		Scheme: "postgres", User: url.UserPassword(config.User, config.Password),
		Host: fmt.Sprintf("%s:%d", config.Host, config.Port), Path: config.Database,
		RawQuery: "sslmode=disable&application_name=stint",
	}
	cmd := newCommand(t, nil, "ends", "--follow", "--json", "--action", "act", "--topology",
		"static:eu="+testdb.URL(eu.pool)+",us="+way.String())
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	us.abortNew(t, "a")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(stderr)
	wantNext := func(want string) {
		t.Helper()
		if ids, _ := endedIDs(t, output, 2); !slices.Equal(ids, []string{want}) {
			t.Errorf("it told %q, want %s", ids, want)
		}
	}
	wantSaid := func(want string) {
		t.Helper()
		for said.Scan() {
			if strings.HasPrefix(said.Text(), want) {
				return
			}
		}
		t.Fatalf("it did not say %q", want)
	}
	wantNext("us/a")
	us.goAway(t, proxy)
	wantSaid("shard us is away: ")
	eu.abortNew(t, "b")
	wantNext("eu/b")
	us.abortNew(t, "c")
	proxy.Refuse(false)
	wantNext("us/c")
	wantSaid("shard us is back")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for said.Scan() {
		if strings.Contains(said.Text(), "missing") {
			t.Errorf("in the end it says %q", said.Text())
		}
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("interrupted it ends with %d", got)
	}
}
