//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testrun"
	"github.com/stint-tasks/stint/internal/testservice"
	"github.com/stint-tasks/stint/ui"
)

// Whatever the world is like, each sentence that Explain, the commands and the page of a task say
// of it is true by the tables, and what is the reason is said.
//
// Proves G306.
func TestExplain_SaysWhatIsSoByTheTables(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	inWorlds(t, testrun.Rounds(40), func(t *testing.T, db *database, w *truth, met *testrun.Tally) {
		t.Helper()
		pages := ui.New(db.store, ui.Options{})
		texts := map[*taskTruth][]string{}
		for id, task := range w.byID {
			why, err := db.store.Explain(t.Context(), stint.TaskID(id))
			if err != nil {
				t.Fatal(err)
			}
			texts[task] = linesOf(id, why.String())
			w.check(t, met, "Explain", task, spoken(), texts[task])
			for _, missed := range w.missed(task, why.String()) {
				t.Errorf("Explain of %q does not name %q:\n%s", id, missed, why)
			}
			sentences, ok := sentencesOf(pageOf(t.Context(), pages, id))
			if !ok {
				t.Fatalf("the page of %q has no headline", id)
			}
			w.check(t, met, "the page", task, shown(), sentences)
		}
		w.wantCommands(t, db)
		w.wantLiesCaught(t, texts)
	})
}

// The same holds for what a service says to those who may not read every task: it names none that
// they may not read, and where it leaves out what holds a task up it says so.
//
// Proves G306, G311.
func TestServe_SaysWhatIsSoOfWhatMayBeSeen(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	viewers := map[string]*viewer{
		"few": {id: "t1"}, "fair": {action: "fair"}, "both": {id: "t", action: "b"},
	}
	inWorlds(t, testrun.Rounds(20), func(t *testing.T, db *database, w *truth, met *testrun.Tally) {
		t.Helper()
		grants, dir := "", t.TempDir()
		tokens := filepath.Join(dir, "tokens")
		bearer := map[string]string{}
		for name, v := range viewers {
			grants += fmt.Sprintf("%s: [{verbs: [read], actions: [%q], ids: [%q]}]\n", name,
				v.action+"*", v.id+"*")
			bearer[name] = db.newToken(t, tokens, name)
		}
		write(t, filepath.Join(dir, "grants"), grants)
		s := db.serve(t, "--tokens", tokens, "--grants", filepath.Join(dir, "grants"))
		for name, v := range viewers {
			w.viewer = v
			w.wantService(t, s, bearer[name], met)
		}
		s.stop(t)
	})
}

// inWorlds makes worlds, one after the other, and reads the truth of each.
func inWorlds(
	t *testing.T, worlds int, look func(t *testing.T, db *database, w *truth, met *testrun.Tally),
) {
	t.Helper()
	met := &testrun.Tally{}
	for range worlds { //nolint:paralleltest // one world at a time
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			db := newDatabase(t)
			newWorldOf(t, db, rand.New(rand.NewPCG(seed, 0))).live()
			look(t, db, readTruth(t, db.pool), met)
		})
	}
	t.Log(met)
}

// check compares what was said of a task with the tables.
func (w *truth) check(
	t *testing.T, met *testrun.Tally, where string, task *taskTruth, claims []claim, lines []string,
) {
	t.Helper()
	lies, made := w.wrong(task, claims, lines)
	for _, wrong := range append(lies, w.lacks(task, made)...) {
		t.Errorf("%s of %q, which is %s: %s\n%s", where, task.id, task.state, wrong,
			strings.Join(lines, "\n"))
	}
	for _, name := range made {
		met.Add(where+": "+name, 1)
	}
}

// linesOf are the lines of an explanation without the ID of the task.
func linesOf(id, text string) []string {
	text = strings.TrimSpace(strings.TrimPrefix(text, fmt.Sprintf("%q ", id)))
	return strings.Split(text, "\n")
}

// wantService checks what a service says of each task to one who may not read all of them.
func (w *truth) wantService(t *testing.T, s *server, token string, met *testrun.Tally) {
	t.Helper()
	c := testservice.Client(t, s.address, client.Options{Token: token})
	for id, task := range w.byID {
		why, err := c.Explain(t.Context(), stint.TaskID(id))
		_, page, _ := s.page(t, token, "/ui/task?id="+id)
		sentences, isTask := sentencesOf(page)
		if mayRead := w.mayRead(task); (err == nil) != mayRead || isTask != mayRead {
			t.Errorf("%v asks for %q (%s): %v, and is shown %q", *w.viewer, id, task.action, err,
				sentences)
			continue
		}
		if err != nil {
			continue
		}
		where := fmt.Sprintf("for %v, ", *w.viewer)
		w.check(t, met, where+"Explain", task, spoken(), linesOf(id, why.String()))
		w.check(t, met, where+"the page", task, shown(), sentences)
	}
}

// wantCommands compares what the commands say of some tasks.
func (w *truth) wantCommands(t *testing.T, db *database) {
	t.Helper()
	left := 3
	for id, task := range w.byID {
		said := db.run(t, "", "explain", id).wantExit(t, 0).stdout
		w.check(t, &testrun.Tally{}, "stint explain", task, spoken(), linesOf(id, said))
		w.wantShow(t, db, task)
		if left--; left == 0 {
			return
		}
	}
}

// wantShow compares what "stint show" says of a task.
func (w *truth) wantShow(t *testing.T, db *database, task *taskTruth) {
	t.Helper()
	show := db.run(t, "", "show", task.id).wantExit(t, 0).stdout
	fields := map[string]string{}
	for line := range strings.SplitSeq(show, "\n") {
		name := regexp.MustCompile(`^([a-z ]*?)  +`).FindString(line)
		fields[strings.TrimSpace(name)] = strings.TrimSpace(strings.TrimPrefix(line, name))
	}
	if fields["state"] != string(task.state) || fields["action"] != task.action ||
		task.state == stint.StateInProgress && fields["actor"] != task.owner.actor {
		t.Errorf("stint show %s, which is %s, owned by %q:\n%s", task.id, task.state,
			task.owner.actor, show)
	}
	for name, at := range map[string]time.Time{
		"not before": task.at, "lease expires": task.at, "deadline": task.deadline,
	} {
		said := fields[name]
		if said != "" && strings.Contains(said, " ago") != !at.After(w.now) {
			t.Errorf("stint show %s says %s %s, which is %v", task.id, name, said, at)
		}
	}
}

// wantLiesCaught checks the checker: what is said of a task in one state is not so of one in
// another.
func (w *truth) wantLiesCaught(t *testing.T, texts map[*taskTruth][]string) {
	t.Helper()
	for of, lines := range texts {
		for other := range texts {
			lies, _ := w.wrong(other, spoken(), lines)
			if of.state != other.state && len(lies) == 0 {
				t.Errorf("what is said of %q, which is %s, passes for %q, which is %s:\n%s",
					of.id, of.state, other.id, other.state, strings.Join(lines, "\n"))
			}
		}
	}
}
