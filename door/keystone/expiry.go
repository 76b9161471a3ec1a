package keystone

import (
	"strings"
	"time"

	"github.com/ostiary/ostiary/internal/identity"
)

// passwordExpiry returns the time at which the password of a user expires, or "".
func passwordExpiry(r *identity.Record) string {
	if r.Password == nil || r.Password.Expires == nil {
		return ""
	}
	return r.Password.Expires.UTC().Format(expiryForm)
}

// timeComparators are the words before the time in password_expires_at=lt:TIME.
// They get the result of comparing the password's time with it.
var timeComparators = map[string]func(order int) bool{
	"lt":  func(order int) bool { return order < 0 },
	"lte": func(order int) bool { return order <= 0 },
	"gt":  func(order int) bool { return order > 0 },
	"gte": func(order int) bool { return order >= 0 },
	"eq":  func(order int) bool { return order == 0 },
	"neq": func(order int) bool { return order != 0 },
}

// expiryFilter returns the function that selects users by the time at which their
// password expires. Without a comparator it selects exactly that time. Users whose
// password does not expire are never selected.
func expiryFilter(want string) (func(*identity.Record) bool, error) {
	comparator, text, found := strings.Cut(want, ":")
	compare := timeComparators[comparator]
	if !found || compare == nil {
		compare, text = timeComparators["eq"], want
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, invalidField("password_expires_at", want, "expected lt, lte, gt, gte, eq or neq, a colon and a time in RFC 3339, for example lt:2026-01-02T15:04:05Z")
	}
	return func(r *identity.Record) bool {
		return r.Password != nil && r.Password.Expires != nil && compare(r.Password.Expires.Compare(at))
	}, nil
}
