//go:build !container

package testdb

import "testing"

func TestNew_NamesTheTagThatAddsContainers(t *testing.T) {
	t.Parallel()
	refusesContainers(t, "STINT_TEST_CONTAINER=postgres:18: run the tests with -tags container")
}
