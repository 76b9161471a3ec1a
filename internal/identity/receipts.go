package identity

import (
	"context"
	"time"

	"github.com/ostiary/ostiary/internal/identity/token"
)

// receiptLife is the life of a receipt, as in Keystone.
const receiptLife = 5 * time.Minute

// NewReceipt returns a receipt for methods that a user has passed, and its time of
// issue. It is for a login that failed with MoreFactors. It fails with Unauthorized
// if the proof of the request does not hold (see [WithProof]).
func (s *Service) NewReceipt(ctx context.Context, user string, methods []string) (*token.Receipt, time.Time, error) {
	now, d, err := s.moment(ctx)
	if err != nil {
		return nil, time.Time{}, err
	}
	if err := s.proven(ctx, d); err != nil {
		return nil, time.Time{}, err
	}
	issued := d.issueTime([]string{user}, now)
	return &token.Receipt{UserID: user, Methods: methods, Expires: issued.Add(receiptLife)}, issued, nil
}

// UseReceipt returns the methods that a decoded receipt adds to a login of a user.
// It fails with Unauthorized if the receipt belongs to another user, has expired, or is
// older than the last event that made the user's tokens invalid, for example a
// new password.
func (s *Service) UseReceipt(ctx context.Context, r *token.Receipt, issued time.Time, user string) ([]string, error) {
	if _, err := s.rely(ctx, validReceipt(r, issued)); err != nil {
		return nil, err
	}
	switch {
	case r.UserID != user:
		return nil, unauthorized("the receipt is of user " + r.UserID + ", not of user " + user)
	case !s.now().Before(r.Expires):
		return nil, unauthorized("the receipt has expired")
	}
	return r.Methods, nil
}

// FactorRules returns a user's rules for several factors: lists of methods, all of
// one of which a login needs.
func (r *Record) FactorRules() [][]string {
	rules, _ := factorRules(r)
	return rules
}
