package ostiary

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ostiary/ostiary/storage"
)

// Document is a record of a store with a kind and a key that is unique in its
// kind. Kinds that begin with "schema" are the engine's own.
type Document struct {
	Kind string
	Key  string
	// Secondary are further keys under which DocumentsBy finds it; not for
	// secrets, whose keys would show what they are about.
	Secondary []string
	// Body is the document, or a secret's plain text, which is encrypted before
	// it reaches the driver.
	Body []byte
}

// DocumentKey names a document or secret.
type DocumentKey struct{ Kind, Key string }

// String never shows the body, which may be a secret.
func (d Document) String() string { return d.Kind + "/" + d.Key + " [body not shown]" }

// Document returns the newest document of a kind and key, or ErrNoDocument.
func (s *Store) Document(ctx context.Context, k DocumentKey) (Document, error) {
	if err := s.open(); err != nil {
		return Document{}, failed("read document", s.id, err)
	}
	if err := validDocumentKey(k.Kind, k.Key); err != nil {
		return Document{}, failed("read document", s.id, err)
	}
	d, err := s.engine.driver.Document(ctx, s.id, k.Kind, k.Key)
	return Document{d.Kind, d.Key, d.Secondary, d.Body}, failed("read document", s.id, err)
}

// DocumentsBy returns the newest documents of a kind that have a secondary
// key, in order of key, at most Bounds.PageItems of them.
func (s *Store) DocumentsBy(ctx context.Context, kind, secondary string) ([]Document, error) {
	const op = "read documents"
	if err := s.open(); err != nil {
		return nil, failed(op, s.id, err)
	}
	if err := validDocumentKey(kind, "key"); err != nil {
		return nil, failed(op, s.id, err)
	}
	var out []Document
	for d, err := range s.engine.driver.DocumentsBy(ctx, s.id, kind, secondary) {
		if err != nil {
			return nil, failed(op, s.id, err)
		}
		if err := over("PageItems", len(out)+1, s.engine.opts.Bounds.PageItems); err != nil {
			return nil, failed(op, s.id, err)
		}
		out = append(out, Document{d.Kind, d.Key, d.Secondary, d.Body})
	}
	return out, nil
}

// Secret returns the newest secret of a kind and key in plain text, or
// ErrNoDocument. With another key than it was put with it is ErrNoSecretKey.
func (s *Store) Secret(ctx context.Context, k DocumentKey) (Document, error) {
	const op = "read secret"
	if err := s.open(); err != nil {
		return Document{}, failed(op, s.id, err)
	}
	if s.engine.secret == nil {
		return Document{}, failed(op, s.id, ErrNoSecretKey)
	}
	d, err := s.engine.driver.Secret(ctx, s.id, k.Kind, k.Key)
	if err != nil {
		return Document{}, failed(op, s.id, err)
	}
	n := s.engine.secret.NonceSize()
	if len(d.Body) < 1+n || d.Body[0] != secretVersion {
		return Document{}, failed(op, s.id, fmt.Errorf("%w: secret %s/%s", ErrFormat, k.Kind, k.Key))
	}
	plain, err := s.engine.secret.Open(nil, d.Body[1:1+n], d.Body[1+n:], s.secretLabel(k.Kind, k.Key))
	if err != nil { // the library's text says nothing more
		return Document{}, failed(op, s.id, fmt.Errorf("%w: secret %s/%s", ErrNoSecretKey, k.Kind, k.Key))
	}
	return Document{Kind: k.Kind, Key: k.Key, Body: plain}, nil
}

// secretVersion is a ciphertext's first byte: AES-256-GCM behind its nonce.
const secretVersion = 1

