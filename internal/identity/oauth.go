package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"math/big"
	"slices"
	"time"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity/oauth1"
)

// Lives of the tokens of OAuth 1, as in Keystone.
const (
	requestTokenLife = 8 * time.Hour
	accessTokenLife  = 24 * time.Hour
)

// requestTokensMax is the largest number of request tokens of one consumer. Those
// that have expired do not count.
const requestTokensMax = 1000

// CreateConsumer adds a consumer of OAuth 1: a program that users may delegate
// roles to. It returns the consumer and its secret, which cannot be read later.
func (s *Service) CreateConsumer(ctx context.Context, m Members) (*Record, string, error) {
	secret := newID()
	r, err := s.keep(ctx, &Record{Kind: Consumer, ID: newID(), Members: m}, secret, func(*directory) error { return nil })
	return r, secret, err
}

// verifySigned verifies a request that a consumer signed with its secret, and with
// the secret of a token unless t is nil. It fails with Unauthorized, also if the
// request was sent before.
func (s *Service) verifySigned(ctx context.Context, d *directory, req *oauth1.Request, t *Record, tokenSecret string) (*Record, error) {
	consumer, err := d.get(Consumer, req.Get(oauth1.Consumer))
	if err != nil {
		return nil, unauthorized(err.Error())
	}
	if t != nil && t.Parent != consumer.ID {
		return nil, unauthorized("token " + t.ID + " is of another consumer than " + consumer.ID)
	}
	secret, err := s.reveal(ctx, consumer)
	if err != nil {
		return nil, err
	}
	rests := []rest{secretOfRecord(consumer)}
	if t != nil {
		rests = append(rests, secretOfRecord(t))
	}
	if err := req.Verify(secret, tokenSecret, s.now()); err != nil {
		return nil, unauthorized(err.Error())
	}
	if _, err := s.rely(ctx, rests...); err != nil {
		return nil, err
	}
	by := consumer.ID
	if t != nil && t.Owner != "" {
		by = t.Owner
	}
	ActAs(ctx, by)
	return consumer, s.useNonce(ctx, nonce{consumer.ID, req.Get(oauth1.Token), req.Get(oauth1.Nonce), req.Time().Unix()})
}

// CreateRequestToken makes a request token of the consumer that signed a request.
// It asks for roles on a project. It returns the token and its secret, and fails
// with NotFound if the project does not exist, with Unauthorized and with
// Forbidden.
func (s *Service) CreateRequestToken(ctx context.Context, req *oauth1.Request, project string) (*Record, string, error) {
	ctx = proving(ctx)
	d, err := s.at(ctx)
	if err != nil {
		return nil, "", err
	}
	if p, err := d.get(Project, project); err != nil || p.IsDomain {
		return nil, "", missing(Project, project)
	}
	consumer, err := s.verifySigned(ctx, d, req, nil, "")
	if err != nil {
		return nil, "", err
	}
	ActAs(ctx, consumer.ID) // no user has authorized the request yet
	secret, end := newID(), s.now().Add(requestTokenLife).Truncate(time.Second)
	r := &Record{Kind: RequestToken, ID: newID(), Parent: consumer.ID, Delegation: &Delegation{ProjectID: project, Expires: &end}}
	if err := s.purge(ctx, consumer.ID); err != nil {
		return nil, "", err
	}
	r, err = s.keep(ctx, r, secret, func(d *directory) error {
		if len(d.referring(link{Consumer, consumer.ID}, RequestToken)) >= requestTokensMax {
			return failf(Forbidden, "Unable to create additional request tokens, maximum of %d already exceeded for consumer.", requestTokensMax)
		}
		_, err := d.get(Consumer, consumer.ID)
		return err
	})
	return r, secret, err
}

// purgedMax bounds the tokens that one write removes.
const purgedMax = 100

// purge removes expired tokens of a consumer.
func (s *Service) purge(ctx context.Context, consumer string) error {
	d, err := s.at(ctx)
	if err != nil {
		return err
	}
	ended := func(d *directory) (all []*Record) {
		for _, k := range []Kind{RequestToken, AccessToken} {
			for _, x := range d.referring(link{Consumer, consumer}, k) {
				if x.Delegation.ended(s.now()) && len(all) < purgedMax {
					all = append(all, x)
				}
			}
		}
		return all
	}
	if len(ended(d)) == 0 {
		return nil
	}
	_, err = s.write(ctx, func(d *directory) (w authz.WriteRequest, err error) {
		for _, x := range ended(d) {
			w.RemoveDocuments = append(w.RemoveDocuments, x.key())
			w.RemoveSecrets = append(w.RemoveSecrets, x.secretKey())
		}
		return w, nil
	})
	return err
}

// verifierAlphabet are the characters of verifiers: letters and digits without
// those that look alike.
const verifierAlphabet = "abcdefghkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"

// verifierLength is the number of characters of a verifier.
const verifierLength = 8

func newVerifier() string {
	b := make([]byte, verifierLength)
	for i := range b {
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(verifierAlphabet)))) // never fails
		b[i] = verifierAlphabet[n.Int64()]
	}
	return string(b)
}

// requestSecret is the secret of a request token: the secret with which the
// consumer signs, and the verifier, which the authorizing user gives to the
// consumer.
func requestSecret(secret, verifier string) string { return secret + " " + verifier }

// splitRequestSecret is the inverse of requestSecret. The verifier is "" before
// the token is authorized.
func splitRequestSecret(text string) (secret, verifier string) {
	if len(text) <= idLength {
		return text, ""
	}
	return text[:idLength], text[idLength+1:]
}

// idLength is the length of what newID returns.
const idLength = 32

