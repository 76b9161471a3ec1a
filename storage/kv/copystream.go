package kv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"

	"github.com/ostiary/ostiary/storage"
)

// streamMagic is the beginning of the stream of a copy. The version of the stream,
// which is the layout of its rows, follows.
const streamMagic = "ostiary copy "

// Export calls put with the record of the copy and a stream of all rows, both as of
// one moment, in parts of partBytes bytes or fewer. Secrets are missing in the stream;
// it has their digests. put may read the parts once.
func (c *Copy) Export(ctx context.Context, partBytes int, put func(record []byte, parts iter.Seq2[[]byte, error]) error) error {
	return c.d.Export(ctx, partBytes, put)
}

// Export is [Copy.Export] for any data of a driver; the record is nil unless the data is
// a copy. Data with the same stores has the same stream, whether it is a copy or not.
func (d *Driver) Export(ctx context.Context, partBytes int, put func(record []byte, parts iter.Seq2[[]byte, error]) error) error {
	done, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	snap, err := d.store.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Close()
	record, _, err := d.get(snap, d.copyKey())
	if err != nil {
		return err
	}
	return put(record, func(yield func([]byte, error) bool) {
		w := partWriter{yield: yield, part: make([]byte, 0, partBytes)}
		if err := d.export(ctx, snap, &w); err != nil && !w.stopped {
			yield(nil, err)
		}
	})
}

// errStopped means that the reader of the parts has stopped.
var errStopped = errors.New("the reader has stopped")

// partWriter cuts what is written into parts.
type partWriter struct {
	yield   func([]byte, error) bool
	part    []byte
	stopped bool
}

