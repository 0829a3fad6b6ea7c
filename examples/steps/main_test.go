package main

import (
	"os"
	"regexp"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

const programEnv = "STINT_TEST_STEPS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		main()
		return
	}
	testdb.Main(m)
}

// Proves G185.
func TestRun_CallsNoRecordedStepAgain(t *testing.T) {
	testrun.Long(t)
	t.Setenv(programEnv, "yes") // for the workers that it starts
	var printed processes.Buffer
	args := []string{"-kills", "2", "-database-url", testdb.New(t).Config().ConnString()}
	if err := run(t.Context(), args, &printed); err != nil {
		t.Fatalf("run = %v\n%s", err, printed.String())
	}
	want := regexp.MustCompile(`^killed a worker behind the call of "reserve": 0 of 10 .*
killed a worker behind the call of "hand over": 5 of 10 steps are recorded
the order is completed: 10 receipts
12 calls of 10 steps in 3 tries, and no recorded step was called again
$`)
	if !want.MatchString(printed.String()) {
		t.Errorf("it says\n%s", printed.String())
	}
}
