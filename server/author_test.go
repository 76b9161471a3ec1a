package server

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/callers"
	"github.com/ostiary/ostiary/server/internal/conn"
	"github.com/ostiary/ostiary/storage"
)

// originOf returns what the gate of the reason makes of a key and reasons.
func originOf(key *hashedKey, reasons []string) (storage.Origin, *door.Refusal) {
	p := &passage{header: http.Header{headerReason: reasons}}
	p.ctx.key = key
	why := p.reason()
	return p.ctx.journal.Origin(), why
}

// A key with a name is a caller with that name. Another key is a caller with a
// fingerprint, which has no part of the key.
func TestCallerOfAKey(t *testing.T) {
	t.Parallel()
	const secret = "f00dcafe-this-is-the-secret"
	keys, err := NewKeys([]Key{{Name: "ci", Secret: "a-key"}, {Secret: secret}, {Name: "healthcheck", Secret: "zb!", Basic: true}})
	if err != nil {
		t.Fatal(err)
	}
	callers := map[string]string{}
	for i, key := range *keys.list.Load() {
		o, why := originOf(key, nil)
		if why != nil {
			t.Fatal(why)
		}
		callers[o.Caller] = o.Reason
		if i == 1 && (!strings.HasPrefix(o.Caller, "key-") || len(o.Caller) != 12 || strings.Contains(secret, o.Caller[4:])) {
			t.Errorf("a key without a name is the caller %q, want key- and 8 digits of its hash", o.Caller)
		}
	}
	if _, ok := callers["ci"]; !ok || len(callers) != 3 {
		t.Errorf("the callers are %v", callers)
	}
	if _, ok := callers["healthcheck"]; !ok {
		t.Errorf("the callers are %v, want the name of the user", callers)
	}
	if o, _ := originOf(nil, nil); o.Caller != storage.CallerLocal {
		t.Errorf("without keys the caller is %q, want local", o.Caller)
	}
}

// A name that the log cannot have, or that it has for writes without a caller, is
// no name of a key.
func TestNamesOfKeys(t *testing.T) {
	t.Parallel()
	for name, allowed := range map[string]bool{
		"ci": true, "": true, "Böb": true, strings.Repeat("x", storage.CallerBytesMax): true,
		strings.Repeat("x", storage.CallerBytesMax+1): false, "a\x01": false, "a\xff": false,
		"local": false, "library": false, "collector": false, "import": false, "bootstrap": false,
	} {
		if _, err := NewKeys([]Key{{Name: name, Secret: "secret"}}); (err == nil) != allowed {
			t.Errorf("name %q: error %v", name, err)
		}
	}
	if _, err := NewKeys([]Key{{Name: "local", Secret: "secret", Basic: true}}); err == nil {
		t.Error("a user has the name of writes without a caller")
	}
}

// A reason comes once and is a text that the log can have.
func TestReasons(t *testing.T) {
	t.Parallel()
	for text, c := range map[string]struct {
		reasons []string
		refused bool
	}{
		"none":          {nil, false},
		"a text":        {[]string{"ticket 7: für Böb"}, false},
		"an empty text": {[]string{""}, false},
		"at the bound":  {[]string{strings.Repeat("x", storage.ReasonBytesMax)}, false},
		"too long":      {[]string{strings.Repeat("x", storage.ReasonBytesMax+1)}, true},
		"two":           {[]string{"a", "b"}, true},
		"a tab":         {[]string{"a\tb"}, true},
		"Latin-1":       {[]string{"B\xf6b"}, true},
	} {
		o, why := originOf(nil, c.reasons)
		if refused := why != nil && why.Reason == door.BadReason; refused != c.refused {
			t.Errorf("%s: refusal %v", text, why)
		}
		if !c.refused && len(c.reasons) == 1 && o.Reason != c.reasons[0] {
			t.Errorf("%s: the reason is %q", text, o.Reason)
		}
	}
}

// The access log names a caller as the log of a store does. It has another word only
// for a request of which no entry can come.
func TestCallersInTheAccessLog(t *testing.T) {
	t.Parallel()
	keys, err := NewKeys([]Key{{Name: "ci", Secret: "a-key"}})
	if err != nil {
		t.Fatal(err)
	}
	key := (*keys.list.Load())[0]
	plain, identity := &door.Door{}, &door.Door{OwnAuthentication: true}
	for _, c := range []struct {
		what   string
		door   *door.Door
		key    *hashedKey
		author string
		want   string
	}{
		{"served without keys", plain, nil, storage.CallerLocal, "local"},
		{"served with a key", plain, key, "ci", "ci"},
		{"refused with a key, before it has an author", plain, key, "", "ci"},
		{"refused without a key", plain, nil, "", "anonymous"},
		{"a user of Identity", identity, nil, "1234", "1234"},
		{"Identity without a user", identity, nil, storage.CallerLocal, "anonymous"},
	} {
		author := &authz.Author{Name: c.author}
		if got := callerText(c.door, c.key, author); got != c.want {
			t.Errorf("%s: the caller is %q, want %q", c.what, got, c.want)
		}
	}
}

// TestCallerWithTheNameAnonymous has a key whose name is the text for callers without one.
// The audit log nevertheless has it as a caller, so that its refusals are not counted with
// those of strangers.
func TestCallerWithTheNameAnonymous(t *testing.T) {
	t.Parallel()
	keys, err := NewKeys([]Key{{Name: callers.CallerAnonymous, Secret: "a-key"}})
	if err != nil {
		t.Fatal(err)
	}
	if c := callerOf(&door.Door{}, keys.preshared()[0], &authz.Author{}); c.ID != callers.CallerAnonymous || c.Method != methodPreshared {
		t.Errorf("the caller with a key is %+v", c)
	}
	if c := callerOf(&door.Door{}, nil, &authz.Author{}); c.ID != "" {
		t.Errorf("the caller without a key is %+v", c)
	}
}

// A key that has ended since it was looked up trusts no connection.
func TestTrustOfAnEndedKey(t *testing.T) {
	t.Parallel()
	live, end := context.WithCancel(t.Context())
	all := conn.NewConnections(conn.Bounds{Max: 10, PerAddress: 10})
	raw, other := net.Pipe()
	defer other.Close()
	c := conn.New(raw, all, true)
	all.Add(c)
	p := &passage{conn: c}
	p.ctx.key = &hashedKey{removed: live}
	if why := p.trust(); why != nil || !c.Trusted.Load() {
		t.Errorf("a key that is accepted: %v", why)
	}
	end()
	if why := p.trust(); why == nil || why.Reason != door.BadCredentials || c.Trusted.Load() {
		t.Errorf("a key that has ended: %v", why)
	}
}
