package token

import (
	"bytes"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Receipt is what a user gets who has passed some of several factors: a later
// login continues with it. Its text has the form of Keystone's receipts, whose
// keys are not those of tokens.
type Receipt struct {
	// UserID is the id of the user.
	UserID string
	// Methods are the methods that the user has passed.
	Methods []string
	// Expires is the end of the receipt's life. The text keeps microseconds.
	Expires time.Time
}

// EncodeReceipt returns the text of a receipt. The keys of f are those of
// receipts. It fails as [Fernet.Encode].
func (f *Fernet) EncodeReceipt(r *Receipt, issued time.Time) (string, error) {
	k, err := f.primary()
	if err != nil {
		return "", err
	}
	mask, err := f.methods().mask(r.Methods)
	if err != nil {
		return "", err
	}
	w := &packer{}
	w.enc = msgpack.NewEncoder(&w.out)
	w.keep(w.enc.EncodeArrayLen(receiptFields))
	w.id(r.UserID)
	w.number(mask)
	w.time(r.Expires)
	return seal(k, w.out.Bytes(), issued), w.err
}

// receiptFields is the number of fields of a receipt.
const receiptFields = 3

// DecodeReceipt returns the content and the time of creation of a receipt. It does
// not check whether the receipt has expired. It fails with [ErrInvalid].
func (f *Fernet) DecodeReceipt(text string) (*Receipt, time.Time, error) {
	data, issued, err := Open(f.Keys, text)
	if err != nil {
		return nil, issued, err
	}
	r := &unpacker{in: bytes.NewReader(data)}
	r.dec = msgpack.NewDecoder(r.in)
	if n := r.array(); n != receiptFields {
		r.fail("receipt with %d fields: expected %d", n, receiptFields)
	}
	out := &Receipt{UserID: r.id()}
	mask := r.number()
	out.Expires = r.time()
	if r.err == nil && r.in.Len() > 0 {
		r.fail("receipt with %d more bytes", r.in.Len())
	}
	if r.err != nil {
		return nil, issued, r.err
	}
	out.Methods, err = f.methods().names(mask)
	return out, issued, err
}
