package function

import (
	"github.com/ostiary/ostiary/policy/value"
)

// matching adds the functions on names (appendix A.3.14).
func (b *builder) matching() {
	b.test(v1+"x500Name-match", value.X500Name, value.X500Name, func(_ *Env, tail, name value.Value) (bool, error) {
		return tail.IsTailOf(name), nil
	})
	b.test(v1+"rfc822Name-match", value.String, value.RFC822Name, func(_ *Env, pattern, name value.Value) (bool, error) {
		return name.MatchesMail(pattern.Text()), nil
	})
}
