package record

import (
	"fmt"
	"html"
	"strings"
)

// The measures of the chart, in pixels.
const (
	chartColumns = 3
	panelWidth   = 290
	panelHeight  = 120
	curveWidth   = 250
	curveHeight  = 60
	curveTop     = 34
)

// The colours are readable on white and on black.
const chartStyle = `text{font:12px system-ui,sans-serif;fill:#768390}` +
	`.title{font-weight:600}` +
	`polyline{fill:none;stroke:#2f81f7;stroke-width:1.5}` +
	`line{stroke:#8b949e;stroke-opacity:.5}`

// Chart draws a curve of each measure of a run, each from 0 to its highest minute.
func Chart(long Long) string {
	var drawing strings.Builder
	all := measures()
	for i, m := range all {
		fmt.Fprintf(&drawing, `<g transform="translate(%d %d)">`+"\n",
			i%chartColumns*panelWidth, i/chartColumns*panelHeight)
		drawPanel(&drawing, m, long.Minutes)
		drawing.WriteString("</g>\n")
	}
	rows := (len(all) + chartColumns - 1) / chartColumns
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`viewBox="0 0 %[1]d %[2]d" role="img" aria-label="The long run, minute by minute">`+"\n"+
		"<style>%s</style>\n%s</svg>\n", chartColumns*panelWidth, rows*panelHeight, chartStyle,
		drawing.String())
}

func drawPanel(drawing *strings.Builder, m measure, minutes []Minute) {
	const left, bottom = 16, curveTop + curveHeight
	highest := 0.0
	for _, minute := range minutes {
		highest = max(highest, m.of(minute))
	}
	fmt.Fprintf(drawing, `<text class="title" x="%d" y="16">%s</text>`+"\n", left,
		html.EscapeString(m.title))
	fmt.Fprintf(drawing, `<text x="%d" y="30">%s</text>`+"\n", left,
		html.EscapeString(strings.TrimSpace(short(highest)+" "+m.unit)))
	var points strings.Builder
	for i, minute := range minutes {
		x := left + float64(i*curveWidth)/float64(max(1, len(minutes)-1))
		y := bottom - curveHeight*m.of(minute)/max(highest, 1)
		fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
	}
	fmt.Fprintf(drawing, `<line x1="%d" y1="%d" x2="%d" y2="%[2]d"/>`+"\n", left, bottom,
		left+curveWidth)
	fmt.Fprintf(drawing, `<polyline points="%s"/>`+"\n", strings.TrimSpace(points.String()))
	fmt.Fprintf(drawing, `<text x="%d" y="%d" text-anchor="end">%d min</text>`+"\n",
		left+curveWidth, bottom+14, len(minutes))
}
