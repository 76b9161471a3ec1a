package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/backup"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/internal/identity/oidc"
	"github.com/ostiary/ostiary/server"
)

// keysBytesMax bounds a file of keys.
const keysBytesMax = 1 << 20

// keys reads the preshared keys. It returns nil for --auth none. reload reads the
// keys again.
func (a *app) keys(f *serveFlags) (k *server.Keys, reload func() error, err error) {
	list, err := a.readKeys(f)
	if err != nil {
		return nil, nil, err
	}
	nothing := func() error { return nil }
	_, set := a.Lookup(cli.EnvKeys) // an empty variable is an error: its keys are missing
	switch {
	case f.auth == cli.AuthNone && (len(list) > 0 || f.keysFile != "" || f.usersFile != "" || f.issuers != nil || f.clientCA != ""):
		return nil, nil, fmt.Errorf("%w: --auth none cannot be combined with keys, users, issuers or client certificates, and some are set", cli.ErrUsage)
	case f.auth == cli.AuthNone, f.auth == "" && f.keysFile == "" && f.usersFile == "" && !set:
		return nil, nothing, nil
	case f.auth == cli.AuthKeys && f.keysFile == "" && f.usersFile == "" && !set:
		return nil, nothing, nil
	case f.auth != "" && f.auth != cli.AuthPreshared && f.auth != cli.AuthKeys:
		return nil, nil, fmt.Errorf("%w: invalid --auth %q: expected none, preshared or keys", cli.ErrUsage, f.auth)
	}
	if k, err = server.NewKeys(list); errors.Is(err, server.ErrNoKeys) {
		return nil, nil, f.explainNoKeys(err, set)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", f.keysSource(set), err)
	}
	return k, func() error {
		list, err := a.readKeys(f)
		if err != nil {
			return err
		}
		err = k.Replace(list)
		if errors.Is(err, server.ErrNoKeys) {
			err = f.explainNoKeys(err, set)
		}
		return err
	}, err
}

// tokenSkew is how much the clocks of a provider and of this machine may differ.
const tokenSkew = 30 * time.Second

// tokens returns the verifier of the tokens of callers, or nil without issuers. It trusts
// the certificates of the file caCert as well, if that is set.
func (f *serveFlags) tokens(caCert string) (*oidc.Verifier, error) {
	if len(f.issuers) != len(f.audiences) {
		return nil, fmt.Errorf("%w: got %d of --auth-oidc-issuer and %d of --auth-oidc-audience: expected one audience for each issuer", cli.ErrUsage, len(f.issuers), len(f.audiences))
	}
	var issuers []oidc.Issuer
	for i, url := range f.issuers {
		is := oidc.Issuer{URL: url, Audiences: strings.Split(f.audiences[i], ",")}
		if err := is.Validate(); err != nil {
			return nil, fmt.Errorf("%w: --auth-oidc-issuer, --auth-oidc-audience: %w", cli.ErrUsage, err)
		}
		if slices.Contains(f.issuers[:i], url) {
			return nil, fmt.Errorf("%w: --auth-oidc-issuer %q is set twice: expected several audiences of one issuer with commas", cli.ErrUsage, url)
		}
		issuers = append(issuers, is)
	}
	return verifierOf(issuers, caCert, tokenSkew)
}

// verifierOf returns a verifier of tokens of issuers; nil without issuers.
func verifierOf(issuers []oidc.Issuer, caCert string, skew time.Duration) (*oidc.Verifier, error) {
	if issuers == nil {
		return nil, nil
	}
	o := oidc.Options{Skew: skew}
	if caCert != "" {
		transport, err := cli.Trusting(caCert)
		if err != nil {
			return nil, err
		}
		o.Transport = transport
	}
	return oidc.New(issuers, o), nil
}

// explainNoKeys returns the error of authentication by keys without a key.
func (f *serveFlags) explainNoKeys(err error, environment bool) error {
	if f.keysFile == "" && f.usersFile == "" && !environment {
		return fmt.Errorf("%w: set one with --auth-keys-file or %s", err, cli.EnvKeys)
	}
	return fmt.Errorf("%w: %s has none", err, f.keysSource(environment))
}

// keysSource names where the keys and the users come from.
func (f *serveFlags) keysSource(environment bool) string {
	var sources []string
	if f.keysFile != "" {
		sources = append(sources, "--auth-keys-file "+f.keysFile)
	}
	if f.usersFile != "" {
		sources = append(sources, "--auth-users-file "+f.usersFile)
	}
	if environment || sources == nil {
		sources = append(sources, cli.EnvKeys)
	}
	return strings.Join(sources, " and ")
}

