package command

import (
	"errors"
	"fmt"
)

// errFindings ends stint check when there is something to act upon.
var errFindings = errors.New("something is wrong")

func (p *program) printFindings(findings []finding) error {
	number := map[severity]int64{}
	for _, f := range findings {
		number[f.Severity]++
	}
	if err := p.printEach(findings, number); err != nil {
		return err
	}
	if number[severityError]+number[severityWarning] == 0 {
		return nil
	}
	return fmt.Errorf("check: %w: %s, %s", errFindings,
		count(number[severityError], "error"), count(number[severityWarning], "warning"))
}

func (p *program) printEach(findings []finding, number map[severity]int64) error {
	if p.json {
		if findings == nil {
			findings = []finding{}
		}
		return p.printJSON(map[string]any{
			"findings": findings, "errors": number[severityError],
			"warnings": number[severityWarning], "notes": number[severityNote],
		})
	}
	if len(findings) == 0 {
		return p.printf("nothing is wrong\n")
	}
	painter := p.painter()
	for _, f := range findings {
		if err := p.printf("%s: %s\n", painter.severity(f.Severity), plain(f.Text)); err != nil {
			return err
		}
	}
	return nil
}
