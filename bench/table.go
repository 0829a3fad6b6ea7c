package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// writeTable writes the results for people, aligned.
func writeTable(w io.Writer, rows results) error {
	lines := [][]string{{
		"workload", "contender", "median", "", "x River", "WAL B/task", "trips/task",
		"server µs", "client µs", "peak MiB", "spread",
	}}
	before := ""
	for _, row := range rows {
		title := ""
		if row.Workload+row.Figure != before {
			title = strings.TrimSpace(row.Workload + " " + row.Title)
			if row.Figure != "" {
				title += ", " + row.Figure
			}
		}
		before = row.Workload + row.Figure
		name := row.Name
		if row.Variant != "" {
			name += ", " + row.Variant
		}
		lines = append(lines, []string{
			title, name, quantity(row.Median, ""), row.Unit,
			optional(row.OverRiver, "%.2f"), optional(row.WAL, "%.0f"),
			optional(row.RoundTrips, "%.4f"), optional(row.ServerCPU, "%.1f"),
			optional(row.ClientCPU, "%.1f"), optional(row.PeakMiB, "%.0f"), row.spread(),
		})
	}
	return writeColumns(w, lines, map[int]bool{0: true, 1: true, 3: true})
}

// spread is empty where there was only one measurement.
func (r result) spread() string {
	if len(r.Values) < 2 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*r.Spread)
}

// writeBars writes the verdicts for people, aligned, and how many could not be given.
func writeBars(w io.Writer, all []verdict) error {
	lines, unknown := [][]string{{"bar", "wanted", "measured", "holds"}}, 0
	for _, v := range all {
		if v.Value == nil {
			unknown++
			continue
		}
		holds := "no"
		if v.Holds {
			holds = "yes"
		}
		lines = append(lines, []string{v.Bar, v.Want, quantity(*v.Value, v.Unit), holds})
	}
	if unknown > 0 {
		lines = append(lines, []string{
			fmt.Sprintf("(%d more were not measured)", unknown),
			"", "", "",
		})
	}
	return writeColumns(w, lines, map[int]bool{0: true, 3: true})
}

// writeColumns writes lines whose columns are aligned: to the left where the map says so, to the
// right otherwise.
func writeColumns(w io.Writer, lines [][]string, left map[int]bool) error {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		var text strings.Builder
		for i, cell := range line {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if left[i] {
				text.WriteString(cell + padding + "  ")
			} else {
				text.WriteString(padding + cell + "  ")
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(text.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// optional formats a number, if there is one.
func optional(value *float64, format string) string {
	if value == nil {
		return ""
	}
	return fmt.Sprintf(format, *value)
}

// quantity writes a number with as many digits as can mean something, and with its unit.
func quantity(value float64, unit string) string {
	var text string
	switch {
	case math.IsNaN(value):
		text = "?"
	case value >= 1000:
		text = grouped(value)
	case value >= 100:
		text = fmt.Sprintf("%.0f", value)
	case value > 0 && value < 0.1:
		text = fmt.Sprintf("%.2g", value)
	default:
		text = fmt.Sprintf("%.2f", value)
	}
	if unit == "" {
		return text
	}
	return text + " " + unit
}

// grouped writes a number to three digits, in groups of three.
func grouped(value float64) string {
	scale := math.Pow(10, math.Floor(math.Log10(value))-2)
	digits := strconv.FormatFloat(math.Round(value/scale)*scale, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
