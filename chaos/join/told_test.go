package join_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/chaos/join"
	"github.com/stint-tasks/stint/chaos/work"
)

// endedAt is when the task ends, in microseconds.
const endedAt = 70

func told(at int64, state string, ended int64) work.Call {
	return call(at, "Ends", work.OK, work.Item{Said: state, Number: ended})
}

func drew(at, claim, fence int64) work.Call {
	return call(at, "Fence", work.OK, work.Item{Token: token(claim), Number: fence})
}

func finished(at, claim int64, outcome work.Outcome) work.Call {
	said := string(stint.StatusCompleted)
	return call(at, work.FinishTask, outcome, work.Item{Token: token(claim), Said: said})
}

// fineToo is a history in which nothing is wrong: a task is given back, and then completed together
// with a receipt; each owner has drawn a fence, and somebody has followed the ends.
func fineToo() join.Input {
	in := fine()
	in.Calls[5], in.Calls[6] = finished(6, 2, work.Unknown), finished(7, 2, work.OK)
	in.Calls = append(in.Calls, drew(2, 1, 10), drew(4, 2, 11), drew(4, 2, 12),
		told(8, "completed", endedAt), told(9, "completed", endedAt))
	in.Followed = map[stint.TaskID]join.End{id: {State: stint.StateCompleted, At: endedAt}}
	in.Receipts = []work.Item{{ID: id, Token: token(2)}}
	return in
}

const firstFence, firstTold = 9, 12 // of the calls of fineToo

func TestJoin_FindsWhatIsWrongWithFencesEndsAndReceipts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		spoil      func(*join.Input)
	}{
		{
			"a fence is that of an earlier owner", "it drew 10, and an earlier owner 10",
			func(in *join.Input) { in.Calls[firstFence+1].Items[0].Number = 10 },
		},
		{
			"a fence is smaller", "it drew 9, and an earlier owner 10",
			func(in *join.Input) { in.Calls[firstFence+2].Items[0].Number = 9 },
		},
		{
			"an end was not told", "told to nobody",
			func(in *join.Input) { in.Calls = in.Calls[:firstTold] },
		},
		{
			"an earlier end was told, and not the last", "told to nobody",
			func(in *join.Input) {
				in.Calls = append(in.Calls[:firstTold], told(9, "completed", endedAt-1))
			},
		},
		{
			"an end was told that never was", "the task never was",
			func(in *join.Input) { in.Calls[firstTold].Items[0].Said = "skipped" },
		},
		{
			"ends were told out of order", "behind an end that was later",
			func(in *join.Input) { in.Calls[firstTold].Items[0].Number++ },
		},
		{
			"a receipt has no end", "its end 0 times",
			func(in *join.Input) { in.Receipts[0].Token = token(1) },
		},
		{
			"a receipt was committed twice", "its end 1 times",
			func(in *join.Input) { in.Receipts = append(in.Receipts, in.Receipts[0]) },
		},
		{
			"an end has no receipt", "its receipt was not",
			func(in *join.Input) { in.Receipts = nil },
		},
		{
			"finish_task was refused and took effect", "it was refused",
			func(in *join.Input) {
				in.Calls[5].Outcome, in.Calls[6].Outcome = work.Refused, work.Refused
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in := fineToo()
			test.spoil(&in)
			text := fmt.Sprint(join.Join(in).Violations)
			if !strings.Contains(text, test.want) || !strings.Contains(text, `task "1/task"`) {
				t.Errorf("Join finds %s, and not %q", text, test.want)
			}
		})
	}
}

func TestJoin_KnowsWhatIsRightWithFencesEndsAndReceipts(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*join.Input){
		"nothing is wrong": func(*join.Input) {},
		"a task of a round before": func(in *join.Input) {
			in.Receipts, in.Prefix = nil, "2/"
		},
		"an owner that was killed has committed a receipt": func(in *join.Input) {
			const silent = "a process that was killed says nothing"
			in.Calls[5].Verb, in.Calls[6].Verb, in.Calls[8].Verb = silent, silent, silent
		},
		"an unknown finish_task took no effect": func(in *join.Input) {
			in.Calls[6].Outcome = work.Unknown
			in.Calls[7].Verb = "nobody waits"
			in.Calls, in.Moves = in.Calls[:firstTold], in.Moves[:4]
			in.Followed, in.Receipts = map[stint.TaskID]join.End{id: {State: "ready"}}, nil
		},
		"another process follows from an earlier end on": func(in *join.Input) {
			in.Calls[firstTold+1].Items[0].Number = endedAt - 1
			in.Calls[firstTold+1].Process = "q"
		},
		"a replaced task is not told": func(in *join.Input) {
			in.Calls = in.Calls[:firstTold]
			in.Followed[id] = join.End{State: stint.StateAborted, Cause: "replaced"}
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := fineToo()
			change(&in)
			if found := join.Join(in); len(found.Violations) > 0 {
				t.Errorf("Join finds %v", found.Violations)
			}
		})
	}
}
