package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/cluster/forward"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/trail/logins"
	"github.com/ostiary/ostiary/server/internal/conn"
	"github.com/ostiary/ostiary/storage"
)

// ErrNoKeys is returned if authentication by keys is configured without a key.
var ErrNoKeys = errors.New("no preshared key is set")

const (
	// keysMax bounds the number of keys, because each request is compared with
	// each key.
	keysMax = 1000
	// credentialBytesMax bounds the key that a client sends.
	credentialBytesMax = 4096
	// userBytesMax bounds the name of a user.
	userBytesMax    = 256
	methodPreshared = "preshared" // door.Caller.Method of callers with a key
	methodBasic     = "basic"     // door.Caller.Method of users with a password
	methodKey       = "key"       // door.Caller.Method of callers with a key of the system store
	methodMTLS      = "mtls"      // door.Caller.Method of callers with a client certificate
	methodOIDC      = "oidc"      // door.Caller.Method of callers with a token of OpenID Connect
	// certificateCaller begins the names of callers with a certificate. No name of a key
	// has its slash, and no issuer of tokens begins with it.
	certificateCaller = "certificate/"
	// issuerEnd is between the issuer and the subject in the name of a caller with a
	// token. The URL of an issuer does not contain it.
	issuerEnd = "#"
)

// Key is a preshared key. Its secret prints and logs as "[redacted]".
type Key struct {
	// Name distinguishes callers, in logs and in the entries of stores, which keep it
	// for ever. It may be empty and is not secret. It has at most 256 bytes of UTF-8
	// without control characters, and is not "local", "library", "collector",
	// "import" or "bootstrap".
	Name string
	// Secret is what the client sends: 1 to 4096 printable ASCII bytes without
	// spaces.
	Secret Secret
	// Basic makes the key a user with a password: the client sends Name and Secret
	// by HTTP Basic authentication. Only doors with [door.Door.Basic] accept it, so
	// that the weak passwords of a protocol open no other door. The name must have
	// 1 to 256 printable ASCII bytes without spaces and colons.
	Basic bool
}

// Secret is a string that prints, logs and marshals as "[redacted]".
type Secret string

// String hides the secret.
func (Secret) String() string { return "[redacted]" }

// GoString hides the secret.
func (Secret) GoString() string { return "[redacted]" }

// LogValue hides the secret.
func (Secret) LogValue() slog.Value { return slog.StringValue("[redacted]") }

// MarshalText hides the secret.
func (Secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }

// Keys are the preshared keys that a server accepts. They are kept only as
// hashes. Keys may be used concurrently.
type Keys struct {
	list   atomic.Pointer[[]*hashedKey]
	mu     sync.Mutex        // guards Replace
	stored *callers.Registry // Options.Callers; may be nil
	tokens *tokens           // of Options.Tokens; nil without them
	// open is what a caller without a key has with Options.CallersOptional; nil otherwise.
	open *hashedKey
}

// hashedKey is one accepted key.
type hashedKey struct {
	sum    [sha256.Size]byte
	caller door.Caller
	// author is the caller of the writes that are made with the key: its name, or a
	// fingerprint of a key without a name.
	author string
	// removed ends when remove is called, because the key is no longer accepted.
	removed context.Context
	remove  context.CancelFunc
	basic   bool // see Key.Basic
	forward forward.KeyID
	// grant is what the system store has about this caller, or that it has no key yet; nil
	// for a preshared key.
	grant grant
	// matched is grant for a caller with a token or a certificate, otherwise nil.
	matched *callers.Matched
	// certificate is the fingerprint of the caller's certificate, or "".
	certificate string
}

// storedKey returns the accepted key of a credential of the system store.
func storedKey(c *callers.Credential) *hashedKey {
	return c.Bind(func() any {
		key := c.Key()
		return &hashedKey{caller: door.Caller{Method: methodKey, ID: key.Name, Key: key.ID, Owner: key.Owner}, author: key.Name, forward: forward.KeyID(c.ID()), grant: c}
	}).(*hashedKey)
}

// openKey returns what callers have as long as the registry has had no key, see
// [callers.Open].
func openKey(r *callers.Registry) *hashedKey {
	return &hashedKey{author: storage.CallerLocal, grant: r.Open()}
}

