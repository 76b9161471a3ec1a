package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/ostiary/ostiary/internal/cluster/certificate"
)

// The files of the certificates in the folder of a node.
const (
	authorityName    = "ca.crt"
	authorityKeyName = "ca.key"
	ownName          = "node.crt"
	ownKeyName       = "node.key"
)

// The validity of certificates that a node makes, and how long before its end the node
// makes the next one.
const (
	authorityYears = 10
	ownDays        = 397
	renewBefore    = 60 * 24 * time.Hour
)

// ownFiles returns the certificates of a node whose cluster has its own authority, and
// makes those that are missing, or are not for the node with an id and the host of its
// address. The authority is made only for the first node of a cluster.
func ownFiles(folder, id, address string, first bool) (*certificate.Files, error) {
	pair, err := readPair(folder, authorityName, authorityKeyName)
	if errors.Is(err, fs.ErrNotExist) && first {
		now := time.Now()
		if _, pair, err = certificate.NewAuthority(now, now.AddDate(authorityYears, 0, 0)); err == nil {
			err = writePair(folder, authorityName, authorityKeyName, pair)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("authority of the cluster: %w", err)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return nil, fmt.Errorf("invalid address of this node %q: expected HOST:PORT, for example node1.example:7443", address)
	}
	authority, err := certificate.ReadAuthority(pair)
	if err != nil {
		return nil, fmt.Errorf("authority of the cluster: %w", err)
	}
	open := func() (*certificate.Files, error) {
		return certificate.Open(filepath.Join(folder, ownName), filepath.Join(folder, ownKeyName), filepath.Join(folder, authorityName), nil)
	}
	if f, err := open(); err == nil && f.Node() == id && f.Fingerprint() == authority.Fingerprint() && f.Covers(host) == nil && time.Until(f.Expires()) > renewBefore {
		return f, nil
	}
	if err := issue(folder, authority, id, host); err != nil {
		return nil, err
	}
	return open()
}

// issue makes the certificate of the node with an id.
func issue(folder string, authority *certificate.Authority, id, host string) error {
	now := time.Now()
	own, err := authority.IssueNode(id, []string{host}, now, now.AddDate(0, 0, ownDays))
	if err != nil {
		return err
	}
	return writePair(folder, ownName, ownKeyName, own)
}

// renew makes another certificate for this node before its own expires.
func (q *Quorum) renew() error {
	q.authority.Lock()
	defer q.authority.Unlock()
	if time.Until(q.files.Expires()) > renewBefore {
		return nil
	}
	pair, err := readPair(q.opts.Folder, authorityName, authorityKeyName)
	if err != nil {
		return err
	}
	authority, err := certificate.ReadAuthority(pair)
	if err != nil {
		return err
	}
	return q.issue(authority)
}

// issue makes the certificate of this node, and uses it.
func (q *Quorum) issue(authority *certificate.Authority) error {
	host, _, _ := net.SplitHostPort(q.opts.Address) // it was checked
	if err := issue(q.opts.Folder, authority, q.state.ID.String(), host); err != nil {
		return err
	}
	return q.transport.Reload()
}

// replaceAuthority replaces the authorities that a folder trusts, and the key of the one that
// signs, if next has one. It returns the one that signs. The folder still trusts those of
// before, so that the key belongs to one of them wherever this ends.
func replaceAuthority(folder string, next certificate.Pair) (*certificate.Authority, error) {
	have, err := readPair(folder, authorityName, authorityKeyName)
	if err != nil {
		return nil, err
	}
	if len(next.Key) == 0 {
		next.Key = have.Key
	}
	authority, err := certificate.ReadAuthority(next)
	if err != nil {
		return nil, err
	}
	both, err := certificate.Join(next.Certificate, have.Certificate)
	if err == nil {
		err = certificate.Replace(filepath.Join(folder, authorityName), both, 0o644)
	}
	if err == nil {
		err = certificate.Replace(filepath.Join(folder, authorityKeyName), next.Key, 0o600)
	}
	return authority, err
}

func readPair(folder, name, key string) (p certificate.Pair, err error) {
	if p.Certificate, err = os.ReadFile(filepath.Join(folder, name)); err != nil {
		return p, err
	}
	p.Key, err = os.ReadFile(filepath.Join(folder, key))
	return p, err
}

func writePair(folder, name, key string, p certificate.Pair) error {
	return p.Write(filepath.Join(folder, name), filepath.Join(folder, key))
}
