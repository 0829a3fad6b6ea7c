package main

import (
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestRun_WaitsForAPerson(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	var printed processes.Buffer
	args := []string{"-once", "-database-url", testdb.New(t).Config().ConnString()}
	if err := run(t.Context(), args, &printed); err != nil {
		t.Fatalf("run = %v\n%s", err, printed.String())
	}
	for _, want := range []string{
		"/approve?id=purchase%2F7%2Fapprove&key=",
		`"purchase/7/approve" is ready: it waits for an answer from outside`,
		"pressed Yes: 200 OK", "pressed Yes: 409 Conflict", "it is approved, and ordered",
	} {
		if !strings.Contains(printed.String(), want) {
			t.Errorf("it says\n%s\nwant %q in it", printed.String(), want)
		}
	}
}