// known reports whether k is that of a caller, and not [Keys.unkeyed]. k may be nil.
func (k *hashedKey) known() bool { return k != nil && k.caller.Method != "" }

// until returns a context that ends when the key is no longer accepted.
func (k *hashedKey) until() (ctx context.Context, release func()) {
	if k.grant != nil {
		return k.grant.Until()
	}
	return k.removed, func() {}
}

// onEnd calls f, once, when the key is no longer accepted. After stop, f is not called and does
// not run any more: it may use what ends with a handler that calls stop. k may be nil.
func (k *hashedKey) onEnd(f func()) (stop func()) {
	if k == nil {
		return func() {}
	}
	until, release := k.until()
	done := make(chan struct{})
	cancel := context.AfterFunc(until, func() {
		defer close(done)
		f()
	})
	return func() {
		if !cancel() {
			<-done
		}
		release()
	}
}

// ended reports whether the key is no longer accepted.
func (k *hashedKey) ended() bool {
	if k.grant != nil {
		return k.grant.Ended()
	}
	return k.removed.Err() != nil
}

// opens returns the refusal of a caller whose key is not for the door with a name. k may be nil.
func (k *hashedKey) opens(ctx context.Context, name string) *door.Refusal {
	if k == nil || k.grant == nil || name == ownDoor {
		return nil
	}
	switch err := k.grant.Opens(ctx, name); {
	case err == nil:
		return nil
	case errors.Is(err, callers.ErrNoMatch):
		if k.caller.Method == methodMTLS {
			return &door.Refusal{Reason: door.Forbidden, Detail: "no key matches the certificate of " + k.caller.ID + ": ostiary key create with --match-certificate makes one"}
		}
		return &door.Refusal{Reason: door.Forbidden, Detail: "no key matches the token of " + k.author + ": ostiary key create with --match-issuer makes one"}
	case errors.Is(err, authz.ErrForbidden):
		return &door.Refusal{Reason: door.Forbidden, Detail: "the key is not for the door " + name}
	}
	return &door.Refusal{Reason: door.Unsure}
}

// NewKeys returns a set of keys. It returns [ErrNoKeys] for an empty list, and
// errors like [Keys.Replace].
func NewKeys(keys []Key) (*Keys, error) {
	k := &Keys{}
	if err := k.Replace(keys); err != nil {
		return nil, err
	}
	return k, nil
}

// Replace replaces all keys, from the next request on. It ends the streams of
// callers whose key is not among the new ones. It returns an error for
// an empty list, for more than 1000 keys, and for a secret or a name of an invalid
// form; then the old keys stay.
func (k *Keys) Replace(keys []Key) error {
	if len(keys) == 0 {
		return ErrNoKeys
	}
	if len(keys) > keysMax {
		return fmt.Errorf("too many preshared keys: got %d, the bound is %d", len(keys), keysMax)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	old := map[hashedKeyID]*hashedKey{}
	if list := k.list.Load(); list != nil {
		for _, key := range *list {
			old[key.id()] = key
		}
	}
	list := make([]*hashedKey, 0, len(keys))
	for i, key := range keys {
		s := string(key.Secret)
		if s == "" || len(s) > credentialBytesMax || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("invalid preshared key %d of %d: expected 1 to %d printable ASCII characters without spaces", i+1, len(keys), credentialBytesMax)
		}
		if key.Name != "" && !validName(key.Name) && !(key.Basic && !validUser(key.Name)) {
			return fmt.Errorf("invalid name of preshared key %d of %d: expected at most %d bytes of UTF-8 without control characters, and none of %s, which the log has for writes without a caller",
				i+1, len(keys), storage.CallerBytesMax, strings.Join(callers.Reserved, ", "))
		}
		hashed := &hashedKey{sum: sha256.Sum256([]byte(s)), caller: door.Caller{Method: methodPreshared, ID: key.Name}, author: key.Name}
		if key.Name == "" {
			hashed.author = callers.FingerprintCaller + hex.EncodeToString(hashed.sum[:callers.FingerprintBytes])
		}
		if key.Basic {
			if !validUser(key.Name) {
				return fmt.Errorf("invalid name of user %d of %d: expected 1 to %d printable ASCII characters without spaces and colons", i+1, len(keys), userBytesMax)
			}
			hashed.basic, hashed.sum, hashed.caller.Method = true, basicSum(key.Name, s), methodBasic
		}
		hashed.forward = newKeyID(hashed)
		if same := old[hashed.id()]; same != nil {
			hashed = same
			delete(old, hashed.id())
		} else {
			hashed.removed, hashed.remove = context.WithCancel(context.Background())
		}
		list = append(list, hashed)
	}
	k.list.Store(&list)
	for _, key := range old {
		key.remove()
	}
	return nil
}

