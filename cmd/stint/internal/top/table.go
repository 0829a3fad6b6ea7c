package top

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// A column of a table.
type column struct {
	title, short string // The short title is for narrow screens.
	width        int    // At least.
	widthMax     int    // At most, if the column gets a share of the rest.
	share        int
	right        bool // Aligned to the right.
	state        bool // Begins with a state.
	rank         int  // If there is no room, columns go, the highest rank first.
}

// A shown is a column that there is room for.
type shown struct {
	column
	cell int // Which of a row's cells is in it.
}

const gap = 1

// fit chooses columns for a width.
func fit(columns []column, width int) []shown {
	long := make([]shown, len(columns))
	for i, c := range columns {
		c.width = max(c.width, len(c.title))
		long[i] = shown{c, i}
	}
	if room(long, width) < 0 {
		for i, c := range columns {
			if c.short != "" {
				c.title = c.short
			}
			long[i] = shown{c, i}
		}
	}
	for room(long, width) < 0 && len(long) > 1 {
		last := 0
		for i, c := range long {
			if c.rank >= long[last].rank {
				last = i
			}
		}
		long = slices.Delete(long, last, last+1)
	}
	for {
		rest, grown := room(long, width), false
		for i := range long {
			c := &long[i]
			for range c.share {
				if rest > 0 && c.width < c.widthMax {
					c.width++
					rest--
					grown = true
				}
			}
		}
		if !grown {
			return long
		}
	}
}

// room is how much wider the screen is than the columns.
func room(columns []shown, width int) int {
	width += gap
	for _, c := range columns {
		width -= c.width + gap
	}
	return width
}

// line is a row with its cells in their columns. Each cell is painted after it has its width.
func line(columns []shown, cells []string, paint func(c shown, text string) string) string {
	var text strings.Builder
	for i, c := range columns {
		cell := cells[c.cell]
		if i > 0 {
			text.WriteString(strings.Repeat(" ", gap))
		}
		cell = ansi.Truncate(cell, c.width, "…")
		pad := strings.Repeat(" ", max(c.width-ansi.StringWidth(cell), 0))
		if c.right {
			text.WriteString(pad + paint(c, cell))
		} else {
			text.WriteString(paint(c, cell) + pad)
		}
	}
	return text.String()
}
