package branch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Each task is performed by four workers, one after the other. The first dies before the work, the
// second after it, the third inside its commit, and the fourth never learns that it has committed.
// The first time that a task of each action is owned, there is a new commit. The three that were
// thought dead come back twice, when their task has just ended and when the story is over, and
// change nothing.
func TestExport_SurvivesDeathsAtEveryStep(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branch = "main"
	s := newStory(t)
	s.addBranch(t, branch)
	s.commit(t, branch)
	commits := int64(1)
	mortal := s.mortal(t)

	var late []*ownedTask
	seen := map[string]int{}
	comeBack := func(after string, tasks []*ownedTask) {
		before := s.snapshot(t)
		for _, task := range tasks {
			mustHandle(t, s.Exporter, task)
		}
		wantSame(t, after, s.snapshot(t), before)
	}
	for {
		task, err := s.own(t.Context(), "before the work")
		if err != nil {
			t.Fatal(err)
		}
		if task == nil {
			break
		}
		if seen[task.Action]++; seen[task.Action] == 1 {
			s.commit(t, branch)
			commits++
		}
		dead := append(s.dieTwice(t, mortal, task.ID), task)

		last := mustOwn(t, mortal, "with a lost answer")
		if last.ID != task.ID {
			t.Fatalf("%s was fetched instead of %s", last.ID, task.ID)
		}
		trap := s.proxy.Cut(pgcut.AtReply, commitAfter("log_performance"))
		mustHandle(t, mortal, last)
		if !trap.Sprung() {
			t.Fatalf("%s was not committed", task.ID)
		}
		comeBack("the end of "+string(task.ID), dead)
		late = append(late, dead...)
	}
	r := s.wantKept(t, branch, commits)
	for _, action := range []string{
		actionNext, actionStart, actionCopy, actionDelete, actionSuccess, actionManifest,
	} {
		if seen[action] == 0 {
			t.Errorf("no %s was performed", action)
		}
	}
	if r.Superseded == 0 {
		t.Error("no request was superseded")
	}
	comeBack("the end of the story", late)
	s.wantKept(t, branch, commits)
}

// dieTwice lets two workers die with a task that a third has died with.
func (s *story) dieTwice(t *testing.T, mortal *Exporter, id stint.TaskID) []*ownedTask {
	t.Helper()
	s.mustExpireLeases(t)
	after := mustOwn(t, mortal, "after the work")
	if _, err := mortal.perform(t.Context(), after); err != nil {
		t.Fatalf("%s: %v", after.ID, err)
	}

	s.mustExpireLeases(t)
	inside := mustOwn(t, mortal, "inside the commit")
	write, err := mortal.perform(t.Context(), inside)
	if err != nil {
		t.Fatalf("%s: %v", inside.ID, err)
	}
	trap := s.proxy.Cut(pgcut.AtRequest, commitAfter("log_performance"))
	if err := mortal.complete(t.Context(), inside, write); err == nil || !trap.Sprung() {
		t.Fatalf("complete of %s = %v, want the error of a connection", inside.ID, err)
	}
	s.wantState(t, id, stint.StateInProgress)

	s.mustExpireLeases(t)
	if after.ID != id || inside.ID != id {
		t.Fatalf("%s and %s were fetched instead of %s", after.ID, inside.ID, id)
	}
	return []*ownedTask{after, inside}
}

// An owner whose lease has expired completes its task, if nobody was given it since.
func TestExport_LateOwnersMayComplete(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branch = "main"
	s := newStory(t)
	s.addBranch(t, branch)
	s.commit(t, branch)
	for {
		task, err := s.own(t.Context(), "late")
		if err != nil {
			t.Fatal(err)
		}
		if task == nil {
			break
		}
		s.mustExpireLeases(t)
		mustHandle(t, s.Exporter, task)
		s.wantState(t, task.ID, stint.StateCompleted)
	}
	s.wantKept(t, branch, 1)
}

