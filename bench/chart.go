package main

import (
	"fmt"
	"html"
	"io"
	"strings"
)

// The measures of the chart, in pixels.
const (
	chartWidth    = 890
	chartMargin   = 16
	labelWidth    = 240
	barsWidth     = 380
	barHeight     = 16
	barPitch      = 22
	headingHeight = 30
	noteHeight    = 18
)

// longestBar is how many times River a bar reaches at most. A longer one is cut.
const longestBar = 12

// The colours are readable on white and on black.
const chartStyle = `text{font:13px system-ui,sans-serif;fill:#768390}` +
	`.heading{font-weight:600}.value{font-size:12px}` +
	`.stint{fill:#2f81f7}.peer{fill:#8b949e}` +
	`.raw{fill:none;stroke:#8b949e;stroke-dasharray:3 2}.river{stroke:#8b949e;stroke-opacity:.5}`

// A chartGroup is what the chart shows of a workload: the bars of one figure.
type chartGroup struct {
	heading string
	rows    results
}

// writeChart draws the results that have River beside them as bars, with River's length as the
// unit.
func writeChart(w io.Writer, f findings) error {
	var drawing strings.Builder
	y := chartMargin
	for _, group := range chartGroups(f.Results) {
		y = drawGroup(&drawing, group, y)
	}
	y += chartMargin
	for _, note := range []string{
		"The length of a bar is how many times as fast it is as River. Raw SQL moves the same " +
			"rows and keeps no rules.",
		fmt.Sprintf("%s, %d cores for client and server, PostgreSQL %s, fsync and "+
			"synchronous_commit on.", f.Machine.CPU, f.Machine.Cores, f.Machine.PostgreSQL),
	} {
		y += noteHeight
		fmt.Fprintf(&drawing, `<text class="value" x="%d" y="%d">%s</text>`+"\n",
			chartMargin, y, html.EscapeString(note))
	}
	y += chartMargin
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`viewBox="0 0 %[1]d %[2]d" role="img" aria-label="Stint and its peers">`+"\n"+
		"<style>%s</style>\n%s</svg>\n", chartWidth, y, chartStyle, drawing.String())
	return err
}

// chartGroups picks what people compare queues by.
func chartGroups(rows results) []chartGroup {
	var groups []chartGroup
	for _, shown := range []struct{ workload, figure, heading string }{
		{"W1", "", "Insert many"},
		{"W2", "", "Drain many"},
		{"W3-insert", "", "Insert one, 16 callers"},
		{"W3-own-16", "", "Own one, return one, 16 workers"},
		{"W3-own-200", "", "Own one, return one, 200 workers"},
		{"W4", figureP50, "Latency from insert to handler, median"},
		{"W6", figureLast, "Insert and drain, at the end of a long transaction elsewhere"},
	} {
		group := chartGroup{heading: shown.heading}
		for _, row := range rows {
			if row.Workload == shown.workload && row.Figure == shown.figure &&
				row.OverRiver != nil {
				group.rows = append(group.rows, row)
			}
		}
		if len(group.rows) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

// drawGroup draws a group from y on, and returns where it ends.
func drawGroup(drawing *strings.Builder, group chartGroup, y int) int {
	const barsLeft = chartMargin + labelWidth
	y += headingHeight
	fmt.Fprintf(drawing, `<text class="heading" x="%d" y="%d">%s</text>`+"\n",
		chartMargin, y-10, html.EscapeString(group.heading))
	top := y
	for _, row := range group.rows {
		times := *row.OverRiver
		length := max(1, int(min(times, longestBar)*barsWidth/longestBar))
		class, over := "peer", fmt.Sprintf(" · %.2g x", times)
		switch row.Contender {
		case "stint", "raw":
			class = row.Contender
		}
		if times > longestBar {
			over += " (bar is cut)"
		}
		label := row.Name
		if row.Variant != "" {
			label += ", " + row.Variant
		}
		fmt.Fprintf(drawing, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n",
			barsLeft-8, y+13, html.EscapeString(label))
		fmt.Fprintf(drawing, `<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/>`+"\n",
			class, barsLeft, y, length, barHeight)
		fmt.Fprintf(drawing, `<text class="value" x="%d" y="%d">%s%s</text>`+"\n",
			barsLeft+length+6, y+13, quantity(row.Median, row.Unit), over)
		y += barPitch
	}
	unit := barsLeft + barsWidth/longestBar
	fmt.Fprintf(drawing, `<line class="river" x1="%d" y1="%d" x2="%[1]d" y2="%d"/>`+"\n",
		unit, top-2, y-barPitch+barHeight+2)
	return y
}
