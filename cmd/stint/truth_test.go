//go:build unix

package main

import (
	"fmt"
	"html"
	"math/rand/v2"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/testrun"
	"github.com/stint-tasks/stint/ui"
)

// shown are the claims of the sentences on the page of a task.
func shown() []claim {
	when := `(.+? ago|in .+?|now|just now)`
	isPast := func(said string) bool { return !strings.HasPrefix(said, "in ") }
	always := func(*truth, *taskTruth, []string) bool { return true }
	state := func(of stint.State, is func(*truth, *taskTruth, []string) bool) func(
		*truth, *taskTruth, []string) bool {
		return func(w *truth, task *taskTruth, said []string) bool {
			return task.state == of && is(w, task, said)
		}
	}
	ended := func(w *truth, task *taskTruth, said []string) bool {
		return endedBy(w, task, said[1])
	}
	free := func(w *truth, task *taskTruth, _ []string) bool {
		return isFree(w, task) && !task.parked && w.isAsked(task.action)
	}
	silent := func(w *truth, task *taskTruth, _ []string) bool { return isSilent(w, task) }
	busy := func(w *truth, task *taskTruth, said []string) bool {
		return !w.isAsked(task.action) && number(said[1]) == w.actors[task.action]
	}
	overdue := func(w *truth, task *taskTruth, _ []string) bool { return w.isOverdue(task) }
	held := func(name, form string, is func(*truth, *taskTruth, []string) bool) claim {
		return claimOf(name, "(?:Ready, but )?"+form, is)
	}
	external := func(w *truth, task *taskTruth, _ []string) bool {
		return task.action == stint.External && !w.isOverdue(task)
	}
	return []claim{
		claimOf("completed", "Completed .*", in(stint.StateCompleted)),
		claimOf("aborted", "Aborted .*?: (.*)\\.", state(stint.StateAborted, ended)),
		claimOf("skipped", "Skipped .*?: (.*)\\.", state(stint.StateSkipped, ended)),
		claimOf("blocked", `Blocked: it waits for (?:the first of )?(\d+) tasks?\.`,
			state(stint.StateBlocked, func(w *truth, task *taskTruth, said []string) bool {
				return number(said[1]) == w.unfinished(task)
			})),
		claimOf("not before", "It does not begin before "+when+"\\.", state(stint.StateBlocked,
			func(w *truth, task *taskTruth, _ []string) bool { return task.at.After(w.now) })),
		claimOf("scheduled", "Scheduled: it begins "+when+"\\.", state(stint.StateScheduled,
			func(w *truth, task *taskTruth, said []string) bool {
				return task.at.After(w.now) && !isPast(said[1])
			})),
		claimOf("due", "Scheduled: it was due "+when+", and nobody has made it ready yet\\.",
			state(stint.StateScheduled, func(w *truth, task *taskTruth, said []string) bool {
				return !task.at.After(w.now) && isPast(said[1])
			})),
		claimOf("pause", "That is the pause before the next try\\.", state(stint.StateScheduled,
			func(w *truth, task *taskTruth, _ []string) bool {
				return task.tries > 0 && task.at.After(w.now)
			})),
		claimOf("those", "Those do who ask for tasks, and stores that maintain\\.",
			in(stint.StateScheduled)),
		claimOf("owned", "In progress: (.*?) (?:has owned it for .*|owns it)\\.",
			state(stint.StateInProgress, func(_ *truth, task *taskTruth, said []string) bool {
				return said[1] == task.owner.actor
			})),
		claimOf("lease", "Its lease expires "+when+", unless the owner extends it\\.",
			state(stint.StateInProgress, func(w *truth, task *taskTruth, said []string) bool {
				return task.at.After(w.now) && !isPast(said[1])
			})),
		claimOf("expired", "Its lease expired "+when+", and nobody has taken it over yet\\.",
			state(stint.StateInProgress, func(w *truth, task *taskTruth, said []string) bool {
				return !task.forEver && !task.at.After(w.now) && isPast(said[1])
			})),
		claimOf("for ever", "Its lease does not expire\\.", state(stint.StateInProgress,
			func(_ *truth, task *taskTruth, _ []string) bool { return task.forEver })),
		claimOf("unwatched", "Nobody watches the process of its owner: .*",
			state(stint.StateInProgress, func(w *truth, task *taskTruth, _ []string) bool {
				_, known := w.watched[task.owner]
				return !known
			})),
		claimOf("gone", "The process of its owner is gone: .*", state(stint.StateInProgress,
			func(w *truth, task *taskTruth, _ []string) bool {
				lives, known := w.watched[task.owner]
				return known && !lives
			})),
		claimOf("overdue", "Ready, but its deadline passed .* ago: it is handed out no more\\.",
			state(stint.StateReady, overdue)),
		claimOf("passed", "Its deadline passed .* ago\\.", overdue),
		claimOf("aborts", "A store that maintains aborts it\\.", overdue),
		claimOf("deadline", "It is aborted unless it has ended by its deadline, in .*\\.",
			func(w *truth, task *taskTruth, _ []string) bool { return task.deadline.After(w.now) }),
		claimOf("external",
			"Ready: it waits for an answer from outside(?:, which must come .*)?\\.",
			state(stint.StateReady, external)),
		claimOf("waits", "Ready: it waits for an actor\\.", free),
		claimOf("free slot", "Ready: it waits for a free slot\\.",
			func(w *truth, task *taskTruth, _ []string) bool {
				return isFree(w, task) && !w.isAsked(task.action) && w.actors[task.action] > 0
			}),
		claimOf("parked", "Ready, but parked, though nothing holds it up any more\\.",
			func(w *truth, task *taskTruth, _ []string) bool {
				return isFree(w, task) && task.parked
			}),
		claimOf("put back", "A store that maintains puts it back into the queue\\.",
			func(w *truth, task *taskTruth, _ []string) bool {
				return isFree(w, task) && task.parked
			}),
		held("nobody asks", "[nN]obody asks for .*\\.", silent),
		held("nobody has asked", "[nN]obody has asked for .* for .*\\.", silent),
		claimOf("no worker",
			"There is no worker for this action, or none with a free slot\\.", silent),
		claimOf("no slot", `No slot is free of (\d+) actors? registered for .*`, busy),
		held("paused", "the action .* was paused .* ago\\.", holding("paused")),
		held("key paused", "the key .* was paused .* ago\\.", holding("key paused")),
		held("limit", `the limit is full: .* tasks of .* are in progress\.`, holding("limit")),
		held("order",
			"tasks with the key .* come one at a time, in order, and one has not ended\\.",
			holding("order")),
		held("key limit", "the limit of its key is full: .*", holding("key limit")),
		held("rate", "the rate of .* is used up: the next task may begin (?:in .*|now)\\.",
			holding("rate")),
		held("key rate", "the rate of its key is used up: .* may begin (?:in .*|now)\\.",
			holding("key rate")),
		held("turn", "it waits for its turn: .*", holding("turn")),
		claimOf("waiting", "Tasks with the key .* that wait: .*", always),
		claimOf("tries", `Tries left: (\d+) of (\d+)\.`,
			func(_ *truth, task *taskTruth, said []string) bool {
				return number(said[1]) == max(task.maxTries-task.tries, 0) &&
					number(said[2]) == task.maxTries
			}),
	}
}

