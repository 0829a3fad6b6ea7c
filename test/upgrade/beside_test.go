//go:build unix

package upgrade_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testdb"
	"github.com/stint-tasks/stint/internal/testing/processes"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/migrations"
)

// A journal is what the programs write: a line for each performance.
type journal struct {
	t         *testing.T
	path, dir string
	env       []string
}

// newJournal makes programs that write into a journal. step fails at its first try if the task's
// name says so, hang does not end at its first try before the test does.
func newJournal(t *testing.T) *journal {
	t.Helper()
	const write = `echo "$STINT_TASK_ID,$STINT_TRY,$RELEASE" >>"$JOURNAL"` + "\n"
	j := &journal{t: t, path: filepath.Join(t.TempDir(), "journal")}
	over := j.path + ".over"
	j.env = []string{"JOURNAL=" + j.path, "OVER=" + over}
	j.dir = processes.Write(t, map[string]string{
		"step": write + `case $STINT_TRY$STINT_TASK_ID in 1*retry) exit 75;; esac` + "\n",
		"hang": write + `while [ $STINT_TRY = 1 ] && [ ! -e "$OVER" ] && [ -e "$JOURNAL" ]
			do sleep 0.1; done` + "\n",
	})
	wantErr(t, "WriteFile", os.WriteFile(j.path, nil, 0o600), nil)
	t.Cleanup(func() { _ = os.WriteFile(over, nil, 0o600) })
	return j
}

// work starts a worker that performs tasks with an action.
func (j *journal) work(r release, action string) *process {
	j.t.Helper()
	p := r.start(j.t, j.env, "worker", "--dir", j.dir, "--action", action, "--concurrency", "2",
		"--retry-base", "10ms")
	p.says("worker starts")
	return p
}

// lines returns how often each line was written.
func (j *journal) lines() map[string]int {
	j.t.Helper()
	text, err := os.ReadFile(j.path)
	wantErr(j.t, "ReadFile", err, nil)
	found := map[string]int{}
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, "\n") { // else it is being written
			found[strings.TrimSpace(line)]++
		}
	}
	return found
}

// by is how many performances a release has begun.
func (j *journal) by(release string) int {
	n := 0
	for line, times := range j.lines() {
		if strings.HasSuffix(line, ","+release) {
			n += times
		}
	}
	return n
}

// wantMore waits until a release has begun some performances from now on.
func (j *journal) wantMore(releases ...string) {
	j.t.Helper()
	const more = 20
	for _, name := range releases {
		from := j.by(name)
		eventually(j.t, "more tasks performed by "+name, func() bool {
			return j.by(name) >= from+more
		})
	}
}

func (j *journal) wantLine(line string) {
	j.t.Helper()
	eventually(j.t, line, func() bool { return j.lines()[line] > 0 })
}

// A stream of networks is inserted by processes of releases in turn.
type stream struct {
	mutex    sync.Mutex
	releases []release
	inserted []stint.TaskID
}

// pour inserts networks, when few are left to perform, until it is ended.
func (s *stream) pour(t *testing.T, pool *pgxpool.Pool, ended <-chan struct{}) {
	t.Helper()
	const networks, wide, left = 4, 5, 60
	for n := 0; ; n++ {
		select {
		case <-ended:
			return
		default:
		}
		var unfinished int
		err := pool.QueryRow(t.Context(),
			"SELECT count(*) FROM stint.task_states WHERE state < 10").Scan(&unfinished)
		if err != nil {
			t.Errorf("count: %v", err)
			return
		}
		if unfinished > left {
			select {
			case <-ended:
			case <-time.After(20 * time.Millisecond):
			}
			continue
		}
		s.mutex.Lock()
		r := s.releases[n%len(s.releases)]
		s.mutex.Unlock()
		var input strings.Builder
		encoder := json.NewEncoder(&input)
		for m := range networks {
			end := line{ID: fmt.Sprintf("%s %d/%d/end", r.name, n, m), Action: "step"}
			for i := range wide {
				task := line{ID: fmt.Sprintf("%s %d/%d/%d", r.name, n, m, i), Action: "step"}
				if i == m {
					task.ID += " retry"
				}
				end.After = append(end.After, task.ID)
				_ = encoder.Encode(task)
				s.inserted = append(s.inserted, stint.TaskID(task.ID))
			}
			_ = encoder.Encode(end)
			s.inserted = append(s.inserted, stint.TaskID(end.ID))
		}
		cmd := r.command(t.Context(), "insert")
		cmd.Stdin = strings.NewReader(input.String())
		if said, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s stint insert: %v\n%s", r.name, err, said)
			return
		}
	}
}

