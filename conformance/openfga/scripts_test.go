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

// TestScriptsOriginal plays the door's own scripts against an original that
// runs already, at the address in OSTIARY_OPENFGA ("127.0.0.1:8080"): what
// they expect is what OpenFGA does. Additions of ours stand in scripts whose
// names begin with "ours".
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