func (w *partWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		k := min(cap(w.part)-len(w.part), len(b))
		w.part = append(w.part, b[:k]...)
		b = b[k:]
		if len(w.part) == cap(w.part) {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (w *partWriter) flush() error {
	if w.stopped = !w.yield(w.part, nil); w.stopped {
		return errStopped
	}
	w.part = w.part[:0]
	return nil
}

// export writes the stream: magic and version, the rows, the number of rows, and the
// SHA-256 of everything before.
func (d *Driver) export(ctx context.Context, r Reader, parts *partWriter) error {
	sum, rows := sha256.New(), uint64(0)
	out := io.MultiWriter(sum, parts)
	if _, err := out.Write(append([]byte(streamMagic), FormatVersion)); err != nil {
		return err
	}
	var buffer []byte
	lower := append(bytes.Clone(d.prefix), areaStore)
	upper := successor(append(bytes.Clone(d.prefix), 0xfe))
	err := d.scan(ctx, r, lower, upper, func(key, value []byte) (bool, error) {
		own := key[len(d.prefix):]
		if own[0] == areaCopy {
			return true, nil
		}
		if len(own) > 17 && own[0] == areaContent && table(own[17]) == tableSecrets {
			secondary, body, ok := splitTexts(value)
			if !ok {
				return false, errRow()
			}
			key = bytes.Clone(key)
			key[len(d.prefix)+17] = byte(tableSecretsMissing)
			own, value = key[len(d.prefix):], appendMissing(nil, secondary, sha256.Sum256(body))
		}
		rows++
		buffer = binary.AppendUvarint(buffer[:0], uint64(len(own)))
		buffer = append(buffer, own...)
		buffer = binary.AppendUvarint(buffer, uint64(len(value)))
		buffer = append(buffer, value...)
		_, err := out.Write(buffer)
		return err == nil, err
	})
	if err == nil {
		_, err = out.Write(binary.BigEndian.AppendUint64([]byte{0}, rows))
	}
	if err == nil {
		_, err = parts.Write(sum.Sum(nil))
	}
	if err == nil && len(parts.part) > 0 {
		err = parts.flush()
	}
	return err
}

// Import replaces everything in the copy by the rows of a stream that Export wrote,
// and then writes the record. While it runs, and after it failed, the copy has the
// record empty, and some of the rows. It fails with [storage.ErrFormat] if the stream
// has another layout, and with [storage.ErrDamaged] if it is cut or altered.
func (c *Copy) Import(ctx context.Context, empty, record []byte, parts iter.Seq2[[]byte, error]) error {
	d := c.d
	if err := c.clear(empty); err != nil {
		return err
	}
	next, stop := iter.Pull2(parts)
	defer stop()
	in := streamReader{next: next, sum: sha256.New()}
	if err := in.header(); err != nil {
		return err
	}
	b, size, rows := d.store.Batch(), 0, uint64(0)
	defer func() { b.Close() }()
	for {
		key, value, err := in.row()
		if err != nil {
			return err
		}
		if key == nil {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if key[0] < areaStore || key[0] > 0xfe || key[0] == areaCopy {
			return in.damaged("a row has a key of area %d", key[0])
		}
		if err := d.put(b, append(bytes.Clone(d.prefix), key...), value); err != nil {
			return err
		}
		rows++
		if size += len(key) + len(value); size < importBytes {
			continue
		}
		if err := b.Commit(); err != nil {
			return err
		}
		b.Close()
		b, size = d.store.Batch(), 0
	}
	if err := in.end(rows); err != nil {
		return err
	}
	if err := d.put(b, d.copyKey(), bytes.Clone(record)); err != nil {
		return err
	}
	err := b.Commit()
	d.forgetAll()
	return err
}

// importBytes is the size of a batch of Import.
const importBytes = 4 << 20

// clear deletes everything except the format record, and writes a record of the copy.
func (c *Copy) clear(record []byte) error {
	d := c.d
	b := d.store.Batch()
	defer b.Close()
	if err := b.DeleteRange(append(bytes.Clone(d.prefix), areaStore), successor(append(bytes.Clone(d.prefix), 0xfe))); err != nil {
		return err
	}
	if err := d.put(b, d.copyKey(), bytes.Clone(record)); err != nil {
		return err
	}
	err := b.Commit()
	d.forgetAll()
	return err
}

// forgetAll drops what d knows about the stores.
func (d *Driver) forgetAll() {
	d.heads.forgetAll()
	d.stores.forget()
	d.catalogChanges.Add(1)
}

// streamReader reads the stream of a copy.
type streamReader struct {
	next   func() ([]byte, error, bool)
	sum    hash.Hash
	part   []byte // rest of the current part
	memory []byte // memory of a row
}

func (r *streamReader) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: snapshot: "+format, append([]any{storage.ErrDamaged}, args...)...)
}

// read fills b.
func (r *streamReader) read(b []byte) error {
	for len(b) > 0 {
		for len(r.part) == 0 {
			part, err, ok := r.next()
			if err != nil {
				return err
			}
			if !ok {
				return r.damaged("it is cut")
			}
			r.part = part
		}
		n := copy(b, r.part)
		b, r.part = b[n:], r.part[n:]
	}
	return nil
}

// take returns the next n bytes, which count for the sum, in memory after r.memory.
func (r *streamReader) take(n int) ([]byte, error) {
	from := len(r.memory)
	for len(r.memory) < from+n { // in steps, so that a wrong length causes no large allocation
		step := min(n-(len(r.memory)-from), importBytes)
		at := len(r.memory)
		r.memory = append(r.memory, make([]byte, step)...)
		if err := r.read(r.memory[at:]); err != nil {
			return nil, err
		}
	}
	return r.memory[from:], nil
}

func (r *streamReader) header() error {
	want := append([]byte(streamMagic), FormatVersion)
	have, err := r.take(len(want))
	if err != nil {
		return err
	}
	if string(have[:len(streamMagic)]) != streamMagic {
		return r.damaged("it does not begin with %q", streamMagic)
	}
	if v := have[len(streamMagic)]; v != FormatVersion {
		return fmt.Errorf("%w: a snapshot has layout %d, expected %d", storage.ErrFormat, v, FormatVersion)
	}
	r.sum.Write(have)
	return nil
}

func (r *streamReader) uvarint() (uint64, error) {
	var n uint64
	for shift := uint(0); shift < 64; shift += 7 {
		b, err := r.take(1)
		if err != nil {
			return 0, err
		}
		n |= uint64(b[0]&0x7f) << shift
		if b[0] < 0x80 {
			return n, nil
		}
	}
	return 0, r.damaged("a length is malformed")
}

// row returns the key without the prefix and the value of the next row. They are
// valid until the next call. The key is nil at the end.
func (r *streamReader) row() (key, value []byte, err error) {
	r.memory = r.memory[:0]
	n, err := r.uvarint()
	if err != nil {
		return nil, nil, err
	}
	if n > 0 {
		if n > storage.EntryBytesMax {
			return nil, nil, r.damaged("a key has %d bytes", n)
		}
		from := len(r.memory)
		if _, err = r.take(int(n)); err != nil {
			return nil, nil, err
		}
		var size uint64
		if size, err = r.uvarint(); err != nil {
			return nil, nil, err
		}
		if size > 2*storage.EntryBytesMax {
			return nil, nil, r.damaged("a value has %d bytes", size)
		}
		at := len(r.memory)
		if _, err = r.take(int(size)); err != nil {
			return nil, nil, err
		}
		key, value = r.memory[from:from+int(n)], r.memory[at:at+int(size):at+int(size)]
	}
	r.sum.Write(r.memory)
	return key, value, nil
}

// end checks the number of rows and the sum.
func (r *streamReader) end(rows uint64) error {
	r.memory = r.memory[:0]
	count, err := r.take(8)
	if err != nil {
		return err
	}
	if n := fixed(count); n != rows {
		return r.damaged("it has %d rows, expected %d", rows, n)
	}
	r.sum.Write(count)
	var sum [sha256.Size]byte
	if err := r.read(sum[:]); err != nil {
		return err
	}
	if !bytes.Equal(sum[:], r.sum.Sum(nil)) {
		return r.damaged("it does not have the hash at its end")
	}
	return nil
}
