// Package page shows the records of the study of multi-region deployments as one HTML
// page: verdicts, a figure of each factor, tables, the figures of the study's appendix, and
// what the words mean. Its functions are [HTML], [PNG] and [Text]. It measures nothing, and
// shows no figure without its mark.
package page

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/workshop/bench"
	"github.com/ostiary/ostiary/internal/workshop/bench/geo"
	"github.com/ostiary/ostiary/internal/workshop/bench/report"
)

// title is the title of the page.
const title = "One identity service in many regions: the study of 2018, run again"

// HTML writes the page. before are records of an earlier build, none or of the same cells, which
// it compares with those of all.
func HTML(w io.Writer, all, before []geo.Record) error {
	all = geo.Sorted(all)
	var b strings.Builder
	fmt.Fprintf(&b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>%s</title><style>%s%s</style></head><body>\n<h1>%s</h1>\n",
		title, report.Style, style, title)
	verdicts(&b, all)
	if err := four(&b, all); err != nil {
		return err
	}
	against(&b, all)
	since(&b, all, before)
	times(&b, all)
	costs(&b, all)
	failures(&b, all)
	if err := appendix(&b, all); err != nil {
		return err
	}
	about(&b, all)
	b.WriteString("</body></html>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// style is what the page adds to the style sheet of reports. On a narrow screen each verdict
// is a list instead of a row.
const style = `
.figure svg { max-width: none; width: 100%; background: #fff } .figure svg text { fill: #000; font-size: inherit } .swatch { display: inline-block; width: .9em; height: .9em; margin-right: .3em; vertical-align: -.1em }
td.text, th.text { text-align: left; white-space: normal } .four { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr)); gap: 0 2rem } .four h3 { margin-bottom: 0 } .four svg { max-width: 36rem }
table.verdicts td, table.verdicts th { text-align: left; white-space: normal; vertical-align: top } table.verdicts td.good { color: var(--s3) } table.verdicts td.bad { color: var(--s6); font-weight: 400 } table.verdicts td.none { color: var(--soft) }
table.verdicts th:nth-child(-n+2) { min-width: 11rem } table.verdicts small { display: block; color: var(--soft) }
@media (max-width: 56rem) { table.verdicts thead { display: none } table.verdicts, table.verdicts tbody, table.verdicts tr, table.verdicts td { display: block } table.verdicts tr { padding: .5rem 0 } table.verdicts td { padding: .1rem .4rem }
 table.verdicts td[data-head]::before { content: attr(data-head) ": "; color: var(--soft) } }
`

// four writes the figures of the four factors.
func four(b *strings.Builder, all []geo.Record) error {
	b.WriteString("<h2 id=\"figures\">The four factors</h2>\n<p>Medians of the actions that read and of those that write, each the mean over the seven scenarios; each grid line is ten times the one below it. A hollow mark is a cell that was disturbed or whose processors were busy.</p>\n<div class=\"four\">\n")
	for _, o := range overviews() {
		svg, err := o.svg(all)
		if err != nil {
			return fmt.Errorf("figure %s: %w", o.name, err)
		}
		if svg != "" {
			fmt.Fprintf(b, "<div><h3 id=\"%s\">%s</h3>\n<p class=\"note\">%s</p>\n<div class=\"figure\">%s</div></div>\n", o.name, o.title, o.caption, svg)
		}
	}
	b.WriteString("</div>\n")
	return nil
}

// appendix writes the figures of the study's appendix.
func appendix(b *strings.Builder, all []geo.Record) error {
	b.WriteString("<h2 id=\"appendix\">The figures of the study's appendix</h2>\n")
	for _, f := range figures() {
		d, ok, err := f.draw(all)
		if err != nil {
			return fmt.Errorf("figure %s: %w", f.number, err)
		}
		if !ok {
			continue
		}
		fmt.Fprintf(b, "<h3 id=\"figure-%s\">Figure %s</h3>\n<p>%s.%s</p>\n<ul class=\"legend\">", f.number, f.number, html.EscapeString(f.title), html.EscapeString(f.explanation(all)))
		for _, e := range d.legend {
			red, green, blue, _ := e.color.RGBA()
			fmt.Fprintf(b, `<li><span class="swatch" style="background: #%02x%02x%02x"></span>%s</li>`, red>>8, green>>8, blue>>8, html.EscapeString(e.name))
		}
		fmt.Fprintf(b, "</ul>\n<div class=\"figure scroll\">%s</div>\n", d.svg)
	}
	return nil
}

// explanation returns what a reader of a figure needs to know.
func (f *figure) explanation(all []geo.Record) string {
	s := ""
	if f.by == byDelay {
		s = fmt.Sprintf(" %d instances; the delay is one way.", instancesOf(all, f.high))
	}
	if f.by == byZones {
		s = " The study announces this figure and does not draw it: Z1Z1Z3 means that two copies of the data are in the group of the client."
	}
	if f.cdf {
		return s + " Time is the sum of the actions of an iteration."
	}
	return s + " A star marks cells that are CPU-bound or disturbed, or that failed. Rows of one system have the same scale."
}

// about writes what the words mean, what the study published, and what was measured where.
func about(b *strings.Builder, all []geo.Record) {
	fmt.Fprintf(b, `<h2 id="words">Words</h2>
<p>Delavergne, Cherrueau and Lebre asked in 2018 which database lets one Keystone span 3, 9 and 45 regions, up to 150 ms apart one way, with Rally's seven scenarios under low and high load. This page plays their cells again.</p>
<dl>
<dt>measured</dt><dd>the processors of the machine had time left. Times are those of the network and the programs.</dd>
<dt>CPU-bound</dt><dd>more than 85 %% of all processors were busy in a scenario. The study had a machine for each instance; here all share one. Means and distributions are those of a queue. Failure rates, statements, bytes and processor time are real.</dd>
<dt>disturbed</dt><dd>programs that do not belong to the cell used more than %.0f %% of a processor in a scenario, those of low priority included; in records before these were counted, most of the time that was used while the processors were busy. Times are too long; the rest is real. --again plays such cells again.</dd>
<dt>quiet</dt><dd>it was counted that other programs used less.</dd>
<dt>quoted</dt><dd>a fact that the study published, on its machines. CockroachDB was not available here and is quoted only.</dd>
<dt>hash cost</dt><dd>the rounds of bcrypt of passwords, the same for all systems of a cell: 12 with 3 instances under low load, and otherwise 4. Rally logs in by password three times in an iteration; with cost 12 each takes about a quarter of a second of a processor, and 9 or 45 instances on one machine would measure nothing else. Cost 4 therefore makes logins look cheaper than they are, for all systems.</dd>
<dt>low, high load</dt><dd>low: the workload on one instance that is not the first, where a single database is. With Galera that instance has a database server of its own, as all have in the study; here three instances have one. High: every instance gets the whole workload at the same time.</dd>
<dt>delay</dt><dd>one way, between instances and databases only; a round trip takes twice as long. Clients reach their instance at once.</dd>
<dt>λ, σ</dt><dd>the part of the iterations that failed; the standard deviation of the sum of actions. As in the study, times of an action above its 95th percentile are dropped in the figures of the appendix; tables show both. σ and distributions are of iterations from which nothing was dropped.</dd>
<dt>local</dt><dd>--acknowledge local: a write is answered when it is in the log, and other instances show it a little later.</dd>
<dt>first actions</dt><dd>the first action of an iteration contains a login by password, as Rally counts.</dd>
</dl>
<h2 id="study">What the study published</h2>
<div class="scroll"><table><thead><tr><th>its verdicts (quoted)</th><th>scale</th><th>network delay</th><th>delay with locality</th></tr></thead><tbody>
`, 100*geo.OutsideMax)
	for _, row := range verdictsPublished {
		fmt.Fprintf(b, "<tr class=\"quoted\"><td>%s</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", row[0], row[1], row[2], row[3])
	}
	b.WriteString("</tbody></table></div>\n<div class=\"scroll\"><table><thead><tr><th>quoted</th><th>value</th></tr></thead><tbody>\n")
	for _, q := range published {
		fmt.Fprintf(b, "<tr class=\"quoted\"><td>%s</td><td>%s</td></tr>\n", html.EscapeString(q[0]), html.EscapeString(q[1]))
	}
	b.WriteString("</tbody></table></div>\n<h2 id=\"machines\">Machines and commits</h2>\n")
	lines := machines(all)
	if len(lines) > 1 {
		b.WriteString("<p class=\"note bad\">The records are of several runs: of different commits, machines, networks or days.</p>\n")
	}
	for _, line := range lines {
		fmt.Fprintf(b, "<p class=\"note\">%s</p>\n", html.EscapeString(line))
	}
}

// machines returns a line for each commit, machine, network and day, with the number of its
// records.
func machines(all []geo.Record) (lines []string) {
	count := map[string]int{}
	for i := range all {
		r := &all[i]
		line := fmt.Sprintf("commit %s; machine: %s; %s; %s", cmp.Or(r.Commit, "unknown"), r.Machine, r.Network, r.Began.Format("2006-01-02"))
		if count[line]++; count[line] == 1 {
			lines = append(lines, line)
		}
	}
	for i, line := range lines {
		lines[i] = fmt.Sprintf("%s: %d cells", line, count[line])
	}
	return lines
}

// state returns how many cells there are, and how far they can be trusted, in sentences.
func state(all []geo.Record) string {
	marks := map[geo.Mark]int{}
	quiet := 0
	for i := range all {
		marks[all[i].Mark]++
		if all[i].Quiet() {
			quiet++
		}
	}
	return fmt.Sprintf("%d cells: %d measured, %d CPU-bound, %d disturbed, %d failed. It is known of %d cells that no other program disturbed them.", len(all), marks[geo.Measured], marks[geo.Bound], marks[geo.Disturbed], marks[geo.Failed], quiet)
}

// verdicts writes a row for each rule.
func verdicts(b *strings.Builder, all []geo.Record) {
	rows := geo.Verdicts(all)
	together := strings.NewReplacer(" → ", "\u00a0→\u00a0", " ms", "\u00a0ms", " *", "\u00a0*") // a line does not break there
	fmt.Fprintf(b, "<p>%s A verdict is about growth; the times are in the figures below it.</p>\n<p class=\"note\">%s A star marks a step with a cell that was not measured.</p>\n<h2 id=\"verdicts\">Verdicts</h2>\n"+
		"<div class=\"scroll\"><table class=\"verdicts\"><thead><tr><th>what changes</th><th>good if at most %g %% of the iterations of a scenario fail, and</th>", html.EscapeString(summary(rows)), html.EscapeString(state(all)), 100*geo.LambdaMax)
	for _, c := range geo.VerdictColumns() {
		fmt.Fprintf(b, "<th>%s</th>", label(c))
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, v := range rows {
		fmt.Fprintf(b, "<tr><td><b>%s</b><small>%s</small></td><td data-head=\"good if\"><small>%s</small></td>", html.EscapeString(v.Factor), html.EscapeString(v.Step), html.EscapeString(v.Rule))
		for _, s := range v.Sides {
			class := "none"
			if s.Played {
				class = map[bool]string{true: "good", false: "bad"}[s.Good]
			}
			fmt.Fprintf(b, "<td class=\"%s\" data-head=\"%s\">%s</td>", class, label(s.Column), html.EscapeString(together.Replace(s.String())))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table></div>\n")
}

// summary returns the verdicts in a sentence.
func summary(rows []geo.Verdict) string {
	compared, ours, theirs := geo.Summary(rows)
	if compared == 0 {
		return "No step was played with both systems on the same database."
	}
	return fmt.Sprintf("Both systems took the same step on the same database %d times: Ostiary took %d of them well, the real Keystone %d, by the same rules.", compared, ours, theirs)
}

// verdictsPublished are the verdicts of the study.
var verdictsPublished = [][4]string{
	{"MariaDB", "😺 (λ 0.98 at 45 under high load)", "😺", "😺"},
	{"Galera", "😾", "😺 reads, 😾 writes", "😺 reads, 😾 writes"},
	{"CockroachDB", "😺", "😾", "😺"},
}

// published are the figures that the study prints as numbers.
var published = [][2]string{
	{"CockroachDB, 9 instances, LAN, low load, create_and_list_tenants: create_project, mean", "0.130 s"},
	{"CockroachDB, 9 instances, LAN, low load, create_and_list_tenants: list_projects, mean", "0.024 s"},
	{"MariaDB, 45 instances, LAN, high load, authenticate_user_and_validate_token: λ", "0.98"},
	{"Galera, high load, authenticate_user_and_validate_token, from 3 to 45 instances: mean", "0.120 → 0.475 s"},
	{"Galera, 45 instances, high load, authenticate_user_and_validate_token: the longest of the last 5 %", "30 s"},
	{"low load, all sizes: order of the completion times", "MariaDB < Galera < CockroachDB"},
}

// pair are two records with the same parameters.
type pair struct{ one, other *geo.Record }

// against writes a table that compares the systems action by action, on the same
// database in cells with the same parameters.
func against(b *strings.Builder, all []geo.Record) {
	pairs := paired(all, all, func(a, k geo.Cell) bool {
		ours := a.System == geo.Ostiary && !a.Local && k.System == geo.Keystone
		k.System = a.System
		return ours && a == k
	})
	sideBySide(b, "<h2 id=\"same-database\">Action by action: Ostiary and the real Keystone on the same database</h2>\n<p>Medians in milliseconds: Ostiary, Keystone, and how many times longer Keystone takes.</p>\n",
		pairs, func(string) bool { return true })
}

// since writes a table that compares the actions that write with those of an earlier build.
func since(b *strings.Builder, all, before []geo.Record) {
	pairs := paired(all, before, func(a, k geo.Cell) bool { return a == k && a.System == geo.Ostiary })
	sideBySide(b, fmt.Sprintf("<h2 id=\"before\">Writes, and what they took before</h2>\n<p>Medians in milliseconds: now, before, and how many times longer that was. Before: %s.</p>\n", html.EscapeString(strings.Join(machines(before), "; "))),
		pairs, geo.Writing)
}

// paired returns the pairs of a record of all and one of others that match.
func paired(all, others []geo.Record, match func(a, k geo.Cell) bool) (pairs []pair) {
	for i := range all {
		for n := range others {
			if match(all[i].Cell, others[n].Cell) {
				pairs = append(pairs, pair{&all[i], &others[n]})
			}
		}
	}
	return pairs
}

// sideBySide writes a heading, and a table with the medians of both records of each pair, for
// the actions that keep accepts. It writes nothing without pairs.
func sideBySide(b *strings.Builder, heading string, pairs []pair, keep func(action string) bool) {
	if len(pairs) == 0 {
		return
	}
	b.WriteString(heading + "<div class=\"scroll\"><table><thead><tr><th>action</th>")
	for _, p := range pairs {
		c := p.one.Cell
		fmt.Fprintf(b, "<th colspan=\"3\">%s</th>", html.EscapeString(strings.TrimPrefix(c.String(), geo.Ostiary+" on ")))
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, name := range geo.Names() {
		var actions []string
		for _, p := range pairs {
			for _, r := range []*geo.Record{p.one, p.other} {
				for _, action := range geo.FrameOf(r.Find(name)).Actions {
					if keep(action) && !slices.Contains(actions, action) {
						actions = append(actions, action)
					}
				}
			}
		}
		for _, action := range actions {
			fmt.Fprintf(b, "<tr><td>%s: %s</td>", name, action)
			for _, p := range pairs {
				one, other := medianOf(p.one, name, action), medianOf(p.other, name, action)
				ratio := ""
				if one > 0 && other > 0 {
					ratio = fmt.Sprintf("%.1f ×", other/one)
				}
				fmt.Fprintf(b, "<td>%s</td><td>%s</td><td>%s</td>", millis(one), millis(other), ratio)
			}
			b.WriteString("</tr>\n")
		}
	}
	b.WriteString("</tbody></table></div>\n")
}

func medianOf(r *geo.Record, scenario, action string) float64 {
	f := geo.FrameOf(r.Find(scenario))
	if n := slices.Index(f.Actions, action); n >= 0 {
		return geo.Quantile(f.Column(n), 0.5)
	}
	return 0
}

// millis returns seconds in milliseconds, "" for none.
func millis(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return geo.Millis(seconds)
}

// distance returns the delay of a cell, in words.
func distance(c geo.Cell) string {
	if c.Delay == geo.Hierarchical {
		return c.Zones
	}
	return fmt.Sprintf("%d ms", c.Delay)
}

func load(c geo.Cell) string {
	if c.High {
		return "high"
	}
	return "low"
}

// times writes a table of times for each scenario.
func times(b *strings.Builder, all []geo.Record) {
	b.WriteString("<h2 id=\"times\">Times</h2>\n<p>Of the sum of the actions of an iteration, in milliseconds; all, and without the times of each action above its 95th percentile.</p>\n")
	for _, name := range geo.Names() {
		fmt.Fprintf(b, "<h3>%s</h3>\n<div class=\"scroll\"><table><thead><tr><th>deployment</th><th>instances</th><th>delay</th><th>load</th><th>hash cost</th><th>mark</th><th>n</th><th>λ</th><th>mean</th><th>σ</th><th>median</th><th>p90</th><th>p95</th><th>p99</th><th>max</th><th>mean, dropped</th><th>σ, dropped</th><th>iteration, mean</th><th class=\"text\">mean of each action</th></tr></thead><tbody>\n", name)
		for i := range all {
			r := &all[i]
			s := r.Find(name)
			if s == nil {
				continue
			}
			f := geo.FrameOf(s)
			d := f.Dropped()
			totals := f.Totals()
			n := fmt.Sprint(len(s.Result.Iterations))
			if want := s.Times * loadedOf(r.Cell); len(s.Result.Iterations) != want {
				n += fmt.Sprintf(" of %d", want)
			}
			var actions []string
			for k, mean := range f.Means() {
				actions = append(actions, f.Actions[k]+" "+millis(mean))
			}
			bad := ""
			if f.Lambda > 0 {
				bad = " class=\"bad\""
			}
			fmt.Fprintf(b, "<tr><td>%s</td><td>%d</td><td>%s</td><td>%s</td><td>%d</td><td>%s</td><td>%s</td><td%s>%.2f</td>", html.EscapeString(r.Cell.Column.String()), r.Cell.Instances, distance(r.Cell), load(r.Cell), r.Cell.Rounds, r.Mark, n, bad, f.Lambda)
			for _, v := range []float64{geo.Mean(totals), geo.Deviation(totals), geo.Quantile(totals, .5), geo.Quantile(totals, .9), geo.Quantile(totals, .95), geo.Quantile(totals, .99), geo.Quantile(totals, 1), geo.Mean(d.Totals()), geo.Deviation(d.Totals()), geo.Mean(f.Durations)} {
				fmt.Fprintf(b, "<td>%s</td>", millis(v))
			}
			fmt.Fprintf(b, "<td class=\"text\">%s</td></tr>\n", html.EscapeString(strings.Join(actions, ", ")))
		}
		b.WriteString("</tbody></table></div>\n")
	}
}

// loadedOf returns how many instances of a cell get the load.
func loadedOf(c geo.Cell) int {
	if c.High {
		return c.Instances
	}
	return 1
}

// costs writes what the cells used, and the part of reads of each scenario.
func costs(b *strings.Builder, all []geo.Record) {
	b.WriteString("<h2 id=\"costs\">Costs</h2>\n<p>For each request of a client, over all scenarios of a cell: processor time, bytes between instances and databases, and SQL statements of the databases. Memory is that of all processes at the end; memory that processes share counts for each. The network measured itself before the cell, over TCP.</p>\n" +
		"<div class=\"scroll\"><table><thead><tr><th>deployment</th><th>instances</th><th>delay</th><th>load</th><th>mark</th><th>requests</th><th>servers, ms of a processor</th><th>database, ms</th><th>servers, MB</th><th>database, MB</th><th>bytes</th><th>reads</th><th>writes</th><th>reads, %</th><th>busy, %</th><th>of it others, %</th><th>other programs, % of a processor</th><th>processes that waited before, while, after</th><th>measured one way, ms</th><th>ceiling, MB/s</th><th>lost packets</th><th>took, s</th></tr></thead><tbody>\n")
	for i := range all {
		r := &all[i]
		var sum geo.Scenario
		requests, weight := 0, 0.0
		for _, s := range r.Scenarios {
			requests += s.Result.Requests
			sum.Servers, sum.Database = sum.Servers+s.Servers, sum.Database+s.Database
			sum.ServersMemory, sum.DatabaseMemory = max(sum.ServersMemory, s.ServersMemory), max(sum.DatabaseMemory, s.DatabaseMemory)
			sum.Network.Bytes, sum.Network.Dropped = sum.Network.Bytes+s.Network.Bytes, sum.Network.Dropped+s.Network.Dropped
			sum.Statements.Reads, sum.Statements.Writes = sum.Statements.Reads+s.Statements.Reads, sum.Statements.Writes+s.Statements.Writes
			t := s.Result.Load.Seconds()
			sum.Busy, sum.Others, weight = sum.Busy+s.Busy*t, sum.Others+s.Others*t, weight+t
		}
		fmt.Fprintf(b, "<tr><td>%s</td><td>%d</td><td>%s</td><td>%s</td><td>%s</td><td>%d</td>", html.EscapeString(r.Cell.Column.String()), r.Cell.Instances, distance(r.Cell), load(r.Cell), r.Mark, requests)
		if requests == 0 || weight == 0 {
			fmt.Fprintf(b, "<td colspan=\"16\" class=\"text\">%s</td></tr>\n", html.EscapeString(r.Failure))
			continue
		}
		n := float64(requests)
		per := func(d time.Duration) string { return millis(d.Seconds() / n) }
		fmt.Fprintf(b, "<td>%s</td><td>%s</td><td>%d</td><td>%d</td><td>%.0f</td><td>%.2f</td><td>%.2f</td><td>%s</td><td>%.0f</td><td>%.0f</td><td>%s</td><td>%s</td><td>%s</td><td>%.0f</td><td>%d</td><td>%.0f</td></tr>\n",
			per(sum.Servers), per(sum.Database), sum.ServersMemory>>20, sum.DatabaseMemory>>20, float64(sum.Network.Bytes)/n, float64(sum.Statements.Reads)/n, float64(sum.Statements.Writes)/n,
			readsOf(sum.Statements), 100*sum.Busy/weight, 100*sum.Others/weight, outside(r), loads(r), checked(r), r.Check.Ceiling/1e6, sum.Network.Dropped, r.Took.Seconds())
	}
	b.WriteString("</tbody></table></div>\n")
	ratios(b, all)
}

// outside returns the most that other programs used in a scenario of a record.
func outside(r *geo.Record) string {
	if !r.Counted {
		return "not counted"
	}
	most := 0.0
	for i := range r.Scenarios {
		most = max(most, r.Scenarios[i].Outside)
	}
	return fmt.Sprintf("%.1f", 100*most)
}

// loads returns the numbers of processes that waited before, while and after a cell was
// played, as far as they are known.
func loads(r *geo.Record) string {
	if !r.Counted {
		return fmt.Sprintf("%.1f", r.LoadBefore)
	}
	most := 0.0
	for i := range r.Scenarios {
		most = max(most, r.Scenarios[i].Load)
	}
	return fmt.Sprintf("%.1f, %.1f, %.1f", r.LoadBefore, most, r.LoadAfter)
}

// ratios writes the part of reads of each scenario, which the study has in its titles.
func ratios(b *strings.Builder, all []geo.Record) {
	b.WriteString("<h3>Reads among the statements of each scenario, in percent</h3>\n<p>The study counts them on MariaDB, with what Rally makes and removes around a scenario; here only the iterations count.</p>\n<div class=\"scroll\"><table><thead><tr><th>scenario</th><th>the study (quoted)</th>")
	var shown []*geo.Record
	for _, c := range geo.Columns() {
		if at := slices.IndexFunc(all, func(r geo.Record) bool { return r.Cell.Column == c && r.Mark != geo.Failed }); at >= 0 {
			shown = append(shown, &all[at])
			fmt.Fprintf(b, "<th>%s</th>", html.EscapeString(c.String()))
		}
	}
	b.WriteString("</tr></thead><tbody>\n")
	for _, w := range bench.RallySeven() {
		fmt.Fprintf(b, "<tr><td>%s</td><td><i>%.2f</i></td>", w.Scenario, readsPublished[w.Scenario])
		for _, r := range shown {
			fmt.Fprintf(b, "<td>%s</td>", readsOf(r.Find(w.Scenario).Statements))
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table></div>\n")
}

// readsPublished are the study's parts of reads in percent.
var readsPublished = map[string]float64{"authenticate_user_and_validate_token": 96.46, "create_add_and_list_user_roles": 96.22, "create_and_list_tenants": 92.12, "get_entities": 91.9,
	"create_user_update_password": 89.79, "create_user_set_enabled_and_delete": 91.07, "create_and_list_users": 92.05}

func readsOf(s geo.Statements) string {
	if s.Reads+s.Writes == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", 100*float64(s.Reads)/float64(s.Reads+s.Writes))
}

// checked returns the shortest and the longest measured delay of a record.
func checked(r *geo.Record) string {
	if len(r.Check.Hosts) == 0 {
		return ""
	}
	low, high := millis(slices.Min(r.Check.Hosts).Seconds()), millis(slices.Max(r.Check.Hosts).Seconds())
	if low == high {
		return low
	}
	return low + "–" + high
}

// failures writes the causes of failed iterations and cells, and the notes.
func failures(b *strings.Builder, all []geo.Record) {
	var rows []string
	row := func(r *geo.Record, where, count, what string) {
		rows = append(rows, fmt.Sprintf("<tr><td class=\"text\">%s</td><td class=\"text\">%s</td><td>%s</td><td class=\"text\">%s</td></tr>\n", html.EscapeString(r.Cell.String()), html.EscapeString(where), count, html.EscapeString(clip(what))))
	}
	for i := range all {
		r := &all[i]
		if r.Failure != "" {
			row(r, "the cell", "", r.Failure)
		}
		for n := range r.Scenarios {
			s := &r.Scenarios[n]
			for _, c := range s.Causes() {
				row(r, s.Result.Workload.Scenario, fmt.Sprintf("%d of %d", c.Count, len(s.Result.Iterations)), c.Name+": "+c.First)
			}
			if s.Failure != "" && s.Failure != r.Failure {
				row(r, s.Result.Workload.Scenario, "", s.Failure)
			}
		}
		for _, note := range r.Notes {
			row(r, "note", "", note)
		}
	}
	if len(rows) > 0 {
		b.WriteString("<h2 id=\"failures\">Failures and notes</h2>\n<div class=\"scroll\"><table><thead><tr><th class=\"text\">cell</th><th class=\"text\">scenario</th><th>iterations</th><th class=\"text\">cause, and its first text</th></tr></thead><tbody>\n" + strings.Join(rows, "") + "</tbody></table></div>\n")
	}
}

// clip shortens the text of a failure.
func clip(s string) string {
	if runes := []rune(s); len(runes) > 300 {
		return string(runes[:300]) + "…"
	}
	return s
}

// Text writes a line for each record, how far they can be trusted, and the verdicts.
func Text(w io.Writer, all []geo.Record) {
	fmt.Fprintf(w, "%-28s %9s %8s %5s %4s %-10s %6s  %s\n", "deployment", "instances", "delay", "load", "cost", "mark", "λ", "mean of the sum of actions in ms, by scenario")
	for _, r := range geo.Sorted(all) {
		lambda := 0.0
		var means []string
		for i := range r.Scenarios {
			f := geo.FrameOf(&r.Scenarios[i])
			lambda = max(lambda, f.Lambda)
			means = append(means, fmt.Sprintf("%6.0f", geo.Mean(f.Totals())*1000))
		}
		fmt.Fprintf(w, "%-28s %9d %8s %5s %4d %-10s %6.2f  %s\n", r.Cell.Column, r.Cell.Instances, distance(r.Cell), load(r.Cell), r.Cell.Rounds, r.Mark, lambda, strings.Join(means, " "))
	}
	rows := geo.Verdicts(all)
	fmt.Fprintf(w, "\n%s\n%s\n\n", state(all), summary(rows))
	table(w, rows)
}

// table writes the verdicts as a table of Markdown.
func table(w io.Writer, rows []geo.Verdict) {
	fmt.Fprintf(w, "| what changes | good if at most %g %% of the iterations of a scenario fail, and |", 100*geo.LambdaMax)
	for _, c := range geo.VerdictColumns() {
		fmt.Fprintf(w, " %s |", label(c))
	}
	fmt.Fprintf(w, "\n%s|\n", strings.Repeat("|---", 2+len(geo.VerdictColumns())))
	for _, v := range rows {
		fmt.Fprintf(w, "| **%s**: %s | %s |", v.Factor, v.Step, v.Rule)
		for _, s := range v.Sides {
			fmt.Fprintf(w, " %s |", s)
		}
		fmt.Fprintln(w)
	}
}
