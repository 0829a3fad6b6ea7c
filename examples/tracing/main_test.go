package main

import (
	"bytes"
	"testing"

	"github.com/stint-tasks/stint/internal/testdb"
)

func TestMain(m *testing.M) { testdb.Main(m) }

func TestDemonstrate_PrintsWhatThePageShows(t *testing.T) {
	t.Parallel()
	var printed bytes.Buffer
	if err := demonstrate(t.Context(), testdb.New(t), &printed); err != nil {
		t.Fatal(err)
	}
	const want = `trace 1  span 1  POST /orders
trace 2  span 3  stint.step, action charge, step reserve, in span 2
trace 2  span 4  stint.step, action charge, step capture, in span 2: the bank does not answer
trace 2  span 2  stint.perform, action charge, try 1, links to span 1: step "capture": ` +
		`the bank does not answer
trace 3  span 6  stint.step, action charge, step capture, in span 5
trace 3  span 5  stint.perform, action charge, try 2, links to span 1
trace 4  span 7  stint.perform, action mail, try 1, links to span 5
`
	if printed.String() != want {
		t.Errorf("the program prints\n%s", printed.String())
	}
}
