package relations

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door/native/client"
)

// requiresCaller reports whether the source at a server requires authentication: it refuses a
// request without any. It fails if the server cannot be asked.
func (a *app) requiresCaller(ctx context.Context, source moveSource, at *cli.Server) (bool, error) {
	anonymous := cli.Server{App: a.App, URL: at.URL, Flag: at.Flag, Anonymous: true}
	c, err := anonymous.Client(nil)
	if err != nil {
		return false, err
	}
	err = source.ask(ctx, c)
	if refused, ok := errors.AsType[*client.Error](err); ok && (refused.Status == http.StatusUnauthorized || refused.Status == http.StatusForbidden) {
		return true, nil
	}
	if _, ok := errors.AsType[*cli.ConnectionError](err); ok && a.HasClientCertificate() {
		return true, nil // it accepts no connection without a certificate
	}
	return false, err
}

// closeTarget makes sure that the copy of a source that requires authentication requires it
// too. A folder notes it, and a server must require it already.
func (a *app) closeTarget(ctx context.Context, s *server, source string) error {
	if a.Server == "" {
		return a.ExpectCallers(ctx, source)
	}
	requires, err := a.requiresCaller(ctx, &ostiarySource{openFGASource{server: *s}}, &cli.Server{App: a.App, URL: a.Server, Flag: "--server"})
	switch {
	case err != nil:
		return cli.NativeMissing(err)
	case !requires:
		return fmt.Errorf("%w: %s requires authentication, and %s accepts requests without a key, so everyone who reaches it could read the copy: make a key there (ostiary key create), or accept it with --open", cli.ErrTarget, source, a.Server)
	}
	return nil
}