// pageSentences are the sentences on the page of a task that say why it does not run.
func pageSentences(t *testing.T, pages *ui.Handler, id string) (sentences []string) {
	t.Helper()
	answer := httptest.NewRecorder()
	pages.ServeHTTP(answer, httptest.NewRequestWithContext(
		t.Context(), "GET", "/task?id="+url.QueryEscape(id), nil))
	page := answer.Body.String()
	tags := regexp.MustCompile("<[^>]*>")
	plain := func(text string) string {
		return strings.TrimSpace(html.UnescapeString(tags.ReplaceAllString(text, "")))
	}
	_, rest, ok := strings.Cut(page, `<p class="headline">`)
	if !ok {
		t.Fatalf("the page of %q has no headline:\n%s", id, page)
	}
	headline, rest, _ := strings.Cut(rest, "</p>")
	sentences = append(sentences, plain(headline))
	section, _, _ := strings.Cut(rest, "</section>")
	if _, list, ok := strings.Cut(section, `<ul class="details">`); ok {
		list, _, _ = strings.Cut(list, "</ul>")
		for _, item := range strings.Split(list, "<li>")[1:] {
			sentences = append(sentences, plain(item))
		}
	}
	return sentences
}

// lacks returns what is not said of a task though it should be.
func (w *truth) lacks(task *taskTruth, made []string) (lacking []string) {
	want := func(names ...string) {
		if !slices.ContainsFunc(names, func(name string) bool {
			return slices.Contains(made, name)
		}) {
			lacking = append(lacking, fmt.Sprintf("nothing is said of %q", names))
		}
	}
	silence := []string{"nobody asks", "nobody has asked"}
	switch task.state {
	case stint.StateReady:
		holds := w.holds(task)
		switch {
		case w.isOverdue(task):
			want("overdue")
			return lacking
		case task.action == stint.External:
			want("external")
			return lacking
		case len(holds) > 0:
			for _, hold := range holds {
				want(hold)
			}
		default:
			want(append(silence, "waits", "free slot", "parked")...)
		}
		if isSilent(w, task) {
			want(silence...)
		}
	case stint.StateScheduled:
		want("scheduled", "due")
	case stint.StateInProgress:
		want("owned")
		lives, known := w.watched[task.owner]
		if !lives && (task.forEver || task.at.After(w.now)) {
			want(map[bool]string{true: "gone", false: "unwatched"}[known])
		}
	case stint.StateBlocked:
		want("blocked")
	case stint.StateCompleted:
		want("completed")
	case stint.StateSkipped:
		want("skipped")
	default:
		want("aborted")
	}
	if w.isOverdue(task) && task.state != stint.StateReady {
		want("passed")
	}
	return lacking
}

