package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"
)

// dataFolder is the folder of the charts and of the raw data, next to the document.
const dataFolder = "performance"

// chart is one image with a grid of panels.
type chart struct {
	Name    string  `json:"name"`
	Title   string  `json:"title"`
	Caption string  `json:"caption"`
	Panels  []panel `json:"panels"`
	// OneScale gives all panels the same vertical axis.
	OneScale bool `json:"oneScale"`
}

// panel shows how one value changes with one quantity.
type panel struct {
	Figure string    `json:"figure"` // that measured it
	Title  string    `json:"title"`
	Unit   string    `json:"unit"`
	Axis   string    `json:"axis"`
	X      []float64 `json:"x"`
	// Labels are the texts of X; nil for the numbers themselves.
	Labels []string `json:"labels,omitempty"`
	LogX   bool     `json:"logX"`
	LogY   bool     `json:"logY"`
	Series []series `json:"series"`

	unit unit
}

// The units of plots, whose axes have round numbers.
var (
	plotRate   = unit{"requests/s", howMany, rounded(1000, "k/s")}
	plotTime   = unit{"µs", howLate, rounded(1000, "ms")}
	plotMemory = unit{"bytes", howMuch, rounded(1e6, "MB")}
)

// rounded returns a format for round numbers.
func rounded(divisor float64, name string) func(float64) string {
	return func(n float64) string {
		if n /= divisor; n >= 1000 {
			return fmt.Sprintf("%.0f %s", n, name)
		}
		return fmt.Sprintf("%.3g %s", n, name)
	}
}

// series is one line: for every x, the values of all rounds.
type series struct {
	Name   string      `json:"name"`
	Values [][]float64 `json:"values"`
}

func (c chart) path() string { return path.Join(dataFolder, c.Name+".svg") }

// axis is the horizontal axis that panels of a figure share.
type axis struct {
	name   string
	x      []float64
	labels []string
	log    bool
}

// panel returns a panel with an empty line of len(x) points for each name.
func (a axis) panel(title string, u unit, logY bool, names ...string) panel {
	p := panel{Title: title, Unit: u.name, Axis: a.name, X: a.x, Labels: a.labels, LogX: a.log, LogY: logY, unit: u}
	for _, name := range names {
		p.Series = append(p.Series, series{name, make([][]float64, len(a.x))})
	}
	return p
}

// note adds a round's value.
func (p *panel) note(line, x int, value float64) {
	s := &p.Series[line]
	s.Values[x] = append(s.Values[x], value)
}

// label is the text under a value of X.
func (p panel) label(i int) string {
	if p.Labels != nil {
		return p.Labels[i]
	}
	return short(p.X[i])
}

