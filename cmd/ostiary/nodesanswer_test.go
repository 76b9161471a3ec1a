package main

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"testing"
)

// answered is the answer of the native API about nodes.
type answered struct {
	Version, Log, Failure string
	Self                  *struct {
		ID, Role, Holder string
		Ready            bool
		Version          uint32 `json:"log_version"`
	}
	Nodes []struct {
		ID, Address, Zone, State, Log string
		Preferred                     bool
		Start, Applied                uint64
		Reads                         uint32
	}
}

// described is a part of an OpenAPI document.
type described struct {
	Ref        string `json:"$ref"`
	Type       string
	Enum       []any
	Required   []string
	Properties map[string]*described
	Items      *described
}

// admits fails for each member of a value that a schema does not admit.
func admits(t *testing.T, all map[string]*described, s *described, at string, value any) {
	t.Helper()
	if s.Ref != "" {
		s = all[s.Ref[len("#/components/schemas/"):]]
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, value) {
		t.Errorf("%s is %v, expected one of %v", at, value, s.Enum)
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range s.Required {
			if value[name] == nil {
				t.Errorf("%s has no %s", at, name)
			}
		}
		for name, member := range value {
			if s.Properties[name] == nil {
				t.Errorf("%s has the member %s, which is not described", at, name)
				continue
			}
			admits(t, all, s.Properties[name], at+"."+name, member)
		}
	case []any:
		for _, member := range value {
			admits(t, all, s.Items, at+"[]", member)
		}
	default:
		if want := map[string]reflect.Kind{"string": reflect.String, "integer": reflect.Float64, "boolean": reflect.Bool}[s.Type]; want != reflect.ValueOf(value).Kind() {
			t.Errorf("%s is %v, expected %s", at, value, s.Type)
		}
	}
}

// nodesOf returns what a node answers about the nodes, which must be as its OpenAPI document
// describes it.
func nodesOf(t *testing.T, p *process) (out answered) {
	t.Helper()
	get := func(path string, to any) []byte {
		response, err := http.Get(p.http + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || json.Unmarshal(body, to) != nil {
			t.Fatalf("%s: %s %v %s", path, response.Status, err, body)
		}
		return body
	}
	var document struct {
		Components struct{ Schemas map[string]*described }
	}
	get("/ostiary/v1/openapi.json", &document)
	var value any
	body := get("/ostiary/v1/nodes", &value)
	admits(t, document.Components.Schemas, document.Components.Schemas["Nodes"], "nodes", value)
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestNodesAnswer compares what the native API of each node answers about the nodes with
// "ostiary node list", for a log elsewhere and for one that the nodes keep. Without the log, the
// answer has why, and what the node knows about itself.
func TestNodesAnswer(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *nodes{
		"database": func(t *testing.T) *nodes { return startNodes(t, 2, "--zone", "<b>here") },
		"nodes":    func(t *testing.T) *nodes { return startNodesOn(t, "", 2, "--zone", "<b>here") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := start(t)
			holder := c.holder()
			want := answered{}
			if err := json.Unmarshal([]byte(c.list(holder)), &want); err != nil || len(want.Nodes) != 2 {
				t.Fatal(err, want)
			}
			for _, p := range c.all {
				got := nodesOf(t, p)
				self := p.ready().Node
				if got.Log != name || got.Version == "" || got.Failure != "" || got.Self == nil || got.Self.ID != self.Node || got.Self.Role != self.Role || !got.Self.Ready || got.Self.Version == 0 || len(got.Nodes) != 2 {
					t.Fatalf("%+v %+v, expected %+v", got, got.Self, self)
				}
				for i, n := range got.Nodes {
					listed := want.Nodes[i]
					n.Applied, listed.Applied = 0, 0 // they go on
					if n != listed || n.Zone != "<b>here" {
						t.Errorf("node %d answers %+v, and the list has %+v", p.number, n, listed)
					}
				}
			}
			if c.server == nil {
				return
			}
			c.server.Pause(true)
			if got := nodesOf(t, c.all[0]); got.Failure == "" || len(got.Nodes) != 0 || got.Self == nil {
				t.Errorf("without the log: %+v", got)
			}
		})
	}
}
