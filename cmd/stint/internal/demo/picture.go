package demo

import (
	"fmt"
	"strings"

	"github.com/stint-tasks/stint"
)

// Draw draws the tasks as bars, a line for each part of the yearbook, and then the workers. It has
// no line break at its end.
func (p *Picture) Draw(style Style) string {
	lines := []string{""}
	for _, part := range p.Parts {
		lines = append(lines, part.line(style))
	}
	lines = append(lines, "", legend(p.States, style), "")
	for _, worker := range p.Workers {
		lines = append(lines, worker.line(style))
	}
	return strings.Join(lines, "\n")
}

func (part Part) line(style Style) string {
	const around, widest = 30, 60 // columns
	width := max(min(style.Width-around, widest), 1)
	return fmt.Sprintf("  %-10s %s %5s of %s", part.Name, bar(part.States, width, style),
		grouped(part.States.ended()), grouped(part.States.total()))
}

// bar gives each state a share of the cells that is equal to its share of the tasks.
func bar(counts Counts, width int, style Style) string {
	var text strings.Builder
	total, before, drawn := counts.total(), 0, 0
	if total == 0 {
		return strings.Repeat(" ", width)
	}
	for _, state := range states() {
		before += counts[state]
		until := before * width / total
		look := markOf(state)
		text.WriteString(style.in(look.colour, strings.Repeat(look.cell, until-drawn)))
		drawn = until
	}
	return text.String()
}

func legend(counts Counts, style Style) string {
	items := make([]string, 0, len(states()))
	for _, state := range states() {
		look := markOf(state)
		items = append(items, fmt.Sprintf("%s %s %s",
			style.in(look.colour, look.cell), grouped(counts[state]), state))
	}
	line, lines := " ", []string{}
	for i, item := range items {
		const half = 3 // items, where all of them are too wide
		if i == half && style.Width < 100 {
			lines, line = append(lines, line), " "
		}
		line += " " + item + " "
	}
	lines = append(lines, line)
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func (w Worker) line(style Style) string {
	name := fmt.Sprintf("  %-10s ", w.Actor)
	owns := strings.Repeat("▪", min(w.Owns, slots))
	if w.Killed {
		owns = style.in(red, owns)
	} else {
		owns = style.in(blue, owns)
	}
	owns += strings.Repeat(" ", slots-min(w.Owns, slots))
	line := fmt.Sprintf("%s%s owns %2d, completed %s", name, owns, w.Owns, grouped(w.Completed))
	if w.Killed {
		line += style.in(red, "  killed")
	}
	return line
}

// Line says in one line how many tasks there are in each state.
func (p *Picture) Line() string {
	items := []string{}
	for _, state := range states() {
		if tasks := p.States[state]; tasks > 0 || state == stint.StateCompleted {
			items = append(items, fmt.Sprintf("%s %s", grouped(tasks), state))
		}
	}
	return strings.Join(items, ", ")
}
