package stint_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// slowLine returns a pool whose connections each pass so many bytes a second in either direction.
func slowLine(t *testing.T, direct *pgxpool.Pool, perSecond int) *pgxpool.Pool {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	wantErr(t, "Listen", err, nil)
	t.Cleanup(func() { _ = listener.Close() })
	server := direct.Config().ConnConfig
	network, address := "tcp", net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port)))
	if server.Host[0] == '/' {
		network, address = "unix", server.Host+"/.s.PGSQL."+strconv.Itoa(int(server.Port))
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			var dialer net.Dialer
			upstream, err := dialer.DialContext(t.Context(), network, address)
			if err != nil {
				_ = client.Close()
				continue
			}
			go trickle(upstream, client, perSecond)
			go trickle(client, upstream, perSecond)
		}
	}()
	host, port, err := net.SplitHostPort(listener.Addr().String())
	wantErr(t, "SplitHostPort", err, nil)
	number, err := strconv.ParseUint(port, 10, 16)
	wantErr(t, "ParseUint", err, nil)
	return poolOf(t, direct, func(config *pgxpool.Config) {
		config.ConnConfig.Host, config.ConnConfig.Port = host, uint16(number)
		config.ConnConfig.TLSConfig, config.ConnConfig.Fallbacks = nil, nil
		config.MaxConns = 4
	})
}

// trickle passes on so many bytes a second.
func trickle(to io.WriteCloser, from io.ReadCloser, perSecond int) {
	defer to.Close()
	defer from.Close()
	const slices = 50 // of a second
	chunk := make([]byte, perSecond/slices)
	for {
		n, err := from.Read(chunk)
		if _, failed := to.Write(chunk[:n]); failed != nil || err != nil {
			return
		}
		<-time.After(time.Duration(n) * time.Second / time.Duration(perSecond))
	}
}

const slowSilence = time.Second

// onSlowLine returns a store on a slow line, whose answers are many times longer than what comes
// in the time of a silence.
func onSlowLine(t *testing.T, direct *pgxpool.Pool) *stint.Store {
	t.Helper()
	store := openStore(t, slowLine(t, direct, 512<<10), stint.Options{
		PollInterval: 50 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Maintenance: stint.MaintainNever,
	})
	shorten(store, 200<<10, 16<<10, slowSilence)
	return store
}

// Tasks with large bodies are performed over a slow line, however they are fetched, and none is
// tried twice.
// Proves G26.
func TestOwners_GetLargeBodiesOverASlowLine(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	ctx := t.Context()
	const lease = time.Hour
	actions := []string{"act"}
	for name, own := range map[string]func(*stint.Store) ([]stint.OwnedTask, error){
		"OwnTasks": func(s *stint.Store) ([]stint.OwnedTask, error) {
			return s.OwnTasks(ctx, "actor", 100, actions, lease)
		},
		"WaitToOwnTasks": func(s *stint.Store) ([]stint.OwnedTask, error) {
			return s.WaitToOwnTasks(ctx, "actor", 100, actions, lease)
		},
		"WaitToClaimTasks": func(s *stint.Store) ([]stint.OwnedTask, error) {
			claim, err := stint.NewClaim(0)
			wantErr(t, "NewClaim", err, nil)
			return s.Remote().WaitToClaimTasks(ctx, claim, "actor", 100, actions, lease)
		},
		"limits": func(s *stint.Store) ([]stint.OwnedTask, error) {
			return s.WaitToOwnTasks(ctx, "actor", 100, []string{"limited"}, lease)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			direct := testdb.New(t)
			near := openStore(t, direct, stint.Options{})
			wantErr(t, "SetLimits", near.SetLimits(ctx, "limited",
				stint.Limits{ConcurrencyPerKey: 50}), nil)
			store := onSlowLine(t, direct)
			bodies := map[stint.TaskID][]byte{}
			tasks := append(numbered("large", 16), numbered("small", 16)...)
			tasks = append(tasks, stint.Task{ID: "huge"}, stint.Task{ID: "none"})
			for i := range tasks {
				size := map[byte]int{'l': 64 << 10, 's': 100, 'h': 1 << 20}[tasks[i].ID[0]]
				tasks[i].MaxTries, tasks[i].Key = 1, "key"
				tasks[i].Action = map[bool]string{true: "limited", false: "act"}[name == "limits"]
				tasks[i].Body = bytes.Repeat([]byte(tasks[i].ID), size)[:size]
				bodies[tasks[i].ID] = tasks[i].Body
			}
			insert(t, near, tasks...)
			for len(bodies) > 0 {
				owned, err := own(store)
				if err != nil { // a busy machine may be silent, too
					t.Log(err)
					continue
				}
				for _, task := range owned {
					if !bytes.Equal(task.Body, bodies[task.ID]) || task.Try != 1 {
						t.Fatalf("%s has %d bytes on try %d", task.ID, len(task.Body), task.Try)
					}
					delete(bodies, task.ID)
				}
				complete(t, near, owned...)
			}
			wantChecked(t, near)
		})
	}
}

