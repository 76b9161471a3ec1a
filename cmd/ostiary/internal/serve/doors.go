package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/authzen"
	"github.com/ostiary/ostiary/door/keystone"
	"github.com/ostiary/ostiary/door/native"
	"github.com/ostiary/ostiary/door/onap"
	"github.com/ostiary/ostiary/door/openfga"
	"github.com/ostiary/ostiary/door/permify"
	"github.com/ostiary/ostiary/door/xacml"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/engine/domain"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
	"github.com/ostiary/ostiary/server"
	"github.com/ostiary/ostiary/storage"
)

// openedDoor is the result of a door's New function.
type openedDoor struct {
	door *door.Door
	err  error
}

func open(d *door.Door, err error) openedDoor { return openedDoor{d, err} }

// DoorFlags are the settings of individual doors.
type DoorFlags struct {
	openfga openfga.Options
	native  native.Options
	permify permify.Options
	onap    onap.Options
	// authzenStore and authzenURL are the fields of [authzen.Options].
	authzenStore, authzenURL string
	// xacmlRelations is Relations of [xacml.Options].
	xacmlRelations storage.StoreID
	keystone       keystone.Options
	logins         loginFlags
	notifications  notificationFlags
	caCert         string // --ca-cert, for the providers of keystoneOIDC
	// keystoneOIDC are the texts of the issuers of keystone.Providers.
	keystoneOIDC []string
}

// keystoneTopic is the topic of the flags of the door keystone.
const keystoneTopic = "OpenStack Identity (Keystone)"

func (f *DoorFlags) add(s *pflag.FlagSet) {
	s.BoolVar(&f.openfga.InlineExpressions, "openfga-inline-expressions", false, "allow the condition \"$expression\" of OpenFGA's experiment")
	s.IntVar(&f.openfga.WriteTuples, "openfga-write-tuples", 100, "maximum number of tuples in one OpenFGA write, including deletions")
	s.IntVar(&f.openfga.BatchChecks, "openfga-batch-checks", 50, "maximum number of checks in one OpenFGA batch check")
	s.IntVar(&f.openfga.ListResults, "openfga-list-results", 1000, "maximum number of results of an OpenFGA list, except streamed lists")
	s.DurationVar(&f.openfga.ListTime, "openfga-list-time", 3*time.Second, "maximum duration of an OpenFGA list")
	cli.Rare(s, "OpenFGA")
	s.StringVar(&f.authzenStore, "authzen-store", "", "id or alias of the store for AuthZEN paths that name none")
	s.StringVar(&f.authzenURL, "authzen-url", "", "base URL of the server in AuthZEN metadata, for example https://pdp.example.com")
	cli.Topic(s, "AuthZEN")
	s.BoolVar(&f.permify.ExactSnapTokens, "permify-exact-snap-tokens", false, "evaluate at exactly the revision of a Permify snap token; the default is that revision or a newer one")
	cli.Rare(s, "Permify")
	s.Var(storeIDValue{&f.xacmlRelations}, "xacml-relations", "id of the store that the default XACML policy domain may ask; it is fixed when the domain is made")
	cli.Topic(s, "XACML")
	s.BoolVar(&f.onap.FailOpen, "onap-fail-open", false, "let ONAP guards answer Permit if they cannot decide, as the original does, for example because the history of operations cannot be read; the default is an error")
	cli.Rare(s, "ONAP")
	s.StringVar(&f.keystone.URL, "keystone-url", "", "base URL of links in Identity responses, for example https://identity.example.com; default: scheme and host of the request")
	s.DurationVar(&f.keystone.Identity.TokenLife, "keystone-token-life", time.Hour, "life of a Keystone token")
	s.StringArrayVar(&f.keystoneOIDC, "keystone-oidc", nil, "OpenID Connect provider whose users can log in to Identity, and the audiences of its tokens, as URL=AUDIENCE[,AUDIENCE]; may be repeated")
	f.logins.add(s)
	f.notifications.add(s)
	cli.Topic(s, keystoneTopic)
	s.DurationVar(&f.keystone.RequestTimeout, "keystone-request-timeout", keystone.RequestTimeoutDefault, "maximum duration of an Identity request, which may wait for password hashes, if --request-timeout is shorter")
	s.StringSliceVar((*[]string)(&f.keystone.Identity.Methods), "keystone-methods", token.DefaultMethods(), "methods of authentication to Identity, in the order of [auth] methods of the servers that share the Fernet keys; add totp to allow one-time passwords")
	s.StringVar((*string)(&f.keystone.Identity.Limits), "keystone-limits", string(settings.FlatLimits), "model of Keystone's limits: flat, or strict_two_level, in which the limit of a project is at most that of its domain")
	f.logins.addRare(s, &f.keystone.Identity)
	f.notifications.addRare(s)
	cli.Rare(s, keystoneTopic)
}

