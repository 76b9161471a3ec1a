package callers

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/storage"
)

// Bounds of the keys of makers: of callers with keys that do not administer all stores. A
// key that one of them makes is named after the key that allows it, MAKER~NAME.
const (
	// KeysByMakerMax is the largest number of keys that a key makes, and that the keys which
	// it has made do.
	KeysByMakerMax = 1_000
	// KeysReserved is how many keys of [KeysMax] only those make who administer all stores.
	KeysReserved = 1_000
)

// makerEnd is behind the name of the maker in the name of a key. No other new key has it in
// its name.
const makerEnd = "~"

// Reserved are callers of writes that no authenticated caller makes.
var Reserved = []string{storage.CallerLocal, storage.CallerLibrary, storage.CallerCollector, storage.CallerImport, storage.CallerBootstrap}

const (
	// CallerAnonymous is the caller of a request that was refused without one.
	CallerAnonymous = "anonymous"
	// FingerprintCaller begins the caller of a preshared key without a name:
	// [FingerprintBytes] of its hash, in hexadecimal, follow.
	FingerprintCaller = "key-"
	// FingerprintBytes is how many bytes of the hash are in that caller.
	FingerprintBytes = 4
)

// Avoid sets which names, apart from those of keys, callers have: no new key gets one of
// them.
func (r *Registry) Avoid(names func() []string) { r.avoided.Store(&names) }

// validName fails if no new key may have a name: because it has not the form of one, or is a
// caller of another kind, or looks like one. Callers with a token or a certificate have a
// slash, which no key has.
func validName(name string) error {
	if o := (&storage.Origin{Caller: name}); name == "" || len(name) > storage.CallerBytesMax || o.Invalid() != "" ||
		strings.TrimSpace(name) != name || strings.Contains(name, "/") || strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return invalid("invalid name of a key %.100q: expected 1 to %d bytes of UTF-8, in visible characters, without slashes, with spaces only inside", name, storage.CallerBytesMax)
	}
	parts := strings.Split(name, makerEnd)
	if slices.Contains(parts, "") {
		return invalid("invalid name of a key %.100q: expected a name without tildes, or MAKER~NAME if a key makes it", name)
	}
	of, first := "", strings.ToLower(parts[0])
	fingerprint, preshared := strings.CutPrefix(first, FingerprintCaller)
	switch {
	case slices.Contains(Reserved, first):
		of = "writes without a caller"
	case first == CallerAnonymous:
		of = "requests without a caller"
	case preshared && len(fingerprint) == 2*FingerprintBytes && isHex(fingerprint):
		of = "preshared keys"
	case (len(first) == 32 || len(first) == 64) && isHex(first):
		of = "users of OpenStack Identity"
	default:
		return nil
	}
	return invalid("invalid name of a key %.100q: the log has such names for %s", name, of)
}

// isHex reports whether a text has hexadecimal digits only.
func isHex(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil
}

// mayName fails if the caller of ctx may not give k, which it may make, its name, and if it
// makes no more keys. Who administers all stores, and so sees each key, gives it any name
// that is free. All others name it after their key that covers it, so that no answer to them
// depends on a name that they do not see. live has the keys that have not expired.
func (r *Registry) mayName(ctx context.Context, v *value, k *Key, live []*Key) error {
	most := KeysMax
	if all, own := callersOf(ctx); own || administersAll(ctx, v) {
		if strings.Contains(k.Name, makerEnd) {
			return invalid("invalid name of a key %.100q: a tilde is only in the names of keys that a key makes which does not administer all stores", k.Name)
		}
	} else {
		at := strings.LastIndex(k.Name, makerEnd)
		named, form := false, ""
		for _, c := range all {
			if v.bySum[c.sum] != nil && !c.Ended() && c.key.Covers(k) {
				form = c.key.Name + makerEnd + "NAME"
				named = named || at >= 0 && k.Name[:at] == c.key.Name
			}
		}
		if !named {
			return fmt.Errorf("%w: expected a name of the form %s: only a key with admin on all stores names a key without its own name in front", authz.ErrForbidden, form)
		}
		first, _, _ := strings.Cut(k.Name, makerEnd)
		made := 0
		for _, other := range live {
			if strings.HasPrefix(other.Name, first+makerEnd) {
				made++
			}
		}
		if made >= KeysByMakerMax {
			return fmt.Errorf("keys that the key %q and those made by it have made: %w", first, &authz.BoundError{Name: "KeysByMakerMax", Max: KeysByMakerMax, Got: int64(made) + 1})
		}
		most -= KeysReserved
	}
	if len(live) >= most {
		return fmt.Errorf("keys, of which the last %d are for callers who administer all stores: %w", KeysReserved, &authz.BoundError{Name: "KeysMax", Max: int64(most), Got: int64(len(live)) + 1})
	}
	if names := r.avoided.Load(); names != nil && slices.Contains((*names)(), k.Name) {
		return invalid("invalid name of a key %.100q: a preshared key or a user with a password has it", k.Name)
	}
	for _, other := range live {
		if other.Name == k.Name {
			return fmt.Errorf("%w: %q", ErrKeyExists, k.Name)
		}
	}
	return nil
}