// validName reports whether a text may be the name of a key, and so a caller in the
// log.
func validName(name string) bool {
	o := storage.Origin{Caller: name}
	return len(name) <= storage.CallerBytesMax && o.Invalid() == "" && !slices.Contains(callers.Reserved, name)
}

// Len returns the number of keys.
func (k *Keys) Len() int { return len(k.preshared()) }

// Names returns the callers that the keys identify, sorted. k may be nil.
func (k *Keys) Names() (names []string) {
	if k == nil {
		return nil
	}
	for _, key := range k.preshared() {
		names = append(names, key.author)
	}
	slices.Sort(names)
	return names
}

// OnlyUsers reports whether all keys are users with passwords, which only doors
// with [door.Door.Basic] accept.
func (k *Keys) OnlyUsers() bool {
	list := k.list.Load()
	return list != nil && !slices.ContainsFunc(*list, func(key *hashedKey) bool { return !key.basic })
}

// hashedKeyID identifies a key with its name: a key with another name is
// another key.
type hashedKeyID struct {
	sum   [sha256.Size]byte
	name  string
	basic bool
}

func (k *hashedKey) id() hashedKeyID { return hashedKeyID{k.sum, k.caller.ID, k.basic} }

// newKeyID returns the id of a key for other nodes.
func newKeyID(k *hashedKey) forward.KeyID {
	return sha256.Sum256(fmt.Appendf(nil, "ostiary key id %x %t %s", k.sum, k.basic, k.caller.ID))
}

// forwardIDs returns the ids of a key for other nodes: several for a caller whose token
// matches several, and the zero id without a key.
func (k *hashedKey) forwardIDs() (ids []forward.KeyID) {
	switch {
	case k == nil:
		return []forward.KeyID{{}}
	case k.matched == nil:
		return []forward.KeyID{k.forward}
	}
	for _, id := range k.matched.IDs() {
		ids = append(ids, forward.KeyID(id))
	}
	return ids
}

// live returns the key that a forwarded request has, or nil if no accepted key has one of
// its ids. k may be nil.
func (k *Keys) live(ctx context.Context, as *forward.Head) *hashedKey {
	if k == nil || len(as.Keys) == 0 || as.Keys[0] == (forward.KeyID{}) {
		return nil
	}
	for _, key := range k.preshared() {
		if subtle.ConstantTimeCompare(key.forward[:], as.Keys[0][:]) == 1 {
			return key
		}
	}
	if k.stored == nil {
		return nil
	}
	if c, err := k.stored.ByID(ctx, as.Keys[0]); err == nil && c != nil && c.Key().Match == (callers.Match{}) {
		return storedKey(c)
	}
	ids := make([][sha256.Size]byte, len(as.Keys))
	for i, id := range as.Keys {
		ids[i] = id
	}
	if m, err := k.stored.ByIDs(ctx, ids); err == nil && m != nil {
		return matchedKey(m, as.Origin.Caller)
	}
	return nil
}

// preshared returns the preshared keys.
func (k *Keys) preshared() []*hashedKey {
	if list := k.list.Load(); list != nil {
		return *list
	}
	return nil
}

// validUser reports whether a text may be the name of a user.
func validUser(name string) bool {
	return name != "" && len(name) <= userBytesMax && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' })
}

// basicSum returns the hash of a user and a password. A name has no zero byte.
func basicSum(name, password string) [sha256.Size]byte {
	return sha256.Sum256([]byte(name + "\x00" + password))
}

// required reports whether requests need a caller now. k may be nil.
func (k *Keys) required() bool { return k != nil && (k.open == nil || k.open.ended()) }

// unkeyed returns what a request has that is accepted without a caller: it ends as soon as
// requests need one. It is nil if they never do. k may be nil.
func (k *Keys) unkeyed() *hashedKey {
	if k == nil {
		return nil
	}
	return k.open
}

