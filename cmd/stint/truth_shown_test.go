//go:build unix

package main

import (
	"context"
	"html"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui"
)

// The times on a page: how far they are, and exactly.
const (
	exactly = `\{([^}]*)\}`
	ago     = exactly + "(?:.+ ago|just now)"
	soon    = exactly + "in .+?"
	span    = exactly + ".+?"
)

// shown are the claims of the sentences on the page of a task.
func shown() []claim {
	return slices.Concat(shownEnds(), shownWaits(), shownOwned(), shownReady(), shownHolds(),
		spokenStart("Starts", "When it starts", `\.`), shownChances(), shownSilence())
}

func shownEnds() []claim {
	return []claim{
		claimOf("completed", "Completed "+ago+"(?: by .*)?\\.", in(stint.StateCompleted),
			itsTime(1)),
		claimOf("aborted", "Aborted "+ago+": ([^:]*)\\.", in(stint.StateAborted), itsTime(1),
			isEnded(2)),
		claimOf("skipped", "Skipped "+ago+": (.*)\\.", in(stint.StateSkipped), itsTime(1),
			isEnded(2)),
	}
}

func shownWaits() []claim {
	return []claim{
		claimOf("blocked", `Blocked: it waits for (the first of )?(\d+) tasks?\.`,
			in(stint.StateBlocked), func(w *truth, task *taskTruth, said []string) bool {
				return number(said[2]) == w.unfinished(task) && (said[1] != "") == task.isAny()
			}),
		claimOf("not before", "It does not begin before "+soon+"\\.", in(stint.StateBlocked),
			itsTime(1), isLater),
		claimOf("scheduled", "Scheduled: it begins "+soon+"\\.", in(stint.StateScheduled),
			itsTime(1), isLater),
		claimOf("due", "Scheduled: it was due "+ago+", and nobody has made it ready yet\\.",
			in(stint.StateScheduled), itsTime(1), isPast),
		claimOf("pause", "That is the pause before the next try\\.", in(stint.StateScheduled),
			isLater, func(_ *truth, task *taskTruth, _ []string) bool { return task.tries > 0 }),
		claimOf("those", "Those do who ask for tasks, and stores that maintain\\.",
			in(stint.StateScheduled), isPast),
	}
}

func shownOwned() []claim {
	return []claim{
		claimOf("owned", "In progress: (.*?) (?:has owned it for .*|owns it)\\.",
			in(stint.StateInProgress), func(_ *truth, task *taskTruth, said []string) bool {
				return said[1] == task.owner.actor
			}),
		claimOf("lease", "Its lease expires "+soon+", unless the owner extends it\\.",
			in(stint.StateInProgress), itsTime(1), isLater),
		claimOf("expired", "Its lease expired "+ago+", and nobody has taken it over yet\\.",
			in(stint.StateInProgress), itsTime(1), isPast),
		claimOf("for ever", "Its lease does not expire\\.", in(stint.StateInProgress),
			func(_ *truth, task *taskTruth, _ []string) bool { return task.forEver }),
		claimOf("unwatched", "Nobody watches the process of its owner: if that is gone, the task "+
			"stays with it( until the lease expires)?\\.", isPresent(false, false),
			func(_ *truth, task *taskTruth, said []string) bool {
				return (said[1] == "") == task.forEver
			}),
		claimOf("gone", "The process of its owner is gone: .*", isPresent(false, true)),
	}
}

func shownReady() []claim {
	return []claim{
		claimOf("overdue", "Ready, but its deadline passed "+ago+": it is fetched no more\\.",
			in(stint.StateReady), isOverdue, itsDeadline(1)),
		claimOf("external", "Ready: it waits for an answer from outside\\.", isExternal,
			func(_ *truth, task *taskTruth, _ []string) bool { return task.deadline.IsZero() }),
		claimOf("external", "Ready: it waits for an answer from outside, which must come "+soon+
			"\\.", isExternal, isInTime, itsDeadline(1)),
		claimOf("waits", "Ready: it waits for an actor\\.", isFree, isQueued, isTold,
			func(w *truth, task *taskTruth, _ []string) bool { return w.isAsked(task.action) }),
		claimOf("hidden", "Ready: it waits for an actor, or for other tasks of its action, "+
			"which you may not see\\.", isFree, isHidden),
		claimOf("free slot", "Ready: it waits for a free slot\\.", isFree, isTold,
			func(w *truth, task *taskTruth, _ []string) bool {
				return !w.isAsked(task.action) && w.actors[task.action] > 0
			}),
		claimOf("parked", "Ready, but parked, though nothing holds it up any more\\.", isFree,
			isParked, isAllSeen),
		claimOf("put back", "A store that maintains puts it back into the queue\\.", isFree,
			isParked, isAllSeen),
	}
}

