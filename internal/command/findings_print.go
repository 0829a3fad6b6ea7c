package command

import (
	"errors"
	"fmt"

	"github.com/stint-tasks/stint/internal/readable"
)

// errFindings ends stint check when there is something to act upon.
var errFindings = errors.New("something is wrong")

func (p *program) printFindings(findings []finding) error {
	numbers := map[severity]int64{}
	for _, f := range findings {
		numbers[f.Severity]++
	}
	if err := p.printEach(findings, numbers); err != nil {
		return err
	}
	if numbers[severityError]+numbers[severityWarning] == 0 {
		return nil
	}
	return fmt.Errorf("check: %w: %s, %s", errFindings,
		readable.Count(numbers[severityError], "error"),
		readable.Count(numbers[severityWarning], "warning"))
}

func (p *program) printEach(findings []finding, numbers map[severity]int64) error {
	if p.json {
		if findings == nil {
			findings = []finding{}
		}
		return p.printJSON(map[string]any{
			"findings": findings, "errors": numbers[severityError],
			"warnings": numbers[severityWarning], "notes": numbers[severityNote],
		})
	}
	if len(findings) == 0 {
		return p.printf("nothing is wrong\n")
	}
	paint := p.painter()
	for _, f := range findings {
		err := p.printf("%s: %s\n", f.Severity.painted(paint), readable.Text(f.Text))
		if err != nil {
			return err
		}
	}
	return nil
}

// painted is the name of a severity in its colour.
func (s severity) painted(paint readable.Painter) string {
	if !paint {
		return string(s)
	}
	const red, yellow, grey = 31, 33, 90
	colour := map[severity]int{severityError: red, severityWarning: yellow, severityNote: grey}[s]
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", colour, s)
}
