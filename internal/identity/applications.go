package identity

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ostiary/ostiary/authz"
)

// MethodApplicationCredential is the method of authentication with an application
// credential.
const MethodApplicationCredential = "application_credential"

// Rule is a request that an application credential permits.
type Rule struct {
	ID      string // id of an access rule of the same user; "" for a rule that the other fields describe
	Service string // type of the service, for example "identity"
	Method  string // method of HTTP
	// Path is the path of the request. In it, * and {name} match one segment, and
	// ** matches any text.
	Path string
}

// NewApplicationCredential describes an application credential to be made.
type NewApplicationCredential struct {
	// By is the token of the owner, which has the scope of the project.
	By *Token
	// Name is unique among the application credentials of the owner.
	Name string
	// Secret is a secret that the owner chooses; "" issues one.
	Secret string
	// RoleIDs are the roles, which the token must have; nil means all of the token.
	RoleIDs []string
	// Expires is the end of the credential; nil means that it does not expire.
	Expires *time.Time
	// Unrestricted permits tokens of the credential to make application credentials.
	Unrestricted *bool
	// Rules are the access rules; none permit every request.
	Rules []Rule
	// Members are further members of the record.
	Members Members
}

// ManageApplicationCredentials fails with Forbidden if the token may not read
// application credentials and access rules, or with change if it may not change
// them. A token of a trust or of another delegation may do neither, and a token of
// an application credential may change them only if that is unrestricted.
func (t *Token) ManageApplicationCredentials(change bool) error {
	a := t.ApplicationCredential
	switch {
	case a == nil && t.Delegated():
		return failf(Forbidden, "Cannot manage application credentials with a token issued via delegation.")
	case a != nil && change && (a.Delegation.Unrestricted == nil || !*a.Delegation.Unrestricted):
		return failf(Forbidden, "You are not authorized to perform the requested action: Using method 'application_credential' is not allowed for managing additional application credentials.")
	}
	return nil
}

// CreateApplicationCredential makes an application credential, and returns it with
// its secret, which cannot be read later. It fails with Forbidden, Invalid,
// Conflict or NotFound. What it delegates is never more than what the token that
// makes it has: neither other roles, nor a longer life, nor requests that its
// access rules do not permit.
func (s *Service) CreateApplicationCredential(ctx context.Context, n NewApplicationCredential) (*Record, string, error) {
	if err := n.By.ManageApplicationCredentials(true); err != nil {
		return nil, "", err
	}
	if n.By.Scope.ProjectID == "" {
		return nil, "", failf(Forbidden, "an application credential needs a token with the scope of a project")
	}
	secret, hash, err := s.applicationSecret(ctx, n.Secret)
	if err != nil {
		return nil, "", err
	}
	id := newID()
	d, err := s.write(ctx, func(d *directory) (authz.WriteRequest, error) {
		x := &Record{Kind: ApplicationCredential, ID: id, Name: n.Name, Owner: n.By.User.ID, Members: n.Members}
		w := authz.WriteRequest{}
		var err error
		if n.By, err = s.renewed(ctx, d, n.By); err != nil {
			return w, err
		}
		delegation, err := s.applicationDelegation(ctx, d, n)
		if err != nil {
			return w, err
		}
		x.Delegation = delegation
		if err := d.check(x); err != nil {
			return w, err
		}
		made, err := d.accessRules(x, n)
		for _, r := range append(made, x) {
			w.Documents = append(w.Documents, r.document())
		}
		w.Secrets = []authz.Document{x.sealed(hash)}
		return w, err
	})
	if err != nil {
		return nil, "", err
	}
	made, err := d.get(ApplicationCredential, id)
	return made, secret, err
}

// issuedMark begins the hash of a secret that was issued. Such a secret has 512
// random bits and cannot be guessed, so a fast hash is enough: the rest of the text
// is its SHA-256 in hexadecimal digits.
const issuedMark = "$sha256$"

