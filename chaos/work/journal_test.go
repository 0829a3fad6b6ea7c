package work_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/chaos/work"
)

func TestJournal_IsReadAsItWasWrittenUpToALineThatIsCutOff(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j, err := work.OpenJournal(path, "worker-1.1")
	if err != nil {
		t.Fatal(err)
	}
	j.Write(work.Call{Verb: "InsertTasks", Outcome: work.OK, Items: []work.Item{{ID: "a"}}})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, `{"p":"wor`...), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var calls []work.Call
	if err := work.Read(file, func(c work.Call) { calls = append(calls, c) }); err != nil {
		t.Fatal(err)
	}
	if len(calls) != 2 || calls[0].Items[0].ID != "a" || calls[0].Process != "worker-1.1" ||
		calls[1].Verb != work.Gone || calls[1].Number != 2 || calls[0].Begin == 0 {
		t.Errorf("Read = %+v", calls)
	}
}

// A process that is killed may have changed tasks without having come to write down the answer.
func TestRead_KnowsOfCallsWithoutAnswer(t *testing.T) {
	t.Parallel()
	journal := `{"p":"a.1","n":1,"v":"RetryTasks","b":1,"e":1,"o":"asked","i":[{"id":"x"}]}
{"p":"a.1","n":2,"v":"DeleteTasks","b":2,"e":2,"o":"asked","i":[{"id":"y"}]}
{"p":"a.1","n":3,"v":"RetryTasks","b":1,"e":3,"o":"refused","i":[{"id":"x"}]}
{"p":"a.1","n":4,"v":"OwnTa`
	var calls []string
	err := work.Read(strings.NewReader(journal), func(c work.Call) {
		calls = append(calls, c.Verb+" "+string(c.Outcome))
	})
	want := []string{"RetryTasks refused", "DeleteTasks unknown"}
	if err != nil || !slices.Equal(calls, want) {
		t.Errorf("Read = %q, %v, want %q", calls, err, want)
	}
}

func TestJudge_TellsRefusalsFromWhatIsUnknown(t *testing.T) {
	t.Parallel()
	tests := []struct {
		err     error
		outcome work.Outcome
		kind    string
	}{
		{nil, work.OK, ""},
		{stint.ErrAlreadyReturned, work.OK, work.AlreadyReturned},
		{
			&stint.TaskError{IDs: []stint.TaskID{"a"}, Err: stint.ErrInvalidToken},
			work.Refused, "ErrInvalidToken",
		},
		{fmt.Errorf("insert: %w", stint.ErrTaskExists), work.Refused, "ErrTaskExists"},
		{context.DeadlineExceeded, work.Unknown, "context"},
		{&pgconn.PgError{Code: "57P01"}, work.Unknown, "57P01"},
		{errors.New("broken pipe"), work.Unknown, "connection"},
	}
	for _, test := range tests {
		if outcome, kind := work.Judge(test.err); outcome != test.outcome || kind != test.kind {
			t.Errorf("Judge(%v) = %v, %q", test.err, outcome, kind)
		}
	}
}
