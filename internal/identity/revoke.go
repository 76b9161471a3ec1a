package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/identity/token"
	"github.com/ostiary/ostiary/internal/tool/btree"
)

// revocationKind is the kind of the documents of revocation events, after
// documentPrefix.
const revocationKind = "revocation"

// Revocation is an event that makes tokens invalid: those to which the one id that is set
// belongs. Of the tokens of a user, those that were issued at IssuedBefore or earlier, and so of
// all tokens if no id is set.
type Revocation struct {
	// AuditID is the audit id of one token.
	AuditID string `json:"audit_id,omitempty"`
	// ChainID is the audit id of the first token of a chain: all tokens that were
	// made from it.
	ChainID string `json:"audit_chain_id,omitempty"`
	// UserID is a user: all of the user's tokens.
	UserID string `json:"user_id,omitempty"`
	// TrustID is a trust: all tokens that were made with it.
	TrustID string `json:"OS-TRUST:trust_id,omitempty"`
	// IssuedBefore is the latest time of issue of the tokens, inclusive, in whole
	// seconds.
	IssuedBefore time.Time `json:"issued_before"`
	// RevokedAt is the time of the event.
	RevokedAt time.Time `json:"revoked_at"`
}

// subject returns the key of the id that the event is about.
func (r *Revocation) subject() string {
	switch {
	case r.AuditID != "":
		return "audit " + r.AuditID
	case r.ChainID != "":
		return "chain " + r.ChainID
	case r.TrustID != "":
		return "trust " + r.TrustID
	}
	return "user " + r.UserID
}

// revocations are the stored events. The latest event is found by its subject, so
// a token is compared with at most four events.
type revocations struct {
	events btree.Map[string, *Revocation] // by key of their document
	latest btree.Map[string, int64]       // IssuedBefore in Unix seconds, by subject
	newest int64                          // the largest value that latest has had
}

func (r *revocations) edit() revocations {
	return revocations{r.events.Edit(), r.latest.Edit(), r.newest}
}

func (r *revocations) put(key string, body []byte) error {
	e := new(Revocation)
	if err := json.Unmarshal(body, e); err != nil {
		return fmt.Errorf("revocation event %s: %w", key, err)
	}
	r.events.Set(key, e)
	before := e.IssuedBefore.Unix()
	if old, ok := r.latest.Get(e.subject()); !ok || before > old {
		r.latest.Set(e.subject(), before)
		r.newest = max(r.newest, before)
	}
	return nil
}

// remove removes an event, which only happens when all its tokens have expired.
func (r *revocations) remove(key string) {
	if e, ok := r.events.Delete(key); ok {
		if latest, _ := r.latest.Get(e.subject()); latest == e.IssuedBefore.Unix() {
			r.latest.Delete(e.subject())
		}
	}
}

// revoked returns whether an event covers a token. An event about one token, a chain or a
// trust covers all that has its id, at whatever time it was issued, because no such id is
// used again: a token that was made meanwhile, or is dated later than the event, is covered
// too. A user gets new tokens, so an event about a user covers those until its time.
func (r *revocations) revoked(p *token.Payload, issued time.Time) bool {
	if r.latest.Len() == 0 {
		return false
	}
	covers := func(kind, id string) bool {
		_, ok := r.latest.Get(kind + " " + id)
		return ok && id != ""
	}
	if r.revokedUser(p.UserID, issued) || covers("trust", p.TrustID) {
		return true
	}
	if len(p.AuditIDs) == 0 {
		return false
	}
	return covers("audit", p.AuditIDs[0]) || covers("chain", p.AuditIDs[len(p.AuditIDs)-1])
}

// revokedUser returns whether an event covers all tokens of a user that were
// issued at a time, or all tokens of everyone.
func (r *revocations) revokedUser(id string, issued time.Time) bool {
	return issued.Unix() <= r.until(id)
}

// until returns the latest IssuedBefore of the events that cover all tokens of a user, in Unix
// seconds, or the smallest number if there is none.
func (r *revocations) until(user string) int64 {
	until := int64(math.MinInt64)
	for _, id := range [...]string{user, everyone} {
		if latest, ok := r.latest.Get("user " + id); ok {
			until = max(until, latest)
		}
	}
	return until
}

// everyone is the id in the subject of an event without an id.
const everyone = ""

// expiredMax bounds the events that one write removes.
const expiredMax = 100

// expired returns the keys of the events before a time, at most expiredMax. The
// caller chooses a time at which all tokens that they cover have expired.
func (r *revocations) expired(before time.Time) (keys []authz.DocumentKey) {
	r.events.Ascend("", func(key string, e *Revocation) bool {
		if e.RevokedAt.Before(before) {
			keys = append(keys, authz.DocumentKey{Kind: documentPrefix + revocationKind, Key: key})
		}
		return len(keys) < expiredMax
	})
	return keys
}

