package main

import (
	"bytes"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestDemonstrate_PrintsWhatThePageShows(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	var printed bytes.Buffer
	if err := demonstrate(t.Context(), testdb.New(t), &printed); err != nil {
		t.Fatal(err)
	}
	const want = `trace 1  span 2  insert charge, in span 1
trace 1  span 1  POST /orders
trace 2  span 4  stint.step, step reserve, in span 3
trace 2  span 5  stint.step, step capture, in span 3: the bank does not answer
trace 2  span 3  perform charge, try 1, links to span 2: step "capture": the bank does not answer
trace 3  span 7  stint.step, step capture, in span 6
trace 3  span 8  insert mail, in span 6
trace 3  span 6  perform charge, try 2, links to span 2
trace 4  span 9  perform mail, try 1, links to span 8
`
	if printed.String() != want {
		t.Errorf("the program prints\n%s", printed.String())
	}
}
