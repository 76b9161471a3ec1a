package identity_test

import (
	"errors"
	"testing"

	"github.com/ostiary/ostiary/internal/identity"
)

// TestRevokeAll ends all tokens several times at one time of the clock, those of federated users
// and those that are dated later than the clock among them. A token of a login afterwards is valid.
func TestRevokeAll(t *testing.T) {
	d := deploy(t)
	d.federate()
	admin := d.find(identity.User, "admin")
	d.ahead(admin)
	var earlier []*identity.Token
	for round := range 4 {
		d.ok(d.RevokeAllTokens(t.Context()))
		for i, x := range earlier {
			if _, err := d.Validate(t.Context(), x.Payload, x.Issued, 0); !errors.Is(err, &identity.Error{Reason: identity.NotFound}) {
				t.Errorf("round %d: token %d is valid after all were ended: %v", round, i, err)
			}
		}
		x, err := d.Issue(t.Context(), admin.ID, identity.Scope{}, []string{"password"}, nil)
		d.ok(err)
		for _, x := range []*identity.Token{x, d.federated("one")} {
			_, err = d.Validate(t.Context(), x.Payload, x.Issued, 0)
			d.ok(err)
			earlier = append(earlier, x)
		}
	}
}
