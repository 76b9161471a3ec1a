package certificate

import (
	"crypto/x509"
	"fmt"
	"strings"
)

// The URI with which a certificate names its node, urn:ostiary:node:ID.
const (
	nodeScheme = "urn"
	nodePrefix = "ostiary:node:"
)

// NodeOf returns the id of the node that a certificate names; "" if it names none, as
// those of an operator's own authority and those of older programs. It fails with
// ErrRefused if the certificate names several nodes.
func NodeOf(c *x509.Certificate) (id string, err error) {
	for _, u := range c.URIs {
		named, ok := strings.CutPrefix(u.Opaque, nodePrefix)
		if !ok || u.Scheme != nodeScheme {
			continue
		}
		if id != "" || named == "" {
			return "", fmt.Errorf("%w: %s does not name one node", ErrRefused, describe(c))
		}
		id = named
	}
	return id, nil
}

// Names reports whether a certificate names a node, or wrongly several.
func Names(c *x509.Certificate) bool {
	id, err := NodeOf(c)
	return id != "" || err != nil
}

// CheckNode fails with ErrRefused unless a certificate is that of the node with an id,
// which others reach at host: it names that id, or it names none and is for the host. An
// empty host is that of a node whose address is not known.
func CheckNode(c *x509.Certificate, id, host string) error {
	named, err := NodeOf(c)
	switch {
	case err != nil:
		return err
	case named == id && id != "":
		return nil
	case named != "":
		return fmt.Errorf("%w: %s is that of node %s", ErrRefused, describe(c), named)
	case host == "":
		return fmt.Errorf("%w: %s names no node, and the host of the node is not known", ErrRefused, describe(c))
	}
	if err := Covers(c, host); err != nil {
		return fmt.Errorf("%w, the registered host of the node", err)
	}
	return nil
}