// readKeys reads the keys and the users of the files, and the keys of the
// environment. Its errors never contain a key.
func (a *app) readKeys(f *serveFlags) (list []server.Key, err error) {
	for _, file := range []struct {
		flag, name string
		parse      func(string) ([]server.Key, error)
	}{{"--auth-keys-file", f.keysFile, server.ParseKeys}, {"--auth-users-file", f.usersFile, server.ParseUsers}} {
		if file.name == "" {
			continue
		}
		keys, err := readKeysFile(file.name, file.parse)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", file.flag, file.name, err)
		}
		list = append(list, keys...)
	}
	value, _ := a.Lookup(cli.EnvKeys)
	for key := range strings.SplitSeq(value, ",") {
		if key = strings.TrimSpace(key); key != "" {
			list = append(list, server.Key{Secret: server.Secret(key)})
		}
	}
	return list, nil
}

// readKeysFile reads a file of keys or of users.
func readKeysFile(name string, parse func(string) ([]server.Key, error)) ([]server.Key, error) {
	if err := cli.CheckKeysMode(name); err != nil {
		return nil, err
	}
	text, err := cli.ReadFile(name, keysBytesMax+1)
	if err != nil {
		return nil, err
	}
	if len(text) > keysBytesMax {
		return nil, fmt.Errorf("%w: %s is larger than %d bytes", cli.ErrUsage, name, keysBytesMax)
	}
	return parse(string(text))
}

// explainExposed adds the flags that resolve [server.ErrExposed] and
// [server.ErrMetricsExposed].
func explainExposed(err error) error {
	switch {
	case errors.Is(err, server.ErrMetricsExposed):
		return fmt.Errorf("%w; --metrics-exposed allows this", err)
	case errors.Is(err, server.ErrExposed):
		return fmt.Errorf("%w; make a key on the folder (ostiary key create), set keys (--auth-keys-file or %s), or --auth-anonymous to allow this", err, cli.EnvKeys)
	}
	return err
}

// requireKeys makes the server require the keys of the system store, if --auth asks for
// them, if there are preshared keys, or as soon as the system store has keys. With --auth
// none it fails for a node of a cluster that has keys.
func (s *prepared) requireKeys(ctx context.Context) error {
	f, registry := s.flags, s.flags.door.native.Callers
	if f.auth == cli.AuthNone && s.member == nil {
		return nil
	}
	n, err := registry.Len(ctx)
	switch {
	case err != nil:
		return err
	case f.auth == cli.AuthNone && n > 0:
		return fmt.Errorf("%w: --auth none, and the cluster has keys (ostiary key list), which this node would not check: expected --auth keys or no --auth", cli.ErrUsage)
	}
	if f.auth != cli.AuthKeys && s.options.Keys == nil && s.options.Tokens == nil && s.options.ClientCA == nil && n == 0 {
		why, err := registry.Expected(ctx)
		switch {
		case err != nil:
			return err
		case f.auth == cli.AuthNone:
		case why.Source != "":
			return fmt.Errorf("%w: the folder was filled from %s, which requires authentication, and has no key: %s", cli.ErrUsage, why.Source, makeKey)
		case why.Folder != "" && why.Folder != folderID(s.Data):
			return fmt.Errorf("%w: the folder is a copy of one that was served with authentication, and has no key: %s", cli.ErrUsage, makeKey)
		}
		s.options.Callers, s.options.CallersOptional = registry, true
		return explainExposed(s.options.CheckExposure())
	}
	s.expectCallers(ctx, registry)
	s.options.Callers = registry
	switch {
	case n > 0:
	case s.options.Keys == nil:
		s.log.Warn("no request will be accepted: there is no key yet: stop the server and run \"ostiary key create\" on the folder, or set --auth-keys-file to make the first one with --server")
	default:
		warnOnlyUsers(s.log, &s.options)
	}
	return nil
}

// makeKey is what to do about a folder that must not be served to everyone.
const makeKey = "make one with \"ostiary key create\" on the folder, set --auth-keys-file or " + cli.EnvKeys + ", or accept every caller with --auth none"

// expectCallers notes in the folder that it was served with authentication, so that a copy of it is
// not served to everyone, because the keys are in files elsewhere. The copy of a node needs no
// note: only a node can serve it.
func (s *prepared) expectCallers(ctx context.Context, registry *callers.Registry) {
	id := folderID(s.Data)
	if s.member != nil || s.driver == nil || id == "" {
		return
	}
	why, err := registry.Expected(ctx)
	if err == nil && why.Source == "" && why.Folder != id {
		err = registry.Expect(ctx, callers.Expected{Folder: id})
	}
	if err != nil {
		s.log.Warn("the folder cannot note that it is served with authentication: a copy of it may be served without", "error", err)
	}
}

// folderID returns what identifies a folder, and what a copy of it does not have; "" if that
// cannot be known.
func folderID(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return backup.FileID(info)
}

// followKeys ends the streams of revoked keys until the returned function is called.
func (s *prepared) followKeys() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Without other nodes, this one makes the first key itself.
		if o := &s.options; o.Callers != nil && (!o.CallersOptional || s.member != nil) {
			o.Callers.Follow(ctx)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}
