package identity

import (
	"encoding/json"
	"slices"
)

// Resource options that the service itself obeys. They are members of the
// record's member "options".
const (
	optionImmutable    = "immutable"                 // true forbids changes of the record
	optionLockPassword = "lock_password"             // true forbids users to change their own password
	optionFactors      = "multi_factor_auth_enabled" // false turns optionFactorRules off
	optionFactorRules  = "multi_factor_auth_rules"   // list of lists of methods; a login needs all methods of one list
)

// options returns the resource options of the record.
func (r *Record) options() (m Members) {
	if value, ok := r.Members.Get("options"); ok {
		m, _ = ParseMembers(value) // options that are not an object are none
	}
	return m
}

// Immutable returns whether the option "immutable" of the record is true.
func (r *Record) Immutable() bool { return r.options().Bool(optionImmutable, false) }

// enoughMethods returns whether a login with the methods is enough for a user. A
// user with rules needs all methods of one rule. A rule without methods, or with one
// that the service does not offer, is never satisfied, and rules that cannot be read
// refuse every login.
func enoughMethods(user *Record, methods []string) bool {
	rules, err := factorRules(user)
	if err != nil {
		return false
	}
	satisfied := func(rule []string) bool {
		return len(rule) > 0 && !slices.ContainsFunc(rule, func(m string) bool { return !slices.Contains(methods, m) })
	}
	return len(rules) == 0 || slices.ContainsFunc(rules, satisfied)
}

// factorRules returns the rules of a user for several factors; none if they are
// switched off. It fails if they cannot be read.
func factorRules(user *Record) (rules [][]string, err error) {
	options := user.options()
	if text, given := options.Get(optionFactorRules); given && options.Bool(optionFactors, true) {
		err = json.Unmarshal(text, &rules)
	}
	return rules, err
}
