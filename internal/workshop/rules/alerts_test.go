package rules

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ostiary/ostiary/internal/workshop/golden"
)

// operated is the table testdata/operate.yaml.
type operated struct {
	Alerts []alert
	Rows   []boardRow
}

// alert is an alert with what an operator does about it.
type alert struct {
	Alert, Expr, For, Severity, Summary string
	// Means, Look and Do are the parts of its section in docs/operate/on-call.md: prose,
	// commands and prose.
	Means, Look, Do string
	// Fires and Quiet are series with which it fires and does not, in the notation of
	// promtool. The number of a value that ends with x* follows from For. Also are others with
	// which it fires, for another part of its expression.
	Fires, Also, Quiet map[string]string
}

// boardRow is a row of the board, with its panels.
type boardRow struct {
	Row    string
	Panels []panel
}

// panel shows series by their legends.
type panel struct {
	Title, Kind, Unit string
	Series            map[string]string
	Empty             string // why it may have no series on a server that is well
}

const (
	operateTable = "testdata/operate.yaml"
	onCall       = "../../../docs/operate/on-call.md"
	runbook      = "https://github.com/ostiary/ostiary/blob/main/docs/operate/on-call.md#"
	madeBy       = "made by OSTIARY_REWRITE=1 go test ./internal/workshop/rules -run TestOperate"
)

// readOperated reads the table.
func readOperated(t *testing.T) (o operated) {
	t.Helper()
	readYAML(t, readText(t, operateTable), &o)
	return o
}

// TestOperate makes the rules for Prometheus, their tests, the board for Grafana and the alerts on
// the page docs/operate/on-call.md from one table, and compares them with the files.
func TestOperate(t *testing.T) {
	t.Parallel()
	o := readOperated(t)
	golden.Equal(t, production+"alerts.yml", o.rules(t))
	golden.Equal(t, "testdata/alerts.test.yml", o.ruleTests(t))
	golden.Equal(t, production+"grafana.json", o.board(t))
	page := readText(t, onCall)
	begin, end := "<!-- alerts: "+madeBy+" -->\n", "<!-- end of alerts -->\n"
	before, rest, opened := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !opened || !closed {
		t.Fatalf("%s has no part between %q and %q", onCall, begin, end)
	}
	golden.Equal(t, onCall, before+begin+o.sections()+end+after)
}

