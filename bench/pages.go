package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// figureBlocks finds the places of a page that have figures: a comment with a template, and what it
// makes of the published results, up to the next comment.
var figureBlocks = regexp.MustCompile(
	`(?s)(<!-- figures\s(.*?)-->\n?)(.*?)(<!-- end of figures -->)`)

// fillPage makes the text of a page anew, with the figures of the results.
func fillPage(page string, runs []publication) (string, error) {
	var failed error
	text := figureBlocks.ReplaceAllStringFunc(page, func(block string) string {
		parts := figureBlocks.FindStringSubmatch(block)
		made, err := fillTemplate(strings.TrimLeft(parts[2], "\n"), runs)
		if err != nil && failed == nil {
			failed = err
		}
		return parts[1] + made + parts[4]
	})
	return text, failed
}

func fillTemplate(text string, runs []publication) (string, error) {
	parsed, err := template.New("figures").Funcs(figureFuncs(runs)).Parse(text)
	if err != nil {
		return "", err
	}
	var made strings.Builder
	err = parsed.Execute(&made, nil)
	return made.String(), err
}

// figureFuncs are what a template of a page may ask for. A figure that was not measured is an
// error. Stint, river and raw take the workload and, where there are several, the figure and the
// variant; of River's variants they take the best.
func figureFuncs(runs []publication) template.FuncMap {
	rows := merged(runs)
	find := func(contender, workload string, rest ...string) (result, error) {
		figure, variant := "", ""
		if len(rest) > 0 {
			figure = rest[0]
		}
		if len(rest) > 1 {
			variant = rest[1]
		}
		row, ok := rows.of(contender, workload, variant, figure)
		if !ok && len(rest) < 2 {
			row, ok = rows.bestOf(contender, workload, figure)
		}
		if !ok {
			return row, fmt.Errorf("%s has no %q %q of %s %s: go run . -publish -w %[5]s",
				publishedFile, variant, figure, contender, workload)
		}
		return row, nil
	}
	of := func(contender string) func(string, ...string) (result, error) {
		return func(workload string, rest ...string) (result, error) {
			return find(contender, workload, rest...)
		}
	}
	return template.FuncMap{
		"stint": of("stint"), "river": of("river"), "raw": of("raw"),
		"over":  func(one, other result) number { return number(one.Median / other.Median) },
		"cpu":   func(r result) number { return optionalNumber(r.ServerCPU, r.ClientCPU) },
		"wal":   func(r result) number { return optionalNumber(r.WAL) },
		"trips": func(r result) number { return optionalNumber(r.RoundTrips) },
		"plus":  func(one, other number) number { return one + other },
		"each":  func(r result, tasks float64) number { return number(1e6 * r.Median / tasks) },
		"least": func(is, goal number) string { return reached(is, is >= goal) },
		"most":  func(is, goal number) string { return reached(is, is <= goal) },
		"of":    func(r result) number { return number(r.Median) },
		"number": func(value float64) number {
			return number(value)
		},
		"run": func(workloads ...string) (string, error) { return runLine(runs, workloads) },
	}
}

// A number is written with as many digits as can mean something.
type number float64

func (n number) String() string { return quantity(float64(n), "") }

// String is the median of a result, without its unit.
func (r result) String() string { return quantity(r.Median, "") }

func reached(is number, yes bool) string {
	if yes {
		return is.String()
	}
	return is.String() + ", missed"
}

// optionalNumber adds what is known.
func optionalNumber(values ...*float64) number {
	var sum number
	for _, value := range values {
		if value != nil {
			sum += number(*value)
		}
	}
	return sum
}

// merged are the results of all runs.
func merged(runs []publication) results {
	var all results
	for _, run := range runs {
		all = append(all, run.Results...)
	}
	return all
}

// runLine says of which machine, commit and date the results of workloads are, for a page.
func runLine(runs []publication, workloads []string) (string, error) {
	var lines []string
	for _, run := range runs {
		if !slices.ContainsFunc(run.Results, func(r result) bool {
			return workload{id: r.Workload}.picked(strings.Join(workloads, ","))
		}) {
			continue
		}
		m := run.Machine
		line := fmt.Sprintf("%s, %d cores, PostgreSQL %s, a flush takes %.2f ms, commit %s, %s",
			m.CPU, m.Cores, m.PostgreSQL, m.Flush, run.Commit, run.Date)
		if m.Load != nil {
			line += fmt.Sprintf(", load %.1f before", *m.Load)
		}
		if river := m.Modules["github.com/riverqueue/river"]; river != "" {
			line += ", River " + strings.TrimPrefix(river, "v")
		}
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return "", fmt.Errorf("%s has no results of %v", publishedFile, workloads)
	}
	return strings.Join(lines, "; "), nil
}

// published are the results of all runs as if they were those of one, with the machine of the run
// that has the first.
func published(runs []publication) findings {
	f := findings{Results: merged(runs)}
	if len(runs) > 0 {
		f.Machine = runs[0].Machine
	}
	return f
}
