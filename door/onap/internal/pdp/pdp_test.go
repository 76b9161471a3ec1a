package pdp_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door/onap/internal/pdp"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
	"github.com/ostiary/ostiary/policy"
)

// noTypes has no types: guards and monitoring policies need none.
type noTypes struct{}

func (noTypes) Find(tosca.Section, string, string) *tosca.Entity { return nil }
func (noTypes) Ancestors(e *tosca.Entity) []*tosca.Entity        { return []*tosca.Entity{e} }

// history is a history whose queries fail if err is set.
type history struct {
	count   int
	outcome string
	err     error
}

func (h history) Count(context.Context, string, string, string, time.Time, time.Time) (int, error) {
	return h.count, h.err
}

func (h history) Outcome(context.Context, string) (string, error) { return h.outcome, h.err }

// policies returns the policies of a template.
func policies(t testing.TB, list string) []*tosca.Entity {
	t.Helper()
	template, err := tosca.Parse([]byte(`{"topology_template":{"policies":[`+list+`]}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	return template.In(tosca.PolicySection)
}

func compile(t testing.TB, previous *pdp.Engine, list []*tosca.Entity) *pdp.Engine {
	t.Helper()
	e, err := pdp.Compile(t.Context(), previous, list, noTypes{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func request(t testing.TB, text string) *pdp.Request {
	t.Helper()
	v, err := tosca.ParseJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := pdp.ReadRequest(&v)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const (
	limiter = `{"limit":{"version":"1.0.0","type":"onap.policies.controlloop.guard.common.FrequencyLimiter","type_version":"1.0.0",
		"properties":{"actor":"SO","operation":"x","timeWindow":1,"timeUnits":"hour","limit":1}}}`
	coordination = `{"block":{"version":"1.0.0","type":"onap.policies.controlloop.guard.coordination.FirstBlocksSecond","type_version":"1.0.0",
		"properties":{"controlLoop":["one","two"]}}}`
	guardRequest = `{"action":"guard","resource":{"guard":{"actor":"SO","operation":"x","target":"t","clname":"two"}}}`
)

// TestHistoryFails checks that a guard whose history cannot be read answers with
// an error, and Permit only if guards fail open.
func TestHistoryFails(t *testing.T) {
	t.Parallel()
	failed := errors.New("the disk is gone")
	const failure = `{"status":"error","message":"the guards cannot decide: the history of operations cannot be read"}`
	const permit, deny = `{"status":"Permit"}`, `{"status":"Deny"}`
	for _, c := range []struct {
		name, policy string
		history      history
		failOpen     bool
		want         string
	}{
		{"below the limit", limiter, history{count: 0}, false, permit},
		{"at the limit", limiter, history{count: 1}, false, deny},
		{"limiter", limiter, history{err: failed}, false, failure},
		{"limiter, open", limiter, history{err: failed}, true, permit},
		{"running", coordination, history{outcome: "Started"}, false, deny},
		{"complete", coordination, history{outcome: "Success"}, false, permit},
		{"coordination", coordination, history{err: failed}, false, failure},
		{"coordination, open", coordination, history{err: failed}, true, permit},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := compile(t, nil, policies(t, c.policy))
			out, a := e.Decide(context.Background(), nil, request(t, guardRequest), &pdp.Inputs{Now: time.Now, History: c.history, FailOpen: c.failOpen})
			if string(out) != c.want {
				t.Errorf("got %s, want %s", out, c.want)
			}
			if (a.Err != nil) != (c.history.err != nil) || a.Err != nil && !errors.Is(a.Err, failed) {
				t.Errorf("reported error: %v", a.Err)
			}
			if c.want == failure && a.Decision != policy.Indeterminate {
				t.Errorf("decision %v", a.Decision)
			}
		})
	}
}

// TestRecompile checks that a compilation after a change answers from the new
// policies, and that the engine before still answers from the old ones.
func TestRecompile(t *testing.T) {
	t.Parallel()
	monitoring := func(name string) string {
		return fmt.Sprintf(`{%q:{"version":"1.0.0","type":"onap.policies.monitoring.x","type_version":"1.0.0","properties":{"n":1}}}`, name)
	}
	list := policies(t, monitoring("a")+","+monitoring("b")+","+limiter)
	one := compile(t, nil, list[:1])
	all := compile(t, one, list)
	less := compile(t, all, list[1:2])
	ask := func(e *pdp.Engine, name string) string {
		r := request(t, fmt.Sprintf(`{"action":"configure","resource":{"policy-id":%q}}`, name))
		r.Brief = true
		out, _ := e.Decide(context.Background(), nil, r, &pdp.Inputs{Now: time.Now, History: history{}})
		return string(out)
	}
	const none = `{"status":"error","policies":{}}`
	for i, c := range []struct {
		e    *pdp.Engine
		a, b bool
		n    int
	}{{one, true, false, 1}, {all, true, true, 3}, {less, false, true, 1}} {
		if got := ask(c.e, "a"); (got != none) != c.a {
			t.Errorf("%d: a: %s", i, got)
		}
		if got := ask(c.e, "b"); (got != none) != c.b {
			t.Errorf("%d: b: %s", i, got)
		}
		if c.e.Count() != c.n {
			t.Errorf("%d: %d policies", i, c.e.Count())
		}
	}
}

// TestUnsupported checks that a policy of a type that no application supports is
// rejected.
func TestUnsupported(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{"onap.policies.native.Apex", "onap.policies.Naming2", "onap.policies.monitoring"} {
		list := policies(t, fmt.Sprintf(`{"p":{"version":"1.0.0","type":%q,"type_version":"1.0.0"}}`, typ))
		if _, err := pdp.Compile(t.Context(), nil, list, noTypes{}); err == nil {
			t.Errorf("%s was accepted", typ)
		}
	}
}

// BenchmarkDecide measures the decisions of the report's plan without HTTP.
func BenchmarkDecide(b *testing.B) {
	e := compile(b, nil, policies(b, limiter+`,{"mon":{"version":"1.0.0","type":"onap.policies.monitoring.x","type_version":"1.0.0","properties":{"n":[1,2,3]}}}`))
	in := &pdp.Inputs{Now: time.Now, History: history{}}
	for name, text := range map[string]string{"guard": guardRequest, "monitoring": `{"action":"configure","resource":{"policy-id":"mon","policy-type":"onap.policies.monitoring.x"}}`} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				v, err := tosca.ParseJSON([]byte(text))
				if err != nil {
					b.Fatal(err)
				}
				r, err := pdp.ReadRequest(&v)
				if err != nil {
					b.Fatal(err)
				}
				out, _ = e.Decide(context.Background(), out[:0], r, in)
			}
		})
	}
}
