package openfga

import (
	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc/codes"

	"github.com/ostiary/ostiary/door/openfga/wire"
)

// The protocol states each field's form as a rule on its message. What follows
// asks the rules of the frequent calls byte by byte; where one does not hold,
// the message's own rules are asked, which word the error.

// ruled asks a message's own rules.
func ruled(m interface{ ValidateAll() error }) error {
	if err := m.ValidateAll(); err != nil {
		return say(codes.InvalidArgument, err.Error())
	}
	return nil
}

// idForm is that of store and model ids: 26 letters and digits, some letters
// aside.
func idForm(s string) bool { return len(s) == 26 && consists(s, inULID) }

func idsForm(store, model string) bool { return idForm(store) && (model == "" || idForm(model)) }

// word says whether a text has no blank and a number of characters in bounds.
func word(s string, least, most int) bool {
	n := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ' ' || '\t' <= c && c <= '\r' && c != '\v':
			return false
		case c < 0x80 || c >= 0xC0: // not the inside of a character
			n++
		}
	}
	return least <= n && n <= most
}

// name is word without ':', '#' and '@'.
func name(s string, most int) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == ':' || c == '#' || c == '@' {
			return false
		}
	}
	return word(s, 1, most)
}

const (
	typeRunesMax     = 254
	relationRunesMax = 50
	objectRunesMax   = 256
	userBytesMax     = 512
	contextualMax    = 100
)

func checkKeyForm(k *wire.Key) bool {
	if _, plain := plainKey(k); plain {
		return true
	}
	return word(k.User, 2, userBytesMax) && name(k.Relation, relationRunesMax) && word(k.Object, 2, objectRunesMax)
}

func tuplesForm(tuples []wire.Tuple) bool {
	for i := range tuples {
		if !keyForm(&tuples[i].Key) || tuples[i].Condition != nil && !word(tuples[i].Condition.Name, 2, 256) {
			return false
		}
	}
	return true
}

// keyForm is a stored tuple's: its fields may be empty, and are then refused
// in other words.
func keyForm(k *wire.Key) bool {
	return len(k.User) <= userBytesMax && (k.Relation == "" || name(k.Relation, relationRunesMax)) &&
		(k.Object == "" || word(k.Object, 2, objectRunesMax))
}

func contextualForm(tuples []wire.Tuple) bool {
	return len(tuples) <= contextualMax && tuplesForm(tuples)
}

func consistencyForm(c int32) bool {
	_, ok := openfgav1.ConsistencyPreference_name[c]
	return ok
}

func correlationForm(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !('0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c == '_' || c == '-') {
			return false
		}
	}
	return 1 <= len(s) && len(s) <= 36
}

func checkForm(r *wire.CheckRequest) error {
	if checkFits(r) {
		return nil
	}
	return ruled(checkMessage(r))
}

func checkFits(r *wire.CheckRequest) bool {
	return idsForm(r.StoreID, r.ModelID) && r.HasKey && checkKeyForm(&r.Key) &&
		(len(r.Tuples) == 0 || contextualForm(r.Tuples)) && (r.Consistency == 0 || consistencyForm(r.Consistency))
}

func batchForm(r *wire.BatchCheckRequest) error {
	if batchFits(r) {
		return nil
	}
	return ruled(batchMessage(r))
}

func batchFits(r *wire.BatchCheckRequest) bool {
	ok := idsForm(r.StoreID, r.ModelID) && len(r.Checks) > 0 && consistencyForm(r.Consistency)
	for i := range r.Checks {
		c := &r.Checks[i]
		ok = ok && c.HasKey && checkKeyForm(&c.Key) && contextualForm(c.Tuples) && correlationForm(c.CorrelationID)
	}
	return ok
}

func objectsForm(r *wire.ListObjectsRequest, streamed bool) error {
	switch {
	case objectsFit(r):
		return nil
	case streamed:
		return ruled(streamedMessage(r))
	}
	return ruled(objectsMessage(r))
}

func objectsFit(r *wire.ListObjectsRequest) bool {
	return idsForm(r.StoreID, r.ModelID) && name(r.Type, typeRunesMax) && name(r.Relation, relationRunesMax) &&
		1 <= len(r.User) && len(r.User) <= userBytesMax && contextualForm(r.Tuples) && consistencyForm(r.Consistency)
}

func usersForm(r *wire.ListUsersRequest) error {
	if usersFit(r) {
		return nil
	}
	return ruled(usersMessage(r))
}

func usersFit(r *wire.ListUsersRequest) bool {
	ok := idsForm(r.StoreID, r.ModelID) && r.HasObject && name(r.Object.Type, typeRunesMax) && idEnd(r.Object.ID) &&
		name(r.Relation, relationRunesMax) && len(r.Filters) == 1 && contextualForm(r.Tuples) && consistencyForm(r.Consistency)
	return ok && name(r.Filters[0].Type, typeRunesMax) && (r.Filters[0].Relation == "" || name(r.Filters[0].Relation, relationRunesMax))
}

// idEnd is the rule of an id that stands alone: it looks at the end only.
func idEnd(s string) bool {
	if s == "" {
		return false
	}
	switch s[len(s)-1] {
	case '#', ':', ' ', '\t', '\n', '\f', '\r':
		return false
	}
	return true
}

func writeForm(r *wire.WriteRequest) error {
	if writeFits(r) {
		return nil
	}
	return ruled(writeMessage(r))
}

func writeFits(r *wire.WriteRequest) bool {
	ok := idsForm(r.StoreID, r.ModelID) && (!r.HasWrites || len(r.Writes) > 0) && (!r.HasDeletes || len(r.Deletes) > 0) &&
		tuplesForm(r.Writes)
	for i := range r.Deletes {
		ok = ok && keyForm(&r.Deletes[i])
	}
	return ok
}