// thousands writes a whole number with commas.
func thousands(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// The layout in pixels. Each plot has margins for titles and numbers, and a legend below.
const (
	columns                 = 3
	panelWidth, panelHeight = 330, 250
	leftMargin, rightMargin = 66, 16
	topMargin, bottomMargin = 30, 42
	legendLine              = 18
)

// style makes a chart readable on light and dark pages. GitHub and browsers apply the media query
// to images too.
const style = `<style>
text { font: 12px system-ui, sans-serif; fill: #24292f } .title { font-weight: 600 } .axis { stroke: #8c959f } .grid { stroke: #8c959f; opacity: .3 }
.line { fill: none; stroke-width: 2 } .bar { stroke-width: 1.5; opacity: .6 } .dot { stroke: none }
.s0 { stroke: #0969da; fill: #0969da } .s1 { stroke: #bc4c00; fill: #bc4c00 } .s2 { stroke: #1a7f37; fill: #1a7f37 }
.s3 { stroke: #8250df; fill: #8250df } .s4 { stroke: #57606a; fill: #57606a }
.s1.line { stroke-dasharray: 7 3 } .s2.line { stroke-dasharray: 2 3 } .s3.line { stroke-dasharray: 9 3 2 3 } .line { fill: none !important }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .s0 { stroke: #58a6ff; fill: #58a6ff } .s1 { stroke: #f0883e; fill: #f0883e } .s2 { stroke: #3fb950; fill: #3fb950 }
.s3 { stroke: #bc8cff; fill: #bc8cff } .s4 { stroke: #b1bac4; fill: #b1bac4 }
}
</style>
`

// svg draws the chart.
func (c chart) svg() []byte {
	most := 0
	for _, p := range c.Panels {
		most = max(most, len(p.Series))
	}
	rowHeight := panelHeight + (most+1)*legendLine
	var out bytes.Buffer
	width, height := panelWidth*min(columns, len(c.Panels)), rowHeight*((len(c.Panels)+columns-1)/columns)
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img"><title>%s</title>`+"\n%s",
		width, height, width, height, escape(c.Title), style)
	for i, p := range c.Panels {
		fmt.Fprintf(&out, `<g transform="translate(%d %d)">`+"\n", i%columns*panelWidth, i/columns*rowHeight)
		p.plot(&out, c.valuesFor(p))
		key(&out, c.legend(i))
		out.WriteString("</g>\n")
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

// legend returns the names of a panel's lines. It returns nil for a single line without a name, and
// if the panel before it in the same row has the same names.
func (c chart) legend(i int) (names []string) {
	same := i%columns > 0 && len(c.Panels[i].Series) == len(c.Panels[i-1].Series)
	for j, s := range c.Panels[i].Series {
		if s.Name != "" {
			names = append(names, s.Name)
			same = same && s.Name == c.Panels[i-1].Series[j].Name
		}
	}
	if same {
		return nil
	}
	return names
}

// key draws the legend under a panel.
func key(out io.Writer, names []string) {
	for i, name := range names {
		y := panelHeight + 8 + i*legendLine
		fmt.Fprintf(out, `<line class="line s%d" x1="%d" x2="%d" y1="%d" y2="%d"/><text x="%d" y="%d">%s</text>`+"\n", i, leftMargin, leftMargin+24, y, y, leftMargin+30, y+4, escape(name))
	}
}

// scale maps values to pixels.
type scale struct {
	from, to   float64 // values
	start, end float64 // pixels
	log        bool
}

func (s scale) at(value float64) float64 {
	from, to := s.from, s.to
	if s.log {
		value, from, to = math.Log10(max(value, s.from)), math.Log10(from), math.Log10(to)
	}
	if to == from {
		return s.start
	}
	return s.start + (s.end-s.start)*(value-from)/(to-from)
}

// ticks returns the values that get a grid line.
func (s scale) ticks() (list []float64) {
	if s.log {
		for v := s.from; v <= s.to*1.001; v *= 10 {
			list = append(list, v)
		}
		return list
	}
	for step, v := nice(s.to/4), 0.0; v <= s.to*1.001; v += step {
		list = append(list, v)
	}
	return list
}

// nice rounds a step up to 1, 2, 2.5 or 5 times a power of ten.
func nice(step float64) float64 {
	if step <= 0 {
		return 1
	}
	base := math.Pow(10, math.Floor(math.Log10(step)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*base >= step*0.999 {
			return m * base
		}
	}
	return 10 * base
}

// valuesFor returns the values that the vertical axis of a panel must fit.
func (c chart) valuesFor(p panel) (all []float64) {
	panels := []panel{p}
	if c.OneScale {
		panels = c.Panels
	}
	for _, p := range panels {
		for _, s := range p.Series {
			all = append(all, slices.Concat(s.Values...)...)
		}
	}
	return all
}

// scales returns scales that fit values.
func (p panel) scales(all []float64) (x, y scale) {
	low, high := slices.Min(all), slices.Max(all)
	x = scale{from: p.X[0], to: p.X[len(p.X)-1], start: leftMargin + 8, end: panelWidth - rightMargin - 8, log: p.LogX}
	y = scale{from: 0, to: 4 * nice(high/4), start: panelHeight - bottomMargin, end: topMargin, log: p.LogY && low > 0}
	if y.log {
		y.from, y.to = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
	}
	return x, y
}

func (p panel) plot(out io.Writer, all []float64) {
	xs, ys := p.scales(all)
	fmt.Fprintf(out, `<text class="title" x="%d" y="16">%s</text>`+"\n", leftMargin, escape(p.Title))
	for _, v := range ys.ticks() {
		y := ys.at(v)
		fmt.Fprintf(out, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n",
			leftMargin, panelWidth-rightMargin, y, y, leftMargin-6, y+4, escape(p.unit.text(v)))
	}
	for i, v := range p.X {
		fmt.Fprintf(out, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", xs.at(v), panelHeight-bottomMargin+16, escape(p.label(i)))
	}
	fmt.Fprintf(out, `<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/><text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n",
		leftMargin, panelWidth-rightMargin, panelHeight-bottomMargin, panelHeight-bottomMargin, (leftMargin+panelWidth-rightMargin)/2, panelHeight-8, escape(p.Axis))
	for i, s := range p.Series {
		var points []string
		for j, v := range p.X {
			x, y := xs.at(v), ys.at(median(s.Values[j]))
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
			fmt.Fprintf(out, `<line class="bar s%d" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><circle class="dot s%d" cx="%.1f" cy="%.1f" r="3"/>`+"\n",
				i, x, x, ys.at(slices.Min(s.Values[j])), ys.at(slices.Max(s.Values[j])), i, x, y)
		}
		fmt.Fprintf(out, `<polyline class="line s%d" points="%s"/>`+"\n", i, strings.Join(points, " "))
	}
}

// short formats a number of the axis in few characters.
func short(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%gM", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%gk", n/1e3)
	}
	return fmt.Sprintf("%g", n)
}

var escape = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace
