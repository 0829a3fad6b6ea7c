package dag

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Drawing is the boxes of a network and the arrows between them, which it writes in the languages
// of programs that draw.
type Drawing struct {
	Boxes  []Box
	Arrows []Arrow
}

// An Arrow leads from one place in Boxes to another.
type Arrow struct {
	From, To int
	// Condition is what [Condition] says of it; empty if there is none.
	Condition string
}

// Condition says in a few words how a predecessor must end: in one of these states or, if results
// are given, completed with one of these. anyOf says that it is one of several of which one is
// enough.
func Condition[State ~string](states []State, results []string, anyOf bool) string {
	const completed, runesMax, namedMax = "completed", 24, 3
	var ends []string
	for i, result := range results {
		if i == namedMax {
			ends = append(ends, fmt.Sprintf("%d more", len(results)-i))
			break
		}
		text := strconv.Quote(result)
		if runes := []rune(text); len(runes) > runesMax {
			text = string(runes[:runesMax]) + "…"
		}
		ends = append(ends, text)
	}
	for _, state := range states {
		if len(results) == 0 || state != completed {
			ends = append(ends, string(state))
		}
	}
	if len(ends) == 0 {
		ends = []string{completed}
	}
	said := "if " + strings.Join(ends, " or ")
	switch {
	case anyOf && said == "if completed":
		return "any of"
	case anyOf:
		return "any of, " + said
	}
	return said
}

// A Box is a task.
type Box struct {
	ID, Action string
	// State chooses the colours.
	State string
	// Cause is why the task was aborted, if it was.
	Cause string
	// Round is for tasks that nobody performs, whose action says nothing.
	Round bool
}

func (n *Box) label() string {
	lines := []string{visible(n.ID)}
	if !n.Round {
		lines = append(lines, visible(n.Action))
	}
	state := n.State
	if n.Cause != "" {
		state += ", " + n.Cause
	}
	return strings.Join(append(lines, state), "\n")
}

// visible returns a text in which what a terminal would take for an order, and what nobody sees, is
// written as in Go: a picture is often written to a terminal.
func visible(text string) string {
	var seen strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		isEnd := r == '\n' || r == '\r' // which each language writes in its way
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) && !isEnd {
			quoted := strconv.Quote(rest[:size])
			seen.WriteString(quoted[1 : len(quoted)-1])
		} else {
			seen.WriteRune(r)
		}
		rest = rest[size:]
	}
	return seen.String()
}

// colours are how a task in a state is drawn.
type colours struct{ state, fill, line string }

// byState are the colours of the states, the first one also those of a state that has none.
func byState() []colours {
	return []colours{
		{"blocked", "#f1f3f5", "#868e96"},
		{"scheduled", "#f1f3f5", "#868e96"},
		{"ready", "#fff3bf", "#e67700"},
		{"in-progress", "#d0ebff", "#1971c2"},
		{"completed", "#d3f9d8", "#2f9e44"},
		{"aborted", "#ffe3e3", "#c92a2a"},
		{"skipped", "#ffffff", "#adb5bd"},
	}
}

func coloursOf(state string) colours {
	all := byState()
	i := slices.IndexFunc(all, func(c colours) bool { return c.state == state })
	return all[max(i, 0)]
}

// WriteDOT writes the drawing in the language of Graphviz.
func (d *Drawing) WriteDOT(w io.Writer) error {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", " ")
	var text strings.Builder
	text.WriteString("digraph tasks {\n\trankdir=LR\n\tnode [shape=box, style=filled]\n")
	for i, node := range d.Boxes {
		shape := ""
		if node.Round {
			shape = ", shape=ellipse"
		}
		colours := coloursOf(node.State)
		fmt.Fprintf(&text, "\tn%d [label=\"%s\", fillcolor=%q, color=%q%s]\n", i,
			escape.Replace(node.label()), colours.fill, colours.line, shape)
	}
	for _, edge := range d.Arrows {
		attributes := ""
		if edge.Condition != "" {
			attributes = fmt.Sprintf(` [style=dotted, label="%s"]`, escape.Replace(edge.Condition))
		}
		fmt.Fprintf(&text, "\tn%d -> n%d%s\n", edge.From, edge.To, attributes)
	}
	text.WriteString("}\n")
	_, err := io.WriteString(w, text.String())
	return err
}

// WriteMermaid writes the drawing in the language of Mermaid.
func (d *Drawing) WriteMermaid(w io.Writer) error {
	escape := strings.NewReplacer("#", "#35;", `"`, "#quot;", "&", "#amp;", "<", "#lt;",
		">", "#gt;", "`", "#96;", "\n", "<br/>", "\r", " ")
	var text strings.Builder
	text.WriteString("flowchart LR\n")
	for i, node := range d.Boxes {
		open, shut := `["`, `"]`
		if node.Round {
			open, shut = `(["`, `"])`
		}
		fmt.Fprintf(&text, "    n%d%s%s%s:::%s\n", i, open, escape.Replace(node.label()), shut,
			node.State)
	}
	for _, edge := range d.Arrows {
		arrow := "-->"
		if edge.Condition != "" {
			arrow = fmt.Sprintf(`-. "%s" .->`, escape.Replace(edge.Condition))
		}
		fmt.Fprintf(&text, "    n%d %s n%d\n", edge.From, arrow, edge.To)
	}
	for _, c := range byState() {
		fmt.Fprintf(&text, "    classDef %s fill:%s,stroke:%s\n", c.state, c.fill, c.line)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
