package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ostiary/ostiary/console"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/identity/oidc"
)

// plain is the policy without a provider.
const plain = "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// provider returns a client whose endpoints are those of a pointer; nil fails.
func provider(issuer string, at *atomic.Pointer[oidc.Endpoints]) oidc.Client {
	return oidc.Client{Issuer: issuer, ID: "the client", Scopes: []string{"groups", "api://x/.default"}, Endpoints: func(context.Context) (oidc.Endpoints, error) {
		if e := at.Load(); e != nil {
			return *e, nil
		}
		return oidc.Endpoints{}, errors.New("it is away")
	}}
}

// TestSignIn reads the policy and the providers while these are away, answer with endpoints that a
// page must not use, and answer well.
func TestSignIn(t *testing.T) {
	t.Parallel()
	var first, second atomic.Pointer[oidc.Endpoints]
	reports := make(chan error, 100)
	clients := []oidc.Client{provider("https://login.example.com/realms/x", &first), provider("http://127.0.0.1:7000", &second)}
	for i := range clients {
		clients[i].Report = func(err error) { reports <- err }
	}
	d, err := console.New(clients...)
	if err != nil {
		t.Fatal(err)
	}
	at := "http://" + serve(t, d)
	tag := ""
	state := func(origins string, known int) {
		t.Helper()
		for range 2 {
			status, h, body := ask(t, "GET", at+"/console/", "If-None-Match", tag)
			if got := h.Get("Content-Security-Policy"); got != plain+"; connect-src 'self' "+origins {
				t.Fatalf("the policy is %q, expected the origins %q", got, origins)
			}
			// With another policy, a browser gets the page again.
			if changed := h.Get("ETag") != tag; changed != (status == 200) || changed == (body == "") {
				t.Fatalf("%d with the ETag %s after %s", status, h.Get("ETag"), tag)
			}
			tag = h.Get("ETag")
		}
		for _, key := range []string{"", "Bearer good", "Bearer wrong"} {
			status, h, body := ask(t, "GET", at+"/console/sign-in.json?x=1", "Authorization", key)
			var out struct{ Providers []map[string]string }
			if err := json.Unmarshal([]byte(body), &out); err != nil || status != 200 || h.Get("Cache-Control") != "no-store" || len(out.Providers) != 2 {
				t.Fatalf("%d %v %s", status, err, body)
			}
			n := 0
			for _, p := range out.Providers {
				if p["client_id"] != "the client" || p["scope"] != "openid groups api://x/.default" {
					t.Fatal(body)
				}
				if p["token_endpoint"] != "" && p["authorization_endpoint"] != "" {
					n++
				}
			}
			if n != known || strings.Contains(body, "away") {
				t.Fatalf("%d known, expected %d: %s", n, known, body)
			}
		}
	}
	state("https://login.example.com http://127.0.0.1:7000", 0)
	again := func() { once(t, d) }
	again()
	for range 2 {
		if r := <-reports; r.Error() != "it is away" {
			t.Fatal(r)
		}
	}
	state("https://login.example.com http://127.0.0.1:7000", 0)
	for _, bad := range []oidc.Endpoints{{Authorization: "javascript:alert(1)", Token: "https://a.example/token"}, {Authorization: "https://a.example/auth", Token: "http://a.example/token"}, {Authorization: "https://a.example/auth", Token: "https://a;script-src *.example/token"},
		{Authorization: "https://a.example/auth", Token: "https://a.example, x/token"}, {Authorization: "https://a.example/auth", Token: ""}, {Authorization: "/auth", Token: "/token"}, {Authorization: "https://u:p@a.example/auth", Token: "https://a.example/token"}, {Authorization: "https://a.example/auth", Token: "https://ä.example/token"}, {Authorization: "data:text/html,x", Token: "https://a.example/token"}} {
		first.Store(&bad)
		again()
		state("https://login.example.com http://127.0.0.1:7000", 0)
	}
	first.Store(&oidc.Endpoints{Authorization: "https://login.example.com/auth?x=1", Token: "https://tokens.example.com:8443/token"})
	second.Store(&oidc.Endpoints{Authorization: "http://127.0.0.1:7000/auth", Token: "http://127.0.0.1:7000/token"})
	again()
	state("https://login.example.com https://tokens.example.com:8443 http://127.0.0.1:7000", 2)
	first.Store(nil) // what is known stays
	again()
	state("https://login.example.com https://tokens.example.com:8443 http://127.0.0.1:7000", 2)
}

