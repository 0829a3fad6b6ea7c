package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/localpg"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestMain(m *testing.M) { testdb.Main(m) }

// The program tells its story to the end. Of one order, eu and us may be at work at once.
func TestRun_LosesAShardAndGetsItBack(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	var printed processes.Buffer
	err := run(t.Context(), &printed)
	if errors.Is(err, localpg.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("run = %v\n%s", err, printed.String())
	}
	want := strings.Split(strings.TrimPrefix(`
two shards, eu and us, each with a PostgreSQL of its own
order 1: five tasks, inserted together; its edges lead to us and back
  eu performs order/1/charge
  eu performs order/1/thank, with the charge of eu
  us performs order/1/pack, with the charge of eu
  us performs order/1/ship, with the pack of us
  eu performs order/1/invoice, with the charge of eu and the ship of us
order 2: us goes away before its charge
  eu performs order/2/charge, with the money of eu
  eu performs order/2/thank, with the charge of eu
  its invoice waits for us, and nothing else does
order 3: inserted while us is away
  refused as a whole: eu has none of its tasks either
us is back
  us performs order/2/pack, with the charge of eu
  us performs order/2/ship, with the pack of us
  eu performs order/2/invoice, with the charge of eu and the ship of us
both orders are done, each task once; the check of both shards finds nothing
`, "\n"), "\n")
	got := strings.Split(printed.String(), "\n")
	isThanks := func(line string) bool { return strings.Contains(line, "/thank") }
	inOrder := func(lines []string) []string {
		return slices.DeleteFunc(slices.Clone(lines), isThanks)
	}
	thanks := func(lines []string) int { return len(lines) - len(inOrder(lines)) }
	if !slices.Equal(inOrder(got), inOrder(want)) || thanks(got) != thanks(want) {
		t.Errorf("run prints\n%s\nwant\n%s", printed.String(), strings.Join(want, "\n"))
	}
}
