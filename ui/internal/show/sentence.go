package show

import (
	"net/url"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

// A Part is a piece of a sentence: text, a link, or a time.
type Part struct {
	Text string
	Link string
	Time *Moment
}

// A Sentence is its parts, one after the other.
type Sentence []Part

// Say makes a sentence of texts, moments and parts.
func Say(pieces ...any) Sentence {
	var s Sentence
	for _, piece := range pieces {
		switch piece := piece.(type) {
		case string:
			s = append(s, Part{Text: piece})
		case Moment:
			s = append(s, Part{Time: &piece})
		case Part:
			s = append(s, piece)
		}
	}
	return s
}

// Actor names an actor, and links to its tasks.
func Actor(actor stint.ActorID) Part {
	return Part{Text: display.Text(string(actor)), Link: Link("tasks", "actor", string(actor))}
}

// Action names an action, and links to its page.
func Action(action string) Part {
	return Part{Text: display.Text(action), Link: Link("action", "name", action)}
}

// Capital makes the first letter of a sentence a large one.
func Capital(s Sentence) (pieces []any) {
	s[0].Text = strings.ToUpper(s[0].Text[:1]) + s[0].Text[1:]
	for _, piece := range s {
		pieces = append(pieces, piece)
	}
	return pieces
}

// Link is the address of a page, with pairs of names and values.
func Link(page string, pairs ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Add(pairs[i], pairs[i+1])
		}
	}
	if page == "" {
		page = "./"
	}
	if len(query) == 0 {
		return page
	}
	return page + "?" + query.Encode()
}
