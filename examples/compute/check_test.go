package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

const (
	computationA = stint.TaskID(factorPrefix + "15")
	computationB = stint.TaskID(factorPrefix + "77")
	valueA       = "3 * 5"
	valueB       = "7 * 11"
)

// second is a moment of the story.
func second(n float64) time.Time {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return start.Add(time.Duration(n * float64(time.Second)))
}

// A script is the lines of a story, each with a name.
type script struct {
	order   []string
	entries map[string]entry
}

func (s *script) add(name, process string, e entry) {
	e.Process = process
	s.order, s.entries[name] = append(s.order, name), e
}

func (s *script) ask(name, process string, request int, id stint.TaskID) {
	s.add(name, process, entry{Kind: asked, Request: request, Computation: id})
}

func (s *script) begin(process, performance string, id stint.TaskID, try int, from float64) {
	const lease = 2
	s.add("began "+performance, process, entry{
		Kind: began, Performance: performance, Computation: id, Try: try,
		Token: stint.Token{15: byte(len(s.order))},
		From:  second(from), Until: second(from + lease),
	})
}

func (s *script) deed(process, performance string, kind kind) {
	s.add(string(kind)+" "+performance, process, entry{Kind: kind, Performance: performance})
}

func (s *script) reply(
	process string, request int, id stint.TaskID, value, by string, how insertion, at float64,
) {
	s.add("answered "+process, process, entry{
		Kind: answered, Request: request, Computation: id, Insertion: how,
		InsertedAt: second(at), Answer: answer{value, by},
	})
}

func (s *script) victim(kind kind, name string) {
	s.add(string(kind)+" "+name, "compute", entry{Kind: kind, Victim: name})
}

// lines are the journal of the story, by a name for each.
func lines() ([]string, map[string]entry) {
	s := script{entries: map[string]entry{}}

	// The first owner of A is killed, and two requests get the result of the second one.
	s.ask("asked 1", "client-1", 1, computationA)
	s.ask("asked 2", "client-2", 2, computationA)
	s.begin("worker-1", "1/1", computationA, 1, 1)
	s.victim(killing, "worker-1")
	s.victim(died, "worker-1")
	s.begin("worker-2", "2/1", computationA, 2, 2)
	s.deed("worker-2", "2/1", returning)
	s.deed("worker-2", "2/1", accepted)
	s.reply("client-1", 1, computationA, valueA, "2/1", inserted, 0)
	s.reply("client-2", 2, computationA, valueA, "2/1", joined, 0)

	// The first owner of B is stopped and comes too late; a crash takes it from the second one.
	s.ask("asked 3", "client-3", 3, computationB)
	s.begin("worker-2", "2/2", computationB, 1, 4)
	s.deed("worker-2", "2/2", extending)
	s.deed("worker-2", "2/2", extended)
	s.victim(pausing, "worker-2")
	s.begin("worker-3", "3/1", computationB, 2, 6)
	s.deed("worker-2", "2/2", returning)
	s.deed("worker-2", "2/2", refused)
	s.add("crashing", "compute", entry{Kind: crashing, At: second(7)})
	s.add("restarted", "compute", entry{Kind: restarted, At: second(7.2)})
	s.begin("worker-4", "4/1", computationB, 3, 7.6)
	s.deed("worker-3", "3/1", lost)
	s.deed("worker-4", "4/1", returning)
	s.deed("worker-4", "4/1", accepted)
	s.reply("client-3", 3, computationB, valueB, "4/1", unsure, 3.5)

	// A is deleted, and performed once more.
	s.add("deleted", "compute", entry{Kind: deleted, Computation: computationA})
	s.ask("asked 4", "client-4", 4, computationA)
	s.begin("worker-4", "4/2", computationA, 1, 20)
	s.deed("worker-4", "4/2", returning)
	s.reply("client-4", 4, computationA, valueA, "4/2", inserted, 19)
	return s.order, s.entries
}

// story is evidence with which nothing is wrong, and a forgery of it.
type story struct {
	t       *testing.T
	order   []string
	entries map[string]entry
	evidence
}

func newStory(t *testing.T) *story {
	t.Helper()
	s := &story{t: t, evidence: evidence{expected: 4, torn: 1, results: []result{
		{computationA, "2/1", valueA}, {computationB, "4/1", valueB}, {computationA, "4/2", valueA},
	}}}
	s.order, s.entries = lines()
	return s
}

func (s *story) tell() evidence {
	e := s.evidence
	for _, name := range s.order {
		e.entries = append(e.entries, s.entries[name])
	}
	return e
}

