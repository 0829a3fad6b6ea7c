package stint_test

import (
	"os"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(workerDatabase); url != "" {
		os.Exit(performAsWorker(url))
	}
	if _, err := os.Stat("go.mod"); err != nil { // paths are those of the repository
		if err := os.Chdir(".."); err != nil {
			panic(err)
		}
	}
	testdb.Main(m)
}
