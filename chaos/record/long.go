package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// A Long is a run without faults that lasts hours, with what was seen of it every minute.
type Long struct {
	Seed    uint64    `json:"seed"`
	Commit  string    `json:"commit"`
	Date    time.Time `json:"date"`
	Machine string    `json:"machine"`
	Load    float64   `json:"load"`

	// Full is how many tasks a second were completed when none was held back.
	Full float64 `json:"full"`

	Minutes []Minute `json:"-"`

	// End is its last line.
	End Minute `json:"-"`
}

// A Minute is a line about the run.
type Minute struct {
	At   time.Time `json:"at"`
	Rate float64   `json:"rate"` // completed tasks a second

	// P50 and P99 are milliseconds from an insert to the answer of a wait.
	P50         float64          `json:"p50"`
	P99         float64          `json:"p99"`
	Bytes       map[string]int64 `json:"bytes"` // of tables with their indexes
	Dead        map[string]int64 `json:"dead"`  // rows
	WAL         int64            `json:"wal"`   // bytes since the line before
	Connections int              `json:"connections"`

	// Server and Processes are bytes of memory that is not shared.
	Server    int64            `json:"server"`
	Processes map[string]int64 `json:"processes"`
	Deaths    int              `json:"deaths"`

	// Commits, Moves and Found are what was followed so far, and how many violations it had.
	Commits int64 `json:"commits"`
	Moves   int64 `json:"moves"`
	Found   int   `json:"found"`

	// Final says that the line is of the end, when all tasks have ended and stint check has looked.
	Final bool `json:"final,omitempty"`
}

// ReadLong reads the lines of a run: the first is of the run, the last of its end, and the others
// are of its minutes. A file that is not there has none.
func ReadLong(path string) (long Long, err error) {
	text, err := os.ReadFile(path) //nolint:gosec // named by the caller
	if errors.Is(err, fs.ErrNotExist) {
		return long, nil
	}
	if err != nil {
		return long, err
	}
	lines := json.NewDecoder(bytes.NewReader(text))
	if err := lines.Decode(&long); err != nil {
		return long, fmt.Errorf("%s: %w", path, err)
	}
	for lines.More() {
		var m Minute
		if err := lines.Decode(&m); err != nil {
			return long, fmt.Errorf("%s: %w", path, err)
		}
		if long.End = m; !m.Final {
			long.Minutes = append(long.Minutes, m)
		}
	}
	if len(long.Minutes) == 0 {
		return long, fmt.Errorf("%s: there is no minute in it", path)
	}
	return long, nil
}

// A measure is a figure of each minute.
type measure struct {
	title, unit string
	of          func(Minute) float64
}

// measures are the figures of the chart and the table.
func measures() []measure {
	const mega = 1e6
	return []measure{
		{"completed", "tasks/s", func(m Minute) float64 { return m.Rate }},
		{"insert to answer, p50", "ms", func(m Minute) float64 { return m.P50 }},
		{"insert to answer, p99", "ms", func(m Minute) float64 { return m.P99 }},
		{"tables and indexes", "MB", func(m Minute) float64 { return total(m.Bytes) / mega }},
		{"dead rows", "thousands", func(m Minute) float64 { return total(m.Dead) / kilo }},
		{"WAL", "MB a minute", func(m Minute) float64 { return float64(m.WAL) / mega }},
		{"memory of the server", "MB", func(m Minute) float64 { return float64(m.Server) / mega }},
		{"memory of processes", "MB", func(m Minute) float64 { return total(m.Processes) / mega }},
		{"connections", "", func(m Minute) float64 { return float64(m.Connections) }},
	}
}

const kilo = 1e3

func total(of map[string]int64) float64 {
	sum := int64(0)
	for _, n := range of {
		sum += n
	}
	return float64(sum)
}

// longTable says of each measure where it was in the first and in the last tenth of the run.
func longTable(long Long) string {
	tenth := max(1, len(long.Minutes)/10)
	first, end := long.Minutes[:tenth], long.Minutes[len(long.Minutes)-tenth:]
	var text strings.Builder
	fmt.Fprintf(&text, "%d minutes with `-load %g -seed %d`, commit %s, %s, %s: %s commits and %s "+
		"moves were followed, with %d violations; processes died: %d. When nothing was held back, "+
		"%.0f tasks were completed a second.\n\n",
		len(long.Minutes), long.Load, long.Seed, long.Commit, long.Machine,
		long.Date.Format(time.DateOnly), thousands(long.End.Commits), thousands(long.End.Moves),
		long.End.Found, long.Minutes[len(long.Minutes)-1].Deaths, long.Full)
	text.WriteString("| median of minutes | first tenth | last tenth |\n| --- | ---: | ---: |\n")
	for _, m := range measures() {
		name := m.title
		if m.unit != "" {
			name += ", " + m.unit
		}
		fmt.Fprintf(&text, "| %s | %s | %s |\n", name, short(median(first, m)),
			short(median(end, m)))
	}
	return text.String()
}

func median(minutes []Minute, m measure) float64 {
	var all []float64
	for _, minute := range minutes {
		all = append(all, m.of(minute))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// short is a number with two digits or all before the point.
func short(x float64) string {
	const few = 10
	if x < few {
		return fmt.Sprintf("%.1f", x)
	}
	return thousands(int64(x + 0.5)) //nolint:mnd // rounded
}
