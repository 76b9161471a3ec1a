package function

import (
	"strings"
	"time"

	"github.com/ostiary/ostiary/policy/value"
)

// zone returns the time zone of values that have none.
func (e *Env) zone() *time.Location {
	if e == nil || e.Zone == nil {
		return time.UTC
	}
	return e.Zone
}

// equality adds type-equal for each type that has it (appendix A.3.1).
func (b *builder) equality() {
	for _, t := range value.Types() {
		if t.HasEquality() {
			for _, namespace := range bagVersions(t) {
				b.test(namespace+t.String()+"-equal", t, t, equal)
			}
		}
	}
	b.test(v3+"string-equal-ignore-case", value.String, value.String,
		func(_ *Env, a, b value.Value) (bool, error) {
			return strings.ToLower(a.Text()) == strings.ToLower(b.Text()), nil
		})
}

func equal(env *Env, a, b value.Value) (bool, error) {
	return value.EqualIn(a, b, env.zone()), nil
}

// comparison adds type-greater-than and its kin (appendices A.3.6 to A.3.8).
func (b *builder) comparison() {
	for _, t := range value.Types() {
		if t.HasOrder() {
			b.order(t, "-greater-than", func(c int) bool { return c > 0 })
			b.order(t, "-greater-than-or-equal", func(c int) bool { return c >= 0 })
			b.order(t, "-less-than", func(c int) bool { return c < 0 })
			b.order(t, "-less-than-or-equal", func(c int) bool { return c <= 0 })
		}
	}
}

func (b *builder) order(t value.Type, name string, accept func(int) bool) {
	b.test(v1+t.String()+name, t, t, func(env *Env, x, y value.Value) (bool, error) {
		c, ok := value.Compare(x, y, env.zone())
		return ok && accept(c), nil
	})
}
