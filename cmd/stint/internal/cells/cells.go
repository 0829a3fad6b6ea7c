// Package cells cuts text to the cells of a terminal, of which a wide letter takes two.
package cells

import "github.com/charmbracelet/x/ansi"

// CutMiddle returns text of at most most cells, without its middle if it takes more. A wide letter
// at the cut may make it one cell more.
func CutMiddle(text string, most int) string {
	cells := ansi.StringWidth(text)
	if cells <= most {
		return text
	}
	right := max(most-1, 0) / 2
	left := max(most-1, 0) - right
	return ansi.Truncate(text, left, "") + "…" + ansi.TruncateLeft(text, cells-right, "")
}