// storeIDValue is the value of a flag that names a store by its id.
type storeIDValue struct{ to *storage.StoreID }

func (v storeIDValue) Set(text string) (err error) {
	*v.to, err = storage.ParseStoreID(text)
	return err
}

func (v storeIDValue) String() string {
	if v.to == nil || *v.to == (storage.StoreID{}) {
		return ""
	}
	return v.to.String()
}

func (storeIDValue) Type() string { return "id" }

// AllDoors opens all doors of this program.
func AllDoors(e *ostiary.Engine, f *DoorFlags) ([]*door.Door, error) {
	var out []*door.Door
	var errs []error
	f.native.Dialects = cli.Dialects()
	if f.native.Callers == nil {
		f.native.Callers = callers.New(e, callers.Options{Doors: doorNames[:]})
	}
	domains, err := domain.NewRegistry(e, domain.Options{})
	if err != nil {
		return nil, err
	}
	if err := f.trustProviders(); err != nil {
		return nil, err
	}
	for _, o := range []openedDoor{
		open(openfga.New(e, f.openfga)),
		open(native.New(e, f.native)),
		open(authzen.New(e, authzen.Options{Store: f.authzenStore, URL: f.authzenURL, Domains: domains})),
		open(permify.New(e, f.permify)),
		open(xacml.New(e, xacml.Options{Domains: domains, Relations: f.xacmlRelations})),
		open(keystone.New(e, f.keystone)),
	} {
		out, errs = append(out, o.door), append(errs, o.err)
	}
	framework, err := onap.New(e, f.onap)
	out, errs = append(out, framework...), append(errs, err)
	return out, errors.Join(errs...)
}

// trustProviders makes the verifier of the tokens of identity providers.
func (f *DoorFlags) trustProviders() error {
	var issuers []oidc.Issuer
	for _, text := range f.keystoneOIDC {
		is, err := oidc.ParseIssuer(text)
		if err != nil {
			return fmt.Errorf("%w: --keystone-oidc: %w", cli.ErrUsage, err)
		}
		issuers = append(issuers, is)
	}
	v, err := verifierOf(issuers, f.caCert, 0)
	if v != nil {
		f.keystone.Providers = v
	}
	return err
}

// checkKeystone fails if a setting of the Keystone door is out of its bounds, and
// warns about methods of authentication that this program does not have.
func (f *DoorFlags) checkKeystone(log *slog.Logger) error {
	o := &f.keystone.Identity
	switch {
	case o.TokenLife <= 0:
		return fmt.Errorf("%w: invalid --keystone-token-life %s: expected more than 0", cli.ErrUsage, o.TokenLife)
	case f.keystone.RequestTimeout <= 0:
		return fmt.Errorf("%w: invalid --keystone-request-timeout %s: expected more than 0", cli.ErrUsage, f.keystone.RequestTimeout)
	case len(o.Methods) == 0:
		return fmt.Errorf("%w: invalid --keystone-methods: expected at least one method, for example password,token", cli.ErrUsage)
	}
	known := append(token.DefaultMethods(), identity.MethodTOTP)
	for _, m := range o.Methods {
		if !slices.Contains(known, m) {
			log.Warn("--keystone-methods: this program does not have the method, which only takes a position in tokens", "method", m, "known", strings.Join(known, ","))
		}
	}
	return nil
}

