package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// RallyWorkload is one entry of a task file of Rally, OpenStack's load generator: a
// scenario that runs a number of times.
type RallyWorkload struct {
	// Scenario is the name without "KeystoneBasic.", for example "get_entities".
	Scenario string
	// Enabled is the argument "enabled" of create_user_set_enabled_and_delete.
	Enabled bool
	// Times is the number of iterations.
	Times int
	// Concurrency is the number of iterations that run at the same time.
	Concurrency int
	// Tenants and Users are the number of projects that the context makes, and of
	// users in each.
	Tenants, Users int
}

// rallyPrefix is the beginning of the names of Keystone's scenarios.
const rallyPrefix = "KeystoneBasic."

// Bounds of a workload of a task file.
const (
	rallyTimesMax       = 100_000
	rallyConcurrencyMax = 1_000
	rallyUsersMax       = 1_000
)

// RallySeven are the seven scenarios of the study of multi-region deployments,
// with the times and the concurrency of Rally's sample files.
func RallySeven() (all []RallyWorkload) {
	w := func(scenario string, times, concurrency int) {
		all = append(all, RallyWorkload{Scenario: scenario, Times: times, Concurrency: concurrency, Tenants: 1, Users: 1, Enabled: true})
	}
	w("authenticate_user_and_validate_token", 20, 5)
	w("create_add_and_list_user_roles", 100, 10)
	w("create_and_list_tenants", 10, 1)
	w("get_entities", 100, 10)
	w("create_user_update_password", 100, 10)
	w("create_user_set_enabled_and_delete", 100, 10)
	w("create_and_list_users", 100, 10)
	all[1].Tenants, all[1].Users = 3, 2
	return all
}

// ParseRally reads a task file of Rally in JSON. It fails for scenarios other than
// those of [RallySeven], for runners other than "constant", and for numbers above
// the bounds.
func ParseRally(text []byte) ([]RallyWorkload, error) {
	var file map[string][]struct {
		Args struct {
			Enabled *bool `json:"enabled"`
		} `json:"args"`
		Runner struct {
			Type        string `json:"type"`
			Times       int    `json:"times"`
			Concurrency int    `json:"concurrency"`
		} `json:"runner"`
		Context struct {
			Users struct {
				Tenants int `json:"tenants"`
				Users   int `json:"users_per_tenant"`
			} `json:"users"`
		} `json:"context"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("invalid task file: expected {\"KeystoneBasic.…\": [{\"runner\": …}]}: %w", err)
	}
	var all []RallyWorkload
	for _, name := range slices.Sorted(maps.Keys(file)) {
		for _, x := range file[name] {
			w := RallyWorkload{Scenario: strings.TrimPrefix(name, rallyPrefix), Times: x.Runner.Times, Concurrency: max(1, x.Runner.Concurrency),
				Tenants: max(1, x.Context.Users.Tenants), Users: max(1, x.Context.Users.Users), Enabled: x.Args.Enabled == nil || *x.Args.Enabled}
			if x.Runner.Type != "" && x.Runner.Type != "constant" {
				return nil, fmt.Errorf("scenario %.64q: unknown runner %.64q: expected constant", name, x.Runner.Type)
			}
			if err := w.check(); err != nil {
				return nil, err
			}
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("the task file has no scenarios")
	}
	return all, nil
}

func (w *RallyWorkload) check() error {
	if scenarios[w.Scenario] == nil {
		return fmt.Errorf("unknown scenario %.64q: expected %s followed by one of %s", w.Scenario, rallyPrefix, strings.Join(slices.Sorted(maps.Keys(scenarios)), ", "))
	}
	for _, n := range []struct {
		name       string
		value, max int
	}{{"times", w.Times, rallyTimesMax}, {"concurrency", w.Concurrency, rallyConcurrencyMax}, {"tenants × users_per_tenant", w.Tenants * w.Users, rallyUsersMax}} {
		if n.value < 1 || n.value > n.max {
			return fmt.Errorf("scenario %s: invalid %s %d: expected 1 to %d", w.Scenario, n.name, n.value, n.max)
		}
	}
	return nil
}

// Action is one measured action of an iteration, in the form of Rally's results.
type Action struct {
	Name     string   `json:"name"`        // for example "keystone_v3.create_user"
	Children []Action `json:"children"`    // actions within it
	Started  float64  `json:"started_at"`  // beginning in seconds since 1970
	Finished float64  `json:"finished_at"` // end in seconds since 1970
}

// Iteration is one iteration of a scenario, in the form of Rally's results.
type Iteration struct {
	Timestamp float64  `json:"timestamp"`     // beginning in seconds since 1970
	Duration  float64  `json:"duration"`      // seconds, with the logins outside of the actions
	Idle      float64  `json:"idle_duration"` // seconds of waiting on purpose; always 0
	Error     []string `json:"error"`         // kind and text of the failure; empty if it succeeded
	Actions   []Action `json:"atomic_actions"`
	// Output is what a scenario shows; always empty.
	Output rallyOutput `json:"output"`
}

type rallyOutput struct {
	Additive []string `json:"additive"`
	Complete []string `json:"complete"`
}

// RallyResult is the result of one workload on one server.
type RallyResult struct {
	Workload   RallyWorkload // what was played
	Began      time.Time     // beginning of the first iteration
	Load       time.Duration // duration of all iterations together
	Requests   int           // number of requests, with those that failed
	Iterations []Iteration   // in no order
}

// rallyFormat is the version of the form of results that Rally 5.1.1 writes.
const rallyFormat = "1.2"

// WriteRally writes results in the form of "rally task report --json", as one task
// with the title of the server.
func WriteRally(w io.Writer, title string, results []RallyResult) error {
	var subtasks []any
	for _, r := range results {
		failed := 0
		for _, i := range r.Iterations {
			if len(i.Error) > 0 {
				failed++
			}
		}
		args := map[string]any{}
		if r.Workload.Scenario == scenarioEnabled {
			args["enabled"] = r.Workload.Enabled
		}
		name := rallyPrefix + r.Workload.Scenario
		subtasks = append(subtasks, map[string]any{"title": name, "description": "", "status": "finished", "sla": map[string]any{}, "workloads": []any{map[string]any{
			"scenario": map[string]any{name: args},
			"runner":   map[string]any{"constant": map[string]int{"times": r.Workload.Times, "concurrency": r.Workload.Concurrency}},
			"contexts": map[string]any{"users": map[string]int{"tenants": r.Workload.Tenants, "users_per_tenant": r.Workload.Users}},
			"data":     append([]Iteration{}, r.Iterations...), "start_time": seconds(r.Began), "load_duration": r.Load.Seconds(),
			"total_iteration_count": len(r.Iterations), "failed_iteration_count": failed, "pass_sla": failed == 0,
		}}})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(map[string]any{
		"info":  map[string]any{"rally_version": "", "generated_at": time.Now().UTC().Format("2006-01-02T15:04:05"), "format_version": rallyFormat},
		"tasks": []any{map[string]any{"title": title, "status": "finished", "subtasks": subtasks}},
	})
}
