package join_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/chaos/join"
	"github.com/stint-tasks/stint/chaos/work"
	"github.com/stint-tasks/stint/docs/design"
	"github.com/stint-tasks/stint/internal/numbering"
)

const id = "1/task"

// A claim stands for a fetch of the task.
func token(claim int64) *stint.Token {
	t := stint.Token(numbering.New(numbering.Claim(uint64(claim)), 7, id, numbering.Hints{}))
	return &t
}

func call(at int64, verb string, outcome work.Outcome, item work.Item) work.Call {
	item.ID = id
	return work.Call{
		Process: "p", Number: int(at), Verb: verb, Begin: 10 * at, End: 10*at + 5,
		Outcome: outcome, Items: []work.Item{item},
	}
}

func inserted(at int64) work.Call { return call(at, "InsertTasks", work.OK, work.Item{}) }

func fetched(at, claim int64) work.Call {
	return call(at, "OwnTasks", work.OK, work.Item{Token: token(claim), Try: 1})
}

func returned(at, claim int64, code stint.StatusCode, outcome work.Outcome) work.Call {
	return call(at, "ReturnTasks", outcome, work.Item{Token: token(claim), Said: string(code)})
}

func move(claim int64, from, to string, notes ...string) join.Move {
	m := join.Move{
		ID: id, Key: 7, From: design.State{Name: from}, To: design.State{Name: to},
	}
	if claim != 0 {
		m.Claim = numbering.Claim(uint64(claim))
	}
	m.To.Note = strings.Join(notes, "")
	return m
}

// fine is a history in which nothing is wrong: a task is given back, and then completed.
func fine() join.Input {
	return join.Input{
		Calls: []work.Call{
			inserted(1),
			fetched(2, 1), returned(3, 1, stint.StatusPending, work.OK),
			fetched(4, 2), returned(5, 1, stint.StatusCompleted, work.Refused),
			returned(6, 2, stint.StatusCompleted, work.Unknown),
			returned(7, 2, stint.StatusCompleted, work.OK),
			call(8, "WaitForTasks", work.OK, work.Item{Said: "completed"}),
			{Process: "p", Verb: work.Gone},
		},
		Moves: []join.Move{
			move(0, "", "ready"), move(1, "ready", "in progress"), move(1, "in progress", "ready"),
			move(2, "ready", "in progress"), move(2, "in progress", "completed"),
		},
		Ends: map[stint.TaskID]join.End{id: {State: stint.StateCompleted}},
	}
}

// retriedAfter has the return that took effect be retried without an answer, and refused.
func retriedAfter(in *join.Input) {
	in.Calls[6] = call(7, "RetryTasks", work.OK, work.Item{})
	in.Calls[6].Begin, in.Calls[6].End = 62, 63 // the return lasts from 60 to 65
	in.Calls[5].Outcome, in.Calls[5].Items[0].Error = work.Refused, "ErrInvalidToken"
	in.Moves = append(in.Moves, move(3, "completed", "ready"))
}

func TestJoin_FindsNothingInAHistoryThatIsRight(t *testing.T) {
	t.Parallel()
	found := join.Join(fine())
	if len(found.Violations) > 0 || found.Inserted != 1 {
		t.Errorf("Join = %+v", found)
	}
}

