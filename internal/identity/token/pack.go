package token

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Version is the number of a payload's form in a Fernet token.
type Version int

// The versions.
const (
	Unscoped Version = iota
	DomainScoped
	ProjectScoped
	TrustScoped
	FederatedUnscoped
	FederatedProject
	FederatedDomain
	OAuth1
	SystemScoped
	ApplicationCredential
	OAuth2Certificate
)

// Version returns the form of the payload. Keystone chooses the form in the same
// order.
func (p *Payload) Version() Version {
	switch {
	case p.AccessTokenID != "":
		return OAuth1
	case p.TrustID != "":
		return TrustScoped
	case p.IdentityProvider != "":
		return p.federatedVersion()
	case p.ApplicationCredentialID != "":
		return ApplicationCredential
	case p.Thumbprint != "":
		return OAuth2Certificate
	case p.ProjectID != "":
		return ProjectScoped
	case p.DomainID != "":
		return DomainScoped
	case p.System != "":
		return SystemScoped
	}
	return Unscoped
}

func (p *Payload) federatedVersion() Version {
	switch {
	case p.ProjectID != "":
		return FederatedProject
	case p.DomainID != "":
		return FederatedDomain
	}
	return FederatedUnscoped
}

// packer writes a payload as MessagePack. Its methods do nothing after the first
// error.
type packer struct {
	out bytes.Buffer
	enc *msgpack.Encoder
	err error
}

// pack encodes a payload as Keystone does: an array of the version and the
// fields of that version.
func pack(p *Payload, m Methods) ([]byte, error) {
	mask, err := m.mask(p.Methods)
	if err != nil {
		return nil, err
	}
	w := &packer{}
	w.enc = msgpack.NewEncoder(&w.out)
	fields := p.fields(mask)
	w.keep(w.enc.EncodeArrayLen(1 + len(fields)))
	w.number(uint64(p.Version()))
	for _, write := range fields {
		write(w)
	}
	return w.out.Bytes(), w.err
}

// mask returns the bit mask of names. It fails if the list does not contain a
// name.
func (m Methods) mask(names []string) (mask uint64, err error) {
	for _, name := range names {
		i := slices.Index(m, name)
		if i < 0 || i >= methodsMax {
			return 0, fmt.Errorf("unknown authentication method %q: expected one of %q", name, []string(m))
		}
		mask |= 1 << i
	}
	return mask, nil
}

// fields returns what writes the fields of the payload's version, in order.
func (p *Payload) fields(mask uint64) []func(*packer) {
	user := func(w *packer) { w.id(p.UserID) }
	methods := func(w *packer) { w.number(mask) }
	project := func(w *packer) { w.id(p.ProjectID) }
	domain := func(w *packer) { w.bareID(p.DomainID) }
	groups := func(w *packer) { w.ids(p.GroupIDs) }
	idp := func(w *packer) { w.id(p.IdentityProvider) }
	protocol := func(w *packer) { w.text(p.Protocol) }
	expires := func(w *packer) { w.time(p.Expires) }
	audits := func(w *packer) { w.audits(p.AuditIDs) }
	switch p.Version() {
	case DomainScoped:
		return []func(*packer){user, methods, domain, expires, audits}
	case ProjectScoped:
		return []func(*packer){user, methods, project, expires, audits}
	case TrustScoped:
		return []func(*packer){user, methods, project, expires, audits, func(w *packer) { w.bareID(p.TrustID) }}
	case FederatedUnscoped:
		return []func(*packer){user, methods, groups, idp, protocol, expires, audits}
	case FederatedProject:
		return []func(*packer){user, methods, project, groups, idp, protocol, expires, audits}
	case FederatedDomain:
		return []func(*packer){user, methods, func(w *packer) { w.id(p.DomainID) }, groups, idp, protocol, expires, audits}
	case OAuth1:
		return []func(*packer){user, methods, project, func(w *packer) { w.id(p.AccessTokenID) }, expires, audits}
	case SystemScoped:
		return []func(*packer){user, methods, func(w *packer) { w.text(p.System) }, expires, audits}
	case ApplicationCredential:
		return []func(*packer){user, methods, project, expires, audits, func(w *packer) { w.id(p.ApplicationCredentialID) }}
	case OAuth2Certificate:
		return []func(*packer){user, methods, project, func(w *packer) { w.id(p.DomainID) }, expires, audits, func(w *packer) { w.pair(false, p.Thumbprint) }}
	}
	return []func(*packer){user, methods, expires, audits}
}

