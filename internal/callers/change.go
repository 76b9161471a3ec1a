package callers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/engine/documents"
	"github.com/ostiary/ostiary/internal/engine/journal"
	"github.com/ostiary/ostiary/internal/tool/turns"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/storage"
)

// NewKey describes a key that is made.
type NewKey struct {
	Name, Owner string
	// Expires is when the key ends; zero means never.
	Expires time.Time
	// Stores name stores by their ids, as DOOR/ALIAS, or by a name, which may end with a
	// star. "*" means all.
	Stores []string
	Rights []string
	// Doors are names of doors. Nil means all.
	Doors []string
	// Match makes a key without a secret.
	Match Match
	// Limits are those of the callers of the key, and of the keys that it makes.
	Limits turns.Limits
}

// Made is a key that was made or rotated.
type Made struct {
	Key *Key
	// Secret is shown once, and kept nowhere. It is "" for a key with a Match.
	Secret string
	// Warnings are what the caller may have overlooked.
	Warnings []string
}

// Create makes a key. It fails with [ErrKeyExists] if a key has the name, with
// [authz.ErrInvalidRequest] if the scope names no store, or if another kind of caller has
// such a name, and with [authz.ErrForbidden] if the scope exceeds that of the key that
// calls, or if the name is for other makers. A [authz.BoundError] names the bound of keys.
func (r *Registry) Create(ctx context.Context, n NewKey) (*Made, error) {
	k, err := r.validate(ctx, &n)
	if err != nil {
		return nil, err
	}
	if err := repeated(ctx); err != nil {
		return nil, err
	}
	m := &Made{Key: k, Warnings: n.Match.warnings()}
	if n.Match == (Match{}) {
		secret, sum := newSecret(k.ID)
		m.Secret = secret
		k.add(sum, time.Time{}, false)
	}
	for _, p := range k.Stores {
		if p.Pattern != "" && p.Pattern != all && !r.anyNamed(ctx, p) {
			m.Warnings = append(m.Warnings, fmt.Sprintf("no store has a name that matches %q at the moment", p.Pattern))
		}
	}
	err = r.change(ctx, func(v *value) (*authz.WriteRequest, error) {
		if err := r.permits(ctx, v, k); err != nil {
			return nil, err
		}
		document, err := k.document()
		if err != nil {
			return nil, err
		}
		w := &authz.WriteRequest{Documents: []authz.Document{document}, Add: k.tuples(), OnMissing: authz.Ignore}
		live := r.removeExpired(v, k.Name, w)
		if err := r.mayName(ctx, v, k, live); err != nil {
			return nil, err
		}
		return w, r.writeLimits(ctx, v, w, &Limited{Caller: k.Name, Limits: n.Limits})
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// expiredMax is how many expired keys the creation of another one removes, as long as they
// have at most expiredTuples tuples together.
const expiredMax, expiredTuples = 50, 400

// removeExpired adds to a write the removal of keys that have expired: of the one with a
// name, and of some others. It returns the keys that have not expired. Nothing else removes
// expired keys, so that a system whose last key expires does not become one without keys.
func (r *Registry) removeExpired(v *value, name string, w *authz.WriteRequest) (live []*Key) {
	now := r.now()
	for _, old := range v.byID {
		switch {
		case !old.expired(now):
			live = append(live, old)
		case old.Name == name || len(w.RemoveDocuments) < expiredMax && len(w.Remove) < expiredTuples:
			old.removeBy(w)
			if v.limits.ofCaller(old.Name) != nil && old.Name != name {
				_ = (&Limited{Caller: old.Name}).write(w)
			}
		}
	}
	return live
}

// removeBy adds the removal of the key to a write.
func (k *Key) removeBy(w *authz.WriteRequest) {
	w.RemoveDocuments = append(w.RemoveDocuments, authz.DocumentKey{Kind: keyType, Key: k.ID})
	for _, t := range k.tuples() {
		w.Remove = append(w.Remove, t.Key())
	}
}

// repeated fails with [authz.ErrUncertain] if the request was sent to another node before
// and has written: the secret that it has made is lost.
func repeated(ctx context.Context) error {
	if j := journal.Of(ctx); j.SentBefore() && len(j.Made.Entries) > 0 {
		return fmt.Errorf("%w: the key was made or rotated, and its secret was lost: rotate it", authz.ErrUncertain)
	}
	return nil
}

// Rotate gives a key a new secret. Those before end after keep, or at once for 0.
func (r *Registry) Rotate(ctx context.Context, name string, keep time.Duration) (*Made, error) {
	if err := repeated(ctx); err != nil {
		return nil, err
	}
	m := &Made{}
	err := r.change(ctx, func(v *value) (*authz.WriteRequest, error) {
		old, err := r.known(ctx, v, name)
		if err != nil {
			return nil, err
		}
		if old.Match != (Match{}) {
			return nil, invalid("the key %q has no secret: tokens or certificates show who its callers are", name)
		}
		k := *old
		k.credentials = nil
		secret, sum := newSecret(k.ID)
		k.add(sum, time.Time{}, false)
		for _, c := range old.credentials {
			if now := r.now(); keep > 0 && !c.expired(now) && len(k.credentials) < secretsMax {
				until := now.Add(keep)
				if !c.until.IsZero() && c.until.Before(until) {
					until = c.until
				}
				k.add(c.sum, until, false)
			}
		}
		m.Key, m.Secret = &k, secret
		document, err := k.document()
		return &authz.WriteRequest{Documents: []authz.Document{document}}, err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Revoke ends a key and removes it.
func (r *Registry) Revoke(ctx context.Context, name string) (*Key, error) {
	var k *Key
	err := r.change(ctx, func(v *value) (_ *authz.WriteRequest, err error) {
		if k, err = r.known(ctx, v, name); err != nil && (k == nil || !administersAll(ctx, v)) {
			return nil, err
		}
		w := &authz.WriteRequest{OnMissing: authz.Ignore}
		k.removeBy(w)
		if r.mayLimit(ctx, v, name) { // else the keys that it has made keep its limits
			err = r.writeLimits(ctx, v, w, &Limited{Caller: name})
		}
		return w, err
	})
	return k, err
}

// List returns the keys that the caller of ctx may see, by their names.
func (r *Registry) List(ctx context.Context) (keys []*Key, err error) {
	at, err := r.confirmed(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range at.Value.byID {
		if sees(ctx, k) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b *Key) int { return strings.Compare(a.Name, b.Name) })
	return keys, nil
}

// Find returns a key by its name.
func (r *Registry) Find(ctx context.Context, name string) (*Key, error) {
	at, err := r.confirmed(ctx)
	if err != nil {
		return nil, err
	}
	k := at.Value.byName[name]
	if k == nil || !sees(ctx, k) {
		return nil, noKey(name)
	}
	return k, nil
}

// Question asks whether a key may do something.
type Question struct {
	Key string // its name
	// Store is named as in [NewKey], without a star. "" asks only for the door.
	Store string
	Right authz.Right
	// Door is the door to use; "" asks only for the store.
	Door string
	// Consistency chooses the revision of the system store.
	Consistency authz.Consistency
	Options     authz.ExplainRequest // only its Options and Origins are used
}

// Explained is an answer to a question about a key.
type Explained struct {
	authz.Explanation
	names *strings.Replacer // names of the key and the store for their ids
}

// String returns the explanation in indented lines, with the names of the key and the
// store instead of their ids.
func (x *Explained) String() string { return x.names.Replace(x.Explanation.String()) }

// named returns the names of what a decision is about for the ids in an explanation.
func (d *decision) named() *strings.Replacer {
	names := []string{keyType + ":" + d.key.ID, keyType + ":" + nameText(d.key.Name)}
	if d.door == "" && d.name != "" {
		names = append(names, storeType+":"+d.store.String(), storeType+":"+nameText(d.name))
	}
	return strings.NewReplacer(names...)
}

// nameText returns a name as it is if no part of it looks like another part of an
// explanation, and quoted otherwise.
func nameText(name string) string {
	if strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) || strings.ContainsRune(" #@:\"", c) }) {
		return strconv.Quote(name)
	}
	return name
}

// Explain answers a question, for the store and for the door.
func (r *Registry) Explain(ctx context.Context, q Question) (out []Explained, err error) {
	own := documents.SystemContext(ctx)
	s, err := r.documents.Find(own)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, noKey(q.Key)
	}
	token, err := s.Store.Resolve(own, q.Consistency)
	if err != nil {
		return nil, err
	}
	revision, err := token.Revision()
	if err != nil {
		return nil, err
	}
	at, err := s.Past(own, revision)
	if err != nil {
		return nil, err
	}
	k := at.Value.byName[q.Key]
	if k == nil || !sees(ctx, k) {
		return nil, noKey(q.Key)
	}
	var all []decision
	if q.Store != "" {
		info, err := r.store(ctx, q.Store)
		if err != nil {
			return nil, err
		}
		all = append(all, decision{key: k, store: info.ID, name: info.Name, right: q.Right, system: info.Aliases[ostiary.SystemDoor] != ""})
	}
	if q.Door != "" {
		if err := r.validDoors([]string{q.Door}); err != nil {
			return nil, err
		}
		all = append(all, decision{key: k, door: q.Door})
	}
	if all == nil {
		return nil, invalid("a question about a key needs a store or a door")
	}
	for _, d := range all {
		x := authz.ExplainRequest{CheckRequest: d.question(), Options: q.Options.Options, Origins: q.Options.Origins}
		x.Consistency = q.Consistency
		explained, err := s.Store.Explain(own, x)
		if err != nil {
			return nil, err
		}
		out = append(out, Explained{Explanation: explained, names: d.named()})
	}
	return out, nil
}

// store returns the store that a question names.
func (r *Registry) store(ctx context.Context, text string) (storage.StoreInfo, error) {
	places, err := r.places(ctx, []string{text})
	if err != nil {
		return storage.StoreInfo{}, err
	}
	if places[0].Pattern == "" {
		s, err := r.engine.Store(ctx, places[0].ID)
		if err != nil {
			return storage.StoreInfo{}, err
		}
		return s.Info(), nil
	}
	for info, err := range r.engine.StoresByName(ctx, text, storage.StoreID{}) {
		return info, err
	}
	return storage.StoreInfo{}, invalid("no store has the id or the name %q", text)
}

// change makes a change of the keys. It creates the system store if there is none.
func (r *Registry) change(ctx context.Context, decide func(*value) (*authz.WriteRequest, error)) error {
	s, err := r.create(ctx)
	if err != nil {
		return err
	}
	_, err = s.Change(documents.SystemContext(ctx), func(base *documents.At[*value]) (*authz.WriteRequest, *value, error) {
		w, err := decide(base.Value)
		if err != nil {
			return nil, nil, err
		}
		var changes []storage.Change
		for _, k := range w.RemoveDocuments {
			changes = append(changes, storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: k.Kind, Key: k.Key}})
		}
		for _, d := range w.Documents {
			changes = append(changes, storage.Change{Kind: storage.DocumentPut, Document: storage.Document{Kind: d.Kind, Key: d.Key, Body: d.Body}})
		}
		next, err := r.apply(base.Value, changes)
		return w, next, err
	})
	if err == nil {
		r.sweep(context.WithoutCancel(ctx)) // what was changed counts, also if the caller has left
	}
	return err
}