// A commit that dies leaves neither itself nor a request.
func TestCommit_DiesWithItsRequest(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branch = "main"
	s := newStory(t)
	s.addBranch(t, branch)
	s.commit(t, branch)
	s.drain(t)
	before := s.snapshot(t)
	mortal := s.mortal(t)
	trap := s.proxy.Cut(pgcut.AtRequest, commitAfter("add_request"))
	if _, err := mortal.Commit(t.Context(), branch, changes); err == nil || !trap.Sprung() {
		t.Fatalf("Commit = %v, want the error of a connection", err)
	}
	wantSame(t, "a commit that died", s.snapshot(t), before)

	trap = s.proxy.Cut(pgcut.AtReply, commitAfter("add_request"))
	if _, err := mortal.Commit(t.Context(), branch, changes); err == nil || !trap.Sprung() {
		t.Fatalf("Commit = %v, want the error of a connection", err)
	}
	s.drain(t)
	s.wantKept(t, branch, 2)
}

// A copy that fails for good ends neither the export nor the one after it, which puts it right.
func TestExport_GoesOnAfterACopyThatFails(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branch = "main"
	s := newStory(t)
	s.addBranch(t, branch)
	s.commit(t, branch)
	for task := s.drainUntil(t, actionCopy); ; task = s.drainUntil(t, actionCopy) {
		if task.body.Path != "a/b/y" {
			mustHandle(t, s.Exporter, task)
			continue
		}
		err := s.store.ReturnTask(t.Context(), task.ID, task.Token, "bad", stint.StatusAborted)
		if err != nil {
			t.Fatal(err)
		}
		break
	}
	s.commit(t, branch)
	s.wantState(t, nextID(branch), stint.StateBlocked) // The other copies are under way.
	manifest := s.drainUntil(t, actionManifest)
	// The copy, the _SUCCESS of its prefix and that of the prefix above.
	if want := 3; manifest.Aborted != want {
		t.Errorf("the manifest is told of %d tasks that failed, want %d", manifest.Aborted, want)
	}
	mustHandle(t, s.Exporter, manifest)
	s.drain(t)
	s.wantKept(t, branch, 2)
}

// Somebody may abort an export. That does not keep the next one from beginning.
func TestExport_GoesOnAfterItWasAborted(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branch = "main"
	for _, aborted := range [][]stint.TaskID{
		{startID(branch)}, {startID(branch), doneID(branch)},
	} {
		s := newStory(t)
		s.addBranch(t, branch)
		s.commit(t, branch)
		mustHandle(t, s.Exporter, s.drainUntil(t, actionNext))
		s.commit(t, branch)
		if _, err := s.store.AbortTasks(t.Context(), aborted, "not now"); err != nil {
			t.Fatal(err)
		}
		s.drain(t)
		s.wantKept(t, branch, 2)
	}
}

func TestWorker_ExtendsWhatTakesLong(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branch = "main"
	s := newStory(t)
	s.addBranch(t, branch)
	s.commit(t, branch)
	mortal := s.mortal(t)
	mortal.lease /= 1 << 14 // A fifth of a second.
	task := mustOwn(t, mortal, "slow")
	trap := s.proxy.Hold(pgcut.AtRequest, pgcut.Executes("hold_ownership"))
	done := make(chan error)
	go func() { done <- mortal.handle(t.Context(), task) }()
	<-trap.Reached()
	eventually(t, "longer lease", func() bool {
		infos, err := s.store.GetTasks(t.Context(), []stint.TaskID{task.ID})
		return err == nil && len(infos) == 1 && infos[0].LeaseUntil.After(task.LeaseUntil)
	})
	trap.Release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s.wantState(t, task.ID, stint.StateCompleted)
	s.drain(t)
	s.wantKept(t, branch, 1)
}

