package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ostiary/ostiary/server"
)

const (
	authNone      = "none"
	authPreshared = "preshared"
	// envKeys holds preshared keys, separated by commas.
	envKeys = "OSTIARY_AUTH_KEYS"
	// keysBytesMax bounds a file of keys.
	keysBytesMax = 1 << 20
)

// keys reads the preshared keys. It returns nil for --auth none. reload reads the
// keys again.
func (a *app) keys(f *serveFlags) (k *server.Keys, reload func() error, err error) {
	list, err := a.readKeys(f)
	if err != nil {
		return nil, nil, err
	}
	nothing := func() error { return nil }
	_, set := a.lookup(envKeys) // an empty variable is an error: its keys are missing
	switch {
	case f.auth == authNone && (len(list) > 0 || f.keysFile != ""):
		return nil, nil, fmt.Errorf("%w: --auth none cannot be combined with keys, and keys are set", errUsage)
	case f.auth == authNone, f.auth == "" && f.keysFile == "" && !set:
		return nil, nothing, nil
	case f.auth != "" && f.auth != authPreshared:
		return nil, nil, fmt.Errorf("%w: invalid --auth %q: expected none or preshared", errUsage, f.auth)
	}
	if k, err = server.NewKeys(list); errors.Is(err, server.ErrNoKeys) {
		return nil, nil, fmt.Errorf("%w: set one with --auth-keys-file or %s", err, envKeys)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", f.keysSource(set), err)
	}
	return k, func() error {
		list, err := a.readKeys(f)
		if err != nil {
			return err
		}
		return k.Replace(list)
	}, err
}

// keysSource names where the keys come from.
func (f *serveFlags) keysSource(environment bool) string {
	switch {
	case f.keysFile == "":
		return envKeys
	case environment:
		return "--auth-keys-file " + f.keysFile + " and " + envKeys
	}
	return "--auth-keys-file " + f.keysFile
}

// readKeys reads the keys of the file and of the environment. Its errors never
// contain a key.
func (a *app) readKeys(f *serveFlags) (list []server.Key, err error) {
	if f.keysFile != "" {
		if list, err = readKeysFile(f.keysFile); err != nil {
			return nil, fmt.Errorf("--auth-keys-file %s: %w", f.keysFile, err)
		}
	}
	value, _ := a.lookup(envKeys)
	for key := range strings.SplitSeq(value, ",") {
		if key = strings.TrimSpace(key); key != "" {
			list = append(list, server.Key{Secret: server.Secret(key)})
		}
	}
	return list, nil
}

// readKeysFile reads a file of keys.
func readKeysFile(name string) ([]server.Key, error) {
	if err := checkKeysMode(name); err != nil {
		return nil, err
	}
	text, err := readFile(name, keysBytesMax+1)
	if err != nil {
		return nil, err
	}
	if len(text) > keysBytesMax {
		return nil, fmt.Errorf("%w: %s is larger than %d bytes", errUsage, name, keysBytesMax)
	}
	return server.ParseKeys(string(text))
}

// explainExposed adds the flags that resolve [server.ErrExposed].
func explainExposed(err error) error {
	if errors.Is(err, server.ErrExposed) {
		return fmt.Errorf("%w; set keys (--auth-keys-file or %s), or --auth-anonymous (for metrics: --metrics-exposed) to allow this", err, envKeys)
	}
	return err
}