// permits fails if the caller of ctx has keys, and none of them covers k, and if the caller
// has none although there are keys.
func (r *Registry) permits(ctx context.Context, v *value, k *Key) error {
	if len(v.byID) > 0 {
		r.keyed()
	}
	if o, open := authz.AccessOf(ctx).(*Open); open {
		return o.Allow(ctx, authz.RightAdmin, storage.StoreInfo{})
	}
	callers, own := callersOf(ctx)
	if own {
		return nil
	}
	why := fmt.Errorf("%w: the calling key was revoked or has expired", authz.ErrForbidden)
	for _, c := range callers {
		switch {
		case v.bySum[c.sum] == nil || c.Ended():
		case c.key.Covers(k):
			return nil
		default:
			why = fmt.Errorf("%w: the key %q needs the right admin on each store of the other key, its doors, and an expiry that is not earlier", authz.ErrForbidden, c.key.Name)
		}
	}
	return why
}

// sees reports whether the caller of ctx may see a key.
func sees(ctx context.Context, k *Key) bool {
	callers, own := callersOf(ctx)
	return own || slices.ContainsFunc(callers, func(c *Credential) bool { return c.key.ID == k.ID || c.key.Covers(k) || c.AdministersAll() })
}

// administersAll reports whether one of the keys of the caller of ctx administers all
// stores. It then sees and revokes every key, also one with more doors or a later expiry.
func administersAll(ctx context.Context, v *value) bool {
	callers, _ := callersOf(ctx)
	return slices.ContainsFunc(callers, func(c *Credential) bool { return v.bySum[c.sum] != nil && c.AdministersAll() })
}