// identify returns the key of the caller of a request on a connection, or the reason to
// refuse it. What the Authorization header shows has precedence over the certificate of the
// client. basic is as for check.
func (k *Keys) identify(ctx context.Context, values []string, basic bool, c *conn.Conn) (*hashedKey, door.Reason) {
	key, why := k.check(ctx, values, basic, true)
	if why == door.NoCredentials && k.stored != nil && c != nil {
		if shown, ok := c.Certificate().(finder); ok {
			return shown.find(ctx, k.stored)
		}
	}
	return key, why
}

// refusedBy returns what a refused caller is counted by, who sent an Authorization header
// with these values, or a certificate only.
func (k *Keys) refusedBy(values []string) logins.Failure {
	l := logins.Failure{Credential: logins.CredentialKey, Reason: logins.Refused}
	if len(values) == 0 || values[0] == "" {
		l.Credential = logins.CredentialCertificate
	} else if secret, ok := afterScheme(values[0], "Bearer ", len(values[0])); ok {
		if k.tokens.formOfToken(secret) {
			l.Credential = logins.CredentialOIDC
		}
	} else if _, ok := afterScheme(values[0], "Basic ", len(values[0])); ok {
		l.Credential = logins.CredentialBasic
	}
	return l
}

// check returns the key of the caller who sent an Authorization header with these values,
// or the reason to refuse the request. basic is true if the door accepts HTTP
// Basic authentication (RFC 7617). Unless fetch is true, check accepts only tokens that were
// verified before, and does not wait for their provider. It compares with all keys in constant
// time, so its time does not depend on how a wrong key differs.
func (k *Keys) check(ctx context.Context, values []string, basic, fetch bool) (*hashedKey, door.Reason) {
	switch len(values) {
	case 0:
		return nil, door.NoCredentials
	case 1:
	default:
		return nil, door.BadCredentials // ambiguous
	}
	v := values[0]
	if v == "" {
		return nil, door.NoCredentials
	}
	longest := credentialBytesMax
	if k.tokens != nil {
		longest = max(longest, oidc.TokenMax)
	}
	if secret, ok := afterScheme(v, "Bearer ", longest); ok {
		return k.bearer(ctx, secret, fetch)
	}
	name, password, ok := parseBasic(v, credentialBytesMax)
	if !ok || !basic {
		return nil, door.BadCredentials
	}
	return k.find(basicSum(name, password), true)
}

// parseBasic returns the user and the password of an Authorization header for HTTP Basic
// authentication, whose credentials have at most longest bytes.
func parseBasic(v string, longest int) (name, password string, ok bool) {
	encoded, ok := afterScheme(v, "Basic ", longest)
	if !ok {
		return "", "", false
	}
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	name, password, ok = strings.Cut(string(decoded), ":")
	return name, password, err == nil && ok && validUser(name)
}

// afterScheme returns what follows a scheme in an Authorization header: at most longest
// bytes.
func afterScheme(v, scheme string, longest int) (string, bool) {
	if len(v) <= len(scheme) || len(v) > len(scheme)+longest || !strings.EqualFold(v[:len(scheme)], scheme) {
		return "", false
	}
	return v[len(scheme):], true
}

// shownIn reports whether the head of an HTTP/1 request has an accepted key in its first
// Authorization header. It does not authenticate the request. k may be nil.
func (k *Keys) shownIn(head []byte) bool {
	if k == nil {
		return false
	}
	const header = "authorization:"
	for line := range bytes.Lines(head) {
		if line = bytes.TrimRight(line, "\r\n"); len(line) > len(header) && strings.EqualFold(string(line[:len(header)]), header) {
			_, why := k.check(context.Background(), []string{strings.Trim(string(line[len(header):]), " \t")}, false, false)
			return why == 0
		}
	}
	return false
}

// bearer returns the key of a secret: one of the system store, which is recognized by its
// beginning, or else a preshared one, or else a token.
func (k *Keys) bearer(ctx context.Context, secret string, fetch bool) (*hashedKey, door.Reason) {
	if k.stored != nil && strings.HasPrefix(secret, callers.SecretPrefix) {
		switch c, err := k.stored.Secret(ctx, secret); {
		case err != nil:
			return nil, door.Unsure
		case c != nil:
			return storedKey(c), 0
		}
	}
	sum := sha256.Sum256([]byte(secret))
	key, why := k.find(sum, false)
	if why != 0 && k.tokens.formOfToken(secret) {
		return k.tokens.find(ctx, secret, sum, fetch)
	}
	return key, why
}

