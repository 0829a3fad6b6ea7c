package limits_test

import (
	"os"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(workerDatabase); url != "" {
		os.Exit(performAsWorker(url))
	}
	testdb.Main(m)
}