// applicationSecret returns the secret of a new application credential and its
// hash. A secret that a user chooses is hashed as a password is.
func (s *Service) applicationSecret(ctx context.Context, chosen string) (secret, hash string, err error) {
	if chosen != "" {
		if hash, err = s.hash(ctx, &chosen); errors.Is(err, &Error{Reason: Invalid}) {
			err = &Error{Reason: Invalid, Field: "secret", Text: err.Error()}
		}
		return chosen, hash, err
	}
	var b [64]byte
	rand.Read(b[:]) // never fails
	secret = base64.RawURLEncoding.EncodeToString(b[:])
	return secret, issuedHash(secret), nil
}

func issuedHash(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return issuedMark + hex.EncodeToString(sum[:])
}

// applicationDelegation returns what a new application credential delegates.
func (s *Service) applicationDelegation(ctx context.Context, d *directory, n NewApplicationCredential) (*Delegation, error) {
	x := &Delegation{ProjectID: n.By.Scope.ProjectID, Expires: n.Expires, Unrestricted: n.Unrestricted}
	if err := s.future(n.Expires); err != nil {
		return nil, err
	}
	if from := n.By.ApplicationCredential; from != nil && from.Delegation.Expires != nil {
		end := from.Delegation.Expires
		if x.Expires == nil {
			x.Expires = end
		} else if x.Expires.After(*end) {
			return nil, failf(Forbidden, "the application credential would expire after the application credential %s, with which it is made, at %s", from.ID, end.Format(time.RFC3339))
		}
	}
	for _, r := range n.By.Roles {
		x.RoleIDs = append(x.RoleIDs, r.ID)
	}
	if len(n.RoleIDs) == 0 {
		return x, nil
	}
	wanted, err := s.implied(ctx, n.RoleIDs)
	if err != nil {
		return nil, err
	}
	for _, id := range wanted {
		if !slices.Contains(x.RoleIDs, id) {
			return nil, failf(Invalid, "Invalid application credential: Cannot create an application credential with unassigned role")
		}
	}
	x.RoleIDs = d.global(wanted)
	return x, nil
}

// future fails with Invalid unless a time is later than now. Nil is later.
func (s *Service) future(t *time.Time) error {
	if t != nil && !s.now().Before(*t) {
		return failf(Invalid, "The 'expires_at' must not be before now.")
	}
	return nil
}

// accessRules sets the access rules of a new application credential, and returns
// those that do not exist yet. A credential that is made with one that has access
// rules may have only those rules, and has them all if it asks for none.
func (d *directory) accessRules(x *Record, n NewApplicationCredential) (made []*Record, err error) {
	all := d.referring(link{User, x.Owner}, AccessRule)
	for _, rule := range n.Rules {
		r, isNew, err := rule.record(x.Owner, append(all, made...))
		if err != nil {
			return nil, err
		}
		if isNew {
			made = append(made, r)
		}
		if !slices.Contains(x.Delegation.AccessRuleIDs, r.ID) {
			x.Delegation.AccessRuleIDs = append(x.Delegation.AccessRuleIDs, r.ID)
		}
	}
	from := n.By.ApplicationCredential
	if from == nil || len(from.Delegation.AccessRuleIDs) == 0 {
		return made, nil
	}
	if len(n.Rules) == 0 {
		x.Delegation.AccessRuleIDs = from.Delegation.AccessRuleIDs
	}
	for _, id := range x.Delegation.AccessRuleIDs {
		if !slices.Contains(from.Delegation.AccessRuleIDs, id) {
			return nil, failf(Forbidden, "the application credential would have other access rules than the application credential %s, with which it is made", from.ID)
		}
	}
	return made, nil
}

// record returns the record of a rule, which is one of all, the records of the
// owner, or a new one.
func (r Rule) record(owner string, all []*Record) (x *Record, isNew bool, err error) {
	for _, x := range all {
		if x.ID == r.ID || r.ID == "" && r.equal(x.Rule()) {
			return x, false, nil
		}
	}
	if r.ID != "" {
		return nil, false, missing(AccessRule, r.ID)
	}
	if err := r.check(); err != nil {
		return nil, false, err
	}
	m := Members{}.With("service", r.Service).With("path", r.Path).With("method", r.Method)
	return &Record{Kind: AccessRule, ID: newID(), Owner: owner, Members: m}, true, nil
}

// equal returns whether two rules permit the same requests by the same text.
func (r Rule) equal(x Rule) bool {
	return r.Service == x.Service && r.Method == x.Method && r.Path == x.Path
}