// once runs the background of the door until it has read the endpoints of its providers.
func once(t *testing.T, d *door.Door) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go d.Background(ctx)
		synctest.Wait()
		cancel()
		synctest.Wait()
	})
}

// TestSignInAgain counts how often the endpoints are read: soon again after a failure, which is
// reported once, and seldom after a success. The background ends with its context, also while a
// provider does not answer.
func TestSignInAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads, reported atomic.Int64
		var how atomic.Value
		d, err := console.New(oidc.Client{Issuer: "https://a.example", ID: "c", Report: func(error) { reported.Add(1) }, Endpoints: func(ctx context.Context) (oidc.Endpoints, error) {
			reads.Add(1)
			switch how.Load() {
			case "away":
				return oidc.Endpoints{}, errors.New("it is away")
			case "silent":
				<-ctx.Done()
				return oidc.Endpoints{}, ctx.Err()
			}
			return oidc.Endpoints{Authorization: "https://a.example/auth", Token: "https://a.example/token"}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		how.Store("away")
		go func() { d.Background(ctx); ended = true }()
		for _, step := range []struct {
			how             string
			time            time.Duration
			reads, reported int64
		}{{"away", time.Second, 1, 1}, {"away", time.Minute, 13, 1}, {"well", time.Minute, 14, 1}, {"away", 9*time.Minute + 5*time.Second, 15, 2}, {"silent", time.Minute, 16, 2}} {
			how.Store(step.how)
			time.Sleep(step.time)
			synctest.Wait()
			if reads.Load() != step.reads || reported.Load() != step.reported {
				t.Errorf("%s for %s: %d reads and %d reports, expected %d and %d", step.how, step.time, reads.Load(), reported.Load(), step.reads, step.reported)
			}
		}
		cancel()
		synctest.Wait()
		if !ended || reported.Load() != 2 {
			t.Errorf("ended %t, %d reports", ended, reported.Load())
		}
	})
}

// TestSignInRefused makes consoles with settings that are not valid.
func TestSignInRefused(t *testing.T) {
	t.Parallel()
	for _, bad := range []oidc.Client{
		{Issuer: "https://a.example", ID: ""}, {Issuer: "https://a.example", ID: " c"}, {Issuer: "https://a.example", ID: "c\n"}, {Issuer: "https://a.example", ID: strings.Repeat("c", 513)}, {Issuer: "https://a.example", ID: "ключ"},
		{Issuer: "https://a.example", ID: "c", Scopes: []string{""}}, {Issuer: "https://a.example", ID: "c", Scopes: []string{"a b"}}, {Issuer: "https://a.example", ID: "c", Scopes: []string{`a"`}}, {Issuer: "https://a.example", ID: "c", Scopes: []string{strings.Repeat("s", 513)}},
		{Issuer: "https://a;b", ID: "c"}, {Issuer: "ftp://a", ID: "c"}, {Issuer: "", ID: "c"}, {Issuer: "https://u@a.example", ID: "c"}, {Issuer: "https://a.example *", ID: "c"},
	} {
		if _, err := console.New(bad); err == nil || !strings.Contains(err.Error(), "expected") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	for _, good := range []oidc.Client{{Issuer: "http://[::1]:80/x", ID: strings.Repeat("c", 512)}, {Issuer: "https://a.example", ID: "a b", Scopes: []string{strings.Repeat("s", 512)}}} {
		if _, err := console.New(good); err != nil {
			t.Error(err)
		}
	}
}
