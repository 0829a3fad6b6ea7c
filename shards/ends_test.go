package shards_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/shards"
)

// abortNew inserts tasks on their shards, and aborts them one by one.
func (d *databases) abortNew(ctx context.Context, action string, names ...string) error {
	for _, name := range names {
		id := idOf(name)
		store := d.stores[id.Shard]
		err := store.InsertTasks(ctx, []stint.Task{
			{ID: id.Task, Action: action, PostResult: true},
		})
		if err != nil {
			return err
		}
		if _, err := store.AbortTasks(ctx, []stint.TaskID{id.Task}, "off"); err != nil {
			return err
		}
	}
	return nil
}

func (d *databases) mustAbortNew(t *testing.T, action string, names ...string) {
	t.Helper()
	wantErr(t, "abort new tasks", d.abortNew(t.Context(), action, names...), nil)
}

// endsFrom are the ends that a cluster tells from a cursor on, until there is none, and the shards
// that are away; and the next cursor.
func endsFrom(
	t *testing.T, c *shards.Cluster, from stint.Cursor, actions ...string,
) (told string, next stint.Cursor) {
	t.Helper()
	var words []string
	for {
		page, err := c.Ends(t.Context(), actions, from, 0)
		wantErr(t, "Ends", err, nil)
		from = page.Next
		for _, task := range page.Tasks {
			words = append(words, task.Name().String())
		}
		if len(page.Tasks) > 0 {
			continue
		}
		for _, away := range page.Away {
			wantErr(t, "the shard that is away", away, errAway)
			words = append(words, "without "+away.Shard)
		}
		return strings.Join(words, " "), from
	}
}

func wantTold(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("Ends told %q, want %q", got, want)
	}
}

// One cursor goes on at each shard, in another process, too; a shard that is new to it is told from
// its beginning, and the place of one that the topology lacks is kept.
//
// Proves G332.
func TestEnds_GoOnAtAllShardsByOneCursor(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	d.mustAbortNew(t, "mail", "us/b", "us/a")
	c := d.cluster(t, shards.Options{})
	now, err := c.Ends(t.Context(), nil, stint.EndsNow, time.Hour)
	wantErr(t, "Ends", err, nil)
	d.mustAbortNew(t, "mail", "eu/b")
	d.mustAbortNew(t, "scan", "eu/a", "us/c")
	told, next := endsFrom(t, c, "")
	wantTold(t, told, "eu/b eu/a us/b us/a us/c")
	told, _ = endsFrom(t, c, now.Next, "mail")
	wantTold(t, told, "eu/b")
	d.mustAbortNew(t, "mail", "eu/d", "us/d")
	other := d.cluster(t, shards.Options{})
	told, last := endsFrom(t, other, next)
	wantTold(t, told, "eu/d us/d")

	eu, us, _ := strings.Cut(string(next), "us/")
	told, _ = endsFrom(t, other, stint.Cursor(eu))
	wantTold(t, told, "eu/d us/b us/a us/c us/d")
	told, kept := endsFrom(t, other, next+"asia/1/2/3~")
	wantTold(t, told, "eu/d us/d")
	if !strings.HasPrefix(string(kept), "asia/1/2/3~eu/") {
		t.Errorf("the next cursor is %q", kept)
	}
	pattern, err := shards.ParseTopology("pattern:postgres://x/{shard}")
	wantErr(t, "ParseTopology", err, nil)
	grown, err := shards.New(pattern, shards.Options{
		Connect: func(ctx context.Context, shard, _ string) (shards.Store, error) {
			url, err := d.topology.URL(shard)
			wantErr(t, "URL", err, nil)
			return d.connect(ctx, shard, url)
		},
	})
	wantErr(t, "New", err, nil)
	defer func() { wantErr(t, "Close", grown.Close(context.WithoutCancel(t.Context())), nil) }()
	told, _ = endsFrom(t, grown, stint.Cursor("us/"+us))
	wantTold(t, told, "us/d")

	ends := func(c *shards.Cluster, from stint.Cursor, wait time.Duration) error {
		_, err := c.Ends(t.Context(), nil, from, wait)
		return err
	}
	wantErr(t, "Ends", ends(c, "nowhere", 0), stint.ErrInvalidArgument)
	wantErr(t, "Ends", ends(c, "eu/nowhere~", 0), stint.ErrInvalidArgument)
	wantErr(t, "Ends", ends(c, "", -1), stint.ErrInvalidArgument)
	nobody, err := shards.New(pattern, shards.Options{})
	wantErr(t, "New", err, nil)
	wantErr(t, "Ends", ends(nobody, "", 0), stint.ErrInvalidArgument)
	_, err = d.pools["us"].Exec(t.Context(), `INSERT INTO stint.pruning (told_at, pruned_to)
		VALUES (clock_timestamp(), clock_timestamp())`)
	wantErr(t, "Exec", err, nil)
	err = ends(c, last, 0)
	var at *shards.ShardError
	if !errors.Is(err, stint.ErrEndsPruned) || !errors.As(err, &at) || at.Shard != "us" {
		t.Errorf("after a prune, Ends = %v", err)
	}
	wantErr(t, "Ends", ends(c, "", 0), nil)
}