// TestOperateTable checks the table: each alert has all its parts, and asks for metrics that the
// server has, as each panel does; each of these metrics is in a panel; commands and links are
// there.
func TestOperateTable(t *testing.T) {
	t.Parallel()
	o, listed := readOperated(t), metricsOf(t)
	of := func(what, expr string) []string {
		names := metric.FindAllString(expr, -1)
		for i, name := range names {
			names[i] = regexp.MustCompile(`_seconds_(bucket|sum|count)$`).ReplaceAllString(name, "_seconds")
			if !listed[names[i]] {
				t.Errorf("%s asks for %s, which the server does not have", what, name)
			}
		}
		if len(names) == 0 && !regexp.MustCompile(`\b(up|process_\w+|ALERTS)\b`).MatchString(expr) {
			t.Errorf("%s asks for no metric of the server: %s", what, expr)
		}
		return names
	}
	seen := map[string]bool{}
	for _, a := range o.Alerts {
		of(a.Alert, a.Expr)
		if seen[a.Alert] || !regexp.MustCompile(`^Ostiary[A-Z][A-Za-z]+$`).MatchString(a.Alert) {
			t.Errorf("the alert %q is twice in the table, or has another form than OstiaryName", a.Alert)
		}
		seen[a.Alert] = true
		if a.Severity != "page" && a.Severity != "warn" {
			t.Errorf("%s has the severity %q, expected page or warn", a.Alert, a.Severity)
		}
		if a.Summary == "" || a.Means == "" || a.Look == "" || a.Do == "" || len(a.Fires) == 0 || len(a.Quiet) == 0 {
			t.Errorf("%s lacks a part: expected a summary, means, look, do, fires and quiet", a.Alert)
		}
		if _, err := a.waits(); err != nil {
			t.Errorf("%s: %v", a.Alert, err)
		}
	}
	shown := map[string]bool{}
	for _, row := range o.Rows {
		for _, p := range row.Panels {
			for _, expr := range p.Series {
				for _, name := range of("the panel "+p.Title, expr) {
					shown[name] = true
				}
			}
		}
	}
	for name := range listed {
		if !shown[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// waits returns the time for which the alert waits.
func (a *alert) waits() (time.Duration, error) {
	if a.For == "" {
		return 0, nil
	}
	return time.ParseDuration(a.For)
}

// rules returns the file of rules for Prometheus.
func (o *operated) rules(t *testing.T) string {
	type rule struct {
		Alert       string            `yaml:"alert"`
		Expr        string            `yaml:"expr"`
		For         string            `yaml:"for,omitempty"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations"`
	}
	type group struct {
		Name  string `yaml:"name"`
		Rules []rule `yaml:"rules"`
	}
	g := group{Name: "ostiary"}
	for _, a := range o.Alerts {
		g.Rules = append(g.Rules, rule{a.Alert, a.Expr, a.For, map[string]string{"severity": a.Severity},
			map[string]string{"summary": a.Summary, "runbook_url": runbook + strings.ToLower(a.Alert)}})
	}
	return "# Rules for Prometheus, " + madeBy + "\n# docs/operate/on-call.md has what to do for each alert. Adapt the thresholds: they are where a\n" +
		"# reader of the metrics usually begins to ask. \"page\" wakes a person, \"warn\" can wait until the day.\n" + yamlOf(t, map[string]any{"groups": []group{g}})
}

// ruleTests returns the file for "promtool test rules": each alert fires after its time with its
// series, and not before it, nor with the others.
func (o *operated) ruleTests(t *testing.T) string {
	type input struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	type sample struct {
		Labels string `yaml:"labels"`
		Value  int    `yaml:"value"`
	}
	type check struct {
		Expr    string   `yaml:"expr"`
		At      string   `yaml:"eval_time"`
		Samples []sample `yaml:"exp_samples"`
	}
	type unit struct {
		Name     string  `yaml:"name"`
		Interval string  `yaml:"interval"`
		Input    []input `yaml:"input_series"`
		Checks   []check `yaml:"promql_expr_test"`
	}
	const before = 65 // minutes before the time of the alert counts, for rates and changes
	var units []unit
	for _, a := range o.Alerts {
		waits, err := a.waits()
		if err != nil {
			t.Fatalf("%s: %v", a.Alert, err)
		}
		minutes := before + int(waits.Minutes())
		for name, series := range map[string]map[string]string{"fires": a.Fires, "fires also": a.Also, "is quiet": a.Quiet} {
			if series == nil {
				continue
			}
			u := unit{Name: a.Alert + " " + name, Interval: "1m"}
			for s, values := range series {
				u.Input = append(u.Input, input{s, strings.ReplaceAll(values, "x*", "x"+strconv.Itoa(minutes))})
			}
			slices.SortFunc(u.Input, func(a, b input) int { return strings.Compare(a.Series, b.Series) })
			firing := check{Expr: `count(ALERTS{alertname="` + a.Alert + `",alertstate="firing"})`, At: strconv.Itoa(minutes) + "m", Samples: []sample{}}
			if name != "is quiet" {
				if waits >= 2*time.Minute {
					early := firing
					early.At = strconv.Itoa(int(waits.Minutes())-1) + "m"
					u.Checks = append(u.Checks, early)
				}
				firing.Samples = []sample{{"{}", 1}}
			}
			u.Checks = append(u.Checks, firing)
			units = append(units, u)
		}
	}
	slices.SortStableFunc(units, func(a, b unit) int { return strings.Compare(a.Name, b.Name) })
	return "# Tests of the rules for promtool, " + madeBy + "\n" + yamlOf(t, map[string]any{
		"rule_files": []string{"../" + production + "alerts.yml"}, "evaluation_interval": "1m", "tests": units})
}

// template matches a part of a summary that Prometheus fills in.
var template = regexp.MustCompile(`\{\{ \$(?:labels\.)?(\w+) \}\}`)

// sections returns the alerts as a part of the page: a table, and a section for each.
func (o *operated) sections() string {
	var out strings.Builder
	out.WriteString("\n| alert | | its text |\n|---|---|---|\n")
	for _, a := range o.Alerts {
		text := template.ReplaceAllStringFunc(a.Summary, func(found string) string {
			return strings.ToUpper(template.FindStringSubmatch(found)[1])
		})
		fmt.Fprintf(&out, "| [`%s`](#%s) | %s | %s |\n", a.Alert, strings.ToLower(a.Alert), a.Severity, text)
	}
	for _, a := range o.Alerts {
		fmt.Fprintf(&out, "\n### %s\n\n%s\n\n```sh\n%s```\n\n%s\n", a.Alert, a.Means, a.Look, a.Do)
	}
	out.WriteString("\n")
	return out.String()
}

// yamlOf returns a value as YAML.
func yamlOf(t *testing.T, v any) string {
	t.Helper()
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(v); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