func (s *story) drop(names ...string) {
	s.order = slices.DeleteFunc(s.order, func(name string) bool {
		return slices.Contains(names, name)
	})
}

func (s *story) change(name string, change func(*entry)) {
	s.t.Helper()
	e, ok := s.entries[name]
	if !ok {
		s.t.Fatalf("the story has no line %q", name)
	}
	change(&e)
	s.entries[name] = e
}

// insert adds a line behind another one.
func (s *story) insert(behind, name string, e entry) {
	s.t.Helper()
	place := slices.Index(s.order, behind)
	if place < 0 {
		s.t.Fatalf("the story has no line %q", behind)
	}
	s.order = slices.Insert(s.order, place+1, name)
	s.entries[name] = e
}

func TestCheck_AcceptsAStoryInWhichAllIsAsPromised(t *testing.T) {
	t.Parallel()
	if problems := check(newStory(t).tell()); len(problems) > 0 {
		t.Errorf("check = %q, want nothing", problems)
	}
}

// forgeries make evidence of a store that has broken one promise each.
var forgeries = map[string]struct {
	forge func(s *story)
	want  string
}{
	"a request without an answer": {
		func(s *story) { s.drop("answered client-2") }, "request 2: asked 1 times, 0",
	},
	"a request with two answers": {
		func(s *story) {
			s.insert("answered client-2", "again", s.entries["answered client-2"])
		}, "request 2: asked 1 times, 2",
	},
	"an answer to nobody": {
		func(s *story) { s.drop("asked 2") }, "request 2: answered before it was asked",
	},
	"a request that is not there at all": {
		func(s *story) { s.drop("asked 2", "answered client-2") }, "3 requests were",
	},
	"the answer to another question": {
		func(s *story) {
			s.change("asked 3", func(e *entry) { e.Computation = computationA })
		}, "the answer is of",
	},
	"a wrong result": {
		func(s *story) {
			s.change("answered client-3", func(e *entry) { e.Answer.Value = "7 * 13" })
		}, "request 3: wrong result",
	},
	"a wrong result in the table": {
		func(s *story) { s.results[1].Value = "1 * 77" }, "wrong result in the table",
	},
	"equal requests with results of different performances": {
		func(s *story) {
			s.change("answered client-2", func(e *entry) { e.Answer.Performance = "1/1" })
		}, "request 2: got",
	},
	"two results of a task": {
		func(s *story) {
			s.results = append(s.results, result{computationB, "3/1", valueB})
		}, "2 results in the table",
	},
	"the same result twice": {
		func(s *story) { s.results = append(s.results, s.results[0]) },
		"2 results in the table",
	},
	"no result in the table": {
		func(s *story) { s.results = s.results[1:] }, "0 results in the table",
	},
	"a result of nobody": {
		func(s *story) { s.results[0].Performance = "9/9" }, "which had no such task",
	},
	"a result of a late owner": {
		func(s *story) {
			s.results[1].Performance = "2/2"
			s.change("answered client-3", func(e *entry) { e.Answer.Performance = "2/2" })
		}, "told that it lost the task",
	},
	"a late owner whose result counts instead": {
		func(s *story) {
			s.results[1].Performance = "2/2"
			s.change("answered client-3", func(e *entry) { e.Answer.Performance = "2/2" })
			s.change("refused 2/2", func(e *entry) { e.Kind = accepted })
			s.drop("returning 4/1", "accepted 4/1")
		}, "was given the task after 2/2",
	},
	"two owners that were told so": {
		func(s *story) {
			s.change("refused 2/2", func(e *entry) { e.Kind = accepted })
		}, "is not in the table",
	},
	"an owner after the end": {
		func(s *story) {
			s.insert("answered client-2", "again", entry{
				Process: "worker-3", Kind: began, Performance: "3/0", Computation: computationA,
				Token: stint.Token{1}, Try: 3, From: second(10), Until: second(12),
			})
		}, "3/0 was given the task after 2/1",
	},
	"a try that was given out twice": {
		func(s *story) {
			s.change("began 3/1", func(e *entry) { e.Try = 1 })
		}, "try 1 was given to",
	},
	"a token that was given out twice": {
		func(s *story) {
			token := s.entries["began 2/2"].Token
			s.change("began 3/1", func(e *entry) { e.Token = token })
		}, "the same token",
	},
	"an owner confirmed when another one had the task": {
		func(s *story) {
			late := entry{Process: "worker-2", Kind: extending, Performance: "2/2"}
			s.insert("began 3/1", "late", late)
			late.Kind = extended
			s.insert("late", "later", late)
		}, "2/2 was the owner when 3/1 already was",
	},
	"a fetch during a lease": {
		func(s *story) {
			s.change("began 3/1", func(e *entry) { e.From = second(5.7) })
		}, "3/1 was given the task at",
	},
	"a fetch during the lease of one that was not killed": {
		func(s *story) {
			s.torn = 0
			s.drop("killing worker-1", "died worker-1")
		}, "2/1 was given the task at",
	},
	"a fetch before the owner was killed": {
		func(s *story) {
			killing := s.entries["killing worker-1"]
			s.drop("killing worker-1")
			s.insert("began 2/1", "killing worker-1", killing)
		}, "2/1 was given the task at",
	},
	"a fetch during a lease without a crash": {
		func(s *story) { s.drop("crashing", "restarted") }, "4/1 was given the task at",
	},
	"a result that nobody returned": {
		func(s *story) { s.drop("returning 4/2") }, "which returned none",
	},
	"two tasks for one name": {
		func(s *story) { s.drop("deleted") }, "request 4: answered by another task",
	},
	"the result of a task that was deleted": {
		func(s *story) {
			s.drop("asked 4", "answered client-4")
			s.insert("deleted", "asked 4", s.entries["asked 4"])
			old := s.entries["answered client-2"]
			old.Request = 4
			s.insert("asked 4", "answered client-4", old)
		}, "request 4: answered by another task",
	},
	"a deletion that came too late": {
		func(s *story) {
			s.drop("deleted")
			s.insert("asked 4", "deleted", entry{Kind: deleted, Computation: computationA})
		}, "request 4: answered by another task",
	},
	"two requests that inserted": {
		func(s *story) {
			s.change("answered client-2", func(e *entry) { e.Insertion = inserted })
		}, "inserted by 2 requests",
	},
	"a task that nobody inserted": {
		func(s *story) {
			s.change("answered client-1", func(e *entry) { e.Insertion = joined })
		}, "inserted by 0 requests",
	},
	"a task that nobody asked for": {
		func(s *story) {
			s.drop("began 1/1")
			s.order = slices.Insert(s.order, 0, "began 1/1")
		}, "before anybody asked",
	},
	"a dead worker that goes on": {
		func(s *story) {
			s.insert("died worker-1", "ghost", entry{
				Process: "worker-1", Kind: returning, Performance: "1/1",
			})
		}, "worker-1, dead since",
	},
	"a performance of somebody else": {
		func(s *story) {
			s.change("returning 4/1", func(e *entry) { e.Process = "worker-3" })
		}, "which it did not begin",
	},
	"more torn lines than killed workers": {
		func(s *story) { s.torn = 2 }, "2 lines are torn",
	},
}

