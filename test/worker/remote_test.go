package worker_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/worker"
)

// remoteVariable says that the workers of the tests are clients of services, over a network that is
// sound or faulty.
const (
	remoteVariable = "STINT_TEST_REMOTE_WORKERS"
	sound          = "sound"
	faulty         = "faulty"
)

// storeOnly are the tests of what only a worker with a store can do, and of stores that the service
// could not have.
var storeOnly = []string{
	"TestReturnIn", "TestStepIn", "TestStep_CallsNoRecordedStepAgain",
	"TestStep_CountsTheStepsOfThisTry", "TestStep_RefusesANameThatWasTakenInThisTry",
	"TestStep_IsRecordedWhenTheDatabaseIsBack", "TestPerformNext_TellsWhatCameOfIt",
	"TestRun_DoesNotWaitForHandlersThatIgnoreTheirContext", "TestRun_EndsOnWhatCannotHeal",
	"TestRun_LeavesNoGoroutines",
	"TestWorker_ReturnsAllThatWasDoneInAnOutage",
	"TestWorker_AReturnThatMustWaitHoldsUpNobodyElse",
	"TestWorker_KeepsLeasesWhileHandlersHoldThePool", "TestRun_WarnsOfMoreSlots",
	"TestRun_WarnsOfHandlersThatWaitForASlot", "TestRun_WarnsOfNoOtherWaits",
	"TestHandleBatch_ReturnsTasksInItsTransaction", "TestHandleBatch_WarnsWhereItWaitsForASlot",
	"TestWithTimeoutGrace_LeavesAnOpenTransactionToTheLease", "TestWorker_LosesNoTryInAStorm",
}

func isRemote() bool { return os.Getenv(remoteVariable) != "" }

// pools are the pools of the stores that newStore made.
var pools sync.Map

// queueOf is the queue of a worker in a test: the store, or a client of a service that has it.
func queueOf(t *testing.T, store *stint.Store) worker.Queue {
	t.Helper()
	if !isRemote() {
		return store
	}
	pool, ok := pools.Load(store)
	if !ok {
		t.Fatal("the store was not made by newStore")
	}
	address, _ := testservice.Start(t, pool.(*pgxpool.Pool), store, service.Options{})
	if os.Getenv(remoteVariable) == sound {
		return testservice.Client(t, address, client.Options{})
	}
	return testservice.Client(t, address, client.Options{
		HTTPClient: &http.Client{Transport: newFaults(t)}, Logger: slog.New(slog.DiscardHandler),
	})
}

// newFaults returns a transport on which every tenth request goes wrong in some way.
func newFaults(t *testing.T) *testservice.Faults {
	t.Helper()
	const each = 10
	faults := testservice.NewFaults()
	all := testservice.AllFaults()
	random := rand.New(rand.NewPCG(uint64(len(t.Name())), each)) // the same each time
	var mutex sync.Mutex
	faults.Choose(func(string) testservice.Fault {
		mutex.Lock()
		defer mutex.Unlock()
		if random.IntN(each) > 0 {
			return testservice.NoFault
		}
		return all[random.IntN(len(all))]
	})
	t.Cleanup(faults.Wait)
	return faults
}

// The tests of this package pass as well where each worker is a client of a service.
func TestWorker_WorksOverTheNetwork(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	again(t, sound)
}

// They pass, too, where requests and answers are lost, cut and late.
func TestWorker_WorksOverAFaultyNetwork(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	again(t, faulty)
}

// again runs the tests of this package over a network.
func again(t *testing.T, network string) {
	t.Helper()
	if isRemote() {
		return // this is that
	}
	program, err := os.Executable()
	wantErr(t, "Executable", err, nil)
	tests, err := testrun.SomeTests(t.Context(), program)
	wantErr(t, "SomeTests", err, nil)
	cmd := exec.CommandContext(t.Context(), program, "-test.run", tests,
		"-test.skip", "^("+strings.Join(storeOnly, "|")+")", "-test.timeout", "8m")
	cmd.Env = append(os.Environ(), remoteVariable+"="+network)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("over a network that is %s: %v\n%s", network, err, output)
	}
}

// A result that is too large for a request aborts its task. Those that end at the same moment end
// as they say, and the worker goes on.
// Proves G110, R11.
func TestWorker_AReturnThatIsTooLargeSpoilsNoOther(t *testing.T) {
	t.Parallel()
	store, pool := newStoreAndPool(t)
	const requestBytes = 64 << 10
	address, _ := testservice.Start(t, pool, store, service.Options{
		Limits: service.Limits{RequestBytes: requestBytes},
	})
	insert(t, store, stint.Task{ID: "large", Action: "a"}, stint.Task{ID: "small", Action: "a"})
	var both sync.WaitGroup
	both.Add(2)
	w, err := worker.New(testservice.Client(t, address, client.Options{}), worker.Options{
		Retry: soon, Logger: slog.New(slog.DiscardHandler),
	}, worker.Handle("a", func(_ context.Context, task *worker.Task) (worker.Result, error) {
		if task.ID == "later" {
			return worker.Result{}, nil
		}
		both.Done()
		both.Wait() // so that their returns go together
		size := map[stint.TaskID]int{"large": 2 * requestBytes, "small": 1}[task.ID]
		return worker.Result{Bytes: make([]byte, size)}, nil
	}))
	wantErr(t, "New", err, nil)
	stop := run(t, w)
	if got := finished(t, store, "small")[0]; got.AbortCause != "" || len(got.Result) != 1 {
		t.Errorf("the small one: %+v", got)
	}
	if got := finished(t, store, "large")[0]; got.AbortCause != stint.CauseReturned {
		t.Errorf("the large one: %+v", got)
	}
	insert(t, store, stint.Task{ID: "later", Action: "a"})
	finished(t, store, "later")
	wantErr(t, "Run", stop(), nil)
}
