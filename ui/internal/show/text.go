package show

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stint-tasks/stint/internal/display"
)

// Text is text in which nothing is hidden.
func Text(text any) string { return display.Text(fmt.Sprint(text)) }

// wordsMax is how many letters of what an owner said are shown in a list.
const wordsMax = 200

// FirstWords is the beginning of a status, on one line.
func FirstWords(status string) string {
	const bytesMax = 4 * wordsMax // no letter has more than four bytes
	status = strings.ToValidUTF8(status[:min(len(status), bytesMax)], "")
	status = strings.Join(strings.Fields(status), " ")
	if runes := []rune(status); len(runes) > wordsMax {
		return string(runes[:wordsMax]) + "…"
	}
	return status
}

// PerSecond is a number of tasks per second.
func PerSecond(perSecond float64) string {
	const shownMin, wholeMin, thousand = 0.05, 99.95, 1000
	switch {
	case perSecond == 0:
		return "0"
	case perSecond < shownMin:
		return "<0.1"
	case perSecond < wholeMin:
		return strconv.FormatFloat(perSecond, 'f', 1, 64)
	case perSecond < wholeMin*thousand:
		return display.Number(int64(perSecond + 0.5))
	}
	return display.Number(int64(perSecond/thousand+0.5)) + "k"
}

// Seen says of what there is none that this is as far as whoever asks may see it.
func Seen(partly bool) string {
	if partly {
		return " that you may see"
	}
	return ""
}
