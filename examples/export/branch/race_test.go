package branch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testing/pgcut"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// Commits of several branches race with their exports, while workers die at random, leases are
// aged with every death, and the dead come back late. Meanwhile the tasks are looked at: at every
// instant, a branch has tasks of one export at most.
// Proves G103.
func TestExport_ManyBranchesManyCommitsManyDeaths(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branches, commits, workers = 3, 20, 5
	s := newStory(t)
	var names []string
	for n := range branches {
		names = append(names, fmt.Sprintf("branch-%d", n+1))
		s.addBranch(t, names[n])
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var producers, others sync.WaitGroup
	try := func(group *sync.WaitGroup, work func() error) {
		group.Go(func() {
			if err := work(); err != nil {
				cancel(err)
			}
		})
	}
	for _, name := range names {
		try(&producers, func() error { return s.makeCommits(ctx, name, commits) })
	}
	finished := make(chan struct{})
	d := &deaths{story: s, finished: finished, late: make(chan *ownedTask, 1000)}
	for n := range workers {
		proxy := pgcut.New(t, s.pool)
		const connections = 2
		e := newExporter(t, proxy.Pool(t, connections), s.dir)
		try(&others, func() error {
			return d.work(ctx, e, proxy, stint.ActorID(strconv.Itoa(n)))
		})
	}
	try(&others, func() error { return d.comeBack(ctx, s.Exporter) })

	var made atomic.Bool
	go func() {
		producers.Wait()
		made.Store(true)
	}()
	looks := 0
	for over := false; !over && ctx.Err() == nil; looks++ {
		all := made.Load()
		tasks := s.unfinished(t)
		wantOneExportEach(t, tasks)
		over = all && len(tasks) == 0
	}
	close(finished)
	others.Wait()
	if err := context.Cause(ctx); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if r := s.wantKept(t, name, commits); r.Exports < commits/together {
			t.Errorf("%s: %d exports, want %d at least", name, r.Exports, commits/together)
		}
	}
	t.Logf("%d deaths, %d who came back late, %d looks", d.died.Load(), d.back.Load(), looks)
	if d.died.Load() == 0 || d.back.Load() == 0 {
		t.Error("nobody died, or nobody came back")
	}
}

// together is how many commits are made without looking whether they are exported.
const together = 5

// makeCommits makes commits as fast as it can, but lets an export begin now and then.
func (s *story) makeCommits(ctx context.Context, branch string, commits int64) error {
	for n := int64(0); ; n++ {
		if n%together == 0 {
			if err := s.waitForExport(ctx, branch, n/together); err != nil {
				return err
			}
		}
		made, err := s.Commit(ctx, branch, func(head int64, tree Tree) []Change {
			if head == commits {
				return nil
			}
			return changes(head, tree)
		})
		if err != nil || !made {
			return err
		}
	}
}

// waitForExport waits until so many exports have begun.
func (s *story) waitForExport(ctx context.Context, branch string, export int64) error {
	for {
		var begun int64
		err := s.pool.QueryRow(ctx, "SELECT exports FROM branches WHERE name = $1", branch).
			Scan(&begun)
		if err != nil || begun >= export {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// wantOneExportEach checks that the unfinished tasks of each branch are those of one export, and
// that next-export is not to be owned meanwhile. Manifests are written during the next export.
func wantOneExportEach(t *testing.T, tasks []stint.TaskInfo) {
	t.Helper()
	exports := map[string]map[string]bool{}
	next := map[string]stint.State{}
	for _, task := range tasks {
		name, number := "", ""
		switch task.Action {
		case actionNext:
			next[strings.TrimPrefix(string(task.ID), string(nextID("")))] = task.State
			continue
		case actionManifest:
			continue
		case actionStart:
			name = strings.TrimPrefix(string(task.ID), string(startID("")))
		case stint.Spontaneous:
			name = strings.TrimPrefix(string(task.ID), string(doneID("")))
		default:
			name, number, _ = strings.Cut(strings.TrimPrefix(string(task.ID), task.Action+"-"), "/")
			number, _, _ = strings.Cut(number, "/")
		}
		if exports[name] == nil {
			exports[name] = map[string]bool{}
		}
		if number != "" {
			exports[name][number] = true
		}
	}
	for name, numbers := range exports {
		if len(numbers) > 1 {
			t.Errorf("%s: exports %v at the same time", name, sortedKeys(numbers))
		}
		if state, ok := next[name]; ok && state != stint.StateBlocked {
			t.Errorf("%s: next-export is %s during an export", name, state)
		}
	}
}

// deaths are those of a story.
type deaths struct {
	story      *story
	finished   <-chan struct{}
	late       chan *ownedTask
	died, back atomic.Int64
}

// work performs tasks until the story is finished, and dies now and then.
func (d *deaths) work(
	ctx context.Context, e *Exporter, proxy *pgcut.Proxy, actor stint.ActorID,
) error {
	for {
		select {
		case <-d.finished:
			return nil
		case <-ctx.Done():
			return nil
		default:
		}
		task, err := e.own(ctx, actor)
		if err != nil {
			return err
		}
		if task == nil {
			select {
			case <-d.finished:
			case <-time.After(time.Millisecond):
			}
			continue
		}
		if err := d.handle(ctx, e, proxy, task); err != nil {
			return err
		}
	}
}

// handle performs a task, or dies with it: once in ten times, at a moment that is drawn.
func (d *deaths) handle(
	ctx context.Context, e *Exporter, proxy *pgcut.Proxy, task *ownedTask,
) error {
	const moments = 40
	switch moment := rand.N(moments); moment {
	case 0: // before the work
	case 1: // after it
		_, _ = e.perform(ctx, task) // An error would be that the lease was aged.
	case 2, 3: // inside the commit, or when it has just been made
		at := pgcut.AtRequest
		if moment == 3 {
			at = pgcut.AtReply
		}
		write, err := e.perform(ctx, task)
		if err == nil {
			var over atomic.Bool
			trap := proxy.Cut(at, func(r pgcut.Request) bool {
				return !over.Load() && commitAfter("log_performance")(r)
			})
			if err := e.complete(ctx, task, write); err == nil && !trap.Sprung() {
				return fmt.Errorf("%s was completed without a commit", task.ID)
			}
			over.Store(true)
		}
	default:
		return e.handle(ctx, task)
	}
	d.died.Add(1)
	d.late <- task
	return d.story.expireLeases(ctx)
}

// comeBack goes on with what the dead have left, whether it has passed to others or not.
func (d *deaths) comeBack(ctx context.Context, e *Exporter) error {
	for {
		select {
		case task := <-d.late:
			if err := e.handle(ctx, task); err != nil {
				return fmt.Errorf("late %s: %w", task.ID, err)
			}
			d.back.Add(1)
		case <-ctx.Done():
			return nil
		case <-d.finished:
			return nil
		}
	}
}

// Without deaths, the loop of the program performs it.
func TestWork_ExportsManyBranchesAtOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const branches, commits, workers = 4, 20, 6
	s := newStory(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Work(ctx, "test", workers) }()
	var producers sync.WaitGroup
	for n := range branches {
		name := fmt.Sprintf("branch-%d", n+1)
		s.addBranch(t, name)
		producers.Go(func() {
			if err := s.makeCommits(ctx, name, commits); err != nil {
				t.Error(err)
			}
		})
	}
	producers.Wait()
	eventually(t, "end of the tasks", func() bool { return len(s.unfinished(t)) == 0 })
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Work = %v", err)
	}
	for n := range branches {
		s.wantKept(t, fmt.Sprintf("branch-%d", n+1), commits)
	}
}
