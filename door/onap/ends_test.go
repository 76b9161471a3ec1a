package onap_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/onap/internal/catalog"
	"github.com/ostiary/ostiary/door/onap/internal/pdp"
	"github.com/ostiary/ostiary/door/onap/internal/tosca"
)

// TestNativePolicyEnds creates and deploys a native policy of 2,000 rules. When the
// context ends while the policy is parsed, the change ends with the error of the
// context, which is no mistake of the policy.
func TestNativePolicyEnds(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	templates, err := catalog.Preloaded()
	if err != nil {
		t.Fatal(err)
	}
	var xml strings.Builder
	xml.WriteString(`<Policy xmlns="urn:oasis:names:tc:xacml:3.0:core:schema:wd-17" PolicyId="p" Version="1" ` +
		`RuleCombiningAlgId="urn:oasis:names:tc:xacml:3.0:rule-combining-algorithm:deny-unless-permit"><Target/>`)
	for i := range 2000 {
		fmt.Fprintf(&xml, `<Rule RuleId="r%d" Effect="Permit"/>`, i)
	}
	xml.WriteString(`</Policy>`)
	template, err := tosca.Parse(fmt.Appendf(nil, `{"topology_template":{"policies":[{"long":{"type":"onap.policies.native.Xacml","type_version":"1.0.0","version":"1.0.0",`+
		`"properties":{"policy":%q}}}]}}`, base64.StdEncoding.EncodeToString([]byte(xml.String()))), false)
	if err != nil {
		t.Fatal(err)
	}
	end := func() {} // ends the context of the change while it parses
	c := catalog.New(e, catalog.Options{Preload: templates,
		Check: func(ctx context.Context, p *tosca.Entity, w *catalog.World) error {
			end()
			return pdp.Check(ctx, p, w)
		},
		Compile: func(ctx context.Context, _ any, w *catalog.World) (any, error) {
			if p := w.Find(tosca.PolicySection, "long", ""); p != nil {
				return pdp.Compile(ctx, nil, []*tosca.Entity{p}, w)
			}
			return nil, nil
		}})
	change := func(call func(context.Context) error, ends bool) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		end = func() {}
		if ends {
			end = cancel
		}
		err := call(ctx)
		if !ends && err != nil || ends && (!errors.Is(err, authz.ErrCanceled) || !errors.Is(err, context.Canceled)) {
			t.Errorf("the context ends: %t, error: %v", ends, err)
		}
	}
	add := func(ctx context.Context) error { return c.AddPolicies(ctx, template) }
	deploy := func(ctx context.Context) error { return c.Deploy(ctx, []catalog.ID{{Name: "long"}}, "anne") }
	change(add, true)
	change(add, false)
	change(deploy, true)
	change(deploy, false)
}
