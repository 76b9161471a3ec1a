package identity_test

import (
	"testing"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// TestRevokedWindow: a revoked token stays invalid for as long as an expired token
// can be valid, although later revocations remove the event of an old one.
func TestRevokedWindow(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	bob, eve := d.user("bob", "one", ""), d.user("eve", "one", "")
	token, err := d.Issue(t.Context(), bob.ID, identity.Scope{}, []string{"password"}, nil)
	d.ok(err)
	free, err := d.Issue(t.Context(), eve.ID, identity.Scope{}, []string{"password"}, nil)
	d.ok(err)
	d.ok(d.RevokeToken(t.Context(), token))
	// A server with the same keys and a long life of tokens made this one.
	long := *token.Payload
	long.Expires = long.Expires.Add(10_000 * time.Hour)
	for at := time.Duration(0); at < 60*time.Hour; at += 2 * time.Hour {
		_, err = d.Validate(t.Context(), token.Payload, token.Issued, settings.ExpiredWindowDefault)
		d.fails(err, identity.NotFound, "Failed to validate token")
		_, err = d.Validate(t.Context(), &long, token.Issued, 0)
		d.fails(err, identity.NotFound, "Failed to validate token")
		_, err = d.Validate(t.Context(), free.Payload, free.Issued, settings.ExpiredWindowDefault)
		if ok := err == nil; ok != (at < 49*time.Hour) {
			t.Errorf("the token that was not revoked, after %v: %v", at, err)
		}
		d.clock.move(2 * time.Hour)
		other, err := d.Issue(t.Context(), d.find(identity.User, "admin").ID, identity.Scope{}, []string{"password"}, nil)
		d.ok(err)
		d.ok(d.RevokeToken(t.Context(), other)) // removes old events
	}
	if events, err := d.Revocations(t.Context(), time.Time{}); err != nil || len(events) > 27 {
		t.Errorf("%d events, %v; want those of about 50 hours", len(events), err)
	}
}
