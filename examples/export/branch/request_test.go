package branch

import (
	"fmt"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

func TestCommit_WhenNothingIsUnderWay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branch = "main"
	s := newStory(t)
	s.addBranch(t, branch)
	for commit := int64(1); commit <= 2; commit++ {
		s.commit(t, branch)
		s.wantState(t, nextID(branch), stint.StateReady)
		s.drain(t)
		if r := s.wantKept(t, branch, commit); r.Exports != commit {
			t.Errorf("%d exports, want %d", r.Exports, commit)
		}
	}
	nothing := func(int64, Tree) []Change { return nil }
	if made, err := s.Commit(t.Context(), branch, nothing); err != nil || made {
		t.Errorf("Commit of nothing = %v, %v", made, err)
	}
	s.wantKept(t, branch, 2)
}

// Of the requests that come while a task of each action is in progress, and while none is, the
// newest is exported next and the others are not.
func TestCommit_WhileAnExportIsUnderWay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branch = "main"
	s := newStory(t)
	s.addBranch(t, branch)
	s.commit(t, branch)
	mustHandle(t, s.Exporter, s.drainUntil(t, actionNext))
	commits := int64(1)
	for _, action := range []string{actionStart, actionCopy, actionSuccess} {
		s.commit(t, branch)
		task := s.drainUntil(t, action)
		s.commit(t, branch)
		s.wantState(t, nextID(branch), stint.StateBlocked)
		mustHandle(t, s.Exporter, task)
		commits += 2
	}
	s.drain(t)
	if r := s.wantKept(t, branch, commits); r.Exports != 2 || r.Superseded != commits-2 {
		t.Errorf("%d exports and %d superseded, want 2 and %d", r.Exports, r.Superseded, commits-2)
	}
}

// A request that meets next-export in somebody's hands is left to that owner, or to the next one if
// that owner has died.
func TestCommit_WhileNextExportIsInProgress(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branch = "main"
	s := newStory(t)
	s.addBranch(t, branch)
	s.commit(t, branch)
	dead := s.drainUntil(t, actionNext)
	s.commit(t, branch)
	s.wantState(t, nextID(branch), stint.StateInProgress)
	s.mustExpireLeases(t)
	task := s.drainUntil(t, actionNext)
	s.commit(t, branch)
	mustHandle(t, s.Exporter, dead)
	mustHandle(t, s.Exporter, task)
	s.drain(t)
	if r := s.wantKept(t, branch, 3); r.Exports != 1 {
		t.Errorf("%d exports, want 1", r.Exports)
	}
}

// A request meets the end of the export, which signals next-export: one of them comes to each of
// the points below first, and the other one then runs into it. Both get through, and the request
// is exported.
func TestCommit_WhenTheExportEndsAtThisMoment(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	s := newStory(t)
	mortal := s.mortal(t)
	for n, meeting := range []meeting{
		{requestFirst: true, at: pgcut.AtRequest, statement: "withdraw_tasks"},
		{requestFirst: true, at: pgcut.AtRequest, statement: "lock_dependencies"},
		{requestFirst: true, at: pgcut.AtReply, statement: "add_edges"},
		{requestFirst: true, at: pgcut.AtRequest, commit: "add_request"},
		{requestFirst: false, at: pgcut.AtRequest, statement: "settle_tasks"},
		{requestFirst: false, at: pgcut.AtReply, statement: "settle_tasks"},
		{requestFirst: false, at: pgcut.AtRequest, commit: "log_performance"},
	} {
		branch := fmt.Sprintf("branch-%d", n)
		s.addBranch(t, branch)
		s.commit(t, branch)
		last := s.drainUntil(t, actionStart)
		s.commit(t, branch) // So that there is a next-export to replace.
		for s.objectsLeft(t) != 1 {
			mustHandle(t, s.Exporter, last)
			last = mustOwn(t, s.Exporter, "drain")
		}
		request := func(e *Exporter) error {
			_, err := e.Commit(t.Context(), branch, changes)
			return err
		}
		end := func(e *Exporter) error { return e.handle(t.Context(), last) }
		first, second := end, request
		if meeting.requestFirst {
			first, second = request, end
		}
		s.meet(t, meeting, func() error { return first(mortal) },
			func() error { return second(s.Exporter) })
		s.drain(t)
		if r := s.wantKept(t, branch, 3); r.Exports != 2 {
			t.Errorf("%+v: %d exports, want 2", meeting, r.Exports)
		}
	}
}

type meeting struct {
	requestFirst bool
	at           pgcut.Instant
	statement    string // of the one that is first
	commit       string // or the commit after this statement of the application
}

// meet stops the first at a point, and goes on when the second waits for it or has got through.
func (s *story) meet(t *testing.T, at meeting, first, second func() error) {
	t.Helper()
	match := pgcut.Executes(at.statement)
	if at.commit != "" {
		match = commitAfter(at.commit)
	}
	trap := s.proxy.Hold(at.at, match)
	firstDone, secondDone := make(chan error, 1), make(chan error, 1)
	go func() { firstDone <- first() }()
	select {
	case <-trap.Reached():
	case err := <-firstDone:
		t.Fatalf("%+v: was not executed: %v", at, err)
	}
	go func() { secondDone <- second() }()
	eventually(t, "meeting", func() bool { return len(secondDone) > 0 || s.waitsForLock(t) })
	trap.Release()
	for _, done := range []<-chan error{firstDone, secondDone} {
		if err := <-done; err != nil {
			t.Errorf("%+v: %v", at, err)
		}
	}
}

// objectsLeft is how many tasks done-export waits for.
func (s *story) objectsLeft(t *testing.T) (n int) {
	t.Helper()
	for _, task := range s.unfinished(t) {
		switch task.Action {
		case actionStart:
			return -1 // Nobody knows yet.
		case actionCopy, actionDelete, actionSuccess:
			n++
		}
	}
	return n
}