// document returns the document of an event. Keys are in the order of time.
func (r *Revocation) document() authz.Document {
	body, err := json.Marshal(r)
	if err != nil {
		panic(err) // strings and times
	}
	key := fmt.Sprintf("%016x-%s", r.RevokedAt.UnixMicro(), newID())
	return authz.Document{Kind: documentPrefix + revocationKind, Key: key, Body: body}
}

// revoke adds an event to a write, and removes events whose tokens have expired. An event
// about a user covers every token that the user can have, also those that are dated later
// than now because they were made in the second of an earlier event.
func (s *Service) revoke(d *directory, w *authz.WriteRequest, e Revocation) {
	now := s.now()
	e.RevokedAt = now
	if e.UserID != "" {
		e.IssuedBefore = later(now, d.issuedUntil(e.UserID, now))
	}
	w.Documents = append(w.Documents, e.document())
	if len(w.RemoveDocuments) == 0 {
		w.RemoveDocuments = d.revocations.expired(now.Add(-s.tokenAgeMax() - revocationMargin))
	}
}

// issuedUntil returns the latest time of issue that a token of a user can have. Tokens of a
// trust are dated after the revocations of all users of its chain.
func (d *directory) issuedUntil(user string, now time.Time) time.Time {
	issued := d.issueTime([]string{user}, now)
	if d.revocations.newest < now.Unix() {
		return issued
	}
	for _, x := range d.trustsOf(user) {
		issued = later(issued, d.issueTime(d.agents(x.ID), now))
	}
	return issued
}

// trustsOf returns the trusts in whose chains a user is: the user's own ones, and those
// that redelegate one of them. A trust may occur several times. Chains that are too long
// give no token, so they are not followed.
func (d *directory) trustsOf(user string) []*Record {
	all := d.referring(link{User, user}, Trust)
	level := all
	for range RedelegationsMax {
		var next []*Record
		for _, x := range level {
			next = append(next, d.referring(link{Trust, x.ID}, Trust)...)
		}
		all, level = append(all, next...), next
	}
	return all
}

// final dates the events of a durable write about users again if the write became durable
// in a later second than it was decided in. Until then, tokens were made on the state before
// the events, and those tokens are dated later than the events. The proof of a request
// does not matter here, because it may rest on what the request has ended.
func (s *Service) final(ctx context.Context, events ...Revocation) error {
	if len(events) == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx) // half of a revocation is none
	now, d, err := s.moment(ctx)
	if err != nil {
		return err
	}
	events = slices.DeleteFunc(events, func(e Revocation) bool {
		latest, _ := d.revocations.latest.Get(e.subject())
		return latest >= now.Unix()
	})
	if len(events) == 0 {
		return nil
	}
	_, err = s.documents.Together(ctx, func(base *documents.At[*directory]) (w *authz.WriteRequest, next *directory, err error) {
		w = &authz.WriteRequest{}
		for _, e := range events {
			s.revoke(base.Value, w, e)
		}
		next, err = base.Value.with(w)
		return w, next, err
	})
	return err
}

// RevokeToken makes a token invalid, and every token that was made from it.
func (s *Service) RevokeToken(ctx context.Context, t *Token) error {
	e := Revocation{AuditID: t.Payload.AuditIDs[0], IssuedBefore: later(s.now(), t.Issued)}
	if len(t.Payload.AuditIDs) == 1 { // the first token of its chain
		e.AuditID, e.ChainID = "", e.AuditID
	}
	_, err := s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		s.revoke(d, &w, e)
		return w, nil
	})
	return err
}

// RevokeTokensOf makes all tokens of a user invalid.
func (s *Service) RevokeTokensOf(ctx context.Context, user string) error {
	e := Revocation{UserID: user}
	_, err := s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		if _, err = d.get(User, user); err == nil {
			s.revoke(d, &w, e)
		}
		return w, err
	})
	if err != nil {
		return err
	}
	return s.final(ctx, e)
}

// RevokeAllTokens makes all tokens invalid that were issued until now, also those of a later state
// that was lost.
func (s *Service) RevokeAllTokens(ctx context.Context) error {
	_, err := s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		s.revoke(d, &w, Revocation{IssuedBefore: later(s.now(), time.Unix(d.revocations.newest+1, 0))})
		return w, nil
	})
	return err
}

// Revocations returns the events since a time, in the order of their times.
func (s *Service) Revocations(ctx context.Context, since time.Time) (events []*Revocation, err error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, err
	}
	d.revocations.events.Ascend("", func(_ string, e *Revocation) bool {
		if !e.RevokedAt.Before(since) {
			events = append(events, e)
		}
		return true
	})
	return events, nil
}
