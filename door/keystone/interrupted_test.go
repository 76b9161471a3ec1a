package keystone_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ostiary/ostiary/internal/workshop/failing"
	"github.com/ostiary/ostiary/storage"
)

// TestInterrupted runs other tests again. Each request is sent again and again, each
// time with another interruption before it changes anything: another operation of the
// storage fails, or the context of the request ends at another moment. The last time
// there is none, and the other test checks the response. Tests in which an attempt
// that fails counts, for example with a nonce, cannot be run in this way.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]func(*testing.T){
		"tours": TestTours, "federated logins": TestFederatedLogin,
		"projects of federated users": TestFederatedProjects, "federated groups": TestFederatedGroupsChange, "records of federation": TestFederationRecords,
		"consumers": TestConsumers, "OAuth 2": TestOAuth2, "trusts": TestTrusts, "two levels of limits": TestTwoLevelLimits, "EC2": TestEC2Credentials,
		"own passwords": TestOwnPassword, "configuration": TestDomainConfig, "filtered catalog": TestFilteredCatalog, "policies": TestPolicies,
		"tokens of trusts": TestTokensOfDelegations, "lists of a domain": TestDomainLists, "service providers": TestServiceProviders, "projects": TestProjectTree,
	} {
		for _, how := range []string{storageFails, contextEnds} {
			t.Run(name+"/"+how, test)
		}
	}
}

// The names of the tests in which requests are interrupted.
const storageFails, contextEnds = "storage fails", "context ends"

// interrupted interrupts requests. It is their context. Before data is changed, an
// operation of the storage fails, or Err returns Canceled from some call on.
type interrupted struct {
	context.Context
	t       testing.TB
	driver  *failing.Driver
	storage bool         // operations of the storage fail; otherwise the context ends
	last    atomic.Int64 // call of Err from which the context has ended; 0 means never
	calls   atomic.Int64 // calls of Err
	logged  atomic.Int64 // errors that the door reported for the log
}

// newInterrupted returns the interruptions of a test in TestInterrupted, over a driver;
// nil for other tests.
func newInterrupted(t testing.TB, d storage.Driver) *interrupted {
	in := func(how string) bool { return strings.Contains(t.Name(), strings.ReplaceAll(how, " ", "_")) }
	if !in(storageFails) && !in(contextEnds) {
		return nil
	}
	return &interrupted{Context: t.Context(), t: t, driver: failing.New(d), storage: in(storageFails)}
}

// Err implements [context.Context].
func (x *interrupted) Err() error {
	if last := x.last.Load(); last > 0 && !x.driver.Wrote() && x.calls.Add(1) >= last {
		return context.Canceled
	}
	return x.Context.Err()
}

// do sends a request with all interruptions, and returns the response to the request
// without one. An interrupted request must be answered with an error of the server, or
// as without an interruption if the context ended too late.
func (x *interrupted) do(what string, send func() answer) answer {
	x.t.Helper()
	early := map[string]answer{}
	for n := 1; ; n += 1 + n/8 { // later moments are a sample
		a, hit, brokeOff := x.try(send, n)
		if hit == "" {
			for hit, e := range early {
				if e.status != a.status || withoutTimes(e.text) != withoutTimes(a.text) {
					x.t.Errorf("%s, interrupted at %s: %d %s, want an error of the server or %d %s", what, hit, e.status, e.text, a.status, a.text)
				}
			}
			return a
		}
		status := map[bool]int{true: http.StatusInternalServerError, false: http.StatusServiceUnavailable}[x.storage]
		if logged := x.logged.Swap(0); !brokeOff && a.status == http.StatusInternalServerError && logged == 0 {
			x.t.Errorf("%s, interrupted at %s: the error of the 500 is not in the log", what, hit)
		}
		switch {
		case brokeOff, a.status == status && !strings.Contains(a.text, failing.ErrInjected.Error()):
		case x.storage && a.status < http.StatusMultipleChoices:
			x.t.Errorf("%s: %d %s, but %s failed", what, a.status, a.text, hit)
		default:
			early[hit] = a
		}
	}
}

var number = regexp.MustCompile(`[0-9]+`)

// withoutTimes returns a text without what differs when a request is repeated.
func withoutTimes(text string) string { return number.ReplaceAllString(withoutRandom(text), "0") }

// try sends a request and interrupts it at the n-th moment. hit is what was
// interrupted, or "". brokeOff is true if the response broke off.
func (x *interrupted) try(send func() answer, n int) (a answer, hit string, brokeOff bool) {
	fault := failing.Fault{Unchanged: true}
	if x.storage {
		fault.Number = n
	} else {
		x.last.Store(int64(n))
	}
	x.calls.Store(0)
	x.driver.Break(fault)
	defer func() {
		if e := recover(); e != nil {
			if e != any(http.ErrAbortHandler) {
				panic(e)
			}
			brokeOff = true
		}
		x.last.Store(0)
		o, _ := x.driver.Mend()
		hit = string(o)
		if !x.storage && x.calls.Load() >= int64(n) {
			hit = fmt.Sprintf("check %d of the context", n)
		}
	}()
	return send(), "", false
}
