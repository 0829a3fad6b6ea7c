//go:build unix

package main

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/ui"
)

// A look is what somebody says of all tasks, and what of that is wrong.
type look func(t *testing.T, db *database, w *truth, met *testrun.Tally) (wrong []string)

// Whatever the world is like, each sentence that Explain, the commands and the page of a task say
// of it is true by the tables, and what is the reason is said.
//
// Proves G306.
func TestExplain_SaysWhatIsSoByTheTables(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	inWorlds(t, testrun.Rounds(40), lookAtStore)
}

func lookAtStore(t *testing.T, db *database, w *truth, met *testrun.Tally) (wrong []string) {
	t.Helper()
	says, shows, pages := spoken(), shown(), ui.New(db.store, ui.Options{})
	texts := map[*taskTruth][]string{}
	for id, task := range w.byID {
		why, err := db.store.Explain(t.Context(), stint.TaskID(id))
		if err != nil {
			t.Fatal(err)
		}
		texts[task] = linesOf(id, why.String())
		wrong = append(wrong, w.check(met, "Explain", task, says, texts[task])...)
		for _, missed := range w.missed(task, why.String()) {
			wrong = append(wrong, fmt.Sprintf("Explain of %q does not name %q:\n%s", id, missed,
				why))
		}
		sentences, ok := sentencesOf(pageOf(t.Context(), pages, id))
		if !ok {
			t.Fatalf("the page of %q has no headline", id)
		}
		wrong = append(wrong, w.check(met, "the page", task, shows, sentences)...)
	}
	wrong = append(wrong, w.wrongInCommands(t, db)...)
	return append(wrong, w.liesNotCaught(texts)...)
}

// The same holds for what a service says to those who may not read every task: it names none that
// they may not read, and where it leaves out what holds a task up it says so.
//
// Proves G306, G311.
func TestServe_SaysWhatIsSoOfWhatMayBeSeen(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	inWorlds(t, testrun.Rounds(20), lookAtService)
}

func lookAtService(t *testing.T, db *database, w *truth, met *testrun.Tally) (wrong []string) {
	t.Helper()
	viewers := map[string]*viewer{
		"few": {id: "t1"}, "fair": {action: "fair"}, "both": {id: "t", action: "b"},
	}
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
	defer s.stop(t)
	for name, v := range viewers {
		w.viewer = v
		wrong = append(wrong, w.wrongInService(t, s, bearer[name], met)...)
	}
	w.viewer = nil
	return wrong
}

// inWorlds makes worlds, one after the other, and looks at each.
func inWorlds(t *testing.T, worlds int, look look) {
	t.Helper()
	met := &testrun.Tally{}
	for range worlds {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			db := newDatabase(t)
			newWorldOf(t, db, rand.New(rand.NewPCG(seed, 0))).live()
			for {
				before := readTruth(t, db.pool)
				wrong := look(t, db, before, met)
				after := readTruth(t, db.pool)
				before.now = after.now
				if !reflect.DeepEqual(before, after) {
					continue // a store has unparked tasks since
				}
				for _, what := range wrong {
					t.Error(what)
				}
				return
			}
		})
	}
	t.Log(met)
}

// check compares what was said of a task with the tables.
func (w *truth) check(
	met *testrun.Tally, where string, task *taskTruth, claims []claim, lines []string,
) (all []string) {
	wrong, made := w.wrong(task, claims, lines)
	for _, what := range append(wrong, w.lacks(task, made)...) {
		all = append(all, fmt.Sprintf("%s of %q, which is %s, held up by %q: %s\n%s", where,
			task.id, task.state, w.holds(task), what, strings.Join(lines, "\n")))
	}
	for _, name := range made {
		met.Add(where+": "+name, 1)
	}
	return all
}

// linesOf are the lines of an explanation without the ID of the task.
func linesOf(id, text string) []string {
	text = strings.TrimSpace(strings.TrimPrefix(text, fmt.Sprintf("%q ", id)))
	return strings.Split(text, "\n")
}

