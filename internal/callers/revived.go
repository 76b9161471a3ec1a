package callers

import "slices"

// Revived returns the keys of a backup that count again once it is restored, given the keys
// that there were later: those that were revoked since, and those of which a secret has ended since,
// because the key was rotated.
func Revived(backup, later []*Key) (out []*Key) {
	for _, k := range backup {
		at := slices.IndexFunc(later, func(l *Key) bool { return l.ID == k.ID })
		ended := func(c *Credential) bool {
			return !slices.ContainsFunc(later[at].credentials, func(l *Credential) bool { return l.sum == c.sum })
		}
		if at < 0 || slices.ContainsFunc(k.credentials, ended) {
			out = append(out, k)
		}
	}
	return out
}
