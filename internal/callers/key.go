package callers

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// Bounds of keys.
const (
	// KeysMax is the largest number of keys.
	KeysMax = 10_000
	// PlacesMax is the largest number of stores and patterns of one key.
	PlacesMax = 100
	// secretsMax is the largest number of secrets that a key has while it is rotated.
	secretsMax = 2
)

// SecretPrefix begins every secret, so that programs which search for leaked secrets can
// find it.
const SecretPrefix = "ost_"

// Errors of keys.
var (
	// ErrNoKey means that no key has the name.
	ErrNoKey = errors.New("no such key")
	// ErrKeyExists means that another key has the name.
	ErrKeyExists = errors.New("another key has this name")
)

// Place is a store, or the stores whose names match a pattern.
type Place struct {
	// ID is the store; zero for a pattern.
	ID storage.StoreID
	// Pattern is a name, or the beginning of names with a star behind it. "*" alone
	// means all stores but the system store. "" for a store.
	Pattern string
}

// String returns the id or the pattern.
func (p Place) String() string {
	if p.Pattern != "" {
		return p.Pattern
	}
	return p.ID.String()
}

// matches reports whether the place is a pattern that matches a name.
func (p Place) matches(name string) bool {
	if start, ok := strings.CutSuffix(p.Pattern, "*"); ok {
		return strings.HasPrefix(name, start)
	}
	return p.Pattern != "" && p.Pattern == name
}

// covers reports whether the pattern of p matches every name that that of q matches.
func (p Place) covers(q Place) bool {
	start, open := strings.CutSuffix(p.Pattern, "*")
	other, otherOpen := strings.CutSuffix(q.Pattern, "*")
	switch {
	case p.Pattern == "" || q.Pattern == "":
		return p == q
	case open:
		return strings.HasPrefix(other, start)
	}
	return !otherOpen && p.Pattern == q.Pattern
}

// Key is a key as the system store has it. Its fields must not be changed.
type Key struct {
	// ID identifies the key, also after another one has got its name.
	ID string
	// Name is the caller in logs: at most 256 bytes of UTF-8 without control characters. That
	// of a key which a key without admin on all stores has made is MAKER~NAME.
	Name string
	// Owner is whom to ask about the key.
	Owner string
	// Creator is the caller who has made the key.
	Creator string
	// Created is when the key was made, and Expires when it ends; zero means never.
	Created, Expires time.Time
	// Stores, Rights and Doors are the scope: the key has each of the rights on each of
	// the stores, through each of the doors. The door "*" means all.
	Stores []Place
	Rights []authz.Right
	Doors  []string
	// Match is what the token or the certificate of a caller must have for the caller to
	// have this scope; the zero Match for a key with a secret.
	Match Match

	credentials []*Credential // the newest first
}

// record is the JSON of the document of a key.
type record struct {
	Name    string       `json:"name"`
	Owner   string       `json:"owner"`
	Creator string       `json:"creator"`
	Created time.Time    `json:"created"`
	Expires time.Time    `json:"expires,omitzero"`
	Stores  []string     `json:"stores,omitempty"` // ids
	Names   []string     `json:"names,omitempty"`  // patterns
	Rights  []string     `json:"rights"`
	Doors   []string     `json:"doors"`
	Match   Match        `json:"match,omitzero"`
	Secrets []secretHash `json:"secrets,omitempty"`
}

// secretHash is the hash of a secret, and when it ends; zero means with the key.
type secretHash struct {
	SHA256 []byte    `json:"sha256"`
	Until  time.Time `json:"until,omitzero"`
}

// document returns the document of the key.
func (k *Key) document() (authz.Document, error) {
	r := record{Name: k.Name, Owner: k.Owner, Creator: k.Creator, Created: k.Created, Expires: k.Expires, Doors: k.Doors, Match: k.Match}
	for _, p := range k.Stores {
		if p.Pattern != "" {
			r.Names = append(r.Names, p.Pattern)
		} else {
			r.Stores = append(r.Stores, p.ID.String())
		}
	}
	for _, right := range k.Rights {
		r.Rights = append(r.Rights, right.String())
	}
	for _, c := range k.credentials {
		if !c.matched {
			r.Secrets = append(r.Secrets, secretHash{c.sum[:], c.until})
		}
	}
	body, err := json.Marshal(r)
	return authz.Document{Kind: keyType, Key: k.ID, Body: body}, err
}

