package testdb

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMain(m *testing.M) { Main(m) }

func TestNew_MakesADatabase(t *testing.T) {
	t.Parallel()
	if err := New(t).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

// refusesContainers checks that a test that was told to use a container fails, and says why.
func refusesContainers(t *testing.T, why string) {
	t.Helper()
	test := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "MakesADatabase")
	test.Env = append(os.Environ(), "STINT_TEST_CONTAINER=postgres:18", "STINT_TEST_DATABASE_URL=")
	output, err := test.CombinedOutput()
	if err == nil || !strings.Contains(string(output), why) {
		t.Errorf("the test ended with %v:\n%s", err, output)
	}
}