// A call waits for any of the shards. One that has much to tell does not keep others from being
// told.
//
// Proves G332.
func TestEnds_WaitForAnyShardAndTellOfEach(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	c := d.cluster(t, shards.Options{})
	now, err := c.Ends(t.Context(), nil, stint.EndsNow, 0)
	wantErr(t, "Ends", err, nil)
	told := make(chan shards.EndPage)
	go func() {
		page, err := c.Ends(t.Context(), []string{"act"}, now.Next, time.Hour)
		if err != nil {
			t.Errorf("Ends = %v", err)
		}
		told <- page
	}()
	d.mustAbortNew(t, "act", "us/a")
	if page := <-told; len(page.Tasks) != 1 || page.Tasks[0].Shard != "us" {
		t.Errorf("Ends told %v", page.Tasks)
	}
	many := make([]stint.Task, 2500)
	for i := range many {
		many[i] = stint.Task{ID: stint.TaskID(fmt.Sprint("many/", i)), Action: "act"}
	}
	wantErr(t, "InsertTasks", d.stores["eu"].InsertTasks(t.Context(), many), nil)
	ids := make([]stint.TaskID, len(many))
	for i := range many {
		ids[i] = many[i].ID
	}
	_, err = d.stores["eu"].AbortTasks(t.Context(), ids, "")
	wantErr(t, "AbortTasks", err, nil)
	d.mustAbortNew(t, "act", "us/b")
	var page shards.EndPage
	isTold := false
	for range 2 { // us/b may be at the present, which the first one does not tell yet
		page, err = c.Ends(t.Context(), nil, cmp.Or(page.Next, now.Next), time.Hour)
		wantErr(t, "Ends", err, nil)
		isTold = isTold || slices.ContainsFunc(page.Tasks, func(task shards.TaskInfo) bool {
			return task.Name() == idOf("us/b")
		})
	}
	if !isTold {
		t.Error("two pages are without us/b")
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancelled := make(chan error)
	go func() {
		_, err := c.Ends(ctx, []string{"nothing"}, "", time.Hour)
		cancelled <- err
	}()
	cancel()
	wantErr(t, "Ends", <-cancelled, context.Canceled)
}

// An endingStore is one whose calls of Ends a test leads.
type endingStore struct {
	shards.Store
	before, after func(ctx context.Context)
}

func (e *endingStore) Ends(
	ctx context.Context, actions []string, from stint.Cursor, wait time.Duration,
) (stint.EndPage, error) {
	e.before(ctx)
	page, err := e.Store.Ends(ctx, actions, from, wait)
	e.after(ctx)
	return page, err
}

// A shard that answers later than others is not cut off by them.
//
// Proves G332.
func TestEnds_TellOfAShardThatIsSlowerThanOthers(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	answered := make(chan bool)
	nothing := func(context.Context) {}
	c := d.cluster(t, shards.Options{Connect: func(
		ctx context.Context, shard, url string,
	) (shards.Store, error) {
		store, err := d.connect(ctx, shard, url)
		if shard == "eu" {
			return &endingStore{store, nothing, func(context.Context) { close(answered) }}, err
		}
		return &endingStore{store, func(ctx context.Context) {
			<-answered
			select {
			case <-ctx.Done(): // what it has to tell would be lost
			case <-time.After(time.Second):
			}
		}, nothing}, err
	}})
	d.mustAbortNew(t, "act", "eu/a", "us/a")
	page, err := c.Ends(t.Context(), nil, "", time.Hour)
	wantErr(t, "Ends", err, nil)
	if len(page.Tasks) != 2 {
		t.Errorf("Ends told %v", page.Tasks)
	}
}

// The ends of a shard that is away are told when it is back, and those of the others meanwhile.
//
// Proves G153, G332.
func TestEnds_GoOnWithoutAShardThatIsAway(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	c := d.cluster(t, shards.Options{})
	d.mustAbortNew(t, "act", "eu/a", "us/a")
	_, next := endsFrom(t, c, "")
	d.away.Store("us", true)
	d.mustAbortNew(t, "act", "eu/b", "us/b")
	told, next := endsFrom(t, c, next)
	wantTold(t, told, "eu/b without us")
	page, err := c.Ends(t.Context(), nil, next, time.Hour) // ends soon, to ask us again
	wantErr(t, "Ends", err, nil)
	if len(page.Away) != 1 || len(page.Tasks) > 0 {
		t.Errorf("Ends = %+v", page)
	}
	_, err = c.Ends(t.Context(), nil, stint.EndsNow, 0)
	wantErr(t, "Ends from now", err, errAway)
	d.away.Store("eu", true)
	_, err = c.Ends(t.Context(), nil, next, time.Hour)
	wantErr(t, "Ends without any shard", err, errAway)
	d.away.Delete("eu")
	d.away.Delete("us")
	told, _ = endsFrom(t, c, page.Next)
	wantTold(t, told, "us/b")
}

// A shard that is silent is asked for long only once; as soon as it answers, it goes on.
//
// Proves G149, G332.
func TestEnds_DoNotWaitForASilentShardEachTime(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	freeze := d.freezing(t, "us")
	c := d.cluster(t, shards.Options{Connect: shards.Connect})
	_, next := endsFrom(t, c, "")
	freeze()
	d.mustAbortNew(t, "act", "eu/a", "eu/b")
	for i := range 4 {
		began := time.Now()
		page, err := c.Ends(t.Context(), nil, next, 0)
		wantErr(t, "Ends", err, nil)
		if len(page.Tasks) != 2 || len(page.Away) != 1 || page.Away[0].Shard != "us" {
			t.Errorf("Ends = %+v", page)
		}
		const patience = 9 * time.Second // less than a store has
		if took := time.Since(began); i > 0 && took > patience {
			t.Errorf("call %d of a shard that is known to be silent took %v", i, took)
		}
	}
}

// Tasks end on both shards, each of which is away at times, and the process that follows dies again
// and again: it is told every end, those of each shard in their order.
//
// Proves G332.
func TestEnds_AreAllToldWhicheverShardIsAwayAndWhoeverDies(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	d := newDatabases(t, "eu", "us")
	n := testrun.Rounds(400)
	ended := make(chan error, 1)
	go func() {
		var err error
		for i := range n {
			err = errors.Join(err, d.abortNew(t.Context(), "act", fmt.Sprint("eu/", i),
				fmt.Sprint("us/", i)))
			for _, shard := range []string{"eu", "us"} {
				if d.away.Delete(shard); rand.IntN(4) == 0 {
					d.away.Store(shard, true)
				}
			}
		}
		d.away.Clear()
		ended <- err
	}()
	told, c := map[shards.ID]bool{}, d.cluster(t, shards.Options{})
	var cursor stint.Cursor
	const tooLong = time.Minute
	for news := time.Now(); len(told) < 2*n && time.Since(news) < tooLong; {
		if rand.IntN(5) == 0 {
			c = d.cluster(t, shards.Options{})
		}
		ctx, die := context.WithCancel(t.Context())
		if rand.IntN(4) == 0 {
			time.AfterFunc(time.Duration(rand.IntN(30))*time.Millisecond, die)
		}
		page, err := c.Ends(ctx, []string{"act"}, cursor, time.Second)
		isDead := ctx.Err() != nil
		die()
		if isDead || errors.Is(err, errAway) {
			continue
		}
		wantErr(t, "Ends", err, nil)
		last := map[string]time.Time{}
		for _, task := range page.Tasks {
			if task.FinishedAt.Before(last[task.Shard]) {
				t.Errorf("%s is told too late", task.Name())
			}
			last[task.Shard] = task.FinishedAt
			if !told[task.Name()] {
				news = time.Now()
			}
			told[task.Name()] = true
		}
		if rand.IntN(5) > 0 {
			cursor = page.Next
		}
	}
	wantErr(t, "abort new tasks", <-ended, nil)
	if len(told) != 2*n {
		t.Errorf("%d of %d ends were told", len(told), 2*n)
	}
}
