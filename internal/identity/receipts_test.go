package identity_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
)

// TestReceipts uses receipts: in time, too late, as another user, and after a new
// password.
func TestReceipts(t *testing.T) {
	d := deploy(t)
	user, other := d.make(identity.Record{Kind: identity.User, Name: "u"}), d.make(identity.Record{Kind: identity.User, Name: "v"})
	r, issued, err := d.NewReceipt(t.Context(), user.ID, []string{"password"})
	d.ok(err)
	use := func(id string) error {
		methods, err := d.UseReceipt(t.Context(), r, issued, id)
		if err == nil && !slices.Equal(methods, []string{"password"}) {
			t.Error(methods)
		}
		return err
	}
	d.ok(use(user.ID))
	d.fails(use(other.ID), identity.Unauthorized, "not of user")
	d.clock.move(5*time.Minute - time.Second)
	d.ok(use(user.ID))
	d.clock.move(time.Second)
	d.fails(use(user.ID), identity.Unauthorized, "expired")
	r, issued, err = d.NewReceipt(t.Context(), user.ID, []string{"password"})
	d.ok(err)
	d.ok(use(user.ID))
	_, err = d.Update(t.Context(), identity.User, user.ID, ref("new"), false, func(*identity.Record) error { return nil })
	d.ok(err)
	d.fails(use(user.ID), identity.Unauthorized, "older")
}

// TestTokenAndOtherFactor makes a token from a token and a further factor: the
// new token has the methods of both.
func TestTokenAndOtherFactor(t *testing.T) {
	d := deploy(t)
	admin := d.find(identity.User, "admin")
	first, err := d.Issue(t.Context(), admin.ID, identity.Scope{}, []string{"password"}, nil)
	d.ok(err)
	next, err := d.Issue(t.Context(), admin.ID, identity.Scope{}, []string{"token", "totp"}, first)
	d.ok(err)
	if !slices.Equal(next.Payload.Methods, []string{"token", "password", "totp"}) {
		t.Error(next.Payload.Methods)
	}
}