func TestJoin_FindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		spoil      func(*join.Input)
	}{
		{"an inserted task is not there", "the task is not there", func(in *join.Input) {
			in.Ends = nil
		}},
		{"an inserted task has no moves", "nothing was committed", func(in *join.Input) {
			in.Moves = []join.Move{}
		}},
		{"a fetch has no move", "claim that was not committed", func(in *join.Input) {
			in.Moves = append(in.Moves[:1], in.Moves[3:]...)
		}},
		{"a task was given back without a move", "has not left", func(in *join.Input) {
			in.Moves = append(in.Moves[:2], in.Moves[3:]...)
		}},
		{"an accepted return has no move", "no end was committed", func(in *join.Input) {
			in.Moves = in.Moves[:4]
		}},
		{"a refused return has one", "it was refused", func(in *join.Input) {
			in.Moves = append(in.Moves, move(1, "in progress", "completed"))
		}},
		{"an end has no return", "nobody asked", func(in *join.Input) {
			in.Calls = slices.Delete(in.Calls, 5, 7)
		}},
		{"a busy return has one", "it was refused", func(in *join.Input) {
			in.Calls[5].Outcome, in.Calls[5].Items[0].Error = work.Refused, "ErrBusy"
			in.Calls = slices.Delete(in.Calls, 6, 7)
		}},
		{"a task ended twice under a claim", "2 ends", func(in *join.Input) {
			in.Moves = append(in.Moves, move(2, "in progress", "aborted", "returned"))
		}},
		{"two owners completed a task", "so were returns", func(in *join.Input) {
			in.Calls[4].Outcome = work.OK
		}},
		{"an owner was obeyed that had lost its task", "had been given", func(in *join.Input) {
			in.Calls = append(in.Calls, returned(9, 1, stint.StatusPending, work.OK))
		}},
		{"a completed task has another end", "the task is aborted", func(in *join.Input) {
			in.Ends[id] = join.End{State: stint.StateAborted, Cause: "tries"}
		}},
		{"an aborted task has another cause", "the task is aborted tries", func(in *join.Input) {
			in.Calls = []work.Call{
				inserted(1), fetched(2, 1), returned(3, 1, stint.StatusAborted, work.OK),
			}
			in.Ends[id] = join.End{State: stint.StateAborted, Cause: "tries"}
		}},
		{"a waiter was told another end", "the task never was", func(in *join.Input) {
			in.Calls[7].Items[0].Said = "aborted"
		}},
		{"the same without moves", "the task is completed", func(in *join.Input) {
			in.Calls[7].Items[0].Said, in.Moves = "aborted", nil
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			in := fine()
			test.spoil(&in)
			text := fmt.Sprint(join.Join(in).Violations)
			if !strings.Contains(text, test.want) {
				t.Errorf("Join finds %s, and not %q", text, test.want)
			}
			if !strings.Contains(text, `task "1/task"`) || !strings.Contains(text, "p, call ") {
				t.Errorf("it does not name the task and the call: %s", text)
			}
		})
	}
}

// A return is refused for a retry only if that came ahead of the answer, and took effect.
func TestJoin_FindsReturnsThatNoRetryExcuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*join.Input){
		"the retry came later": func(in *join.Input) {
			in.Calls[6].Begin, in.Calls[6].End = 71, 72
		},
		"the retry took no effect": func(in *join.Input) { in.Moves = in.Moves[:5] },
	} {
		in := fine()
		retriedAfter(&in)
		spoil(&in)
		text := fmt.Sprint(join.Join(in).Violations)
		if !strings.Contains(text, "it was refused") {
			t.Errorf("%s: Join finds %s", name, text)
		}
	}
}

func TestJoin_KnowsWhatIsNoViolation(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*join.Input){
		"a task that was deleted is not there": func(in *join.Input) {
			in.Calls = append(in.Calls, call(9, "DeleteTasks", work.Unknown, work.Item{}))
			in.Ends = nil
		},
		"a task that waited goes with those before it": func(in *join.Input) {
			in.Calls[0].Items[0].Said = work.Waiting
			in.Calls, in.Ends = in.Calls[:1], nil
		},
		"a retried task ends twice": func(in *join.Input) {
			in.Calls = append(in.Calls, call(9, "RetryTasks", work.OK, work.Item{}),
				fetched(10, 3), returned(11, 3, stint.StatusAborted, work.OK))
			in.Moves = append(in.Moves, move(3, "ready", "in progress"),
				move(3, "in progress", "aborted", "returned"))
			in.Ends[id] = join.End{State: stint.StateAborted, Cause: "returned"}
		},
		"a return was repeated after somebody retried the task": retriedAfter,
		"its owner was killed before it wrote the return down": func(in *join.Input) {
			in.Calls = append(in.Calls[:5], in.Calls[7])
		},
		"an owner was busy, tried again and was killed": func(in *join.Input) {
			in.Calls[5].Outcome, in.Calls[5].Items[0].Error = work.Refused, "ErrBusy"
			in.Calls = append(in.Calls[:6], in.Calls[7])
		},
		"an unknown return took no effect": func(in *join.Input) {
			in.Calls = in.Calls[:6]
			in.Moves = in.Moves[:4]
		},
		"an unknown return took effect": func(in *join.Input) {
			in.Calls = in.Calls[:6]
		},
		"acknowledged commits are lost, as they may": func(in *join.Input) {
			in.Loses, in.Ends, in.Moves = true, nil, nil
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := fine()
			change(&in)
			if found := join.Join(in); len(found.Violations) > 0 {
				t.Errorf("Join finds %v", found.Violations)
			}
		})
	}
}