// Rule returns the rule of an access rule.
func (r *Record) Rule() Rule {
	return Rule{ID: r.ID, Service: r.Members.Text("service"), Method: r.Members.Text("method"), Path: r.Members.Text("path")}
}

// Bounds of access rules, in characters.
const (
	ruleServiceMax = 64
	rulePathMax    = 225
)

// ruleMethods are the methods that a rule may name.
var ruleMethods = []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost, http.MethodPut}

func (r Rule) check() error {
	switch {
	case r.Service == "" || utf8.RuneCountInString(r.Service) > ruleServiceMax:
		return &Error{Reason: Invalid, Field: "service", Text: fmt.Sprintf("an access rule needs a type of a service with 1 to %d characters", ruleServiceMax)}
	case !slices.Contains(ruleMethods, r.Method):
		return &Error{Reason: Invalid, Field: "method", Text: fmt.Sprintf("%.64q is not one of %q", r.Method, ruleMethods)}
	case !strings.HasPrefix(r.Path, "/") || utf8.RuneCountInString(r.Path) > rulePathMax:
		return &Error{Reason: Invalid, Field: "path", Text: fmt.Sprintf("the path of an access rule begins with / and has at most %d characters", rulePathMax)}
	}
	return nil
}

// Permits returns whether an access rule permits a request to a service.
func (r *Record) Permits(service, method, path string) bool {
	if r.Members.Text("service") != service || r.Members.Text("method") != method {
		return false
	}
	if r.pattern == nil {
		return r.Rule().pattern().MatchString(path)
	}
	return r.pattern().MatchString(path)
}

// wildcard matches the parts of a path of a rule that are not literal.
var wildcard = regexp.MustCompile(`\*\*|\*|\{[^}]*\}`)

// pattern returns the expression that matches the paths of a rule. It needs a time
// that is linear in the length of a path.
func (r Rule) pattern() *regexp.Regexp {
	text, rest := `\A`, r.Path
	for rest != "" {
		at := wildcard.FindStringIndex(rest)
		if at == nil {
			at = []int{len(rest), len(rest)}
		}
		text += regexp.QuoteMeta(rest[:at[0]])
		switch part := rest[at[0]:at[1]]; part {
		case "":
		case "**":
			text += `.*`
		default:
			text += `[^/]+`
		}
		rest = rest[at[1]:]
	}
	return regexp.MustCompile(text + `\z`)
}

// LoginByApplicationCredential verifies the secret of an application credential,
// and returns the credential and its owner. It fails with NotFound if there is no
// such credential, and with Unauthorized.
func (s *Service) LoginByApplicationCredential(ctx context.Context, id, secret string) (user, credential *Record, err error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, nil, err
	}
	if credential, err = d.get(ApplicationCredential, id); err != nil {
		return nil, nil, err
	}
	if user, err = d.get(User, credential.Owner); err != nil {
		return nil, nil, err
	}
	hash, err := s.reveal(ctx, credential)
	if err != nil {
		return nil, nil, err
	}
	rests := []rest{secretOfRecord(credential)}
	ok, err := s.verifyApplicationSecret(forUser(ctx, id), secret, hash)
	switch {
	case err != nil:
		return nil, nil, err
	case !ok:
		return nil, nil, unauthorized("wrong secret of application credential " + id)
	}
	if d, err = s.rely(ctx, rests...); err != nil {
		return nil, nil, err
	}
	if user, err = d.get(User, user.ID); err != nil {
		return nil, nil, unauthorized(err.Error())
	}
	switch {
	case credential.Delegation.ended(s.now()):
		return nil, nil, unauthorized("application credential " + id + " has expired")
	case !s.active(d, user):
		return nil, nil, unauthorized("user " + user.ID + " or its domain is disabled")
	}
	return user, credential, nil
}

func (s *Service) verifyApplicationSecret(ctx context.Context, secret, hash string) (bool, error) {
	if strings.HasPrefix(hash, issuedMark) {
		return subtle.ConstantTimeCompare([]byte(issuedHash(secret)), []byte(hash)) == 1, nil
	}
	return s.verify(ctx, secret, hash)
}
