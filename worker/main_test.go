package worker

import (
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }
