package commit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/admit"
	"github.com/ostiary/ostiary/internal/engine/document"
	"github.com/ostiary/ostiary/internal/engine/errs"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/engine/snapshot"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// Validate checks everything about a write that does not depend on the store:
// bounds, names and contradictions. It returns the compiled schemas of the request.
func Validate(ctx context.Context, rt *snapshot.Runtime, r *authz.WriteRequest) ([]snapshot.PreparedSchema, error) {
	if err := checkBounds(r, &rt.Bounds); err != nil {
		return nil, err
	}
	if r.OnDuplicate > authz.Replace || r.OnMissing > authz.Replace {
		return nil, fmt.Errorf("%w: OnDuplicate is %d and OnMissing is %d, expected at most %d", authz.ErrInvalidRequest, r.OnDuplicate, r.OnMissing, authz.Replace)
	}
	if r.After != "" {
		if _, err := authz.ReadToken(r.After); err != nil {
			return nil, err
		}
	}
	for i := range r.Add {
		if err := r.Add[i].Validate(); err != nil {
			return nil, err
		}
	}
	for i := range r.Remove {
		if err := r.Remove[i].Validate(); err != nil {
			return nil, err
		}
	}
	for i := range r.RemoveMatching {
		if err := validFilter(&r.RemoveMatching[i]); err != nil {
			return nil, err
		}
	}
	if err := validDocuments(r, rt.Bounds.DocumentBytes); err != nil {
		return nil, err
	}
	if err := validAttributes(r); err != nil {
		return nil, err
	}
	prepared, err := prepareSchemas(ctx, rt, r)
	if err != nil {
		return nil, err
	}
	return prepared, checkRepeats(r)
}

func checkBounds(r *authz.WriteRequest, b *authz.Bounds) error {
	for _, x := range [...]struct {
		name       string
		got, limit int
	}{
		{"WriteTuples", len(r.Add) + len(r.Remove), b.WriteTuples},
		{"WriteFilters", len(r.RemoveMatching), b.WriteFilters},
		{"WriteAttributes", len(r.SetAttributes) + len(r.RemoveAttributes), b.WriteAttributes},
		{"WriteDocuments", len(r.Documents) + len(r.RemoveDocuments) + len(r.Secrets) + len(r.RemoveSecrets) +
			len(r.Schemas) + len(r.RemoveSchemas), b.WriteDocuments},
		{"Preconditions", len(r.Preconditions), b.Preconditions},
	} {
		if err := errs.CheckBound(x.name, x.got, x.limit); err != nil {
			return err
		}
	}
	return nil
}

// prepareSchemas compiles the schemas of the write.
func prepareSchemas(ctx context.Context, rt *snapshot.Runtime, r *authz.WriteRequest) (prepared []snapshot.PreparedSchema, err error) {
	for i := range r.Schemas {
		p, err := rt.PrepareSchema(ctx, &r.Schemas[i])
		if err != nil {
			return nil, err
		}
		prepared = append(prepared, p)
	}
	for i, id := range r.RemoveSchemas {
		if slices.Contains(r.RemoveSchemas[:i], id) {
			return nil, fmt.Errorf("%w: RemoveSchemas contains schema %q twice", authz.ErrInvalidRequest, id)
		}
	}
	return prepared, nil
}

func validFilter(f *storage.Filter) error {
	switch f.Target {
	case storage.FilterTuples:
		if f.Tuple == (rel.Filter{}) {
			return fmt.Errorf("%w: a filter has no condition, expected one that does not select every tuple", authz.ErrInvalidRequest)
		}
	case storage.FilterAttributes:
		if f.ObjectType == "" && f.ObjectID == "" && f.Name == "" {
			return fmt.Errorf("%w: a filter has no condition, expected one that does not select every attribute", authz.ErrInvalidRequest)
		}
	case storage.FilterDocuments:
		if err := document.ValidKey(f.DocumentKind, "key"); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%w: unknown target %d of a filter", authz.ErrInvalidRequest, f.Target)
	}
	return nil
}

func validAttributes(r *authz.WriteRequest) error {
	for i := range r.SetAttributes {
		a := &r.SetAttributes[i]
		if err := admit.AttributeKey(a); err != nil {
			return err
		}
		if err := errs.CheckBound("AttributeValueBytesMax", len(a.Value), authz.AttributeValueBytesMax); err != nil {
			return err
		}
	}
	for i := range r.RemoveAttributes {
		if err := admit.AttributeKey(&r.RemoveAttributes[i]); err != nil {
			return err
		}
	}
	return nil
}

