package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"go.yaml.in/yaml/v3"

	"github.com/ostiary/ostiary/cmd/internal/cli"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/access"
	"github.com/ostiary/ostiary/internal/identity/settings"
)

// policyBytesMax bounds a policy file and a file of permissions of Identity.
const policyBytesMax = 4 << 20

// readPolicyFile reads the file that a flag names. It fails if the file has more
// than policyBytesMax bytes.
func readPolicyFile(flag, name string) ([]byte, error) {
	text, err := cli.ReadFile(name, policyBytesMax+1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if len(text) > policyBytesMax {
		return nil, fmt.Errorf("%s: %s: the file is too large: at most %d bytes are allowed", flag, name, policyBytesMax)
	}
	return text, nil
}

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
	text, err := readPolicyFile("--keystone-policy", f.name)
	if err != nil {
		return err
	}
	rules, err := access.ParseFile(text)
	if err != nil {
		return fmt.Errorf("--keystone-policy: %s: %w", f.name, err)
	}
	policy, warnings, err := access.Default().Override(rules)
	if err != nil {
		return fmt.Errorf("--keystone-policy: %s: %w", f.name, err)
	}
	if len(rules) == 0 {
		f.log.Warn("policy file of Identity", "file", f.name, "warning", "the file has no rules, so the default rules apply")
	}
	for _, w := range warnings {
		f.log.Warn("policy file of Identity", "file", f.name, "warning", w)
	}
	f.current.Store(policy)
	return nil
}

// readPermissions reads the file of permissions; nil without one.
func (f *loginFlags) readPermissions() (settings.Permissions, error) {
	if f.permissions == "" {
		return nil, nil
	}
	text, err := readPolicyFile("--keystone-permissions", f.permissions)
	if err != nil {
		return nil, err
	}
	p := settings.Permissions{}
	if err := yaml.Unmarshal(text, &p); err != nil {
		if mistakes, ok := errors.AsType[*yaml.TypeError](err); ok { // its texts name types of Go
			line, _, _ := strings.Cut(mistakes.Errors[0], ":")
			return nil, fmt.Errorf("--keystone-permissions: %s: %s: expected a list of roles, for example compute_create: [member]", f.permissions, line)
		}
		return nil, fmt.Errorf("--keystone-permissions: %s: %w", f.permissions, err)
	}
	if err := identity.ValidatePermissions(p); err != nil {
		return nil, fmt.Errorf("--keystone-permissions: %s: %w", f.permissions, err)
	}
	return p, nil
}