func TestCheck_RejectsForgedEvidence(t *testing.T) {
	t.Parallel()
	for name, forgery := range forgeries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			forgery.forge(s)
			problems := check(s.tell())
			if !strings.Contains(strings.Join(problems, "\n"), forgery.want) {
				t.Errorf("check = %q, want %q among it", problems, forgery.want)
			}
		})
	}
}

func TestTable_CountsWhatHappened(t *testing.T) {
	t.Parallel()
	s := newStory(t)
	s.change("answered client-2", func(e *entry) { e.Waited = 1500 * time.Millisecond })
	_, figures, _ := strings.Cut(s.tell().table(), "\n")
	want := "4 1 3 3 2 1 1 1 1.5 s"
	if got := strings.Join(strings.Fields(figures), " "); got != want {
		t.Errorf("figures = %q, want %q", got, want)
	}
}

func TestJournal_ReadsAroundTornLines(t *testing.T) {
	t.Parallel()
	whole := "\n{\"process\":\"a\",\"kind\":\"asked\"}\n"
	for _, torn := range []string{"\n{\"process\":\"b\",\"ki", "\n{", "\n{\"pro"} {
		entries, n, err := readJournal(strings.NewReader(whole + torn + whole + torn))
		if err != nil || len(entries) != 2 || n != 2 {
			t.Errorf("with %q torn: %d entries, %d torn, %v; want 2, 2", torn, len(entries), n, err)
		}
	}
	entries, n, err := readJournal(strings.NewReader(whole + "\n"))
	if err != nil || len(entries) != 1 || n != 0 {
		t.Errorf("torn at once: %d entries, %d torn, %v; want 1, 0", len(entries), n, err)
	}
	if _, _, err := readJournal(strings.NewReader(`{"request":"x"}`)); err == nil {
		t.Error("a line that no process writes is read")
	}
}