func (w *packer) keep(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *packer) number(n uint64)  { w.keep(w.enc.EncodeUint(n)) }
func (w *packer) text(s string)    { w.keep(w.enc.EncodeString(s)) }
func (w *packer) time(t time.Time) { w.keep(w.enc.EncodeFloat64(float64(t.UnixMicro()) / 1e6)) }

// id writes an id as the pair (true, 16 bytes) if it is a UUID in 32 hexadecimal
// digits, and otherwise as the pair (false, text).
func (w *packer) id(id string) {
	_, isUUID := uuid(id)
	w.pair(isUUID, id)
}

func (w *packer) pair(isUUID bool, id string) {
	w.keep(w.enc.EncodeArrayLen(2))
	w.keep(w.enc.EncodeBool(isUUID))
	switch {
	case isUUID:
		w.bareID(id)
	case id == "": // the project or domain of an OAuth 2 token
		w.keep(w.enc.EncodeNil())
	default:
		w.text(id)
	}
}

// bareID writes an id without the mark of its form: 16 bytes, or text if it is
// not a UUID.
func (w *packer) bareID(id string) {
	if b, ok := uuid(id); ok {
		w.keep(w.enc.EncodeBytes(b))
	} else {
		w.text(id)
	}
}

func (w *packer) ids(ids []string) {
	w.keep(w.enc.EncodeArrayLen(len(ids)))
	for _, id := range ids {
		w.id(id)
	}
}

func (w *packer) audits(ids []string) {
	w.keep(w.enc.EncodeArrayLen(len(ids)))
	for _, id := range ids {
		b, err := base64.RawURLEncoding.Strict().DecodeString(id)
		if err != nil || len(b) != 16 {
			w.keep(fmt.Errorf("invalid audit id %q: expected 16 bytes in unpadded base64url", id))
			return
		}
		w.keep(w.enc.EncodeBytes(b))
	}
}

// uuid returns the bytes of an id of 32 lower-case hexadecimal digits.
func uuid(id string) ([]byte, bool) {
	b, err := hex.DecodeString(id)
	return b, err == nil && len(b) == 16 && hex.EncodeToString(b) == id
}

// unpacker reads a payload. It keeps the first error. What its methods return after
// an error has no meaning.
type unpacker struct {
	in  *bytes.Reader
	dec *msgpack.Decoder
	err error
}

// unpack is the inverse of pack. It fails with [ErrInvalid].
func unpack(data []byte, m Methods) (*Payload, error) {
	r := &unpacker{in: bytes.NewReader(data)}
	r.dec = msgpack.NewDecoder(r.in)
	n := r.array()
	version := Version(r.number())
	p := &Payload{}
	p.UserID = r.id()
	mask := r.number()
	fields := r.fields(version, p)
	if r.err == nil && (n != fields+3 || r.in.Len() > 0) {
		r.fail("version %d with %d fields and %d more bytes", version, n, r.in.Len())
	}
	if r.err != nil {
		return nil, r.err
	}
	var err error
	if p.Methods, err = m.names(mask); err != nil {
		return nil, err
	}
	if p.Version() != version {
		return nil, fmt.Errorf("%w: fields do not fit version %d", ErrInvalid, version)
	}
	return p, nil
}

// names returns the methods of a bit mask. It fails if the mask has a bit
// without a method.
func (m Methods) names(mask uint64) (names []string, err error) {
	for i, name := range m {
		if mask&(1<<i) != 0 {
			names = append(names, name)
			mask &^= 1 << i
		}
	}
	if mask != 0 {
		return nil, fmt.Errorf("%w: unknown bits %b of methods", ErrInvalid, mask)
	}
	return names, nil
}

