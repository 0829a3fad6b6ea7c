package main

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint"
)

// A ledger counts what becomes of the tasks of a run. It knows what the workers of this process
// return, and asks the store for the rest: tasks out of tries, and those of other processes.
type ledger struct {
	// These are written before the workers start.
	before     int // Files copied by earlier runs.
	total      int // Tasks of this run.
	totalBytes int64
	start      time.Time

	mutex sync.Mutex
	// open are the tasks that are not final, as far as is known, with the sizes of their files.
	open     map[stint.TaskID]int64
	settled  int64 // The sizes of the files of the others.
	done     int
	bytes    int64
	retries  int
	held     int // Tasks that other processes own, dead ones among them.
	heldTill time.Time
	aborted  []stint.TaskInfo
	catching sync.Mutex // Held by the one worker that asks the store.
}

func newLedger() *ledger {
	return &ledger{open: map[stint.TaskID]int64{}, start: time.Now()}
}

// expect enters a task that this run has to see finished.
func (l *ledger) expect(id stint.TaskID, bytes int64) {
	l.open[id] = bytes
	l.total++
	l.totalBytes += bytes
}

func (l *ledger) unfinished() int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return len(l.open)
}

// attempted counts one performance of a task.
func (l *ledger) attempted(bytes int64, again bool) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.bytes += bytes
	if again {
		l.retries++
	}
}

// copied counts a task that was returned as completed.
func (l *ledger) copied(id stint.TaskID) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.settle(id) {
		l.done++
	}
}

// settle takes a task out of the open ones, unless it was before.
func (l *ledger) settle(id stint.TaskID) bool {
	bytes, open := l.open[id]
	delete(l.open, id)
	l.settled += bytes
	return open
}

// catchUp asks the store what has become of the tasks that are still open, and reports whether none
// is left. Workers call it when they have nothing to do.
func (l *ledger) catchUp(ctx context.Context, store *stint.Store) (finished bool, err error) {
	if !l.catching.TryLock() {
		return l.unfinished() == 0, nil
	}
	defer l.catching.Unlock()
	l.mutex.Lock()
	ids := slices.Collect(maps.Keys(l.open))
	l.mutex.Unlock()
	infos, err := store.GetTasks(ctx, ids)
	if err != nil {
		return false, err
	}
	l.enter(infos)
	return l.unfinished() == 0, nil
}

// enter takes in what the store says of the open tasks.
func (l *ledger) enter(infos []stint.TaskInfo) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.held, l.heldTill = 0, time.Time{}
	ours := processName()
	for _, info := range infos {
		switch {
		case info.StatusCode == stint.StatusInProgress &&
			!strings.HasPrefix(string(info.Actor), ours):
			l.held++
			if info.LeaseUntil.After(l.heldTill) {
				l.heldTill = info.LeaseUntil
			}
		case !isFinal(info.StatusCode) || !l.settle(info.ID):
		case info.StatusCode == stint.StatusAborted:
			l.aborted = append(l.aborted, info)
		default:
			l.done++
		}
	}
}

// complete reports whether every file of the tree has been copied, by this run or an earlier one.
func (l *ledger) complete(tree *tree) bool {
	return l.unfinished() == 0 && len(l.aborted) == 0 && len(tree.problems) == 0
}

// opening is the first line, on what there is to do.
func (l *ledger) opening() string {
	return fmt.Sprintf("%s files to copy (%s); %s were copied before",
		grouped(l.total), megabytes(l.totalBytes), grouped(l.before))
}

// printProgress prints a line again and again until the function it returns is called: in place on
// a terminal, else every few seconds.
func (l *ledger) printProgress(stdout *os.File) (stop func()) {
	every, format, last := 3*time.Second, "%s\n", ""
	if info, err := stdout.Stat(); err == nil && info.Mode()&fs.ModeCharDevice != 0 {
		const clearLine = "\r\x1b[K"
		every, format, last = 200*time.Millisecond, clearLine+"%s", clearLine
	}
	stopped := make(chan struct{})
	var printer sync.WaitGroup
	printer.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-stopped:
				fmt.Fprint(stdout, last)
				return
			case now := <-tick.C:
				fmt.Fprintf(stdout, format, l.progress(now))
			}
		}
	})
	return func() {
		close(stopped)
		printer.Wait()
	}
}

// progress is the line on how far the run is, short enough for a terminal.
func (l *ledger) progress(now time.Time) string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	elapsed := now.Sub(l.start)
	line := fmt.Sprintf("%s of %s files, %s",
		grouped(l.done), grouped(l.total), megabytes(l.bytes))
	if l.held > 0 && l.held == len(l.open) {
		lease := max(l.heldTill.Sub(now), 0).Round(time.Second)
		return fmt.Sprintf("%s; %s leased to another process for %s",
			line, grouped(l.held), lease)
	}
	line += ", " + perSecond(l.done, elapsed)
	// A small file takes about as long as so many bytes of a large one.
	const fileCost = 32 << 10
	cost := float64(l.settled) + fileCost*float64(l.total-len(l.open))
	ahead := float64(l.totalBytes-l.settled) + fileCost*float64(len(l.open))
	if cost > 0 {
		left := time.Duration(float64(elapsed) * ahead / cost)
		line += fmt.Sprintf(", %s left", left.Round(time.Second))
	}
	return line
}

// summary is what is printed at the end.
func (l *ledger) summary(tree *tree) string {
	elapsed := time.Since(l.start)
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%s files copied, %s in %.1f s (%s); %s were copied before; %s retries\n",
		grouped(l.done), megabytes(l.bytes), elapsed.Seconds(), perSecond(l.done, elapsed),
		grouped(l.before), grouped(l.retries))
	if len(l.open) > 0 {
		fmt.Fprintf(&text, "%s files are still to be copied\n", grouped(len(l.open)))
	}
	for _, path := range tree.skipped {
		fmt.Fprintf(&text, "skipped, since it is neither a file nor a link: %q\n", path)
	}
	for _, problem := range tree.problems {
		fmt.Fprintf(&text, "not copied: %q: %s\n", problem.path, problem.reason)
	}
	slices.SortFunc(l.aborted, func(a, b stint.TaskInfo) int {
		return strings.Compare(string(a.Body), string(b.Body))
	})
	for _, task := range l.aborted {
		if task.Status == "" {
			task.Status = "its owners died"
		}
		fmt.Fprintf(&text, "not copied: %q: aborted (%s) after %d tries: %s\n",
			task.Body, task.AbortCause, task.Tries, task.Status)
	}
	return text.String()
}

// grouped writes a number with commas between the thousands.
func grouped(n int) string {
	const thousand = 1000
	if n < thousand {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/thousand), n%thousand)
}

func megabytes(bytes int64) string {
	const mega = 1e6
	return fmt.Sprintf("%.1f MB", float64(bytes)/mega)
}

func perSecond(n int, elapsed time.Duration) string {
	return grouped(int(float64(n)/max(elapsed.Seconds(), 1e-3))) + " files/s"
}