// find returns the preshared key with a hash.
func (k *Keys) find(sum [sha256.Size]byte, basic bool) (*hashedKey, door.Reason) {
	list := k.preshared()
	found := -1
	for i := range list {
		if subtle.ConstantTimeCompare(sum[:], list[i].sum[:]) == 1 && list[i].basic == basic {
			found = i
		}
	}
	if found < 0 {
		return nil, door.BadCredentials
	}
	return list[found], 0
}

// ParseKeys parses a file of keys. Each line has the form KEY or NAME KEY. Blank
// lines and lines that begin with # are ignored. An error names the line's
// number and never its content, which may be a secret.
func ParseKeys(text string) (keys []Key, err error) {
	n := 0
	for line := range strings.Lines(text) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch len(words) {
		case 1:
			keys = append(keys, Key{Secret: Secret(words[0])})
		case 2:
			keys = append(keys, Key{Name: words[0], Secret: Secret(words[1])})
		default:
			return nil, fmt.Errorf("invalid line %d of the keys: expected KEY or NAME KEY", n)
		}
	}
	return keys, nil
}

// ParseUsers parses a file of users. Each line has the form NAME PASSWORD;
// otherwise it is like [ParseKeys].
func ParseUsers(text string) (users []Key, err error) {
	users, err = ParseKeys(text)
	for i := range users {
		if users[i].Name == "" {
			return nil, errors.New("invalid line of the users: expected NAME PASSWORD")
		}
		users[i].Basic = true
	}
	return users, err
}

// ownDoor is the label of the server's own services, which every key may use.
const ownDoor = "server"

// credential is what a caller has shown in place of the secret of a key, and what keys of
// the system store can match. It is valid until it ends.
type credential struct {
	author      string // the caller in logs, see matchedKey
	certificate string // the fingerprint of a certificate, or ""
	ends        time.Time
	fulfills    func(callers.Match) bool
	key         atomic.Pointer[hashedKey] // of the keys that matched it last; nil before
}

// find returns the key of the caller, with the newest keys that match.
func (c *credential) find(ctx context.Context, stored *callers.Registry) (*hashedKey, door.Reason) {
	var old *callers.Matched
	key := c.key.Load()
	if key != nil {
		old = key.matched
	}
	m, err := stored.Matching(ctx, old, c.ends, c.fulfills)
	switch {
	case err != nil:
		return nil, door.Unsure
	case key != nil && m == old:
		return key, 0
	case m.Expired():
		return nil, door.BadCredentials
	}
	key = matchedKey(m, c.author)
	key.certificate = c.certificate
	c.key.Store(key)
	return key, 0
}

// matchedKey returns the accepted key of a caller with a token or a certificate. author has
// the issuer and the subject of the token, or a name of the certificate.
func matchedKey(m *callers.Matched, author string) *hashedKey {
	if name, ok := strings.CutPrefix(author, certificateCaller); ok {
		return &hashedKey{caller: door.Caller{Method: methodMTLS, ID: name}, author: author, grant: m, matched: m}
	}
	issuer, subject, _ := strings.Cut(author, issuerEnd)
	return &hashedKey{caller: door.Caller{Method: methodOIDC, ID: subject, Owner: issuer}, author: author, grant: m, matched: m}
}

// grant is what the system store lets a caller do: a [callers.Credential] or
// [callers.Matched].
type grant interface {
	// Ended reports whether it is no longer accepted, and Until returns a context that
	// ends then.
	Ended() bool
	Until() (ctx context.Context, release func())
	// Opens fails with [authz.ErrForbidden] if the caller may not use a door, and
	// Through returns what the caller may do through it.
	Opens(ctx context.Context, door string) error
	Through(door string) authz.Access
	// AdministersAll reports whether the caller administers all stores.
	AdministersAll() bool
}

// finder is a credential that a connection shows.
type finder interface {
	find(ctx context.Context, stored *callers.Registry) (*hashedKey, door.Reason)
}
