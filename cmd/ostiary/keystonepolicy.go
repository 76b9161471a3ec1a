package main

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/ostiary/ostiary/identity/access"
)

// policyBytesMax bounds a policy file of Identity.
const policyBytesMax = 4 << 20

// policyFile is the rules of a policy file over the default ones.
type policyFile struct {
	name    string // "" for none
	log     *slog.Logger
	current atomic.Pointer[access.Policy]
}

// reload reads the file again. After an error, the old rules stay in use.
func (f *policyFile) reload() error {
	if f.name == "" {
		f.current.Store(access.Default())
		return nil
	}
	text, err := readFile(f.name, policyBytesMax+1)
	if err != nil {
		return fmt.Errorf("--keystone-policy: %w", err)
	}
	if len(text) > policyBytesMax {
		return fmt.Errorf("--keystone-policy: %s: the file is too large: at most %d bytes are allowed", f.name, policyBytesMax)
	}
	rules, err := access.ParseFile(text)
	if err != nil {
		return fmt.Errorf("--keystone-policy: %s: %w", f.name, err)
	}
	policy, warnings, err := access.Default().Override(rules)
	if err != nil {
		return fmt.Errorf("--keystone-policy: %s: %w", f.name, err)
	}
	for _, w := range warnings {
		f.log.Warn("policy file of Identity", "file", f.name, "warning", w)
	}
	f.current.Store(policy)
	return nil
}
