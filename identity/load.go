package identity

import (
	"context"
	"strings"

	"github.com/ostiary/ostiary"
)

// Bounds of one call that loads. [Service] needs one durable write for each call.
const (
	// LoadRecordsMax is the largest number of records.
	LoadRecordsMax = 400
	// LoadLinksMax is the largest number of grants, memberships or implications.
	LoadLinksMax = 3000
)

// Loaded is a record that exists in another deployment already.
type Loaded struct {
	Record
	// Secret is the hash of the password of a user or of the secret of an application
	// credential, and the content of a credential; "" if there is none.
	Secret string
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
	_, err = s.write(ctx, func(d *directory) (w ostiary.WriteRequest, err error) {
		refused = nil
		next := d.edit()
		for i, l := range records {
			x := l.Record
			if err := next.admitLoaded(&x); err != nil {
				refused = append(refused, Refusal{i, err})
				continue
			}
			next.insert(&x)
			x.write(&w, l.Secret)
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

// admitLoaded validates a record of another deployment.
func (d *directory) admitLoaded(x *Record) error {
	if x.ID == "" || x.Kind != Region && strings.Contains(x.ID, idSeparator) {
		return &Error{Reason: Invalid, Field: "id", Text: "an id must not be empty or contain " + idSeparator}
	}
	if _, err := d.get(x.Kind, x.ID); err == nil {
		return duplicate(x, "ID", x.ID)
	}
	if err := d.place(x); err != nil {
		return err
	}
	for _, l := range x.links() {
		if _, err := d.get(l.kind, l.id); err != nil {
			return err
		}
	}
	return d.check(x)
}

// write adds a new record to a write, with its secret and its parent.
func (r *Record) write(w *ostiary.WriteRequest, secret string) {
	w.Documents = append(w.Documents, r.document())
	switch {
	case secret == "":
	case r.Kind == User:
		w.Secrets = append(w.Secrets, ostiary.Document{Kind: secretKind, Key: r.ID, Body: []byte(secret)})
	default:
		w.Secrets = append(w.Secrets, r.sealed(secret))
	}
	if r.Kind == Project && r.Parent != "" {
		w.Add = append(w.Add, tuple(object(projectType, r.ID), parentRelation, plain(projectType, r.Parent)))
	}
}

// LoadGrants adds grants in one write, as LoadRecords does. It fails if there are
// more than [LoadLinksMax].
func (s *Service) LoadGrants(ctx context.Context, grants []Grant) ([]Refusal, error) {
	return s.loadTuples(ctx, len(grants), func(d *directory, i int) ([]ostiary.Tuple, error) {
		g := grants[i]
		return append(g.binding().structure(), g.tuple()), d.checkGrant(g)
	})
}

// LoadMembers adds users to groups in one write, as LoadRecords does. It fails if
// there are more than [LoadLinksMax].
func (s *Service) LoadMembers(ctx context.Context, members []Membership) ([]Refusal, error) {
	return s.loadTuples(ctx, len(members), func(d *directory, i int) ([]ostiary.Tuple, error) {
		m := members[i]
		if _, err := d.get(Group, m.GroupID); err != nil {
			return nil, err
		}
		_, err := d.get(User, m.UserID)
		return []ostiary.Tuple{membership(m.GroupID, m.UserID)}, err
	})
}

// LoadImplications makes roles imply others in one write, as LoadRecords does. It
// fails if there are more than [LoadLinksMax].
func (s *Service) LoadImplications(ctx context.Context, implications []Implication) ([]Refusal, error) {
	return s.loadTuples(ctx, len(implications), func(d *directory, i int) ([]ostiary.Tuple, error) {
		x := implications[i]
		return []ostiary.Tuple{implication(x.PriorID, x.ImpliedID)}, d.checkImplication(x.PriorID, x.ImpliedID)
	})
}

// loadTuples writes the tuples of n elements that element returns without an
// error. It writes a tuple that several elements need once.
func (s *Service) loadTuples(ctx context.Context, n int, element func(d *directory, i int) ([]ostiary.Tuple, error)) (refused []Refusal, err error) {
	if err := loadBound(n, LoadLinksMax, "LoadLinksMax"); err != nil {
		return nil, err
	}
	_, err = s.write(ctx, func(d *directory) (ostiary.WriteRequest, error) {
		w := ostiary.WriteRequest{OnDuplicate: ostiary.Ignore}
		refused = nil
		seen := map[ostiary.Key]bool{}
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
	_, err := s.write(ctx, func(*directory) (w ostiary.WriteRequest, err error) {
		for i := range events {
			w.Documents = append(w.Documents, events[i].document())
		}
		return w, nil
	})
	return err
}
