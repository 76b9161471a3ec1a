package identity

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/rel"
)

// Bounds of one call that loads. [Service] needs one durable write for each call.
const (
	// LoadRecordsMax is the largest number of records. A user can need three
	// documents: the record, the hashes and the activity.
	LoadRecordsMax = 300
	// LoadLinksMax is the largest number of grants, memberships or implications.
	LoadLinksMax = 3000
)

// Loaded is a record that exists in another deployment already.
type Loaded struct {
	Record
	// Secret is the hash of the password of a user or of the secret of an application
	// credential, the content of a credential, the secret of a consumer, a request
	// token or an access token, and the JSON text of the secret option of a
	// configuration; "" if there is none.
	Secret string
	// Before are the hashes of the passwords that a user had before, the newest first.
	Before []string
	// Verifier is the text with which a consumer shows that a user has authorized a
	// request token; "" before that and for other kinds.
	Verifier string
	// Failures is the number of wrong passwords since the last right one of a user.
	Failures int
	// Failed is the time of the last wrong password; zero if there is none.
	Failed time.Time
	// Used is the day of the last login of a user; zero if it is not known.
	Used time.Time
}

// Membership is that a user is in a group.
type Membership struct {
	GroupID string // the group
	UserID  string // the user
}

// Implication is that a role implies another one.
type Implication struct {
	PriorID   string // the role that implies
	ImpliedID string // the role that is implied
}

// Refusal is an element of a call that was not loaded.
type Refusal struct {
	Index int   // position of the element in the call
	Err   error // why it is refused; an [Error]
}

// Empty returns whether the deployment has no records.
func (s *Service) Empty(ctx context.Context) (bool, error) {
	d, err := s.at(ctx)
	if err != nil {
		return false, err
	}
	for _, t := range d.tables {
		if t.byID.Len() > 0 {
			return false, nil
		}
	}
	return true, nil
}

// LoadRecords adds records of another deployment with their ids, in one write. A
// record may refer to those before it. What [Service.Create] would refuse is left
// out and returned as refused; the other records are loaded. LoadRecords fails if
// there are more than [LoadRecordsMax] records.
func (s *Service) LoadRecords(ctx context.Context, records []Loaded) (refused []Refusal, err error) {
	if err := loadBound(len(records), LoadRecordsMax, "LoadRecordsMax"); err != nil {
		return nil, err
	}
	_, err = s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		refused = nil
		next := d.edit()
		for i, l := range records {
			x := l.Record
			if err := next.admitLoaded(&x, &l); err != nil {
				refused = append(refused, Refusal{i, err})
				continue
			}
			next.insert(&x)
			x.write(&w, &l)
		}
		return w, nil
	})
	return refused, err
}

func loadBound(n, largest int, name string) error {
	if n > largest {
		return failf(Invalid, "cannot load %d elements in one call: %s is %d", n, name, largest)
	}
	return nil
}

// admitLoaded validates a record of another deployment, and completes x, its
// record.
func (d *directory) admitLoaded(x *Record, l *Loaded) error {
	if x.Connects != nil {
		x.ID = associationID(x.Connects)
	}
	if err := x.checkID(); err != nil {
		return err
	}
	if _, err := d.get(x.Kind, x.ID); err == nil {
		return duplicate(x, "ID", x.ID)
	}
	if err := x.checkLoadedSecret(l); err != nil {
		return err
	}
	if err := d.place(x); err != nil {
		return err
	}
	if err := d.check(x); err != nil {
		return err
	}
	for _, l := range x.links() {
		if _, err := d.get(l.kind, l.id); err != nil {
			return err
		}
	}
	return nil
}

// checkID fails with Invalid unless the id of the record may be stored.
func (r *Record) checkID() error {
	if r.Kind == Region && r.ID != "" {
		return nil
	}
	parts := []string{r.ID}
	if r.Kind == Protocol {
		provider, protocol := ParseProtocolKey(r.ID)
		parts = []string{provider, protocol}
	}
	for _, id := range parts {
		if id == "" || strings.Contains(id, idSeparator) {
			return &Error{Reason: Invalid, Field: "id", Text: "an id must not be empty and must not contain " + idSeparator}
		}
		if n := utf8.RuneCountInString(id); n > federationIDMax && slices.Contains(federationKinds, r.Kind) {
			return failf(Invalid, "invalid id with %d characters: expected at most %d", n, federationIDMax)
		}
	}
	return nil
}