func validDocuments(r *authz.WriteRequest, bytesMax int) error {
	for _, list := range [...][]authz.Document{r.Documents, r.Secrets} {
		for i := range list {
			if err := validDocument(&list[i], bytesMax); err != nil {
				return err
			}
		}
	}
	for i := range r.Secrets {
		if len(r.Secrets[i].Secondary) > 0 {
			return fmt.Errorf("%w: secret %s/%s has secondary keys, expected none", authz.ErrInvalidRequest, r.Secrets[i].Kind, r.Secrets[i].Key)
		}
	}
	for _, list := range [...][]authz.DocumentKey{r.RemoveDocuments, r.RemoveSecrets} {
		for _, k := range list {
			if err := document.ValidKey(k.Kind, k.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

func validDocument(d *authz.Document, bytesMax int) error {
	if err := document.ValidKey(d.Kind, d.Key); err != nil {
		return err
	}
	if err := errs.CheckBound("DocumentBytes", len(d.Body), bytesMax); err != nil {
		return err
	}
	if err := errs.CheckBound("SecondaryKeysMax", len(d.Secondary), authz.SecondaryKeysMax); err != nil {
		return err
	}
	for _, k := range d.Secondary {
		if err := errs.CheckBound("DocumentKeyBytesMax", len(k), authz.DocumentKeyBytesMax); err != nil {
			return err
		}
	}
	return nil
}

// checkRepeats rejects a tuple key, an attribute or a document that the write
// names twice.
func checkRepeats(r *authz.WriteRequest) error {
	if k, twice := repeatedKey(r); twice {
		return fmt.Errorf("%w: the write contains tuple %s twice", authz.ErrInvalidRequest, k)
	}
	if len(r.SetAttributes)+len(r.RemoveAttributes) > 1 {
		seen := make(map[rel.Attribute]struct{}, len(r.SetAttributes))
		for _, list := range [...][]rel.Attribute{r.SetAttributes, r.RemoveAttributes} {
			for _, a := range list {
				a.Value = ""
				if _, ok := seen[a]; ok {
					return fmt.Errorf("%w: the write contains attribute %s of %s twice", authz.ErrInvalidRequest, a.Name, a.Object)
				}
				seen[a] = struct{}{}
			}
		}
	}
	return errors.Join(repeatedDocument(r.Documents, r.RemoveDocuments), repeatedDocument(r.Secrets, r.RemoveSecrets))
}

func repeatedDocument(put []authz.Document, remove []authz.DocumentKey) error {
	if len(put)+len(remove) < 2 {
		return nil
	}
	keys := slices.Clone(remove)
	for _, d := range put {
		keys = append(keys, authz.DocumentKey{Kind: d.Kind, Key: d.Key})
	}
	seen := make(map[authz.DocumentKey]struct{}, len(keys))
	for _, k := range keys {
		if _, ok := seen[k]; ok {
			return fmt.Errorf("%w: the write contains document %s/%s twice", authz.ErrInvalidRequest, k.Kind, k.Key)
		}
		seen[k] = struct{}{}
	}
	return nil
}

// repeatedKey returns a key that is in Add and Remove twice. It uses a hash
// table of indexes, because a map of keys would copy every key.
func repeatedKey(r *authz.WriteRequest) (repeated rel.Key, ok bool) {
	n := len(r.Add) + len(r.Remove)
	if n < 2 {
		return repeated, false
	}
	key := func(i int) rel.Key {
		if i < len(r.Add) {
			return r.Add[i].Key()
		}
		return r.Remove[i-len(r.Add)]
	}
	seed := maphash.MakeSeed()
	table := make([]uint32, 1<<bits.Len(uint(2*n))) // indexes plus one; 0 is free
	for i := range n {
		k := key(i)
		for at := keyHash(seed, &k); ; at++ {
			slot := &table[at&uint64(len(table)-1)]
			if *slot == 0 {
				*slot = uint32(i) + 1
				break
			}
			if key(int(*slot)-1) == k {
				return k, true
			}
		}
	}
	return repeated, false
}

func keyHash(seed maphash.Seed, k *rel.Key) uint64 {
	const odd = 0x9e3779b97f4a7c15 // an odd number with random bits
	h := uint64(0)
	for _, s := range [...]string{k.Object.ID, k.Subject.ID, k.Object.Type, k.Relation, k.Subject.Type, k.Subject.Relation} {
		h = bits.RotateLeft64(h, 23) * odd
		if s != "" {
			h ^= maphash.String(seed, s)
		}
	}
	return h ^ h>>32
}

// setOrigin sets the origin of the entry of a write: own, where that is empty the
// origin of the author of ctx, and otherwise, if neither has a caller, caller. It
// fails if a text of the origin is too long or has a control character.
func (w *writer) setOrigin(ctx context.Context, own *storage.Origin, caller string) error {
	w.origin = *own
	if !w.numbered {
		w.numbered, w.request = true, journal.Of(ctx).NextWrite()
	}
	author := storage.Origin{Request: w.request}
	if a := authz.AuthorOf(ctx); a != nil {
		author.Caller, author.Reason = a.Name, a.Reason
	}
	w.origin = own.Or(&author)
	if w.origin.Caller == "" {
		w.origin.Caller = caller
	}
	return validOrigin(&w.origin)
}

// madeByRequest returns the head after a write whose request was sent to a node before,
// and has made it then. See [journal.Journal.MadeBefore]. The writer has its origin.
func (q *Queue) madeByRequest(ctx context.Context, w *writer) (storage.Head, bool, error) {
	head, made, err := journal.Of(ctx).MadeBefore(q.timeline.ID, w.request)
	if !made || err != nil {
		return storage.Head{}, false, err
	}
	journal.Wrote(ctx, q.timeline.ID, head.Revision)
	if err := q.shared.runtime.Acknowledge(ctx); err != nil {
		return head, true, err
	}
	return head, true, q.showDurable(ctx)
}

func validOrigin(o *storage.Origin) error {
	if err := errs.CheckBound("CallerBytesMax", len(o.Caller), storage.CallerBytesMax); err != nil {
		return err
	}
	if err := errs.CheckBound("ReasonBytesMax", len(o.Reason), storage.ReasonBytesMax); err != nil {
		return err
	}
	if why := o.Invalid(); why != "" {
		return fmt.Errorf("%w: %s", authz.ErrInvalidRequest, why)
	}
	return nil
}