// callersOf returns the credentials of the caller. own is true for a caller who may do
// everything.
func callersOf(ctx context.Context) (all []*Credential, own bool) {
	switch access := authz.AccessOf(ctx).(type) {
	case nil:
		return nil, true
	case *Open:
		return nil, !access.Ended()
	case *Credential:
		return []*Credential{access}, false
	case *Matched:
		return access.credentials, false
	}
	return nil, false
}

// known returns a key that the caller of ctx may change.
func (r *Registry) known(ctx context.Context, v *value, name string) (*Key, error) {
	k := v.byName[name]
	if k == nil || !sees(ctx, k) {
		return nil, noKey(name)
	}
	return k, r.permits(ctx, v, k)
}

// validate returns the key that a request describes, without a secret.
func (r *Registry) validate(ctx context.Context, n *NewKey) (*Key, error) {
	err := validName(n.Name)
	switch {
	case err != nil:
		return nil, err
	case len(n.Owner) > storage.CallerBytesMax || (&storage.Origin{Caller: n.Owner}).Invalid() != "":
		return nil, invalid("invalid owner: expected at most %d bytes of UTF-8 without control characters", storage.CallerBytesMax)
	case !n.Expires.IsZero() && !n.Expires.After(r.now()):
		return nil, invalid("invalid expiry %s: expected a time in the future", n.Expires.Format(time.RFC3339))
	case len(n.Stores) == 0:
		return nil, invalid("a key needs stores: ids, DOOR/ALIAS, names, beginnings of names with a star, or *")
	case len(n.Stores) > PlacesMax:
		return nil, &authz.BoundError{Name: "PlacesMax", Max: PlacesMax, Got: int64(len(n.Stores))}
	case len(n.Rights) == 0:
		return nil, invalid("a key needs rights: read, write, schema or admin")
	}
	if n.Match, err = n.Match.valid(); err != nil {
		return nil, err
	}
	if err := n.Limits.Check(); err != nil {
		return nil, invalid("%w", err)
	}
	k := &Key{ID: newKeyID(), Name: n.Name, Owner: n.Owner, Created: r.now().UTC(), Expires: n.Expires.UTC(), Doors: n.Doors, Match: n.Match}
	if a := authz.AuthorOf(ctx); a != nil {
		k.Creator = a.Name
	}
	if k.Owner == "" {
		k.Owner = k.Creator
	}
	if len(k.Doors) == 0 {
		k.Doors = []string{all}
	}
	if err := r.validDoors(k.Doors); err != nil {
		return nil, err
	}
	for _, name := range n.Rights {
		right, ok := authz.ParseRight(name)
		if !ok {
			return nil, invalid("invalid right %.100q: expected read, write, schema or admin", name)
		}
		if !slices.Contains(k.Rights, right) {
			k.Rights = append(k.Rights, right)
		}
	}
	slices.Sort(k.Rights)
	k.Stores, err = r.places(ctx, n.Stores)
	return k, err
}

