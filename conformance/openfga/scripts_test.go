package openfga

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/doortest"
)

// TestScriptsOriginal runs the door's scripts against a running OpenFGA at the
// address in OSTIARY_OPENFGA ("127.0.0.1:8080"): the scripts expect what OpenFGA
// does. Scripts whose names begin with "ours" show additions, and are left out.
func TestScriptsOriginal(t *testing.T) {
	address := os.Getenv("OSTIARY_OPENFGA")
	if address == "" {
		t.Skip("OSTIARY_OPENFGA names no server")
	}
	scripts := "../../door/openfga/testdata/same_*.http"
	if os.Getenv("OSTIARY_OPENFGA_INLINE") != "" { // started with --experimentals inline_expressions
		scripts = "../../door/openfga/testdata/inline_*.http"
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.FlushInterval = -1
	doortest.Suite{
		Glob:    scripts,
		Door:    func(testing.TB) *door.Door { return &door.Door{Name: "original"} },
		Handler: func(testing.TB) http.Handler { return proxy },
	}.Run(t)
}
