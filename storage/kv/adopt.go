package kv

import (
	"context"
	"fmt"
	"iter"

	"github.com/ostiary/ostiary/storage"
)

// Adopt makes the data of a driver a copy of a shared log, with a record of the copy and
// a mark of a number, see [Transaction.SetMark]. The stores stay as they are. The data is
// a copy when Adopt returns, and the disk has that. It fails with [storage.ErrFormat] if
// the data is a copy already. No call may write while it runs. [Copy.Release] is its
// opposite.
func (d *Driver) Adopt(ctx context.Context, record []byte, number uint64, mark []byte) (*Copy, error) {
	done, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if d.copy.Load() {
		return nil, fmt.Errorf("%w: the data is a copy of a shared log already", storage.ErrFormat)
	}
	t := &Transaction{d: d, b: d.store.Batch()}
	defer t.Close()
	if err := t.SetMark(number, mark); err != nil {
		return nil, err
	}
	if err := t.SetRecord(record); err != nil {
		return nil, err
	}
	return &Copy{d}, d.convert(t.b, copyMagic)
}

// Release makes the copy the data of a driver of its own, which has the same stores and
// does not know the log any more. It fails with [storage.ErrSecretReplaced] if the copy lacks
// the ciphertext of a secret. The copy must not be used afterwards.
func (c *Copy) Release(ctx context.Context) error {
	d := c.d
	done, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	for m, err := range c.MissingSecrets(ctx) {
		if err != nil {
			return err
		}
		return wrap("secret of", m.Store, fmt.Errorf("%w: the copy lacks the ciphertext of key %q of kind %q", storage.ErrSecretReplaced, m.Secret.Key, m.Secret.Kind))
	}
	b := d.store.Batch()
	defer b.Close()
	if err := b.DeleteRange(d.copyKey(), successor(d.copyKey())); err != nil {
		return err
	}
	return d.convert(b, formatMagic)
}

// convert commits a batch that also makes the data a copy, or no copy any more.
func (d *Driver) convert(b Batch, magic string) error {
	if err := d.put(b, d.formatKey(), append([]byte(magic), FormatVersion)); err != nil {
		return err
	}
	if err := b.Commit(); err != nil {
		return err
	}
	d.copy.Store(magic == copyMagic)
	if s, ok := d.store.(Syncer); ok {
		return s.Sync()
	}
	return nil
}

// Secrets yields the secrets of all stores, with their ciphertexts.
func (d *Driver) Secrets(ctx context.Context) iter.Seq2[CopiedSecret, error] {
	return (&Copy{d}).Secrets(ctx)
}