// pickDoors returns the doors with these names, or all doors if there are no
// names.
func pickDoors(all []*door.Door, names []string) (picked []*door.Door, err error) {
	if len(names) == 0 {
		return all, nil
	}
	for _, name := range names {
		d, err := findDoor(all, name)
		if err != nil {
			return nil, err
		}
		picked = append(picked, d)
	}
	return picked, nil
}

func findDoor(all []*door.Door, name string) (*door.Door, error) {
	for _, d := range all {
		if d.Name == name {
			return d, nil
		}
	}
	return nil, unknownDoor(name)
}

// doorNames are the names of all doors of this program.
var doorNames = cli.DoorNames

func unknownDoor(name string) error {
	return fmt.Errorf("%w: unknown door %q%s: expected one of %s", cli.ErrUsage, name, cli.Suggestion(name, doorNames[:]), strings.Join(doorNames[:], ", "))
}

// checkDoors fails if --doors or --door names a door that does not exist. It needs no
// engine.
func (f *serveFlags) checkDoors() error {
	dedicated, err := parseDedicated(f.dedicated)
	if err != nil {
		return err
	}
	names := slices.Clone(f.doors)
	for _, p := range dedicated {
		names = append(names, p.door)
	}
	for _, name := range names {
		if !slices.Contains(doorNames[:], name) {
			return unknownDoor(name)
		}
	}
	return nil
}

// dedicatedDoors parses the values of --door, NAME=http://HOST:PORT and NAME=grpc://HOST:PORT.
func dedicatedDoors(all []*door.Door, flags []string) (dedicated []server.DedicatedDoor, err error) {
	ports, err := parseDedicated(flags)
	if err != nil {
		return nil, err
	}
	for _, p := range ports {
		d, err := findDoor(all, p.door)
		if err != nil {
			return nil, err
		}
		i := 0
		for i < len(dedicated) && dedicated[i].Door != d {
			i++
		}
		if i == len(dedicated) {
			dedicated = append(dedicated, server.DedicatedDoor{Door: d})
		}
		if p.protocol == "http" {
			dedicated[i].HTTP = p.address
		} else {
			dedicated[i].GRPC = p.address
		}
	}
	return dedicated, nil
}

// dedicatedPort is a port that a flag of serve asks for.
type dedicatedPort struct {
	door     string // "" for the port of all doors
	protocol string // http, grpc or metrics
	address  string
}

// name returns the port's name as in [server.Address].
func (p dedicatedPort) name() string {
	if p.door == "" {
		return p.protocol
	}
	return p.door + " " + p.protocol
}

// flag returns the flag that asks for the port.
func (p dedicatedPort) flag() string {
	if p.door == "" {
		return "--" + p.protocol + " " + p.address
	}
	return "--door " + p.door + "=" + p.protocol + "://" + p.address
}

// parseDedicated parses the values of --door.
func parseDedicated(flags []string) (ports []dedicatedPort, err error) {
	for _, f := range flags {
		name, where, _ := strings.Cut(f, "=")
		protocol, address, ok := strings.Cut(where, "://")
		again := slices.ContainsFunc(ports, func(p dedicatedPort) bool { return p.door == name && p.protocol == protocol })
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			ok = false
		}
		if protocol == "https" {
			return nil, fmt.Errorf("%w: invalid --door %q: expected %s=http://%s: with --tls-cert, every port has TLS", cli.ErrUsage, f, name, address)
		}
		if !ok || protocol != "http" && protocol != "grpc" || again {
			return nil, fmt.Errorf("%w: invalid --door %q: expected NAME=http://HOST:PORT or NAME=grpc://HOST:PORT, each at most once", cli.ErrUsage, f)
		}
		ports = append(ports, dedicatedPort{name, protocol, address})
	}
	return ports, nil
}
