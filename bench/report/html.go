package report

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/ostiary/ostiary/bench"
)

// style is the page's style sheet, for light and dark mode and narrow screens.
const style = `
:root { color-scheme: light dark; --ink: #1c2024; --paper: #fff; --soft: #667; --line: #dde; --stripe: #f5f6f9;
  --s0: #2563c9; --s1: #d1641b; --s2: #7a8794; --s3: #1a8f5b; --s4: #a03fb5; --s5: #b58a00; --s6: #c22f4d; --s7: #0d8ea1; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8eb; --paper: #14171a; --soft: #99a; --line: #333a42; --stripe: #1b1f24;
  --s0: #6ea2ff; --s1: #ff9b57; --s2: #98a5b3; --s3: #54cf95; --s4: #d68be6; --s5: #e0bb45; --s6: #ff7d94; --s7: #52c7d8; } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
h1 { font-size: 1.5rem } h2 { margin: 2.5rem 0 .5rem; border-bottom: 2px solid var(--line) } h3 { margin: 1.8rem 0 .3rem; font-size: 1.05rem }
h4 { margin: 1rem 0 0; font-size: .9rem; font-weight: 600; color: var(--soft) }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: .82rem; font-variant-numeric: tabular-nums }
th, td { padding: .25rem .55rem; text-align: right; white-space: nowrap } th:first-child, td:first-child { text-align: left }
thead th { border-bottom: 1px solid var(--line); color: var(--soft); font-weight: 600 } tbody tr:nth-child(even) { background: var(--stripe) }
td.bad { color: var(--s6); font-weight: 600 } tr.quoted td { font-style: italic } .note, footer { color: var(--soft); font-size: .8rem }
svg { display: block; width: 100%; max-width: 40rem; height: auto; margin: .4rem 0 } svg text { fill: var(--ink); font: 11px system-ui, sans-serif }
svg text.tick { fill: var(--soft); font-size: 10px } .grid { stroke: var(--line) } path.line { fill: none; stroke-width: 2 }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1rem; margin: .3rem 0; padding: 0; list-style: none; font-size: .85rem }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .35em; border-radius: 2px } rect.quoted { opacity: .55 }
`

// HTML writes the page with a title.
func HTML(w io.Writer, title string, records []bench.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>%s</title><style>%s", html.EscapeString(title), style)
	for i := range 8 {
		fmt.Fprintf(&b, "rect.s%d, i.s%d { fill: var(--s%d); background: var(--s%d) } path.s%d { stroke: var(--s%d) }\n", i, i, i, i, i, i)
	}
	fmt.Fprintf(&b, "</style></head><body>\n<h1>%s</h1>\n", html.EscapeString(title))
	about(&b, records)
	for _, g := range workloads(records) {
		section(&b, g)
	}
	b.WriteString("<footer>Times include only successful requests; failures are counted separately. Bars and axes are logarithmic. Italic rows and pale bars are quoted figures, which were measured on other machines.</footer>\n</body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// about writes on which machines and when the records were measured.
func about(b *strings.Builder, records []bench.Record) {
	var lines []string
	for i := range records {
		r := &records[i]
		if r.Kind != bench.Measured {
			continue
		}
		line := r.Machine
		if r.Commit != "" {
			line += ", commit " + r.Commit
		}
		if !r.When.IsZero() {
			line += ", " + r.When.Format("2006-01-02")
		}
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, line := range lines {
		fmt.Fprintf(b, "<p class=\"note\">%s</p>\n", html.EscapeString(line))
	}
}

// section writes the legend, charts and tables of one workload.
func section(b *strings.Builder, g workload) {
	fmt.Fprintf(b, "<h2>%s</h2>\n", html.EscapeString(g.name))
	// A side has the same color in all charts of a workload.
	var sides []string
	for _, r := range g.all() {
		if !slices.Contains(sides, sideOf(&r)) {
			sides = append(sides, sideOf(&r))
		}
	}
	color := func(r *bench.Record) string { return colorClass(slices.Index(sides, sideOf(r))) }
	b.WriteString("<ul class=\"legend\">")
	for i, s := range sides {
		fmt.Fprintf(b, "<li><i class=\"%s\"></i>%s</li>", colorClass(i), html.EscapeString(s))
	}
	b.WriteString("</ul>\n")
	for _, c := range g.cells {
		fmt.Fprintf(b, "<h3>%s</h3>\n<h4>median</h4>\n", html.EscapeString(c.name))
		bars(b, c, color)
		var charts strings.Builder
		if growth(&charts, c, color); charts.Len() > 0 {
			fmt.Fprintf(b, "<h4>median by number of tuples</h4>\n%s", charts.String())
		}
		charts.Reset()
		if distribution(&charts, c, color); charts.Len() > 0 {
			fmt.Fprintf(b, "<h4>latency by percentile</h4>\n%s", charts.String())
		}
		table(b, c)
	}
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