func newSecretCipher(key [32]byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// secretLabel binds a ciphertext to where it stands, so that none can be put
// in another's place.
func (s *Store) secretLabel(kind, key string) []byte {
	label := append([]byte(nil), s.incarnation[:]...)
	label = binary.AppendUvarint(label, uint64(len(kind)))
	label = append(label, kind...)
	label = append(label, key...)
	sum := sha256.Sum256(label)
	return sum[:]
}

// sealSecrets encrypts a write's secrets once, whatever happens to it then.
func (s *Store) sealSecrets(docs []Document) ([]storage.Document, error) {
	if len(docs) == 0 {
		return nil, nil
	}
	if s.engine.secret == nil {
		return nil, ErrNoSecretKey
	}
	out := make([]storage.Document, len(docs))
	for i, d := range docs {
		nonce := make([]byte, s.engine.secret.NonceSize())
		rand.Read(nonce)
		body := append([]byte{secretVersion}, nonce...)
		body = s.engine.secret.Seal(body, nonce, d.Body, s.secretLabel(d.Kind, d.Key))
		out[i] = storage.Document{Kind: d.Kind, Key: d.Key, Body: body}
	}
	return out, nil
}

func validDocumentKey(kind, key string) error {
	if kind == "" || key == "" {
		return fmt.Errorf("%w: a document needs a kind and a key", ErrInvalidRequest)
	}
	if len(kind) >= len(schemaKind) && kind[:len(schemaKind)] == schemaKind {
		return fmt.Errorf("%w: documents of kind %q are the engine's", ErrInvalidRequest, kind)
	}
	return over("DocumentKeyBytesMax", max(len(kind), len(key)), DocumentKeyBytesMax)
}

func (w *WriteRequest) validDocuments(bytesMax int) error {
	for _, list := range [...][]Document{w.Documents, w.Secrets} {
		for _, d := range list {
			if err := validDocumentKey(d.Kind, d.Key); err != nil {
				return err
			}
			if err := over("DocumentBytes", len(d.Body), bytesMax); err != nil {
				return err
			}
			if err := over("SecondaryKeysMax", len(d.Secondary), SecondaryKeysMax); err != nil {
				return err
			}
			for _, k := range d.Secondary {
				if err := over("DocumentKeyBytesMax", len(k), DocumentKeyBytesMax); err != nil {
					return err
				}
			}
		}
	}
	for _, d := range w.Secrets {
		if len(d.Secondary) > 0 {
			return fmt.Errorf("%w: a secret has no secondary keys", ErrInvalidRequest)
		}
	}
	for _, list := range [...][]DocumentKey{w.RemoveDocuments, w.RemoveSecrets} {
		for _, k := range list {
			if err := validDocumentKey(k.Kind, k.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

// documentsOnce refuses a document or secret that comes twice.
func (w *WriteRequest) documentsOnce() error {
	check := func(put []Document, remove []DocumentKey) error {
		if len(put)+len(remove) < 2 {
			return nil
		}
		keys := slices.Clone(remove)
		for _, d := range put {
			keys = append(keys, DocumentKey{d.Kind, d.Key})
		}
		seen := make(map[DocumentKey]struct{}, len(keys))
		for _, k := range keys {
			if _, ok := seen[k]; ok {
				return fmt.Errorf("%w: document %s/%s comes twice", ErrInvalidRequest, k.Kind, k.Key)
			}
			seen[k] = struct{}{}
		}
		return nil
	}
	return errors.Join(check(w.Documents, w.RemoveDocuments), check(w.Secrets, w.RemoveSecrets))
}

func (w *WriteRequest) documentChanges(out []storage.Change, secrets []storage.Document) []storage.Change {
	for _, k := range w.RemoveDocuments {
		out = append(out, storage.Change{Kind: storage.DocumentRemove, Document: storage.Document{Kind: k.Kind, Key: k.Key}})
	}
	for _, d := range w.Documents {
		out = append(out, storage.Change{Kind: storage.DocumentPut,
			Document: storage.Document{Kind: d.Kind, Key: d.Key, Secondary: d.Secondary, Body: bytes.Clone(d.Body)}})
	}
	for _, k := range w.RemoveSecrets {
		out = append(out, storage.Change{Kind: storage.SecretRemove, Document: storage.Document{Kind: k.Kind, Key: k.Key}})
	}
	for _, d := range secrets {
		out = append(out, storage.Change{Kind: storage.SecretPut, Document: d})
	}
	return out
}

// open says why the store cannot be asked, if it cannot.
func (s *Store) open() error {
	if s.engine.closed.Load() {
		return ErrClosed
	}
	return s.state()
}
