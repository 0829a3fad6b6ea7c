package demo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
)

// Text describes the event: a headline, and an explanation. Progress has only a headline.
func (e Event) Text(style Style) string {
	headline, why := e.words()
	lines := style.indented(headline, nil)
	lines[0] = style.in(grey, fmt.Sprintf("  %4.1f s  ", e.Seconds)) + lines[0][len(margin):]
	if why != "" {
		lines = append(lines, style.indented(why, grey)...)
	}
	return strings.Join(lines, "\n")
}

func (e Event) words() (headline, why string) {
	switch e.Kind {
	case KindInserted:
		return fmt.Sprintf("inserted %s in one transaction: a photo agency makes its yearbook",
				counted(e.Tasks, "task")),
			"Films are scanned, photos fan out of each, and what they fan in to waits: a page, " +
				"an index, the book. A waiting task counts the signals that it misses, and " +
				"whatever ends a task signals its dependents in the same transaction."
	case KindWorking:
		return fmt.Sprintf("worker-1 (this process) and %s (process %d) own tasks",
				e.Actor, e.Process),
			fmt.Sprintf("With each task comes a token, which every later call is checked against, "+
				"and a lease of %.0f s, which a heartbeat extends.", lease.Seconds())
	case KindFailed:
		return fmt.Sprintf("%s has failed (%s) and will be tried again", e.Task, e.Status),
			"After a pause, during which it is scheduled. One photo in ten fails at first."
	case KindAborted:
		return fmt.Sprintf("aborted %s, and with it what depends on it: %s",
				e.Task, counted(e.Tasks, "task")),
			fmt.Sprintf("The film is lost. The task was in progress: its owner was told after "+
				"%s by its context (%s). The book will be bound all the same: it runs anyway.",
				milliseconds(e.After), e.Status)
	case KindKilled:
		return fmt.Sprintf("killed %s (process %d) while it owned %s",
				e.Actor, e.Process, counted(e.Tasks, "task")),
			fmt.Sprintf("It could not give them back, and their leases last for another %.0f s. "+
				"But its session with the database has ended.", e.LeaseLeft)
	case KindHandedOn:
		return fmt.Sprintf("%s later all of them are with %s", milliseconds(e.After), e.Actor),
			"Each under a new token. Should the old owner come back, its tokens are refused."
	case KindPrinted:
		return "the book is bound and printed",
			"Whoever bound it was " + e.Status + "."
	case KindSprinted:
		return fmt.Sprintf("%s without any work: inserted in %.2f s, performed in %.2f s",
				counted(e.Sprint.Tasks, "task"), e.Sprint.Inserted,
				e.Sprint.Performed),
			"Owned and returned a thousand at a time. What took the yearbook so long was its " +
				"pretended work."
	default:
		return e.Picture.Line(), ""
	}
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.0f ms", seconds*1_000) }

// Text is the summary for people.
func (sum *Summary) Text(style Style) string {
	verdict := style.in(green, "every task ended as it should have, and Check finds nothing wrong")
	if !sum.OK {
		verdict = style.in(red, counted(len(sum.Problems), "problem"))
	}
	lines := []string{
		"", fmt.Sprintf("%s: %s", style.bold(fmt.Sprintf("%s in %.1f s",
			counted(sum.Tasks, "task"), sum.Seconds)), verdict),
	}
	const shown = 10
	for i, problem := range sum.Problems {
		if i == shown {
			lines = append(lines, "  and so on")
			break
		}
		lines = append(lines, "  "+style.in(red, problem))
	}
	lines = append(lines, "")
	lines = append(lines, sum.table(style)...)
	lines = append(
		lines, "",
		fmt.Sprintf("  tries        %s failed, %s ended with %s; %s in the book all the same",
			grouped(sum.Failures), grouped(sum.HandedOn), SecondActor,
			counted(sum.Photos, "photo")),
		fmt.Sprintf("  killed       noticed after %s, all handed on after %s (the lease: %.0f s)",
			milliseconds(sum.Noticed), milliseconds(sum.Taken), lease.Seconds()),
		fmt.Sprintf("  tasks/s      %.0f of pretended work; without work %s inserted, %s performed",
			sum.TasksPerSecond, grouped(int(sum.InsertedPerSecond)),
			grouped(int(sum.PerformedPerSecond))),
	)
	return strings.Join(lines, "\n")
}

// table has a row for each state and a column for each number of tries.
func (sum *Summary) table(style Style) []string {
	columns := map[int]bool{}
	for _, tries := range sum.Tries {
		for n := range tries {
			columns[n] = true
		}
	}
	numbers := slices.Sorted(maps.Keys(columns))
	header := fmt.Sprintf("  %-12s %7s", "", "tasks")
	for _, n := range numbers {
		header += fmt.Sprintf(" %9s", cmp.Or(map[int]string{1: "1 try"}[n],
			fmt.Sprintf("%d tries", n)))
	}
	lines := []string{style.in(grey, header)}
	for _, state := range states() {
		tries := sum.Tries[state]
		if len(tries) == 0 {
			continue
		}
		line := style.in(markOf(state).colour, fmt.Sprintf("  %-12s", state)) +
			fmt.Sprintf(" %7s", grouped(sum.States[state]))
		for _, n := range numbers {
			cell := ""
			if tries[n] > 0 {
				cell = grouped(tries[n])
			}
			line += fmt.Sprintf(" %9s", cell)
		}
		if state == stint.StateAborted {
			line += sum.causes()
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// causes say why tasks were aborted.
func (sum *Summary) causes() string {
	causes := []string{}
	for _, cause := range slices.Sorted(maps.Keys(sum.Causes)) {
		causes = append(causes, fmt.Sprintf("%s %d", cause, sum.Causes[cause]))
	}
	return "   (" + strings.Join(causes, ", ") + ")"
}