// fields reads the fields after the methods, and returns their number.
func (r *unpacker) fields(v Version, p *Payload) int {
	switch v {
	case Unscoped:
		r.end(p)
		return 2
	case DomainScoped:
		p.DomainID = r.bareID()
		r.end(p)
		return 3
	case ProjectScoped:
		p.ProjectID = r.id()
		r.end(p)
		return 3
	case TrustScoped:
		p.ProjectID = r.id()
		r.end(p)
		p.TrustID = r.bareID()
		return 4
	case FederatedUnscoped:
		r.federated(p)
		return 5
	case FederatedProject:
		p.ProjectID = r.id()
		r.federated(p)
		return 6
	case FederatedDomain:
		p.DomainID = r.id()
		r.federated(p)
		return 6
	case OAuth1:
		p.ProjectID = r.id()
		p.AccessTokenID = r.id()
		r.end(p)
		return 4
	case SystemScoped:
		p.System = r.text()
		r.end(p)
		return 3
	case ApplicationCredential:
		p.ProjectID = r.id()
		r.end(p)
		p.ApplicationCredentialID = r.id()
		return 4
	case OAuth2Certificate:
		p.ProjectID, p.DomainID = r.id(), r.id()
		r.end(p)
		p.Thumbprint = r.id()
		return 5
	}
	r.fail("version %d: expected 0 to %d", v, OAuth2Certificate)
	return 0
}

// end reads the expiry and the audit ids.
func (r *unpacker) end(p *Payload) {
	p.Expires, p.AuditIDs = r.time(), r.audits()
}

func (r *unpacker) federated(p *Payload) {
	p.GroupIDs, p.IdentityProvider, p.Protocol = r.ids(), r.id(), r.text()
	r.end(p)
}

func (r *unpacker) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
	}
}

func (r *unpacker) check(err error) bool {
	if err != nil {
		r.fail("%v", err)
	}
	return r.err == nil
}

// arrayMax bounds arrays of a token. The largest is the groups of a federated user.
const arrayMax = 512

func (r *unpacker) array() int {
	n, err := r.dec.DecodeArrayLen()
	if r.check(err) && (n < 0 || n > arrayMax) {
		r.fail("array of %d elements: expected at most %d", n, arrayMax)
	}
	if r.err != nil {
		return 0
	}
	return n
}

func (r *unpacker) number() uint64 {
	n, err := r.dec.DecodeUint64()
	r.check(err)
	return n
}

func (r *unpacker) text() string {
	s, err := r.dec.DecodeString()
	r.check(err)
	return s
}

func (r *unpacker) time() time.Time {
	seconds, err := r.dec.DecodeFloat64()
	if r.check(err) && !(math.Abs(seconds) < 1<<40) {
		r.fail("expiry %g: expected seconds since 1970", seconds)
	}
	return time.UnixMicro(int64(math.Round(seconds * 1e6))).UTC()
}

func (r *unpacker) id() string {
	if r.array() != 2 {
		r.fail("expected an id with the mark of its form")
	}
	isUUID, err := r.dec.DecodeBool()
	r.check(err)
	if isUUID {
		return r.uuid()
	}
	return r.text()
}

func (r *unpacker) uuid() string {
	b, err := r.dec.DecodeBytes()
	if r.check(err) && len(b) != 16 {
		r.fail("id of %d bytes: expected 16", len(b))
	}
	return hex.EncodeToString(b)
}

// bareID reads 16 bytes, or text.
func (r *unpacker) bareID() string {
	v, err := r.dec.DecodeInterface()
	r.check(err)
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		if len(v) == 16 {
			return hex.EncodeToString(v)
		}
	}
	r.fail("expected an id as 16 bytes or text")
	return ""
}

func (r *unpacker) ids() (ids []string) {
	for range r.array() {
		ids = append(ids, r.id())
	}
	return ids
}

func (r *unpacker) audits() (ids []string) {
	for range r.array() {
		b, err := r.dec.DecodeBytes()
		r.check(err)
		ids = append(ids, base64.RawURLEncoding.EncodeToString(b))
	}
	return ids
}