// AuthorizeRequestToken gives roles of the user of a token to a request token, and
// returns its verifier. The user must have the roles on the project that the
// consumer asked for. It fails with NotFound, Unauthorized, Invalid or Forbidden.
func (s *Service) AuthorizeRequestToken(ctx context.Context, by *Token, id string, roles []string) (string, error) {
	if by.Delegated() {
		return "", failf(Forbidden, "Cannot authorize a request token with a token issued via delegation.")
	}
	if len(roles) == 0 {
		return "", &Error{Reason: Invalid, Field: "roles", Text: "expected at least one role"}
	}
	verifier := newVerifier()
	roles = slices.Compact(slices.Sorted(slices.Values(roles)))
	_, err := s.write(ctx, func(d *directory) (authz.WriteRequest, error) {
		if err := validToken(by)(s, d); err != nil {
			return authz.WriteRequest{}, err
		}
		r, err := d.get(RequestToken, id)
		if err != nil {
			return authz.WriteRequest{}, err
		}
		if err := s.checkAuthorization(ctx, d, r, by.User.ID, roles); err != nil {
			return authz.WriteRequest{}, err
		}
		text, err := s.reveal(ctx, r)
		if err != nil {
			return authz.WriteRequest{}, err
		}
		secret, _ := splitRequestSecret(text)
		x := *r
		delegation := *r.Delegation
		x.Owner, x.Delegation, delegation.RoleIDs, x.SecretVersion = by.User.ID, &delegation, roles, newID()
		return authz.WriteRequest{Documents: []authz.Document{x.document()}, Secrets: []authz.Document{x.sealed(requestSecret(secret, verifier))}}, nil
	})
	return verifier, err
}

// checkAuthorization fails unless a user may give roles to a request token.
func (s *Service) checkAuthorization(ctx context.Context, d *directory, r *Record, user string, roles []string) error {
	if r.Delegation.ended(s.now()) {
		return unauthorized("request token " + r.ID + " has expired")
	}
	if r.Owner != "" && r.Owner != user {
		return failf(Forbidden, "The request token was authorized by another user.")
	}
	held, err := s.rolesOn(ctx, user, r.Delegation.ProjectID)
	if err != nil {
		return err
	}
	for _, role := range roles {
		if _, err := d.get(Role, role); err != nil {
			return err
		}
		if !slices.Contains(held, role) {
			return unauthorized("user " + user + " does not have role " + role + " on project " + r.Delegation.ProjectID)
		}
	}
	return nil
}

// CreateAccessToken makes an access token from the authorized request token with
// which a request was signed. The request token ends. It returns the access token
// and its secret, and fails with NotFound or Unauthorized.
func (s *Service) CreateAccessToken(ctx context.Context, req *oauth1.Request) (*Record, string, error) {
	ctx = proving(ctx)
	d, err := s.at(ctx)
	if err != nil {
		return nil, "", err
	}
	request, err := d.get(RequestToken, req.Get(oauth1.Token))
	if err != nil {
		return nil, "", err
	}
	text, err := s.reveal(ctx, request)
	if err != nil {
		return nil, "", err
	}
	requested, verifier := splitRequestSecret(text)
	consumer, err := s.verifySigned(ctx, d, req, request, requested)
	if err != nil {
		return nil, "", err
	}
	if verifier == "" || subtle.ConstantTimeCompare([]byte(verifier), []byte(req.Get(oauth1.Verifier))) != 1 {
		return nil, "", unauthorized("request token " + request.ID + " is not authorized, or the verifier is wrong")
	}
	secret, end := newID(), s.now().Add(accessTokenLife).Truncate(time.Second)
	made := &Record{Kind: AccessToken, ID: newID(), Parent: consumer.ID}
	d, err = s.write(ctx, func(d *directory) (authz.WriteRequest, error) {
		r, err := d.get(RequestToken, request.ID) // again, so that it makes one access token
		if err != nil {
			return authz.WriteRequest{}, err
		}
		if r.Delegation.ended(s.now()) || r.Owner == "" {
			return authz.WriteRequest{}, unauthorized("request token " + r.ID + " has expired or is not authorized")
		}
		ActAs(ctx, r.Owner)
		delegation := *r.Delegation
		delegation.Expires = &end
		made.Owner, made.Delegation = r.Owner, &delegation
		return authz.WriteRequest{Documents: []authz.Document{made.document()}, Secrets: []authz.Document{made.sealed(secret)},
			RemoveDocuments: []authz.DocumentKey{r.key()}, RemoveSecrets: []authz.DocumentKey{r.secretKey()}}, nil
	})
	if err != nil {
		return nil, "", err
	}
	made, err = d.get(AccessToken, made.ID)
	return made, secret, err
}

// LoginOAuth1 verifies a request that was signed with an access token, and returns
// the user who authorized it and the access token. It fails with NotFound or
// Unauthorized.
func (s *Service) LoginOAuth1(ctx context.Context, req *oauth1.Request) (user, access *Record, err error) {
	d, err := s.at(ctx)
	if err != nil {
		return nil, nil, err
	}
	if access, err = d.get(AccessToken, req.Get(oauth1.Token)); err != nil {
		return nil, nil, err
	}
	secret, err := s.reveal(ctx, access)
	if err != nil {
		return nil, nil, err
	}
	if _, err := s.verifySigned(ctx, d, req, access, secret); err != nil {
		return nil, nil, err
	}
	if user, err = d.get(User, access.Owner); err != nil {
		return nil, nil, err
	}
	if d, err = s.at(ctx); err != nil {
		return nil, nil, err
	}
	switch {
	case access.Delegation.ended(s.now()):
		return nil, nil, unauthorized("access token " + access.ID + " has expired")
	case !s.active(d, user):
		return nil, nil, unauthorized("user " + user.ID + " or its domain is disabled")
	}
	return user, access, nil
}