// A line is a task for stint insert.
type line struct {
	ID     string   `json:"id"`
	Action string   `json:"action"`
	After  []string `json:"after,omitempty"`
}

func (s *stream) join(r release) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.releases = append(s.releases, r)
}

// Old workers perform tasks while the schema is migrated; new ones join them, and take over what a
// process that was killed leaves, in both directions.
// Proves G155.
func TestWorkers_OfBothReleasesPerformEachTaskOnce(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	pool := testdb.NewEmpty(t)
	old, latest := oldRelease(t, pool), newRelease(t, pool)
	old.must(t, "", "migrate")
	j := newJournal(t)
	oldWorker, doomed := j.work(old, "step"), j.work(old, "hang")
	old.must(t, hanging("left by old"), "insert")
	j.wantLine("left by old,1,old")

	s, ended, poured := &stream{releases: []release{old}}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(poured)
		s.pour(t, pool, ended)
	}()
	stop := sync.OnceFunc(func() {
		close(ended)
		<-poured
	})
	defer stop()
	_, c := old.serve(t)
	looked := make(chan error, 1)
	go func() { // those who look must not be in the migrator's way
		looked <- lookUntil(t.Context(), c, ended)
	}()
	j.wantMore("old")
	latest.must(t, "", "migrate")
	wantVersion(t, pool, migrations.Version())
	j.wantMore("old")
	newWorker, heir := j.work(latest, "step"), j.work(latest, "hang")
	s.join(latest)
	j.wantMore("old", "new")

	doomed.kill()
	j.wantLine("left by old,2,new")
	latest.must(t, hanging("left by new"), "insert")
	j.wantLine("left by new,1,new")
	lastHeir := j.work(old, "hang")
	heir.kill()
	j.wantLine("left by new,2,old")
	j.wantMore("old", "new")
	stop()
	wantErr(t, "ListTasks", <-looked, nil)
	store := openStore(t, pool)
	eventually(t, "the end of all tasks", func() bool {
		return yields[int](t, pool, "SELECT count(*) FROM stint.task_states WHERE state < 10") == 0
	})
	for _, p := range []*process{oldWorker, newWorker, lastHeir} {
		p.stop()
	}
	wantEachOnce(t, j, append(s.inserted, "left by old", "left by new"))
	failed := yields[int](t, pool, "SELECT count(*) FROM stint.task_states WHERE state > 10")
	if failed > 0 {
		t.Errorf("%d tasks are aborted", failed)
	}
	wantClean(t, store, old)
}

func hanging(id string) string { return fmt.Sprintf(`{"id": %q, "action": "hang"}`, id) }

// lookUntil lists tasks again and again.
func lookUntil(ctx context.Context, v verbs, ended <-chan struct{}) error {
	for {
		select {
		case <-ended:
			return nil
		default:
		}
		if _, err := v.ListTasks(ctx, stint.Filter{Limit: 100}); err != nil {
			return err
		}
	}
}

// wantEachOnce checks that each task had the tries that it was to have, and each try was performed
// once.
func wantEachOnce(t *testing.T, j *journal, inserted []stint.TaskID) {
	t.Helper()
	tries := map[string]int{}
	for line, times := range j.lines() {
		try := line[:strings.LastIndex(line, ",")]
		tries[try] += times
	}
	want := map[string]int{}
	for _, id := range inserted {
		want[string(id)+",1"] = 1
		if strings.HasSuffix(string(id), "retry") || strings.HasPrefix(string(id), "left") {
			want[string(id)+",2"] = 1
		}
	}
	for try, n := range want {
		if tries[try] != n {
			t.Errorf("try %q was performed %d times, want %d", try, tries[try], n)
		}
	}
	for try, n := range tries {
		if want[try] == 0 {
			t.Errorf("try %q was performed %d times, want none", try, n)
		}
	}
	t.Logf("%d tasks, %d tries by the old release, %d by the new one", len(inserted), j.by("old"),
		j.by("new"))
}
