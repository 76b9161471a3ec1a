package token

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ostiary/ostiary/internal/identity/settings"
)

// receipts are receipts that Keystone 30.0.0 made with the key of receiptCodec.
var receipts = map[string]string{
	"0123456789abcdef0123456789abcdef": "gAAAAABrA1kSW-xpfjmf0ji6BbFqzUBQWXilOL9sBxoePMC74K6wKdGS0hP3fNoki5ZfNNnlciFTz1zORzmau5pQTWHmOLFs7PnULVetto0_sNl043cfLKFVjN0zp9nArwsovWQSTT3n",
	strings.Repeat("ab", 32):           "gAAAAABrA1kSzCibPduMB2EXw_47hX-BgCX6dU0n6nrRvwzA5QHTq5aNZuZlJ7YY5NVf6g19WJxX97wc4cxvdBaByPNevNBIIiv3m4hhBWiZbGDVnjbGW1AfSrm2x8muT5hULWPOillf4sr1vKv0mghmeUUh4iBj_Zsim4PT5ROzMa4QJ7y3w1awsa0oL5hG3YcxVNZjqrYg",
}

func receiptCodec() *Fernet {
	var k settings.Key
	for i := range k {
		k[i] = byte(i)
	}
	return &Fernet{Keys: []settings.Key{k}, Methods: append(DefaultMethods(), "totp")}
}

func TestReceipts(t *testing.T) {
	f := receiptCodec()
	for user, text := range receipts {
		r, issued, err := f.DecodeReceipt(text)
		if err != nil {
			t.Fatal(err)
		}
		if r.UserID != user || !slices.Equal(r.Methods, []string{"password", "totp"}) || !r.Expires.Equal(time.Date(2026, 11, 22, 18, 30, 0, 250_000_000, time.UTC)) || issued.Year() != 2026 {
			t.Errorf("%+v, issued %s", r, issued)
		}
		again, err := f.EncodeReceipt(r, issued)
		if err != nil {
			t.Fatal(err)
		}
		// The content is the same, byte by byte; the encryption is random.
		a, _, _ := Open(f.Keys, text)
		b, _, err := Open(f.Keys, again)
		if err != nil || !bytes.Equal(a, b) || len(again) != len(text) {
			t.Errorf("%x, want %x", b, a)
		}
	}
}

// TestBadReceipts decodes texts that are no receipts, among them a token that the
// same key made.
func TestBadReceipts(t *testing.T) {
	f := receiptCodec()
	text := receipts[strings.Repeat("ab", 32)]
	tok, err := f.Encode(&Payload{UserID: "u", Methods: []string{"password"}, Expires: time.Now(), AuditIDs: []string{"AAAAAAAAAAAAAAAAAAAAAA"}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	sealed := func(v ...any) string {
		data, err := msgpack.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return seal(f.Keys[0], data, time.Now())
	}
	content, _, err := Open(f.Keys, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{
		"", "bad", text[:len(text)-4], text[:50] + "A" + text[51:], tok,
		sealed([]any{false, "u"}, uint8(2)), sealed([]any{false, "u"}, uint8(2), 1.0, 1), sealed("u", uint8(2), 1.0), sealed([]any{false, "u"}, "2", 1.0),
		sealed([]any{false, "u"}, uint16(1<<12), 1.0), seal(f.Keys[0], append(content, 0), time.Now()),
	} {
		if _, _, err := f.DecodeReceipt(bad); !errors.Is(err, ErrInvalid) {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
	other := receiptCodec()
	other.Keys[0][0]++
	if _, _, err := other.DecodeReceipt(text); !errors.Is(err, ErrInvalid) {
		t.Error("another key:", err)
	}
	if _, _, err := f.Decode(text); !errors.Is(err, ErrInvalid) {
		t.Error("a receipt is no token:", err)
	}
	if _, err := f.EncodeReceipt(&Receipt{UserID: "u", Methods: []string{"magic"}}, time.Now()); err == nil {
		t.Error("an unknown method is encoded")
	}
	if _, err := (&Fernet{}).EncodeReceipt(&Receipt{UserID: "u"}, time.Now()); err == nil {
		t.Error("a receipt without a key")
	}
}

func FuzzReceipt(f *testing.F) {
	codec := receiptCodec()
	for _, text := range receipts {
		data, _, err := Open(codec.Keys, text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, issued, err := codec.DecodeReceipt(seal(codec.Keys[0], data, time.Unix(0, 0)))
		if err != nil {
			return
		}
		text, err := codec.EncodeReceipt(r, issued)
		if err != nil {
			t.Fatal(err)
		}
		again, _, err := codec.DecodeReceipt(text)
		if err != nil || again.UserID != r.UserID || !slices.Equal(again.Methods, r.Methods) || !again.Expires.Equal(r.Expires) {
			t.Errorf("%+v, want %+v: %v", again, r, err)
		}
	})
}
