//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/stint-tasks/stint"
)

// A story is a ledger with a task that two owners were given, and what the store says of it.
type story struct {
	*ledger
	first, second *owner
	found         []stint.TaskInfo
}

func tell() *story {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &story{ledger: newLedger()}
	for try, token := range []stint.Token{{15: 1}, {15: 2}} {
		s.give("actor", stint.OwnedTask{ID: "a", Token: token, Try: try + 1})
	}
	s.first, s.second = s.owners["a"][0], s.owners["a"][1]
	s.first.givenAt, s.second.givenAt = start, start.Add(20*time.Second)
	s.second.acceptedAt = start.Add(21 * time.Second)
	s.faultAt = start.Add(time.Second)
	s.insert("a", 0)
	s.found = []stint.TaskInfo{{
		ID: "a", StatusCode: stint.StatusCompleted, Result: []byte(resultOf(s.second.token)),
	}}
	return s
}

func TestJudge_FindsNothingWrongWithWhatIsRight(t *testing.T) {
	t.Parallel()
	s := tell()
	v := s.judge(s.found)
	if v.bad() || len(v.details) > 0 {
		t.Errorf("judge = %+v", v)
	}
	if v.underWay != 1 || v.retried != 1 || v.triesMax != 2 || v.gap != 20*time.Second {
		t.Errorf("judge = %+v, want a task in its second try after 20 s", v)
	}
}

func TestJudge_FindsWhatIsForged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		forge func(*story)
		bad   func(*verdict) int
	}{
		"a lost insert": {
			func(s *story) { s.found, s.owners = nil, nil },
			func(v *verdict) int { return v.insertsLost },
		},
		"a lost return": {
			func(s *story) { s.found[0].StatusCode = stint.StatusPending },
			func(v *verdict) int { return v.returnsLost },
		},
		"a result of another": {
			func(s *story) { s.found[0].Result = []byte(resultOf(s.first.token)) },
			func(v *verdict) int { return v.returnsLost },
		},
		"two returns": {
			func(s *story) { s.accept(s.first.token) },
			func(v *verdict) int { return v.doubles },
		},
	} {
		s := tell()
		test.forge(s)
		if v := s.judge(s.found); !v.bad() || test.bad(v) != 1 || len(v.details) == 0 {
			t.Errorf("%s: judge = %+v", name, v)
		}
	}
}

func TestIDs_NameWhatSomebodyWasGivenThoughItsInsertionIsUnknown(t *testing.T) {
	t.Parallel()
	s := tell()
	delete(s.inserted, "a")
	if ids := s.ids(); len(ids) != 1 || ids[0] != "a" {
		t.Errorf("ids = %q", ids)
	}
}