// checkLoadedSecret fails unless the secret of a record has the form that its kind
// needs. The error does not contain the secret.
func (r *Record) checkLoadedSecret(l *Loaded) error {
	switch {
	case slices.Contains(secretKinds, r.Kind) && l.Secret == "":
		return failf(Invalid, "%s %.255s has no secret", strings.ReplaceAll(string(r.Kind), "_", " "), r.ID)
	case r.Kind == RequestToken && len(l.Secret) != idLength:
		return failf(Invalid, "request token %.255s has a secret of %d characters: expected %d", r.ID, len(l.Secret), idLength)
	case r.Kind == DomainConfig:
		if r.HasSecret = l.Secret != ""; len(r.Members) > 0 || !r.HasSecret {
			return checkConfig(r.Members)
		}
	}
	return nil
}

// write adds a new record to a write, with its secret, its parent and its
// activity.
func (r *Record) write(w *authz.WriteRequest, l *Loaded) {
	w.Documents = append(w.Documents, r.document())
	if a := (activity{Failures: l.Failures, Failed: l.Failed, Used: l.Used}); r.Kind == User && a != (activity{}) {
		w.Documents = append(w.Documents, a.document(r.ID))
	}
	switch {
	case l.Secret == "":
	case r.Kind == User:
		w.Secrets = append(w.Secrets, hashSecret(r.ID, l.Secret, l.Before, settings.UniqueCountMax))
	case l.Verifier != "":
		w.Secrets = append(w.Secrets, r.sealed(requestSecret(l.Secret, l.Verifier)))
	default:
		w.Secrets = append(w.Secrets, r.sealed(l.Secret))
	}
	if r.Kind == Project && r.Parent != "" {
		w.Add = append(w.Add, tuple(object(projectType, r.ID), parentRelation, plain(projectType, r.Parent)))
	}
}

// LoadGrants adds grants in one write, as LoadRecords does. It fails if there are
// more than [LoadLinksMax].
func (s *Service) LoadGrants(ctx context.Context, grants []Grant) ([]Refusal, error) {
	return s.loadTuples(ctx, len(grants), func(d *directory, i int) ([]rel.Tuple, error) {
		g := grants[i]
		return append(g.binding().structure(), g.tuple()), d.checkGrant(g)
	})
}

// LoadMembers adds users to groups in one write, as LoadRecords does. It fails if
// there are more than [LoadLinksMax].
func (s *Service) LoadMembers(ctx context.Context, members []Membership) ([]Refusal, error) {
	return s.loadTuples(ctx, len(members), func(d *directory, i int) ([]rel.Tuple, error) {
		m := members[i]
		if _, err := d.get(Group, m.GroupID); err != nil {
			return nil, err
		}
		_, err := d.get(User, m.UserID)
		return []rel.Tuple{membership(m.GroupID, m.UserID)}, err
	})
}

// LoadImplications makes roles imply others in one write, as LoadRecords does. It
// fails if there are more than [LoadLinksMax].
func (s *Service) LoadImplications(ctx context.Context, implications []Implication) ([]Refusal, error) {
	return s.loadTuples(ctx, len(implications), func(d *directory, i int) ([]rel.Tuple, error) {
		x := implications[i]
		return []rel.Tuple{implication(x.PriorID, x.ImpliedID)}, d.checkImplication(x.PriorID, x.ImpliedID)
	})
}

// loadTuples writes the tuples of n elements that element returns without an
// error. It writes a tuple that several elements need once.
func (s *Service) loadTuples(ctx context.Context, n int, element func(d *directory, i int) ([]rel.Tuple, error)) (refused []Refusal, err error) {
	if err := loadBound(n, LoadLinksMax, "LoadLinksMax"); err != nil {
		return nil, err
	}
	_, err = s.write(ctx, func(d *directory) (authz.WriteRequest, error) {
		w := authz.WriteRequest{OnDuplicate: authz.Ignore}
		refused = nil
		seen := map[rel.Key]bool{}
		for i := range n {
			tuples, err := element(d, i)
			if err != nil {
				refused = append(refused, Refusal{i, err})
				continue
			}
			for _, t := range tuples {
				if k := t.Key(); !seen[k] {
					seen[k] = true
					w.Add = append(w.Add, t)
				}
			}
		}
		return w, nil
	})
	return refused, err
}

// LoadRevocations adds revocation events in one write. It fails if there are more
// than [LoadRecordsMax].
func (s *Service) LoadRevocations(ctx context.Context, events []Revocation) error {
	if err := loadBound(len(events), LoadRecordsMax, "LoadRecordsMax"); err != nil {
		return err
	}
	_, err := s.write(ctx, func(*directory) (w authz.WriteRequest, err error) {
		for i := range events {
			w.Documents = append(w.Documents, events[i].document())
		}
		return w, nil
	})
	return err
}
