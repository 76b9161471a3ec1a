package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/identity/oidc"
)

const (
	// discoverAgain is how often the endpoints of a provider are read, because they can change.
	discoverAgain = 10 * time.Minute
	// discoverFailed is the time until they are read again after a failure.
	discoverFailed = 5 * time.Second
	// clientBytesMax bounds the id of a client, and each scope, in bytes.
	clientBytesMax = 512
)

// providers are the OpenID Connect providers at which users may sign in, instead of with a key, and
// what is known about them. The console is a public client of each: it has no secret.
type providers struct {
	all []oidc.Client
	// found has the endpoints of each provider; nil while they are not known.
	found []atomic.Pointer[endpoints]
}

// endpoints are where users of a provider sign in. tokens is the origin of Token.
type endpoints struct {
	oidc.Endpoints
	tokens string
}

// newProviders returns the providers of clients. It fails if the id of a client or a scope is not
// valid.
func newProviders(clients []oidc.Client) (*providers, error) {
	p := &providers{all: clients, found: make([]atomic.Pointer[endpoints], len(clients))}
	for _, s := range clients {
		if _, err := originOf(s.Issuer, s.Issuer); err != nil {
			return nil, fmt.Errorf("console: issuer: %w", err)
		}
		if !clientForm.MatchString(s.ID) || len(s.ID) > clientBytesMax {
			return nil, fmt.Errorf("console: invalid client id %q of %s: expected 1 to %d visible ASCII characters", s.ID, s.Issuer, clientBytesMax)
		}
		for _, scope := range s.Scopes {
			if !scopeForm.MatchString(scope) || len(scope) > clientBytesMax {
				return nil, fmt.Errorf("console: invalid scope %q of %s: expected 1 to %d visible ASCII characters without quotes and backslashes", scope, s.Issuer, clientBytesMax)
			}
		}
	}
	return p, nil
}

var (
	clientForm = regexp.MustCompile(`^[!-~](?:[ -~]*[!-~])?$`)                             // RFC 6749, appendix A.1
	scopeForm  = regexp.MustCompile(`^[!#-\[\]-~]+$`)                                      // RFC 6749, appendix A.4
	hostForm   = regexp.MustCompile(`^(?:[0-9A-Za-z.-]+|\[[0-9a-fA-F:.]+\])(?::[0-9]+)?$`) // a host that a policy may name
)

// originOf returns the origin of a URL, for the policy. It fails unless that is https, or http for
// a provider which has http itself.
func originOf(text, issuer string) (string, error) {
	u, err := url.Parse(text)
	plain := strings.HasPrefix(issuer, "http://")
	if err != nil || u.User != nil || !hostForm.MatchString(u.Host) || u.Scheme != "https" && !(plain && u.Scheme == "http") {
		return "", fmt.Errorf("invalid URL %.200q of %s: expected https://HOST[:PORT][/PATH]", text, issuer)
	}
	return u.Scheme + "://" + u.Host, nil
}

// follow reads the endpoints of all providers, again and again, until ctx ends.
func (p *providers) follow(ctx context.Context) {
	next := make([]time.Time, len(p.all))
	failing := make([]bool, len(p.all))
	for ctx.Err() == nil {
		wait := discoverAgain
		for i := range p.all {
			if left := time.Until(next[i]); left > 0 {
				wait = min(wait, left)
				continue
			}
			again := discoverAgain
			err := p.discover(ctx, i)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				again = discoverFailed
				if report := p.all[i].Report; !failing[i] && report != nil {
					report(err)
				}
			}
			failing[i] = err != nil
			next[i], wait = time.Now().Add(again), min(wait, again)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// discover reads the endpoints of a provider. After a failure, those that are known stay.
func (p *providers) discover(ctx context.Context, i int) error {
	issuer := p.all[i].Issuer
	at, err := p.all[i].Endpoints(ctx)
	if err != nil {
		return err
	}
	_, errAuthorization := originOf(at.Authorization, issuer)
	tokens, errToken := originOf(at.Token, issuer)
	if err := errors.Join(errAuthorization, errToken); err != nil {
		return err
	}
	p.found[i].Store(&endpoints{at, tokens})
	return nil
}

// policy returns the Content-Security-Policy: with providers, the page may also send requests to
// their origins and to those of their token endpoints.
func (p *providers) policy() string {
	if len(p.all) == 0 {
		return policy
	}
	origins := []string{"'self'"}
	add := func(origin string) {
		if origin != "" && !slices.Contains(origins, origin) {
			origins = append(origins, origin)
		}
	}
	for i, s := range p.all {
		origin, _ := originOf(s.Issuer, s.Issuer) // newProviders has checked it
		add(origin)
		if at := p.found[i].Load(); at != nil {
			add(at.tokens)
		}
	}
	return policy + "; connect-src " + strings.Join(origins, " ")
}

// serve answers with the providers, for the page.
func (p *providers) serve(w http.ResponseWriter, _ *http.Request, _ door.Params) {
	type provider struct {
		Issuer        string `json:"issuer"`
		Client        string `json:"client_id"`
		Scope         string `json:"scope"`
		Authorization string `json:"authorization_endpoint,omitempty"`
		Token         string `json:"token_endpoint,omitempty"`
	}
	out := struct {
		Providers []provider `json:"providers"`
	}{[]provider{}}
	for i, s := range p.all {
		one := provider{Issuer: s.Issuer, Client: s.ID, Scope: strings.Join(append([]string{"openid"}, s.Scopes...), " ")}
		if at := p.found[i].Load(); at != nil {
			one.Authorization, one.Token = at.Authorization, at.Endpoints.Token
		}
		out.Providers = append(out.Providers, one)
	}
	body, err := json.Marshal(out)
	if err != nil {
		body = []byte("{}") // cannot happen: strings always marshal
	}
	secure(w, p.policy())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(append(body, '\n'))
}