// A large result goes over a slow line, also with a fetch, which fails if the database is
// silent.
// Proves G26.
func TestReturnAndOwnTasks_SendsALargeResultOverASlowLine(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct := testdb.New(t)
	near, far := openStore(t, direct, stint.Options{}), onSlowLine(t, direct)
	insert(t, near, after("a"), after("b"))
	returns := completed([]stint.OwnedTask{ownOne(t, near)})
	returns[0].Result = bytes.Repeat([]byte("result"), 300<<10)
	verdicts, owned, err := far.ReturnAndOwnTasks(t.Context(), returns, stint.Want{
		Actor: "actor", MaxTasks: 1, Actions: []string{"act"}, Lease: time.Hour,
	})
	if err != nil || len(owned) != 1 || owned[0].ID != "b" {
		t.Fatalf("ReturnAndOwnTasks = %v, %v, want b", idsOf(owned), err)
	}
	wantResults(t, near, returns, verdicts)
}

// In a transaction, too.
// Proves G26.
func TestOwnTasks_GetsLargeBodiesInATransaction(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	store, pool := newStoreAndPool(t, stint.Options{})
	shorten(store, 200<<10, 16<<10, time.Minute)
	body := bytes.Repeat([]byte("body"), 64<<10)
	insert(t, store, stint.Task{ID: "a", Action: "act", Body: body},
		stint.Task{ID: "b", Action: "act", Body: body}, stint.Task{ID: "c", Action: "act"})
	tx := begin(t, pool)
	owned, err := store.WithTx(tx).OwnTasks(t.Context(), "actor", 9, []string{"act"}, time.Hour)
	wantErr(t, "OwnTasks", err, nil)
	if len(owned) != 2 || !bytes.Equal(owned[0].Body, body) || owned[1].ID != "c" {
		t.Errorf("owned %d tasks: %v", len(owned), idsOf(owned))
	}
	wantErr(t, "Commit", tx.Commit(t.Context()), nil)
	wantState(t, store, stint.StateReady, "b")
	if got := info(t, store, "b").Tries; got != 0 {
		t.Errorf("%d tries of a task that was not delivered", got)
	}
}

// A large result arrives over a slow line.
// Proves G26.
func TestWaitForTask_GetsALargeResultOverASlowLine(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	direct := testdb.New(t)
	near := openStore(t, direct, stint.Options{Maintenance: stint.MaintainNever})
	store := onSlowLine(t, direct)
	tasks := []stint.Task{
		{ID: "a", Action: "act", PostResult: true},
		{ID: "b", Action: "act", PostResult: true},
		{ID: "c", Action: "act", PostResult: true},
	}
	insert(t, near, tasks...)
	results := map[stint.TaskID][]byte{
		"a": bytes.Repeat([]byte("result"), 200<<10), "b": {}, "c": []byte("short"),
	}
	waiting := start(func() ([]stint.TaskInfo, error) {
		return store.WaitForTasks(t.Context(), []stint.TaskID{"a", "b", "c"})
	})
	eventually(t, soon, "somebody waits", func() bool { return insideOf(store).Waiting() == 3 })
	for _, task := range own(t, near, 3) {
		returnWith(t, near, task, stint.Return{
			Code: stint.StatusCompleted, Result: results[task.ID],
		})
	}
	infos, err := ends(t, "WaitForTasks", waiting)
	wantErr(t, "WaitForTasks", err, nil)
	for _, info := range infos {
		if !bytes.Equal(info.Result, results[info.ID]) {
			t.Errorf("%s has %d bytes", info.ID, len(info.Result))
		}
	}
}

// What was fetched and never delivered is ready at once, and its try does not count: its caller
// has left, or the database seemed silent.
// Proves G99.
func TestOwnTasks_RefundsWhatWasNeverDelivered(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	for name, piece := range map[string]int{"in the answer": 1 << 20, "behind it": 16 << 10} {
		for _, silent := range []bool{false, true} {
			end := map[bool]string{true: ", silent", false: ", left"}[silent]
			t.Run(name+end, func(t *testing.T) {
				t.Parallel()
				direct := testdb.New(t)
				near := openStore(t, direct, stint.Options{Maintenance: stint.MaintainNever})
				far := openStore(t, slowLine(t, direct, 64<<10), stint.Options{
					Maintenance: stint.MaintainNever, Logger: slog.New(slog.DiscardHandler),
				})
				silence := time.Minute
				if silent {
					silence = 200 * time.Millisecond // less than a piece takes
				}
				shorten(far, 4<<20, piece, silence)
				insert(t, near, stint.Task{
					ID: "a", Action: "act", MaxTries: 1, Body: make([]byte, 1<<20),
				})
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := far.WaitToOwnTasks(ctx, "actor", 1, []string{"act"}, time.Hour)
				if err == nil || silent == errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("WaitToOwnTasks = %v", err)
				}
				eventually(t, soon, "the task is given back", func() bool {
					got := info(t, near, "a")
					return got.State == stint.StateReady && got.Tries == 0
				})
			})
		}
	}
}
