package serve

import (
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/console"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/server"
)

// consoleOn is the value of --console that serves the console; [off] is the other one.
const consoleOn = "on"

// consoleFlags are the settings of the console.
type consoleFlags struct {
	serve string // on or off
	// oidc are the texts of signIn: the providers at which users sign in. The audiences of an
	// issuer there are the id of the client and the scopes.
	oidc   []string
	signIn []oidc.Issuer
	report func(issuer string, err error) // nil reports nothing
}

func (f *consoleFlags) add(s *pflag.FlagSet) {
	s.StringVar(&f.serve, "console", consoleOn, "pages for a browser at /console on --http, if the door native is there: on or off")
	s.StringArrayVar(&f.oidc, "console-oidc", nil, "--auth-oidc-issuer at which users of the console sign in, the id of the console as its client, and scopes, as URL=CLIENT[,SCOPE]; may be repeated")
}

// check fails if --console has another value than on or off, or if a provider of --console-oidc is
// none of issuers, whose tokens the server accepts.
func (f *consoleFlags) check(issuers []string) error {
	if f.serve != consoleOn && f.serve != off {
		return fmt.Errorf("%w: invalid --console %q: expected on or off", cli.ErrUsage, f.serve)
	}
	if f.serve == off && f.oidc != nil {
		return fmt.Errorf("%w: --console-oidc is set, and --console is off", cli.ErrUsage)
	}
	f.signIn = nil
	for _, text := range f.oidc {
		is, err := oidc.ParseIssuer(text)
		if err != nil {
			return fmt.Errorf("%w: invalid --console-oidc %q: expected URL=CLIENT[,SCOPE], for example https://login.example.com=ostiary-console", cli.ErrUsage, text)
		}
		if !slices.Contains(issuers, is.URL) {
			return fmt.Errorf("%w: --console-oidc %s: the server does not accept its tokens: expected one of --auth-oidc-issuer", cli.ErrUsage, is.URL)
		}
		if slices.ContainsFunc(f.signIn, func(other oidc.Issuer) bool { return other.URL == is.URL }) {
			return fmt.Errorf("%w: --console-oidc %s is set twice: expected each issuer once", cli.ErrUsage, is.URL)
		}
		f.signIn = append(f.signIn, is)
	}
	return nil
}

// clients returns the clients of the providers at which users of the console sign in, whose
// endpoints v reads.
func (f *consoleFlags) clients(v *oidc.Verifier) (all []oidc.Client) {
	for _, is := range f.signIn {
		c := v.Client(is)
		if f.report != nil {
			c.Report = func(err error) { f.report(is.URL, err) }
		}
		all = append(all, c)
	}
	return all
}

// openConsole adds the console to the doors that share a port, if that port is there and has the
// native door, which the console asks.
func (f *serveFlags) openConsole(o *server.Options) error {
	if f.console.serve == off || o.HTTP == "" || !slices.ContainsFunc(o.Doors, func(d *door.Door) bool { return d.Name == native.Name }) {
		return nil
	}
	d, err := console.New(f.console.clients(o.Tokens)...)
	if err != nil {
		return fmt.Errorf("%w: --console-oidc: %w", cli.ErrUsage, err)
	}
	o.Doors = append(slices.Clip(o.Doors), d)
	return nil
}
