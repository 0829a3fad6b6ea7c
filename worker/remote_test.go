package worker_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testrun"
	"github.com/stint-tasks/stint/internal/testservice"
	"github.com/stint-tasks/stint/service"
	"github.com/stint-tasks/stint/worker"
)

// remoteVariable says that the workers of the tests are clients of services.
const remoteVariable = "STINT_TEST_REMOTE_WORKERS"

// storeOnly are the tests of what only a worker with a store can do, and of stores that the service
// could not have.
var storeOnly = []string{
	"TestReturnIn", "TestPerformNext_TellsWhatCameOfIt",
	"TestRun_DoesNotWaitForHandlersThatIgnoreTheirContext", "TestRun_EndsOnWhatCannotHeal",
	"TestRun_LeavesNoGoroutines",
	"TestWorker_ReturnsAllThatWasDoneInAnOutage",
	"TestWorker_AReturnThatMustWaitHoldsUpNobodyElse",
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
	return testservice.Client(t, address, client.Options{})
}

// The tests of this package pass as well where each worker is a client of a service.
func TestWorker_WorksOverTheNetwork(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	if isRemote() {
		return // this is that
	}
	program, err := os.Executable()
	wantErr(t, "Executable", err, nil)
	cmd := exec.CommandContext(t.Context(), program,
		"-test.skip", "^("+strings.Join(storeOnly, "|")+")", "-test.timeout", "8m")
	cmd.Env = append(os.Environ(), remoteVariable+"=1")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("over the network: %v\n%s", err, output)
	}
}