// readKey reads the document of a key.
func readKey(id string, body []byte) (*Key, error) {
	var r record
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("%w: key %s: %w", authz.ErrDamaged, id, err)
	}
	k := &Key{ID: id, Name: r.Name, Owner: r.Owner, Creator: r.Creator, Created: r.Created, Expires: r.Expires, Doors: r.Doors, Match: r.Match}
	for _, text := range r.Stores {
		store, err := storage.ParseStoreID(text)
		if err != nil {
			return nil, fmt.Errorf("%w: key %s: %w", authz.ErrDamaged, id, err)
		}
		k.Stores = append(k.Stores, Place{ID: store})
	}
	for _, pattern := range r.Names {
		k.Stores = append(k.Stores, Place{Pattern: pattern})
	}
	for _, name := range r.Rights {
		right, ok := authz.ParseRight(name)
		if !ok {
			return nil, fmt.Errorf("%w: key %s has the unknown right %q", authz.ErrFormat, id, name)
		}
		k.Rights = append(k.Rights, right)
	}
	for _, s := range r.Secrets {
		if len(s.SHA256) != sha256.Size {
			return nil, fmt.Errorf("%w: key %s has a hash of %d bytes", authz.ErrDamaged, id, len(s.SHA256))
		}
		k.add([sha256.Size]byte(s.SHA256), s.Until, false)
	}
	if k.Match != (Match{}) {
		k.add(sha256.Sum256(fmt.Appendf(nil, "ostiary matched key %s %s", k.ID, k.Match.identity())), time.Time{}, true)
	}
	return k, nil
}

// add adds a credential, which ends with the key at the latest.
func (k *Key) add(sum [sha256.Size]byte, until time.Time, matched bool) {
	ends := k.Expires
	if ends.IsZero() || !until.IsZero() && until.Before(ends) {
		ends = until
	}
	k.credentials = append(k.credentials, &Credential{key: k, sum: sum, until: until, ends: ends, matched: matched,
		forward: sha256.Sum256(fmt.Appendf(nil, "ostiary id of a stored key %s %x", k.ID, sum))})
}

// Secrets returns how many secrets the key has at a time.
func (k *Key) Secrets(now time.Time) (n int) {
	for _, c := range k.credentials {
		if !c.matched && !c.expired(now) {
			n++
		}
	}
	return n
}

// Covers reports whether the scope of k contains that of other, with the right to
// administer: a key may make, see, rotate and revoke only such other keys.
func (k *Key) Covers(other *Key) bool {
	if !slices.Contains(k.Rights, authz.RightAdmin) || !k.Expires.IsZero() && (other.Expires.IsZero() || other.Expires.After(k.Expires)) {
		return false
	}
	for _, q := range other.Stores {
		if !slices.ContainsFunc(k.Stores, func(p Place) bool { return p.covers(q) }) {
			return false
		}
	}
	return !slices.ContainsFunc(other.Doors, func(door string) bool { return !k.opens(door) })
}

// expired reports whether the key has expired.
func (k *Key) expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// opens reports whether the scope of k has a door.
func (k *Key) opens(door string) bool {
	return slices.Contains(k.Doors, all) || slices.Contains(k.Doors, door)
}

// newSecret returns a new secret and its hash.
func newSecret(id string) (string, [sha256.Size]byte) {
	random := make([]byte, 32)
	rand.Read(random)
	text := SecretPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(random)
	return text, sha256.Sum256([]byte(text))
}

// newKeyID returns an id that no other key has.
func newKeyID() string { return strings.ToLower(rand.Text()[:12]) }
