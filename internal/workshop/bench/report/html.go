package report

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/internal/workshop/bench"
)

// Style is the page's style sheet, for light and dark mode and narrow screens.
const Style = `
:root { color-scheme: light dark; --ink: #1c2024; --paper: #fff; --soft: #667; --line: #dde; --stripe: #f5f6f9;
  --s0: #7a8794; --s1: #2563c9; --s2: #d1641b; --s3: #1a8f5b; --s4: #a03fb5; --s5: #b58a00; --s6: #c22f4d; --s7: #0d8ea1; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #14171a; --soft: #99a; --line: #333a42; --stripe: #1b1f24;
  --s0: #98a5b3; --s1: #6ea2ff; --s2: #ff9b57; --s3: #54cf95; --s4: #d68be6; --s5: #e0bb45; --s6: #ff7d94; --s7: #52c7d8; } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 100rem; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem } h2 { margin: 2.5rem 0 .5rem; border-bottom: 2px solid var(--line) } h3 { margin: 1.8rem 0 .3rem; font-size: 1.05rem }
h4 { margin: 1rem 0 0; font-size: .9rem; font-weight: 600; color: var(--soft) }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .55rem; text-align: right; white-space: nowrap } th:first-child, td:first-child { text-align: left }
thead th { border-bottom: 1px solid var(--line); color: var(--soft); font-weight: 600 } tbody tr:nth-child(even) { background: var(--stripe) }
td.bad { color: var(--s6); font-weight: 600 } tr.quoted td { font-style: italic } .note, footer { color: var(--soft); font-size: .8rem }
.charts { display: flex; flex-wrap: wrap; gap: 0 2rem } .charts > div { flex: 1 1 24rem; min-width: 0; max-width: 40rem }
svg { display: block; width: 100%; max-width: 40rem; height: auto; margin: .4rem 0 } svg text { fill: var(--ink); font: 11px system-ui, sans-serif }
svg text.tick { fill: var(--soft); font-size: 10px } .grid { stroke: var(--line) } path.line { fill: none; stroke-width: 2 }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: .3rem 0; padding: 0; list-style: none; font-size: .85rem }
.legend svg { display: inline-block; width: 2.2em; height: .8em; margin: 0 .4em 0 0 } rect.quoted { opacity: .45 }
path.d1 { stroke-dasharray: 7 3 } path.d2 { stroke-dasharray: 2 3 } path.d3 { stroke-dasharray: 9 3 2 3 }
nav ul { padding-left: 1.2rem } dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; font-size: .9rem; max-width: 60rem } dt { font-weight: 600 } dd { margin: 0 }
.sum { font-size: 1rem; margin: .3rem 0 }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr } dd { margin-bottom: .4rem } .charts > div { flex-basis: 100% } }
`

// words explains the words of the page.
const words = `<dl>
<dt>floor</dt><dd>a server that reads the same requests and writes the same responses without any work. It shows what the transport costs on this machine. Differences below the noise of the runs mean nothing.</dd>
<dt>quoted</dt><dd>a figure that others published, on their machine; it has only what its source gives. Pale bars and italic rows are quoted.</dd>
<dt>embedded</dt><dd>the library in the process that measures, without a network.</dd>
<dt>per s</dt><dd>successful requests per second, of all clients together.</dd>
<dt>server CPU, generator CPU</dt><dd>processor time for each request: of the server, and of the program that sends the requests.</dd>
<dt>round trips</dt><dd>the time of the round trips that a write cannot avoid, as they were measured without it: to the node that writes, the commit of the log, and to the nodes that must show it.</dd>
<dt>p90, p99, p99.9</dt><dd>90, 99 and 99.9 percent of the requests were at least this fast. They are left out where too few requests were sent.</dd>
<dt>closed, open</dt><dd>closed: each client sends its next request after the response before it. Open: requests are due on schedule, and a late response counts from when its request was due.</dd>
<dt>resident</dt><dd>memory of the server's process after the requests.</dd>
<dt>n, sd, size</dt><dd>number of successful requests, standard deviation, number of tuples, documents or policies in the store. Times include only successful requests.</dd>
</dl>
`

