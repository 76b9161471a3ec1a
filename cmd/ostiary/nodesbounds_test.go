package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ostiary/ostiary/door/native/client"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
)

// TestNodesBoundOfStores creates stores through two nodes in turn: the bound is one of the
// cluster, and each node refuses one more.
func TestNodesBoundOfStores(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 2, "--stores-max", "4")
	create := func(p *process) error { return p.post("/stores", map[string]string{"name": "one"}, nil) }
	for i := range 4 {
		if err := create(c.all[i%2]); err != nil {
			t.Fatalf("store %d: %v", i, err)
		}
	}
	for _, p := range c.all {
		if err := create(p); err == nil || !strings.Contains(err.Error(), "4") {
			t.Errorf("node %d: one store more: %v", p.number, err)
		}
	}
}

// TestNodesRevokedKey removes a key at the node that writes. A write with it through the
// other node, which still has the key, is refused.
func TestNodesRevokedKey(t *testing.T) {
	t.Parallel()
	const kept, revoked = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
	c := startNodes(t, 0)
	put := func(i int, keys ...string) {
		t.Helper()
		if err := os.WriteFile(c.file(fmt.Sprint("keys", i)), []byte(strings.Join(keys, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 2 {
		put(i, kept, revoked)
		c.flags = append(slices.Clip(patientFlags), "--auth-keys-file", c.file(fmt.Sprint("keys", i)))
		p := &process{number: i}
		c.all = append(c.all, p)
		c.start(p)
	}
	create := func(p *process, key string) int {
		t.Helper()
		r, err := http.NewRequest(http.MethodPost, p.http+"/stores", strings.NewReader(`{"name":"one"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	holder := c.holder()
	other := c.all[1-holder.number]
	for _, key := range []string{kept, revoked} {
		if status := create(other, key); status != http.StatusCreated {
			t.Fatalf("a write with a key: %d", status)
		}
	}
	put(holder.number, kept)
	if err := holder.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	c.eventually("the holder refuses the key", func() bool { return create(other, revoked) == http.StatusUnauthorized })
	if status := create(other, kept); status != http.StatusCreated {
		t.Errorf("a write with the other key: %d", status)
	}
}

// TestNodesToken writes with the token of a provider at a node that passes the write on.
// The log has the caller of the token, and the node that writes knows of a revocation.
func TestNodesToken(t *testing.T) {
	t.Parallel()
	const first = "0123456789abcdef0123456789abcdef"
	provider := issuers.NewProvider(t)
	c := startNodes(t, 0)
	if err := os.WriteFile(c.file("keys"), []byte(first+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.flags = []string{"--auth-keys-file", c.file("keys"), "--auth-oidc-issuer", provider.URL, "--auth-oidc-audience", "ostiary"}
	for i := range 2 {
		p := &process{number: i}
		c.all = append(c.all, p)
		c.start(p)
	}
	other := c.all[1-c.holder().number]
	as := func(bearer string) *client.Client {
		return client.New(other.http, client.Options{Transport: bearerOf{bearer, http.DefaultTransport}})
	}
	token := provider.Sign(map[string]any{"iss": provider.URL, "aud": "ostiary", "sub": "anne", "exp": time.Now().Unix() + 3600, "groups": []string{"admins", "staff"}}, -1)
	key := client.NewKey{Stores: []string{"*"}, Rights: []string{"admin"}}
	for _, group := range []string{"admins", "staff"} {
		key.Name, key.Match = group, &client.Match{Issuer: provider.URL, Claim: "groups", Value: group}
		if _, err := as(first).CreateKey(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		key.Rights = []string{"read"}
	}
	key.Name, key.Match = "child", nil
	made, err := as(token).CreateKey(t.Context(), key)
	if err != nil || made.Creator != provider.URL+"#anne" {
		t.Fatalf("a write with a token: made by %q, %v", made.Creator, err)
	}
	if err := as(first).RevokeKey(t.Context(), "admins"); err != nil {
		t.Fatal(err)
	}
	key.Name = "late"
	if _, err := as(token).CreateKey(t.Context(), key); err == nil || !strings.Contains(err.Error(), "admin") {
		t.Errorf("a write after the key that allows it was revoked: %v", err)
	}
}

// bearerOf sends requests with a bearer.
type bearerOf struct {
	secret  string
	through http.RoundTripper
}

func (b bearerOf) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.secret)
	return b.through.RoundTrip(r)
}

// TestNodesFirstKey makes the first key of a cluster whose nodes were started without one:
// each node requires a caller from then on.
func TestNodesFirstKey(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 2)
	list := func(p *process, secret string) error {
		_, err := client.New(p.http, client.Options{Transport: bearerOf{secret, http.DefaultTransport}}).Keys(t.Context())
		return err
	}
	for _, p := range c.all {
		if err := list(p, "none"); err != nil {
			t.Fatalf("node %d without a key: %v", p.number, err)
		}
	}
	made, err := client.New(c.all[0].http, client.Options{}).CreateKey(t.Context(), client.NewKey{Name: "first", Stores: []string{"*"}, Rights: []string{"admin"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range c.all {
		c.eventually("the node requires a key", func() bool { return list(p, "none") != nil })
		if err := list(p, made.Secret); err != nil {
			t.Errorf("node %d with the key: %v", p.number, err)
		}
	}
}
