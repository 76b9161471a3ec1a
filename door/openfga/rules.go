package openfga

import (
	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary/door/openfga/internal/wire"
)

// The protocol's generated messages have rules on the form of each field. For the
// frequent calls, the functions here check the same rules byte by byte, without
// building the message. If a request breaks a rule, they build the message and run
// its generated rules, which return the protocol's error text.

// validatable is a message with rules of its own.
type validatable interface{ ValidateAll() error }

// validateMessage runs a message's own rules.
func validateMessage(m validatable) error {
	if err := m.ValidateAll(); err != nil {
		return newFailure(codes.InvalidArgument, err.Error())
	}
	return nil
}

// validID reports whether s has the form of a store or model id: 26 digits and
// letters other than I, L, O and U.
func validID(s string) bool { return len(s) == 26 && allOfClass(s, inULID) }

func validIDs(store, model string) bool { return validID(store) && (model == "" || validID(model)) }

// validWord reports whether s has no blanks, and from least to most characters.
func validWord(s string, least, most int) bool {
	n := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ' ' || '\t' <= c && c <= '\r' && c != '\v':
			return false
		case c < 0x80 || c >= 0xC0: // the first byte of a character
			n++
		}
	}
	return least <= n && n <= most
}

// validName is like validWord, but also refuses ':', '#' and '@'.
func validName(s string, most int) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == ':' || c == '#' || c == '@' {
			return false
		}
	}
	return validWord(s, 1, most)
}

// The protocol's limits on fields.
const (
	typeRunesMax     = 254
	relationRunesMax = 50
	objectRunesMax   = 256
	userBytesMax     = 512
	contextualMax    = 100
)

func validCheckKey(k *wire.Key) bool {
	if _, plain := plainKey(k); plain {
		return true
	}
	return validWord(k.User, 2, userBytesMax) && validName(k.Relation, relationRunesMax) && validWord(k.Object, 2, objectRunesMax)
}

func validTuples(tuples []wire.Tuple) bool {
	for i := range tuples {
		if !validStoredKey(&tuples[i].Key) || tuples[i].Condition != nil && !validWord(tuples[i].Condition.Name, 2, 256) {
			return false
		}
	}
	return true
}

// validStoredKey reports whether a key has the form of a tuple in a write. Its fields
// may be empty here: the write refuses these with another error.
func validStoredKey(k *wire.Key) bool {
	return len(k.User) <= userBytesMax && (k.Relation == "" || validName(k.Relation, relationRunesMax)) &&
		(k.Object == "" || validWord(k.Object, 2, objectRunesMax))
}

func validContextual(tuples []wire.Tuple) bool {
	return len(tuples) <= contextualMax && validTuples(tuples)
}

func validConsistency(c int32) bool {
	_, ok := openfgav1.ConsistencyPreference_name[c]
	return ok
}

func validCorrelationID(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !('0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c == '_' || c == '-') {
			return false
		}
	}
	return 1 <= len(s) && len(s) <= 36
}

func validateCheck(r *wire.CheckRequest) error {
	if validCheck(r) {
		return nil
	}
	return validateMessage(checkMessage(r))
}

func validCheck(r *wire.CheckRequest) bool {
	return validIDs(r.StoreID, r.ModelID) && r.HasKey && validCheckKey(&r.Key) &&
		(len(r.Tuples) == 0 || validContextual(r.Tuples)) && (r.Consistency == 0 || validConsistency(r.Consistency))
}

func validateBatch(r *wire.BatchCheckRequest) error {
	if validBatch(r) {
		return nil
	}
	return validateMessage(batchMessage(r))
}

func validBatch(r *wire.BatchCheckRequest) bool {
	ok := validIDs(r.StoreID, r.ModelID) && len(r.Checks) > 0 && validConsistency(r.Consistency)
	for i := range r.Checks {
		c := &r.Checks[i]
		ok = ok && c.HasKey && validCheckKey(&c.Key) && validContextual(c.Tuples) && validCorrelationID(c.CorrelationID)
	}
	return ok
}

func validateListObjects(r *wire.ListObjectsRequest, streamed bool) error {
	switch {
	case validListObjects(r):
		return nil
	case streamed:
		return validateMessage(streamedMessage(r))
	}
	return validateMessage(objectsMessage(r))
}

func validListObjects(r *wire.ListObjectsRequest) bool {
	return validIDs(r.StoreID, r.ModelID) && validName(r.Type, typeRunesMax) && validName(r.Relation, relationRunesMax) &&
		1 <= len(r.User) && len(r.User) <= userBytesMax && validContextual(r.Tuples) && validConsistency(r.Consistency)
}

func validateListUsers(r *wire.ListUsersRequest) error {
	if validListUsers(r) {
		return nil
	}
	return validateMessage(usersMessage(r))
}

func validListUsers(r *wire.ListUsersRequest) bool {
	ok := validIDs(r.StoreID, r.ModelID) && r.HasObject && validName(r.Object.Type, typeRunesMax) && validIDEnd(r.Object.ID) &&
		validName(r.Relation, relationRunesMax) && len(r.Filters) == 1 && validContextual(r.Tuples) && validConsistency(r.Consistency)
	return ok && validName(r.Filters[0].Type, typeRunesMax) && (r.Filters[0].Relation == "" || validName(r.Filters[0].Relation, relationRunesMax))
}

// validIDEnd checks the rule on ids that are fields: it is about the last character
// only.
func validIDEnd(s string) bool {
	if s == "" {
		return false
	}
	switch s[len(s)-1] {
	case '#', ':', ' ', '\t', '\n', '\f', '\r':
		return false
	}
	return true
}

func validateWrite(r *wire.WriteRequest) error {
	if validWrite(r) {
		return nil
	}
	return validateMessage(writeMessage(r))
}

func validWrite(r *wire.WriteRequest) bool {
	ok := validIDs(r.StoreID, r.ModelID) && (!r.HasWrites || len(r.Writes) > 0) && (!r.HasDeletes || len(r.Deletes) > 0) &&
		validTuples(r.Writes)
	for i := range r.Deletes {
		ok = ok && validStoredKey(&r.Deletes[i])
	}
	return ok
}