// MetricsDoor is what a scope has in place of a door to read the metrics of a server that
// asks for a caller there.
const MetricsDoor = "metrics"

func (r *Registry) validDoors(doors []string) error {
	for _, door := range doors {
		if door == "" || door == anyID || r.options.Doors != nil && door != all && door != MetricsDoor && !slices.Contains(r.options.Doors, door) {
			return invalid("unknown door %.100q: expected one of %s, %s", door, strings.Join(r.options.Doors, ", "), MetricsDoor)
		}
	}
	return nil
}

// places reads the stores of a scope. A store that is named by its id or alias must
// exist, and the caller of ctx must be able to see it.
func (r *Registry) places(ctx context.Context, texts []string) (out []Place, err error) {
	for _, text := range texts {
		p := Place{Pattern: text}
		id, notID := storage.ParseStoreID(text)
		door, alias, slash := strings.Cut(text, "/")
		var s *ostiary.Store
		switch {
		case notID == nil:
			s, err = r.engine.Store(ctx, id)
		case slash && slices.Contains(r.options.Doors, door):
			s, err = r.engine.StoreByAlias(ctx, door, alias)
		case text == "" || len(text) > authz.NameBytesMax || strings.Contains(strings.TrimSuffix(text, all), all) || (rel.Object{Type: namesType, ID: namesID(text)}).Validate() != nil:
			return nil, invalid("invalid store %.100q of a key: expected an id, DOOR/ALIAS, a name, the beginning of names with a star at its end, or *", text)
		}
		switch {
		case errors.Is(err, authz.ErrNoStore):
			return nil, invalid("the store %.100q does not exist", text)
		case err != nil:
			return nil, err
		}
		if s != nil {
			p = Place{ID: s.ID()}
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// scanMax is how many stores are compared with a pattern, for a warning.
const scanMax = 10_000

// anyNamed reports whether a store has a name that matches a pattern, as far as that is
// found out quickly.
func (r *Registry) anyNamed(ctx context.Context, p Place) bool {
	stores := r.engine.Stores(ctx, storage.StoreID{})
	if !strings.HasSuffix(p.Pattern, all) {
		stores = r.engine.StoresByName(ctx, p.Pattern, storage.StoreID{})
	}
	n := 0
	for info, err := range stores {
		if n++; err != nil || p.matches(info.Name) || n > scanMax {
			return true
		}
	}
	return false
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{authz.ErrInvalidRequest}, args...)...)
}
