package rules

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// The size of the board, in Grafana's units.
const (
	boardWidth   = 24
	statWidth    = 4
	seriesWidth  = 8
	statHeight   = 4
	seriesHeight = 8
)

// board returns the board for Grafana, as JSON that its import accepts: the source of the data, the
// job and the instances are variables.
func (o *operated) board(t *testing.T) string {
	type m = map[string]any
	source := m{"type": "prometheus", "uid": "${source}"}
	variable := func(name, label, query string, many bool) m {
		v := m{"name": name, "label": label, "type": "query", "datasource": source, "query": m{"query": query, "refId": name}, "refresh": 2, "sort": 1, "multi": many, "includeAll": many}
		if many {
			v["allValue"], v["current"] = ".*", m{"text": "All", "value": "$__all"}
		}
		return v
	}
	var panels []m
	x, y, height, id := 0, 0, 0, 0
	place := func(width, high int) m {
		if x+width > boardWidth {
			x, y, height = 0, y+height, 0
		}
		at := m{"x": x, "y": y, "w": width, "h": high}
		x, height = x+width, max(height, high)
		return at
	}
	for _, row := range o.Rows {
		x = boardWidth
		id++
		panels = append(panels, m{"id": id, "type": "row", "title": row.Row, "collapsed": false, "panels": []m{}, "gridPos": place(boardWidth, 1)})
		for _, p := range row.Panels {
			id++
			kind, width, high := "timeseries", seriesWidth, seriesHeight
			if p.Kind != "" {
				kind, width, high = p.Kind, statWidth, statHeight
			}
			var targets []m
			for i, legend := range slices.Sorted(maps.Keys(p.Series)) {
				targets = append(targets, m{"refId": string(rune('A' + i)), "datasource": source, "legendFormat": legend,
					"expr": strings.ReplaceAll(p.Series[legend], "$at", `job="$job",instance=~"$instance"`), "instant": kind == "stat", "range": kind != "stat"})
			}
			one := m{"id": id, "type": kind, "title": p.Title, "datasource": source, "gridPos": place(width, high), "targets": targets,
				"fieldConfig": m{"defaults": m{"unit": p.Unit, "min": 0}, "overrides": []m{}}}
			if p.Empty != "" {
				one["description"] = "Empty if: " + p.Empty + "."
				one["fieldConfig"].(m)["defaults"].(m)["noValue"] = "-"
			}
			panels = append(panels, one)
		}
	}
	out, err := json.MarshalIndent(m{"uid": "ostiary", "title": "Ostiary", "tags": []string{"ostiary"}, "schemaVersion": 38, "editable": true, "refresh": "30s",
		"description": madeBy, "time": m{"from": "now-3h", "to": "now"}, "timezone": "browser", "panels": panels,
		"links": []m{{"title": "On call", "type": "link", "url": strings.TrimSuffix(runbook, "#"), "targetBlank": true}},
		"templating": m{"list": []m{
			{"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"},
			variable("job", "Job", "label_values(ostiary_serving, job)", false),
			variable("instance", "Instances", `label_values(ostiary_serving{job="$job"}, instance)`, true)}}}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out) + "\n"
}
