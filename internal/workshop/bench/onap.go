package bench

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// ONAPOptions are the settings of the workload "onap".
type ONAPOptions struct {
	// Users are the numbers of users, one cell each: 10, 20, 40 and 80 in the
	// report. A user is three clients: one asks for the health, one for statistics,
	// and one for decisions.
	Users []int
	// Windows is the number of records of each cell, so that the memory over time
	// is visible. Default 1.
	Windows int
	// Flat fails the workload if memory, handles or goroutines of a server grow
	// between the first third of the windows and the last window; see
	// [Health.Growth]. It needs the server's PID and metrics.
	Flat bool
	// Load is the load of one window. Default 3 s. Its clients are those of Users.
	Load Load
}

// ONAP plays the mix of ONAP's performance report over HTTP: health, statistics
// and decisions in parallel. The decisions are those of the report, in order:
// monitoring, the same abbreviated, naming, optimization, and three guards. The
// targets of r.Sides must be [*HTTP], each optionally followed by its
// [*FloorTarget], which answers each request with the response of monitoring.
func (r *Runner) ONAP(ctx context.Context, o ONAPOptions) error {
	if len(o.Users) == 0 {
		o.Users = []int{10, 20, 40, 80}
	}
	o.Windows = max(o.Windows, 1)
	if o.Load.Duration == 0 {
		o.Load.Duration, o.Load.WarmUp = 3*time.Second, 300*time.Millisecond
	}
	r.expect(len(r.Sides) * len(o.Users) * o.Windows)
	var server *HTTP
	for i := range r.Sides {
		s := &r.Sides[i]
		if floor, ok := s.Target.(*FloorTarget); ok && server != nil {
			requests, err := floor.likeServer(ctx, server.base.Host, onapRequests(server)[firstDecision:])
			if err != nil {
				return err
			}
			if err := r.onapCells(ctx, s, requests[:1], &o); err != nil {
				return err
			}
			continue
		}
		t, ok := s.Target.(*HTTP)
		if !ok {
			return fmt.Errorf("bench: the workload onap needs a server over HTTP, not %s", s.Target.Door())
		}
		server = t
		if err := onapSetup(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", s.Peer, err)
		}
		if err := r.onapCells(ctx, s, onapRequests(t), &o); err != nil {
			return fmt.Errorf("%s: %w", s.Peer, err)
		}
	}
	return nil
}

// onapCells measures the cells of a side. If there is only one request, each
// client sends it.
func (r *Runner) onapCells(ctx context.Context, s *Side, requests []httpRequest, o *ONAPOptions) error {
	for _, users := range o.Users {
		load := o.Load
		load.Clients = 3 * users
		turn := make([]int, load.Clients)
		send := func(ctx context.Context, client, _ int) error {
			request := &requests[0]
			switch part := client % 3; {
			case len(requests) == 1:
			case part < firstDecision:
				request = &requests[part]
			default:
				decisions := requests[firstDecision:]
				request = &decisions[turn[client]%len(decisions)]
				turn[client]++
			}
			return request.Send(ctx, client)
		}
		if err := r.onapWindows(ctx, s, users, load, send, o); err != nil {
			return err
		}
	}
	return nil
}

// onapWindows measures the windows of a cell.
func (r *Runner) onapWindows(ctx context.Context, s *Side, users int, load Load, send Send, o *ONAPOptions) error {
	watched := o.Flat && s.PID != 0 && s.Metrics != ""
	var early, now Health
	for window := range o.Windows {
		record := Record{Workload: "onap", Cell: fmt.Sprintf("%d users", users)}
		if o.Windows > 1 {
			record.Cell += fmt.Sprintf(", window %d", window+1)
		}
		if watched && window > 0 {
			record.Notes = fmt.Sprintf("before: %d handles, %d goroutines", now.Handles, now.Goroutines)
		}
		if err := r.measure(ctx, s, record, load, send); err != nil {
			return err
		}
		load.WarmUp = 0
		if !watched {
			continue
		}
		var err error
		if now, err = HealthOf(ctx, s.PID, s.Metrics); err != nil {
			return err
		}
		if window <= o.Windows/3 {
			early = now
		}
	}
	if grown := early.Growth(now); watched && grown != "" {
		return fmt.Errorf("%s, %d users: %s", s.Peer, users, grown)
	}
	return nil
}

// firstDecision is the number of requests before the decisions: health and
// statistics.
const firstDecision = 2

// The policies of the workload, in the form of the report's plan: those of
// guards apply to no request, so that each guard answers with its default.
const (
	onapMonitoring = "bench.monitoring"
	onapAffinity   = "bench.affinity"
	onapMinMax     = "bench.guard.minmax"
	onapFrequency  = "bench.guard.frequency"
	onapThreshold  = `{"closedLoopControlName":"loop","version":"1.0.2","fieldPath":"$.event.measurements.field","thresholdValue":0,"direction":"GREATER","severity":"MAJOR","closedLoopEventStatus":"ONSET"}`
)

