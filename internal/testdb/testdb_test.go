package testdb

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestMain(m *testing.M) { Main(m) }

func TestNew_MakesADatabase(t *testing.T) {
	t.Parallel()
	if err := New(t).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// A test that was told to use a container fails where there is none, and says why.
func TestNew_NamesTheDaemonThatIsMissing(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	test := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "MakesADatabase")
	test.Env = append(os.Environ(), "STINT_TEST_CONTAINER=postgres:18", "STINT_TEST_DATABASE_URL=",
		"DOCKER_HOST=tcp://127.0.0.1:1")
	output, err := test.CombinedOutput()
	if err == nil || !strings.Contains(string(output), "no Docker answers") {
		t.Errorf("the test ended with %v:\n%s", err, output)
	}
}

func TestNew_UsesAServerInAContainer(t *testing.T) {
	t.Parallel()
	image := os.Getenv("STINT_TEST_CONTAINER")
	if image == "" || os.Getenv("STINT_TEST_DATABASE_URL") != "" {
		t.Skip("no container to test with: set STINT_TEST_CONTAINER alone, to postgres:18 say")
	}
	pool := New(t)
	var first bool
	err := pool.QueryRow(t.Context(), "SELECT pg_read_file('/proc/1/comm') ~ 'postgres'").
		Scan(&first)
	if err != nil || !first || pool.Config().ConnConfig.User != "postgres" {
		t.Errorf("the server is not the first process of a container: %t, %v", first, err)
	}
}
