package duty

import (
	"maps"
	"slices"
	"strings"
)

// Kind is the kind of notification that carries [News]: its first word.
const Kind = "did"

// News is what a store tells the others of duties that it has done. The text is the name of the
// store and then the names of the duties, each with its terms, if there are some:
//
//	2n9c4yd1mzd0y due schedules prune:86400/604800 busy
type News struct {
	// Busy says that some task is in progress.
	Busy bool

	from string
	done map[string]string // terms, by the names of duties
}

// The last word of news if some task is in progress, and what separates a name from terms.
const (
	busy      = "busy"
	separator = ":"
)

// Has reports whether a duty was done.
func (n News) Has(name string) bool {
	_, ok := n.done[name]
	return ok
}

// ParseNews reads what stands behind the kind in a notification. It does not matter what it is:
// anybody may send notifications.
func ParseNews(text string) News {
	news := News{done: map[string]string{}}
	for i, word := range strings.Fields(text) {
		name, terms, _ := strings.Cut(word, separator)
		switch {
		case i == 0:
			news.from = word
		case word == busy:
			news.Busy = true
		default:
			news.done[name] = terms
		}
	}
	return news
}

// payload returns the text of a notification, empty if there is nothing to tell, and what to add if
// a task is in progress.
func (n News) payload() (text, ifBusy string) {
	if len(n.done) == 0 {
		return "", ""
	}
	words := []string{Kind, n.from}
	for _, name := range slices.Sorted(maps.Keys(n.done)) {
		if terms := n.done[name]; terms != "" {
			name += separator + terms
		}
		words = append(words, name)
	}
	return strings.Join(words, " "), " " + busy
}