// onapPolicies returns the service template with the policies.
func onapPolicies() string {
	var b bytes.Buffer
	add := func(name, typ, properties string) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{%q:{"type":%q,"type_version":"1.0.0","version":"1.0.0","properties":%s}}`, name, typ, properties)
	}
	add(onapMonitoring, "onap.policies.monitoring.tcagen2",
		`{"tca.policy":{"domain":"measurementsForVfScaling","metricsPerEventName":[{"eventName":"Measurement","controlLoopSchemaType":"VNF","policyScope":"scope","policyName":"name","policyVersion":"v1","thresholds":[`+onapThreshold+`,`+onapThreshold+`]}]}}`)
	add(onapAffinity, "onap.policies.optimization.resource.AffinityPolicy",
		`{"scope":[],"services":[],"resources":[],"geography":[],"identity":"affinity","applicableResources":["any"],"affinityProperties":{"qualifier":"same","category":"complex"}}`)
	const guard = "onap.policies.controlloop.guard.common."
	add(onapMinMax, guard+"MinMax", `{"actor":"SO","operation":"create","id":"loop","target":"module","min":1,"max":2}`)
	add(onapFrequency, guard+"FrequencyLimiter", `{"actor":"SO","operation":"create","id":"loop","timeWindow":10,"timeUnits":"minute","limit":1}`)
	return `{"tosca_definitions_version":"tosca_simple_yaml_1_1_0","topology_template":{"policies":[` + b.String() + `]}}`
}

// onapSetup creates and deploys the policies.
func onapSetup(ctx context.Context, t *HTTP) error {
	if err := t.send(ctx, "/policy/api/v1/policies", onapPolicies()); err != nil {
		return err
	}
	return t.send(ctx, "/policy/pap/v1/pdps/policies", fmt.Sprintf(`{"policies":[{"policy-id":%q},{"policy-id":%q},{"policy-id":%q},{"policy-id":%q}]}`,
		onapMonitoring, onapAffinity, onapMinMax, onapFrequency))
}

// send posts a JSON text and fails if the status is not 2xx.
func (t *HTTP) send(ctx context.Context, path, body string) error {
	c := &conn{address: t.base.Host}
	defer c.close()
	status, answer, err := c.do(ctx, t.encode(path, []byte(body)))
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("POST %s: status %d: %s", path, status, clip(string(answer)))
	}
	return err
}

// onapRequests returns the requests of the mix: health, statistics and the seven
// decisions.
func onapRequests(t *HTTP) []httpRequest {
	get := func(path, want string) httpRequest {
		head := fmt.Sprintf("GET /policy/pdpx/v1/%s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n", path, t.base.Host)
		if t.token != "" {
			head += "Authorization: Bearer " + t.token + "\r\n"
		}
		return httpRequest{conns: &t.conns, bytes: []byte(head + "\r\n"), want: []byte(want), count: 1}
	}
	decision := func(query, action, resource, want string) httpRequest {
		body := fmt.Sprintf(`{"ONAPName":"bench","ONAPComponent":"bench-component","ONAPInstance":"bench-instance","requestId":"request-1","action":%q,"resource":%s}`, action, resource)
		return httpRequest{conns: &t.conns, bytes: t.encode("/policy/pdpx/v1/decision"+query, []byte(body)), want: []byte(want), count: 1}
	}
	monitoring := fmt.Sprintf(`{"policy-id":%q,"policy-type":"onap.policies.monitoring.tcagen2"}`, onapMonitoring)
	const scaleOut = `{"guard":{"actor":"SO","operation":"scaleOut","clname":"loop","target":"vLoadBalancer-00","vfCount":"1"}}`
	const permit = `"status":"Permit"`
	return []httpRequest{
		get("healthcheck", `"code":200`), get("statistics", `"totalErrorCount":0`),
		decision("", "configure", monitoring, `"properties"`),
		decision("?abbrev=true", "configure", monitoring, `"metadata"`),
		decision("", "naming", `{"nfRole":[],"naming-type":[],"property-name":[],"policy-type":["onap.policies.Naming"]}`, `"metadata"`),
		decision("", "optimize", `{"scope":[],"services":[],"resources":[],"geography":[]}`, `"metadata"`),
		decision("", "guard", `{"guard":{"actor":"APPC","operation":"ModifyConfig","target":"target","requestId":"1","clname":"loop"}}`, permit),
		decision("", "guard", scaleOut, permit), decision("", "guard", scaleOut, permit),
	}
}

// ONAPPublished are the figures of ONAP's report.
func ONAPPublished() []Record {
	const ms = float64(time.Millisecond)
	const source = "ONAP's performance report of the XACML PDP, 8 VCPU, 16 GB, JMeter on another machine"
	var out []Record
	for _, row := range []struct {
		users      int
		throughput float64
		mean       float64
	}{{10, 6064, 4.1}, {20, 6495, 7.2}, {40, 6457, 12.2}, {80, 5803, 21.3}} {
		out = append(out, Record{Kind: Quoted, Source: source, Workload: "onap", Cell: fmt.Sprintf("%d users", row.users), Door: "http", Peer: "onap xacml-pdp",
			Mean: row.mean * ms, Throughput: row.throughput})
	}
	return append(out, Record{Kind: Quoted, Source: source + "; 72 hours, 0 errors, the processor time includes the start", Workload: "onap", Cell: "10 users, 72 hours", Door: "http", Peer: "onap xacml-pdp",
		N: 1_256_834_239, Throughput: 4849, ServerCPU: 0.63 * ms})
}