// Whatever the world is like, each sentence that Explain, the commands and the page of a task say
// of it is true by the tables, and what is the reason is said.
//
// Proves G306.
func TestExplain_SaysWhatIsSoByTheTables(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	met := map[string]int{}
	for range testrun.Rounds(40) { //nolint:paralleltest // one world at a time
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			db := newDatabase(t)
			newWorldOf(t, db, rand.New(rand.NewPCG(seed, 0))).live()
			w := readTruth(t, db.pool)
			pages := ui.New(db.store, ui.Options{})
			var all []*taskTruth
			texts := map[string][]string{}
			for id, task := range w.byID {
				why, err := db.store.Explain(t.Context(), stint.TaskID(id))
				if err != nil {
					t.Fatal(err)
				}
				text := strings.TrimPrefix(why.String(), fmt.Sprintf("%q ", id))
				texts[id] = strings.Split(text, "\n")
				check := func(where string, claims []claim, lines []string) {
					t.Helper()
					lies, made := w.wrong(task, claims, lines)
					for _, wrong := range append(lies, w.lacks(task, made)...) {
						t.Errorf("%s of %q, which is %s: %s\n%s", where, id, task.state, wrong,
							strings.Join(lines, "\n"))
					}
					for _, name := range made {
						met[where+": "+name]++
					}
				}
				check("Explain", spoken(), texts[id])
				check("the page", shown(), pageSentences(t, pages, id))
				all = append(all, task)
			}
			w.wantCommands(t, db, all)
			w.wantLiesCaught(t, all, texts)
		})
	}
	t.Log(met)
}

// wantCommands compares what the commands say of some tasks.
func (w *truth) wantCommands(t *testing.T, db *database, all []*taskTruth) {
	t.Helper()
	const some = 3
	for _, task := range all[:min(some, len(all))] {
		lines := strings.Split(strings.TrimSpace(strings.TrimPrefix(
			db.run(t, "", "explain", task.id).wantExit(t, 0).stdout, fmt.Sprintf("%q ", task.id))),
			"\n")
		lies, made := w.wrong(task, spoken(), lines)
		for _, wrong := range append(lies, w.lacks(task, made)...) {
			t.Errorf("stint explain %s: %s", task.id, wrong)
		}
		show := db.run(t, "", "show", task.id).wantExit(t, 0).stdout
		fields := map[string]string{}
		for _, line := range strings.Split(show, "\n") {
			name := regexp.MustCompile(`^([a-z ]*?)  +`).FindString(line)
			fields[strings.TrimSpace(name)] = strings.TrimSpace(strings.TrimPrefix(line, name))
		}
		if fields["state"] != string(task.state) || fields["action"] != task.action ||
			task.state == stint.StateInProgress && fields["actor"] != task.owner.actor {
			t.Errorf("stint show %s, which is %s, owned by %q:\n%s", task.id, task.state,
				task.owner.actor, show)
		}
		past := func(name string, at time.Time) {
			said := fields[name]
			if said == "" {
				return
			}
			if strings.Contains(said, " ago") != !at.After(w.now) {
				t.Errorf("stint show %s says %s %s, which is %v", task.id, name, said, at)
			}
		}
		past("not before", task.at)
		past("lease expires", task.at)
		past("deadline", task.deadline)
	}
}

// wantLiesCaught checks the checker: what is said of a task in one state is not so of one in
// another.
func (w *truth) wantLiesCaught(t *testing.T, all []*taskTruth, texts map[string][]string) {
	t.Helper()
	for _, of := range all {
		for _, other := range all {
			lies, _ := w.wrong(other, spoken(), texts[of.id])
			if of.state != other.state && len(lies) == 0 {
				t.Errorf("what is said of %q, which is %s, passes for %q, which is %s:\n%s",
					of.id, of.state, other.id, other.state, strings.Join(texts[of.id], "\n"))
			}
		}
	}
}