// HTML writes the page with a title.
func HTML(w io.Writer, title string, records []bench.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>%s</title><style>%s", html.EscapeString(title), Style)
	for i := range colorsMax {
		fmt.Fprintf(&b, "rect.s%d, circle.s%d { fill: var(--s%d) } path.s%d { stroke: var(--s%d) }\n", i, i, i, i, i)
	}
	fmt.Fprintf(&b, "</style></head><body>\n<h1>%s</h1>\n", html.EscapeString(title))
	about(&b, records)
	groups := workloads(records)
	b.WriteString("<nav><h2>Contents</h2><ul>\n<li><a href=\"#words\">Words on this page</a></li>\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "<li><a href=\"#%s\">%s</a>: %s</li>\n", anchor(g.name), html.EscapeString(g.name), html.EscapeString(cellNames(g)))
	}
	fmt.Fprintf(&b, "</ul></nav>\n<h2 id=\"words\">Words on this page</h2>\n%s", words)
	p := newPalette(records)
	for _, g := range groups {
		section(&b, g, p)
	}
	b.WriteString("</body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// anchor returns a name as the id of an element.
func anchor(name string) string { return html.EscapeString(strings.ReplaceAll(name, " ", "-")) }

func cellNames(g workload) string {
	var names []string
	for _, c := range g.cells {
		names = append(names, c.name)
	}
	return strings.Join(names, "; ") // a name may have commas
}

// about writes which version was measured, on which machines and when.
func about(b *strings.Builder, records []bench.Record) {
	var lines []string
	for i := range records {
		r := &records[i]
		if r.Kind != bench.Measured {
			continue
		}
		commit := r.Commit
		if commit == "" {
			commit = "unknown"
		}
		line := "Ostiary, commit " + commit + "; machine: " + r.Machine
		if !r.When.IsZero() {
			line += "; " + r.When.Format("2006-01-02")
		}
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, line := range lines {
		fmt.Fprintf(b, "<p class=\"note\">%s</p>\n", html.EscapeString(line))
	}
}

// section writes the summary, the legend of the curves, the charts and the tables
// of one workload.
func section(b *strings.Builder, g workload, p *palette) {
	fmt.Fprintf(b, "<h2 id=\"%s\">%s</h2>\n<p class=\"sum\">%s</p>\n", anchor(g.name), html.EscapeString(g.name), html.EscapeString(summary(g)))
	var body strings.Builder
	p.drawn = nil
	cells(&body, g, p)
	if len(p.drawn) > 0 {
		b.WriteString("<ul class=\"legend\">")
		for _, l := range p.drawn {
			fmt.Fprintf(b, `<li><svg width="28" height="8"><path class="%s line" d="M0 4L28 4"/></svg>%s</li>`, l.class, html.EscapeString(l.side))
		}
		b.WriteString("</ul>\n")
	}
	b.WriteString(body.String())
}

// cells writes the charts and the table of each cell of a workload. Each load has its
// own charts.
func cells(b *strings.Builder, g workload, p *palette) {
	for _, c := range g.cells {
		fmt.Fprintf(b, "<h3>%s</h3>\n", html.EscapeString(c.name))
		loads, parts := byLoad(c)
		for i, part := range parts {
			load := ""
			if len(parts) > 1 {
				load = ", " + loads[i]
			}
			b.WriteString("<div class=\"charts\">\n")
			charts(b, part, load, p)
			b.WriteString("</div>\n")
		}
		table(b, c)
	}
}

// charts writes the charts of records with one load. Their titles end with load.
func charts(b *strings.Builder, c cell, load string, p *palette) {
	size := 0
	for _, compared := range chartsOf(c) {
		size = max(size, compared.size)
		fmt.Fprintf(b, "<div><h4>%s</h4>\n", html.EscapeString(compared.title()+load))
		bars(b, &compared, p)
		b.WriteString("</div>\n")
	}
	var curve strings.Builder
	if name := growth(&curve, c, p); curve.Len() > 0 {
		fmt.Fprintf(b, "<div><h4>%s by size of the store%s</h4>\n%s</div>\n", name, html.EscapeString(load), curve.String())
	}
	curve.Reset()
	if distribution(&curve, c, p, size); curve.Len() > 0 {
		fmt.Fprintf(b, "<div><h4>latency by percentile%s</h4>\n%s</div>\n", html.EscapeString(sizeOf(size)+load), curve.String())
	}
}

// byLoad returns the loads of a cell, and its records with each of them. Records
// without a load are in the first part.
func byLoad(c cell) (loads []string, parts []cell) {
	for i := range c.records {
		if load := c.records[i].Load; load != "" && !slices.Contains(loads, load) {
			loads = append(loads, load)
		}
	}
	parts = make([]cell, max(1, len(loads)))
	for _, r := range c.records {
		i := max(0, slices.Index(loads, r.Load))
		parts[i].name, parts[i].records = c.name, append(parts[i].records, r)
	}
	return loads, parts
}

// sizeOf returns a size as the end of a title.
func sizeOf(size int) string {
	if size == 0 {
		return ""
	}
	return ", size " + Count(float64(size))
}

// table writes the table of one cell.
func table(b *strings.Builder, c cell) {
	shown := columnsOf(c.records)
	b.WriteString("<div class=\"scroll\"><table><thead><tr><th>side</th><th>load</th>")
	for _, col := range shown {
		fmt.Fprintf(b, "<th>%s</th>", html.EscapeString(col.title))
	}
	b.WriteString("</tr></thead><tbody>\n")
	var notes []string
	for i := range c.records {
		r := &c.records[i]
		class := ""
		if r.Kind == bench.Quoted {
			class = " class=\"quoted\""
		}
		fmt.Fprintf(b, "<tr%s><td>%s</td><td>%s</td>", class, html.EscapeString(sideOf(r)), html.EscapeString(r.Load))
		for _, col := range shown {
			text, bad := col.of(r), ""
			if col.title == "failed" && text != "" {
				bad = " class=\"bad\""
			}
			fmt.Fprintf(b, "<td%s>%s</td>", bad, html.EscapeString(text))
		}
		b.WriteString("</tr>\n")
		for _, n := range []string{r.Notes, r.Source} {
			if n != "" && !slices.Contains(notes, n) {
				notes = append(notes, n)
			}
		}
	}
	b.WriteString("</tbody></table></div>\n")
	for _, n := range notes {
		fmt.Fprintf(b, "<p class=\"note\">%s</p>\n", html.EscapeString(n))
	}
}
