//go:build unix && container

package testdb

import (
	"os"
	"testing"
)

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

// A test that was told to use a container fails where there is none, and says why.
func TestNew_NamesTheDaemonThatIsMissing(t *testing.T) {
	t.Parallel()
	if findDocker(t.Context()) == nil {
		t.Skip("there is a Docker daemon here")
	}
	refusesContainers(t, "STINT_TEST_CONTAINER=postgres:18: no Docker answers")
}
