package keystone

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/token"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// receiptHeader is the header with a receipt: of a response to a login that lacks
// a factor, and of the login that continues it.
const receiptHeader = "Openstack-Auth-Receipt"

// loginByTOTP reads and verifies the part "totp" of a request: a one-time password.
func (c *call) loginByTOTP(text json.RawMessage) (*identity.Record, error) {
	var p struct {
		User *struct {
			reference
			Passcode *string `json:"passcode"`
		} `json:"user"`
	}
	if err := jsonread.Unmarshal(text, &p); err != nil {
		return nil, invalidField("totp", "", "expected an object with a user")
	}
	switch {
	case p.User == nil:
		return nil, expecting("user", "totp")
	case p.User.Passcode == nil:
		return nil, expecting("passcode", "user")
	case p.User.ID == "" && p.User.Name == "":
		return nil, expecting("id or name", "user")
	}
	user, err := c.referencedUser(&p.User.reference)
	if err == nil && user == nil {
		err = unauthorized("no such user")
	}
	if err != nil {
		return nil, err
	}
	return c.id.LoginTOTP(c.Context(), user.ID, *p.User.Passcode)
}

// receiptCodec returns the encoder and decoder of receipts.
func (c *call) receiptCodec() (*token.Fernet, error) {
	keys, err := c.options.ReceiptKeys(c.Context())
	return &token.Fernet{Keys: keys, Methods: c.options.Identity.Methods}, err
}

// receiptError is the error of a receipt that is not accepted. The response
// repeats the receipt, as Keystone's does, but a log must not.
type receiptError struct{ *statusError }

func (receiptError) Error() string { return "the receipt is not accepted" }

// Unwrap returns the error that the response has.
func (e receiptError) Unwrap() error { return e.statusError }

// useReceipt adds the methods of the request's receipt to a proof, if the request
// has one.
func (c *call) useReceipt(p *proof) error {
	text := c.R.Header.Get(receiptHeader)
	if text == "" {
		return nil
	}
	codec, err := c.receiptCodec()
	if err != nil {
		return err
	}
	bad := receiptError{&statusError{http.StatusUnauthorized, "Could not find auth receipt: " + shorten(text) + "."}}
	r, issued, err := codec.DecodeReceipt(text)
	if errors.Is(err, token.ErrInvalid) {
		return bad
	}
	if err != nil {
		return err
	}
	methods, err := c.id.UseReceipt(c.Context(), r, issued, p.user.ID)
	if errors.Is(err, &identity.Error{Reason: identity.Unauthorized}) {
		return bad
	}
	p.methods = slices.Compact(slices.Sorted(slices.Values(append(p.methods, methods...))))
	return err
}

// sendReceipt answers a login whose methods are right but too few: with a receipt,
// with which the login can be continued.
func (c *call) sendReceipt(p *proof) error {
	c.pending = true
	codec, err := c.receiptCodec()
	if err != nil {
		return err
	}
	methods := p.methods
	if p.from != nil {
		methods = slices.Compact(slices.Sorted(slices.Values(append(methods, p.from.Payload.Methods...))))
	}
	r, issued, err := c.id.NewReceipt(c.Context(), p.user.ID, methods)
	if err != nil {
		return err
	}
	text, err := codec.EncodeReceipt(r, issued)
	if err != nil {
		return err
	}
	domain, err := c.id.Get(c.Context(), identity.Project, p.user.Domain)
	if err != nil {
		return err
	}
	var o object
	o.begin("receipt")
	o.texts("methods", methods)
	o.begin("user")
	o.text("id", p.user.ID)
	o.text("name", p.user.Name)
	idAndName(&o, "domain", domain)
	o.end()
	o.text("expires_at", r.Expires.UTC().Format(timeForm))
	o.text("issued_at", issued.UTC().Format(timeForm))
	o.end()
	rules, _ := json.Marshal(p.user.FactorRules()) // lists of texts
	o.raw("required_auth_methods", rules)
	c.W.Header().Set(receiptHeader, text)
	c.W.Header().Set("WWW-Authenticate", c.challenge(c.R))
	return c.write(http.StatusUnauthorized, &o)
}
