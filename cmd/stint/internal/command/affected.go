package command

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
)

func (p *program) printNamed(c *change, affected stint.Affected, unchanged []stint.TaskID) error {
	if p.json {
		document := c.document(affected)
		if c.unchanged != "" {
			document["unchanged"] = orEmpty(unchanged)
		}
		return p.printJSON(document)
	}
	return errors.Join(p.printAffected(c, affected), p.printUnchanged(c, unchanged))
}

// printUnchanged says which tasks stay as they were.
func (p *program) printUnchanged(c *change, unchanged []stint.TaskID) error {
	if len(unchanged) == 0 {
		return nil
	}
	names := firstOf(unchanged, namedMax, "and %s more", func(id stint.TaskID) string {
		return display.Text(string(id))
	})
	_, err := fmt.Fprintf(p.stderr, "%s %s: %s\n",
		display.Count(int64(len(unchanged)), "task"), c.unchanged, strings.Join(names, ", "))
	return err
}

func (p *program) printFiltered(c *change, came *outcome, found int) error {
	slices.Sort(came.Tasks)
	slices.Sort(came.unchanged)
	if p.json {
		document := c.document(came.Affected)
		document["found"] = found
		if c.separate {
			document["unchanged"] = orEmpty(came.unchanged)
		}
		return p.printJSON(document)
	}
	return errors.Join(p.printAffected(c, came.Affected), p.printUnchanged(c, came.unchanged))
}

func (p *program) printAffected(c *change, affected stint.Affected) error {
	said := c.done
	if c.dryRun {
		said = "would " + c.verb
	}
	return p.printf("%s %s%s\n", said, countOf(affected), follows(affected))
}

// document is what was changed, for --json.
func (c *change) document(affected stint.Affected) map[string]any {
	name := c.done
	if c.dryRun {
		name = "would_" + c.verb
	}
	document := map[string]any{name: orEmpty(affected.Tasks), "others": affected.Others}
	if c.interrupts {
		document["in_progress"] = affected.InProgress
	}
	if c.dryRun {
		document["started"], document["skipped"] = affected.Started, affected.Skipped
		document["later"] = affected.Later
	}
	return document
}

// countOf says how many tasks are changed.
func countOf(affected stint.Affected) string {
	text := display.Count(int64(len(affected.Tasks)), "task")
	if affected.InProgress > 0 {
		text += ", " + display.Number(int64(affected.InProgress)) + " of them in progress,"
	}
	if affected.Others > 0 {
		text += " and " + display.Count(int64(affected.Others), "dependent")
	}
	return strings.TrimSuffix(text, ",")
}

// follows says what else becomes of tasks then.
func follows(affected stint.Affected) string {
	text := ""
	add := func(n int, what string) {
		if n > 0 {
			text += "; " + display.Count(int64(n), "task") + " " + what
		}
	}
	add(affected.Started, "would wait for no others any more, and begin")
	add(affected.Skipped, "would be skipped")
	add(affected.Later, "more would be aborted a second later")
	return text
}