// Work ends with its context, or with an error of the store.
func TestWork_Ends(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branch, workers = "main", 3
	s := newStory(t)
	s.addBranch(t, branch)
	s.commit(t, branch)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Work(ctx, "test", workers) }()
	eventually(t, "end of the tasks", func() bool { return len(s.unfinished(t)) == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Work that was stopped = %v", err)
	}
	s.wantKept(t, branch, 1)

	mortal := s.mortal(t)
	if err := mortal.store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := mortal.Work(t.Context(), "test", workers); err == nil {
		t.Error("Work with a closed store = nil, want an error")
	}
}

func TestDestination_ShutsOutEarlierExports(t *testing.T) {
	t.Parallel()
	e := &Exporter{dir: t.TempDir()}
	d := openNew(t, e)
	one := begin(t, d, 1)
	for _, name := range []string{"a/kept", "gone"} {
		if err := d.put(one, name, []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.root.WriteFile(filepath.Join(one, "half"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	before := list(t, d)
	three := begin(t, d, 3)
	late := begin(t, d, 2) // Comes late, and leaves the later ones alone.
	for name, err := range map[string]error{
		"put":              d.put(one, "a/kept", []byte("late")),
		"put of a new one": d.put(one, "new", []byte("late")),
		"remove":           d.remove(one, "gone"),
		"remove of none":   d.remove(one, "none"),
	} {
		if !errors.Is(err, errLate) {
			t.Errorf("late %s = %v, want %v", name, err, errLate)
		}
	}
	wantSame(t, "late workers", list(t, d), before)
	again := begin(t, d, 3)
	for name, err := range map[string]error{
		"remove":               d.remove(three, "gone"),
		"remove again":         d.remove(three, "gone"),
		"put by another owner": d.put(again, "a/kept", []byte("3")),
		"makeDestination":      e.makeDestination("main"),
	} {
		if err != nil {
			t.Errorf("%s = %v", name, err)
		}
	}
	for _, gone := range []string{one, late} {
		if _, err := d.root.Stat(gone); err == nil {
			t.Errorf("the fence %s is still there", gone)
		}
	}
}

// Whatever late workers do at the moment they are shut out, nothing changes from then on. They are
// at it all the time, so they are caught between finding the directory and renaming, too.
func TestDestination_ShutsOutWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const exports, writers = 200, 4
	d := openNew(t, &Exporter{dir: t.TempDir()})
	fence := begin(t, d, 0)
	for export := int64(1); export <= exports; export++ {
		writing, ended := make(chan bool, writers), make(chan error, writers)
		for writer := range writers {
			go func() { ended <- keepWriting(d, fence, fmt.Sprint(export, writer), writing) }()
		}
		for range writers {
			<-writing
		}
		fence = begin(t, d, export)
		before := list(t, d)
		for range writers {
			if err := <-ended; !errors.Is(err, errLate) {
				t.Errorf("late put or remove = %v, want %v", err, errLate)
			}
		}
		wantSame(t, "late workers", list(t, d), before)
	}
}

// keepWriting changes an object until that fails, and tells when it has once.
func keepWriting(d *destination, fence, text string, writing chan<- bool) error {
	for n := 0; ; n++ {
		err := d.put(fence, "object", fmt.Append(nil, text, n))
		if err == nil && n%2 == 1 {
			err = d.remove(fence, "object")
		}
		if n == 0 {
			writing <- true
		}
		if err != nil {
			return err
		}
	}
}

// begin begins an export, as often as it takes.
func begin(t *testing.T, d *destination, export int64) (fence string) {
	t.Helper()
	eventually(t, "begin of an export", func() bool {
		var err error
		fence, err = d.begin(export)
		return err == nil
	})
	return fence
}

func openNew(t *testing.T, e *Exporter) *destination {
	t.Helper()
	if err := e.makeDestination("main"); err != nil {
		t.Fatal(err)
	}
	d, err := e.openDestination("main")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return d
}

func list(t *testing.T, d *destination) (lines []string) {
	t.Helper()
	found, err := d.list()
	if err != nil {
		t.Fatal(err)
	}
	for name, sum := range found {
		lines = append(lines, name+" "+sum)
	}
	return lines
}