// wrongInService is what is wrong in what a service says of each task to one who may not read all.
func (w *truth) wrongInService(
	t *testing.T, s *server, token string, met *testrun.Tally,
) (wrong []string) {
	t.Helper()
	says, shows := spoken(), shown()
	c := testservice.Client(t, s.address, client.Options{Token: token})
	for id, task := range w.byID {
		why, err := c.Explain(t.Context(), stint.TaskID(id))
		_, page, _ := s.page(t, token, "/ui/task?id="+id)
		sentences, isTask := sentencesOf(page)
		if mayRead := w.mayRead(task); (err == nil) != mayRead || isTask != mayRead {
			wrong = append(wrong, fmt.Sprintf("%v asks for %q (%s): %v, and is shown %q", *w.viewer,
				id, task.action, err, sentences))
			continue
		}
		if err != nil {
			continue
		}
		where := fmt.Sprintf("for %v, ", *w.viewer)
		wrong = append(wrong, w.check(met, where+"Explain", task, says,
			linesOf(id, why.String()))...)
		wrong = append(wrong, w.check(met, where+"the page", task, shows, sentences)...)
	}
	return wrong
}

// wrongInCommands is what is wrong in what the commands say of some tasks.
func (w *truth) wrongInCommands(t *testing.T, db *database) (wrong []string) {
	t.Helper()
	left := 3
	for id, task := range w.byID {
		said := db.run(t, "", "explain", id).wantExit(t, 0).stdout
		wrong = append(wrong, w.check(&testrun.Tally{}, "stint explain", task, spoken(),
			linesOf(id, said))...)
		show := db.run(t, "", "show", id).wantExit(t, 0).stdout
		wrong = append(wrong, w.wrongInShow(task, show)...)
		if left--; left == 0 {
			break
		}
	}
	return wrong
}

// wrongInShow is what is wrong in what "stint show" says of a task.
func (w *truth) wrongInShow(task *taskTruth, show string) (wrong []string) {
	fields := map[string]string{}
	for line := range strings.SplitSeq(show, "\n") {
		name := regexp.MustCompile(`^([a-z ]*?)  +`).FindString(line)
		fields[strings.TrimSpace(name)] = strings.TrimSpace(strings.TrimPrefix(line, name))
	}
	if fields["state"] != string(task.state) || fields["action"] != task.action ||
		task.state == stint.StateInProgress && fields["actor"] != task.owner.actor {
		wrong = append(wrong, fmt.Sprintf("stint show %s, which is %s, owned by %q:\n%s", task.id,
			task.state, task.owner.actor, show))
	}
	for name, at := range map[string]time.Time{
		"not before": task.at, "lease expires": task.at, "deadline": task.deadline,
	} {
		said := fields[name]
		if said != "" && strings.Contains(said, " ago") != !at.After(w.now) {
			wrong = append(wrong, fmt.Sprintf("stint show %s says %s %s, which is %v", task.id,
				name, said, at))
		}
	}
	return wrong
}

// liesNotCaught checks the checker: what is said of a task in one state is not so of one in
// another.
func (w *truth) liesNotCaught(texts map[*taskTruth][]string) (wrong []string) {
	says, ofStates := spoken(), map[stint.State]*taskTruth{}
	for task := range texts {
		ofStates[task.state] = task
	}
	for _, of := range ofStates {
		lines := texts[of]
		for _, other := range ofStates {
			lies, _ := w.wrong(other, says, lines)
			if of.state != other.state && len(lies) == 0 {
				wrong = append(wrong, fmt.Sprintf("what is said of %q, which is %s, passes for "+
					"%q, which is %s:\n%s", of.id, of.state, other.id, other.state,
					strings.Join(lines, "\n")))
			}
		}
	}
	return wrong
}
