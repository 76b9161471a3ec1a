package served

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"testing"

	"github.com/ostiary/ostiary/conformance/openfga/servers"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/workshop/doortest"
)

// TestScriptsOriginal runs the door's scripts against OpenFGA: they expect what
// OpenFGA does. Scripts whose names begin with "ours" show additions, and are left
// out.
func TestScriptsOriginal(t *testing.T) {
	t.Parallel()
	const folder = "../../../door/openfga/testdata/"
	for scripts, flags := range map[string][]string{
		folder + "same_*.http":   nil,
		folder + "inline_*.http": {"--experimentals", "inline_expressions"},
	} {
		proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: servers.Original(t, flags...).HTTP})
		proxy.FlushInterval = -1
		doortest.Suite{
			Glob:    scripts,
			Door:    func(testing.TB) *door.Door { return &door.Door{Name: "original"} },
			Handler: func(testing.TB) http.Handler { return proxy },
		}.Run(t)
	}
}
