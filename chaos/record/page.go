package record

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Read reads a record. One that is not there has no rounds.
func Read(path string) ([]Round, error) {
	file, err := os.Open(path) //nolint:gosec // named by the caller
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it is only read
	var rounds []Round
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return rounds, nil
		}
		if err != nil {
			return nil, err
		}
		var r Round
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w: %.100s", path, err, line)
		}
		rounds = append(rounds, r)
	}
}

// Page is a page with the table of these rounds in it, and with that of a long run if there was
// one: what is between the marks is replaced, and the rest, which is written by hand, stays.
func Page(page string, rounds []Round, long Long) (string, error) {
	page, err := put(page, "record", table(rounds))
	if err != nil || len(long.Minutes) == 0 {
		return page, err
	}
	return put(page, "long run", longTable(long))
}

// put puts a text between the marks of a part of a page.
func put(page, part, text string) (string, error) {
	begins, ends := "<!-- the "+part+" begins -->\n", "<!-- the "+part+" ends -->\n"
	before, rest, found := strings.Cut(page, begins)
	_, after, ended := strings.Cut(rest, ends)
	if !found || !ended {
		return "", fmt.Errorf("the page has no %q and %q around its table", begins, ends)
	}
	return before + begins + text + ends + after, nil
}

// A row sums up the rounds of a fault.
type row struct {
	fault                          string
	rounds, times, calls, violated int
	moves                          int64
	half, full                     []float64 // when the rate was back, by load
}

func table(rounds []Round) string {
	var rows []row
	seeds, commits, machines := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var calls int
	var moves int64
	for _, r := range rounds {
		i := slices.IndexFunc(rows, func(w row) bool { return w.fault == r.Fault })
		if i < 0 {
			i = len(rows)
			rows = append(rows, row{fault: r.Fault})
		}
		rows[i].add(r)
		seeds[fmt.Sprint(r.Seed)], commits[r.Commit], machines[r.Machine] = true, true, true
		calls, moves = calls+r.Calls, moves+r.Moves
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.fault, b.fault) })
	var text strings.Builder
	fmt.Fprintf(&text, "%d rounds with %d seeds: %s calls, %s moves. "+
		"Machines: %s. Commits: %s.\n\n",
		len(rounds), len(seeds), thousands(int64(calls)), thousands(moves), listed(machines),
		listed(commits))
	text.WriteString("| fault | rounds | times | calls | moves | violations | " +
		"back at half the load | back at full load |\n")
	text.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | --- | --- |\n")
	for _, r := range rows {
		fmt.Fprintf(&text, "| %s | %d | %d | %s | %s | %d | %s | %s |\n", r.fault, r.rounds,
			r.times, thousands(int64(r.calls)), thousands(r.moves), r.violated, backsOf(r.half),
			backsOf(r.full))
	}
	return text.String()
}

func (w *row) add(r Round) {
	w.rounds++
	w.times += len(r.Backs)
	w.calls += r.Calls
	w.moves += r.Moves
	w.violated += r.Found
	if r.Load < 1 {
		w.half = append(w.half, r.Backs...)
	} else {
		w.full = append(w.full, r.Backs...)
	}
}

// backsOf says how long it took until the rate was back: the median and the most.
func backsOf(all []float64) string {
	backs := slices.DeleteFunc(slices.Clone(all), func(back float64) bool { return back < 0 })
	away := len(all) - len(backs)
	switch {
	case len(all) == 0:
		return "-"
	case len(backs) == 0:
		return "not within a minute"
	}
	slices.SortFunc(backs, cmp.Compare[float64])
	text := fmt.Sprintf("%.1f s, %.1f s", backs[len(backs)/2], backs[len(backs)-1])
	if away > 0 {
		text += fmt.Sprintf("; %d not within a minute", away)
	}
	return text
}

// thousands is a number for people.
func thousands(n int64) string {
	const thousand = 1000
	if n < thousand {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/thousand), n%thousand)
}

func listed(set map[string]bool) string {
	var all []string
	for text := range set {
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}