func shownHolds() []claim {
	held := func(name, form string, all ...isSo) claim {
		return claimOf(name, "(?:Ready, but )?"+form, append(all, holding(name))...)
	}
	return []claim{
		held("paused", "the action .* was paused "+ago+"\\.", isActionPaused(1)),
		held("key paused", "the key (.*) was paused "+ago+"\\.", itsKey(1), isKeyPaused(2)),
		held("limit", `the limit is full: (\d+) of (\d+) tasks of .* are in progress\.`,
			isAllSeen, isInProgress),
		held("order",
			"tasks with the key (.*) come one at a time, in order, and one has not ended\\.",
			itsKey(1), isAllSeen),
		held("key limit", `the limit of its key is full: (\d+) of (\d+) tasks with the key (.*) `+
			`are in progress\.`, itsKey(3), isAllSeen, isKeyInProgress),
		held("rate", "the rate of .* is used up: the next task may begin "+exactly+
			"(?:in .*|now)\\.", isAllSeen, func(w *truth, task *taskTruth, said []string) bool {
			return near(w.token(task.action), said[1])
		}),
		held("key rate", "the rate of its key is used up: the next task with the key (.*) may "+
			"begin "+exactly+"(?:in .*|now)\\.", itsKey(1), isAllSeen,
			func(w *truth, task *taskTruth, said []string) bool {
				return near(w.keyToken(task), said[2])
			}),
		held("turn", "it waits for its turn\\.", isHidden),
		held("turn", `it waits for its turn: that of its key (?:is next|comes after (\d+) `+
			`others?)\.`, isAllSeen, func(w *truth, task *taskTruth, said []string) bool {
			_, ahead := w.turnsAhead(task)
			return said[1] == "" && ahead == 0 || number(said[1]) == ahead
		}),
		claimOf("waiting", "Tasks with the key (.*) that wait: (.*)\\.", itsKey(1), isAllSeen,
			isWaiting(2)),
	}
}

func shownChances() []claim {
	return []claim{
		claimOf("tries", `Tries left: (\d+) of (\d+)\.`, areTriesLeft),
		claimOf("passed", "Its deadline passed "+ago+"\\.", isOverdue, itsDeadline(1)),
		claimOf("aborts", "A store that maintains aborts it\\.", isOverdue),
		claimOf("deadline", "It is aborted unless it has ended by its deadline, "+soon+"\\.",
			isInTime, itsDeadline(1)),
	}
}

func shownSilence() []claim {
	held := func(name, form string, all ...isSo) claim {
		return claimOf(name, "(?:Ready, but n|N)obody "+form, append(all, isSilent)...)
	}
	return []claim{
		held("nobody asks", "asks for .*\\.", func(w *truth, task *taskTruth, _ []string) bool {
			return w.asked[task.action].IsZero()
		}),
		held("nobody has asked", "has asked for [^{]* for "+span+"\\.", lastAsked(1)),
		claimOf("no worker", "There is no worker for this action, or none with a free slot\\.",
			isSilent),
		claimOf("no slot", `No slot is free of (\d+) actors? registered for [^{]*`, isBusy(1),
			func(w *truth, task *taskTruth, _ []string) bool {
				return w.asked[task.action].IsZero()
			}),
		claimOf("no slot", `No slot is free of (\d+) actors? registered for [^{]*: nobody has `+
			"asked for more for "+span+"\\.", isBusy(1), lastAsked(2)),
	}
}

// sentencesOf are the sentences on the page of a task that say why it does not run; in front of
// each time stands what it is exactly. ok is false if the page is not that of a task.
func sentencesOf(page string) (sentences []string, ok bool) {
	tags := regexp.MustCompile("<[^>]*>")
	times := regexp.MustCompile(`<time datetime="([^"]*)"[^>]*>`)
	plain := func(text string) string {
		text = times.ReplaceAllString(text, "{$1}")
		return strings.TrimSpace(html.UnescapeString(tags.ReplaceAllString(text, "")))
	}
	_, rest, ok := strings.Cut(page, `<p class="headline">`)
	if !ok {
		return nil, false
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
	return sentences, true
}

// pageOf is the page of a task.
func pageOf(ctx context.Context, pages *ui.Handler, id string) string {
	answer := httptest.NewRecorder()
	pages.ServeHTTP(answer, httptest.NewRequestWithContext(
		ctx, "GET", "/task?id="+url.QueryEscape(id), nil))
	return answer.Body.String()
}
