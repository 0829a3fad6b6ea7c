package shards_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// wrongly is a topology of the same databases by other names.
func (d *databases) wrongly(t *testing.T, names map[string]string) shards.Topology {
	t.Helper()
	urls := map[string]string{}
	for name, of := range names {
		url, err := d.topology.URL(of)
		wantErr(t, "URL", err, nil)
		urls[name] = url
	}
	topology, err := shards.Static(urls)
	wantErr(t, "Static", err, nil)
	return topology
}

// A topology that gives databases other names than they had is found before anything is lost.
// Proves G150.
func TestCluster_RefusesATopologyThatLeadsToOtherShards(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for what, names := range map[string]map[string]string{
		"swapped":      {"eu": "us", "us": "eu"},
		"renamed":      {"eu": "eu", "america": "us"},
		"both renamed": {"a": "eu", "b": "us"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := newDatabases(t, "eu", "us")
			right := d.cluster(t, shards.Options{})
			waiting := task("eu/mail", "us/save")
			wantErr(t, "InsertTasks",
				right.InsertTasks(t.Context(), []shards.Task{task("us/save"), waiting}), nil)
			good := d.topology
			d.topology = d.wrongly(t, names)
			wrong := d.cluster(t, shards.Options{})
			d.relay(t, shards.Options{}) // which must lose nothing
			for _, name := range d.topology.Names() {
				if names[name] == name {
					continue
				}
				_, err := wrong.Store(t.Context(), name)
				wantWrong(t, err, name, names[name])
				_, err = wrong.GetTasks(t.Context(), []shards.ID{{Shard: name, Task: "save"}})
				wantWrong(t, err, name, names[name])
			}
			found, err := wrong.Check(t.Context())
			if err != nil || len(found) == 0 ||
				!strings.Contains(found[0].String(), shards.ErrWrongShard.Error()) {
				t.Errorf("Check = %v, %v", found, err)
			}
			owned := d.own(t, "us")
			wantErr(t, "ReturnTask", d.stores["us"].ReturnTask(t.Context(), owned.ID, owned.Token,
				"", stint.StatusCompleted), nil)
			d.topology = good
			d.relay(t, shards.Options{})
			d.awaitState(t, "eu/mail", "ready")
		})
	}
}

// A database that was named by somebody else after a cluster had found it without a name is not
// taken for another shard.
// Proves G150.
func TestCluster_LooksAgainForANameThatOthersRelyOn(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	right := d.cluster(t, shards.Options{})
	d.topology = d.wrongly(t, map[string]string{"eu": "eu", "america": "us"})
	wrong := d.cluster(t, shards.Options{})
	wantErr(t, "InsertTasks",
		wrong.InsertTasks(t.Context(), []shards.Task{task("america/early")}), nil)
	wantErr(t, "InsertTasks", right.InsertTasks(t.Context(),
		[]shards.Task{task("us/save"), task("eu/mail", "us/save")}), nil)
	err := wrong.InsertTasks(t.Context(),
		[]shards.Task{task("america/other"), task("eu/post", "america/other")})
	wantWrong(t, err, "america", "us")
}

func wantWrong(t *testing.T, err error, name, found string) {
	t.Helper()
	var wrong *shards.WrongShardError
	if !errors.Is(err, shards.ErrWrongShard) || !errors.As(err, &wrong) || wrong.Shard != name ||
		wrong.Found != found {
		t.Errorf("the error at shard %s is %v, want that it is shard %s", name, err, found)
	}
}

// A shard is renamed by deleting the task that names it.
// Proves G150.
func TestCluster_TakesARenamedShardOnceItsNameIsDeleted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	wantErr(t, "InsertTasks", d.cluster(t, shards.Options{}).InsertTasks(t.Context(),
		[]shards.Task{task("us/save"), task("eu/mail", "us/save")}), nil)
	_, err := d.stores["us"].DeleteTasks(t.Context(), []stint.TaskID{"mail", "save"})
	wantErr(t, "DeleteTasks", err, stint.ErrTaskNotFound)
	c := d.cluster(t, shards.Options{})
	_, err = c.DeleteTasks(t.Context(), []shards.ID{idOf("us/save")})
	wantErr(t, "DeleteTasks", err, nil)
	d.topology = d.wrongly(t, map[string]string{"eu": "eu", "america": "us"})
	d.stores["america"] = d.stores["us"]
	c = d.cluster(t, shards.Options{})
	_, err = c.Store(t.Context(), "america")
	wantWrong(t, err, "america", "us")
	_, err = d.stores["us"].DeleteTasks(t.Context(), []stint.TaskID{"stint.shard"})
	wantErr(t, "DeleteTasks", err, nil)
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(),
		[]shards.Task{task("america/save"), task("eu/mail", "america/save")}), nil)
	d.relay(t, shards.Options{})
	d.perform(t, "america/save", stint.Return{})
	d.awaitState(t, "eu/mail", "ready")
	found, err := c.Check(t.Context())
	if err != nil || len(found) > 0 {
		t.Errorf("Check = %v, %v", found, err)
	}
}

// Tasks that wait for a shard that the topology lacks are named.
// Proves G150.
func TestCheck_NamesShardsThatTheTopologyLacks(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	wantErr(t, "InsertTasks", d.cluster(t, shards.Options{}).InsertTasks(t.Context(),
		[]shards.Task{task("us/save"), task("eu/mail", "us/save")}), nil)
	for _, left := range []string{"us", "eu"} {
		d := &databases{topology: d.wrongly(t, map[string]string{left: left}), stores: d.stores}
		found, err := d.cluster(t, shards.Options{}).Check(t.Context())
		if err != nil || len(found) != 1 || found[0].Shard != left {
			t.Errorf("Check of %s alone = %v, %v", left, found, err)
		}
	}
}

// Whoever may only read, and looks at a cluster, names nothing and is not refused.
func TestCluster_ThatOnlyLooksNamesNothing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	c := d.cluster(t, shards.Options{})
	_, err := c.Stats(t.Context())
	wantErr(t, "Stats", err, nil)
	wantErr(t, "InsertTasks", c.InsertTasks(t.Context(), []shards.Task{task("eu/a")}), nil)
	for _, name := range []string{"eu", "us"} {
		if got := d.state(t, name+"/stint.shard"); got != "none" {
			t.Errorf("shard %s is named: %s", name, got)
		}
	}
}
