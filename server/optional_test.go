package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/workshop/issuers"
	"github.com/ostiary/ostiary/server"
)

// TestFirstKeyMetrics makes the first key of a server whose metrics are open until then.
func TestFirstKeyMetrics(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	authority := issuers.NewAuthority(t, "a")
	certificate, err := server.NewCertificate(issuers.WriteCertificate(t, t.TempDir(), "server", authority.Issue(nil)))
	if err != nil {
		t.Fatal(err)
	}
	registry := callers.New(e, callers.Options{})
	r := start(t, server.Options{Callers: registry, CallersOptional: true, MetricsTLS: true, TLS: certificate, Engine: e})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: authority.Trust()}}
	t.Cleanup(client.CloseIdleConnections)
	get := func(origin, bearer string) int {
		t.Helper()
		req, err := http.NewRequest("GET", "https://"+r.at["metrics"]+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	const elsewhere = "https://elsewhere.example"
	if own, page := get("", ""), get(elsewhere, ""); own != 200 || page != 403 {
		t.Errorf("without a key: this machine %d, a page of another machine %d", own, page)
	}
	made, err := registry.Create(t.Context(), callers.NewKey{Name: "first", Stores: []string{"*"}, Rights: []string{"read"}})
	if err != nil {
		t.Fatal(err)
	}
	if none, known, page := get("", ""), get("", made.Secret), get(elsewhere, made.Secret); none != 401 || known != 200 || page != 403 {
		t.Errorf("with the first key: none %d, known %d, a page of another machine %d", none, known, page)
	}
}

// TestFirstKey makes the first key of a server that is open until then.
func TestFirstKey(t *testing.T) {
	t.Parallel()
	e, err := ostiary.Open(t.Context(), ostiary.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	registry := callers.New(e, callers.Options{})
	o := server.Options{Callers: registry, CallersOptional: true, Engine: e}
	r := start(t, o)
	conn := r.dial(t)
	call := func(bearer string) error {
		return conn.Invoke(metadata.AppendToOutgoingContext(context.Background(), "authorization", "Bearer "+bearer), "/test.Echo/Echo", wrapperspb.String(""), &wrapperspb.StringValue{})
	}
	get := func(headers ...string) int {
		status, h, _ := r.ask(t, "GET", "/echo/caller", "", headers...)
		if off := h.Get("Ostiary-Authentication"); len(headers) > 0 && (off == "off") != (status == 200 && !registry.Any()) {
			t.Errorf("status %d, Ostiary-Authentication %q", status, off)
		}
		return status
	}
	if status := get(); status != 200 {
		t.Errorf("without a key, none was made: %d", status)
	}
	if status, err := get("Authorization", "Bearer x"), call("x"); status != 200 || err != nil {
		t.Errorf("an unknown key, none was made: %d, %v", status, err)
	}
	if status, _, _ := r.ask(t, "GET", "/echo/caller", "", "Origin", "https://elsewhere.example"); status != 403 {
		t.Errorf("a page of another machine: %d", status)
	}
	made, err := registry.Create(t.Context(), callers.NewKey{Name: "first", Stores: []string{"*"}, Rights: []string{"read"}})
	if err != nil {
		t.Fatal(err)
	}
	if status, wrong, right := get(), get("Authorization", "Bearer x"), get("Authorization", "Bearer "+made.Secret); status != 401 || wrong != 401 || right != 200 {
		t.Errorf("with the first key: none %d, unknown %d, known %d", status, wrong, right)
	}
	if wrong, right := call("x"), call(made.Secret); wrong == nil || right != nil {
		t.Errorf("with the first key over gRPC: unknown %v, known %v", wrong, right)
	}
	if status, _, _ := r.ask(t, "GET", "/echo/open", ""); status != 200 {
		t.Errorf("a public route: %d", status)
	}
	if _, err := registry.Revoke(t.Context(), "first"); err != nil {
		t.Fatal(err)
	}
	if status := get(); status != 401 || call(made.Secret) == nil {
		t.Errorf("after the only key was revoked: %d", status)
	}
	o.HTTP = "0.0.0.0:0"
	if _, err := server.New(o); !errors.Is(err, server.ErrExposed) {
		t.Errorf("open to other machines: %v", err)
	}
	o.HTTP, o.Metrics, o.MetricsTLS, o.TLS = "", "0.0.0.0:0", true, &server.Certificate{}
	if _, err := server.New(o); !errors.Is(err, server.ErrMetricsExposed) {
		t.Errorf("metrics open to other machines: %v", err)
	}
	o.Metrics, o.Keys = "", &server.Keys{}
	if _, err := server.New(o); err == nil {
		t.Error("optional keys and preshared keys")
	}
}
