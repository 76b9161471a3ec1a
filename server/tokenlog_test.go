package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/server"
)

// TestTokenRefusedLog sends tokens that are refused, over HTTP and over gRPC.
// The log has the reason of the first one of an address, the number of the others, and no
// token. The response has no reason.
func TestTokenRefusedLog(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	p := issuers.NewProvider(t)
	claims := map[string]any{"iss": p.URL, "aud": "other", "sub": "anne", "exp": time.Now().Unix() + 600}
	token := p.Sign(claims, -1)
	for _, first := range []string{"http", "grpc"} {
		verifier := oidc.New([]oidc.Issuer{{URL: p.URL, Audiences: []string{"ostiary"}}}, oidc.Options{})
		r := start(t, server.Options{Callers: callers.New(e, callers.Options{}), Tokens: verifier, Engine: e})
		get := func() {
			req, err := http.NewRequest("GET", "http://"+r.at["http"]+"/echo/caller", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+token)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusUnauthorized {
				t.Error(resp.Status)
			}
		}
		call := func() {
			err := r.dial(t).Invoke(metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+token), "/test.Echo/Echo", wrapperspb.String(""), &wrapperspb.StringValue{})
			if err == nil || strings.Contains(err.Error(), "audience") {
				t.Errorf("a call with a refused token: %v", err)
			}
		}
		if first == "http" {
			get()
		} else {
			call()
		}
		const line = `"msg":"token refused","remote":"127.0.0.1","why":"invalid token of an identity provider: it is for [\"other\"]: expected one of [\"ostiary\"]"`
		if text := r.logs.String(); strings.Count(text, line) != 1 || !strings.Contains(text, `"level":"INFO","msg":"token refused"`) {
			t.Errorf("%s: the log is %s", first, text)
		}
		get()
		call()
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		text := r.logs.String()
		if strings.Count(text, "token refused") != 1 || !strings.Contains(text, `"msg":"more tokens refused","remote":"127.0.0.1","times":2`) {
			t.Errorf("%s: after two more, the log is %s", first, text)
		}
		if strings.Contains(text, token[:40]) || strings.Contains(text, token[len(token)-40:]) {
			t.Errorf("%s: the log has the token", first)
		}
	}
}
