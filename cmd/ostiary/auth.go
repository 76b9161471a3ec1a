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

// keys reads the preshared keys, nil for --auth none. reload reads them again.
func (a *app) keys(f *serveFlags) (k *server.Keys, reload func() error, err error) {
	list, err := a.readKeys(f)
	if err != nil {
		return nil, nil, err
	}
	nothing := func() error { return nil }
	_, set := a.lookup(envKeys) // a variable without keys is one whose keys got lost
	switch {
	case f.auth == authNone && (len(list) > 0 || f.keysFile != ""):
		return nil, nil, fmt.Errorf("%w: --auth none, but keys are set", errUsage)
	case f.auth == authNone, f.auth == "" && f.keysFile == "" && !set:
		return nil, nothing, nil
	case f.auth != "" && f.auth != authPreshared:
		return nil, nil, fmt.Errorf("%w: --auth %q is neither none nor preshared", errUsage, f.auth)
	}
	if k, err = server.NewKeys(list); errors.Is(err, server.ErrNoKeys) {
		return nil, nil, fmt.Errorf("%w: --auth-keys-file or %s has them", err, envKeys)
	}
	return k, func() error {
		list, err := a.readKeys(f)
		if err != nil {
			return err
		}
		return k.Replace(list)
	}, err
}

// readKeys reads the file and the environment. No error holds what they hold.
func (a *app) readKeys(f *serveFlags) (list []server.Key, err error) {
	if f.keysFile != "" {
		text, err := readFile(f.keysFile, keysBytesMax+1)
		if err != nil {
			return nil, err
		}
		if len(text) > keysBytesMax {
			return nil, fmt.Errorf("%w: %s is larger than %d bytes", errUsage, f.keysFile, keysBytesMax)
		}
		if list, err = server.ParseKeys(string(text)); err != nil {
			return nil, fmt.Errorf("%s: %w", f.keysFile, err)
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

// explainExposed says which flags decide.
func explainExposed(err error) error {
	if errors.Is(err, server.ErrExposed) {
		return fmt.Errorf("%w; set keys (--auth-keys-file or %s), or --auth-anonymous (for metrics: --metrics-exposed) if that is meant", err, envKeys)
	}
	return err
}
