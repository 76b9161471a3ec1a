package wire

import (
	openfgav1 "github.com/openfga/api/proto/openfga/v1"

	"github.com/ostiary/ostiary/internal/tool/jsonread"
)

// Each Parse method of a frequent call reads the usual form of the JSON by hand.
// Where that reader refuses a body, [Unmarshal] and FromProto read it again and
// decide: the hand-written reader never accepts what the protocol's own library
// refuses.

// Parse reads the request's JSON form. It forgets what r held but keeps its
// memory. Its errors are [*SyntaxError] or wrap [ErrDepth]; r is then of no use.
func (r *CheckRequest) Parse(body []byte) error {
	if r.read(body) != nil {
		return parseMessage(body, &openfgav1.CheckRequest{}, r.FromProto)
	}
	return nil
}

// read is Parse for bodies that can be read by hand. It fails for all others.
func (r *CheckRequest) read(body []byte) error {
	*r = CheckRequest{Tuples: r.Tuples[:0]}
	var in jsonread.Reader
	in.Reset(body)
	in.BorrowText()
	for in.Object(); in.Field(); {
		switch string(in.Name()) {
		case "store_id":
			readString(&in, &r.StoreID)
		case "tuple_key":
			r.HasKey = readKey(&in, &r.Key)
		case "contextual_tuples":
			readContextual(&in, &r.Tuples)
		case "authorization_model_id":
			readString(&in, &r.ModelID)
		case "trace":
			r.Trace = !in.Null() && in.Bool()
		case "context":
			readContext(&in, &r.Context)
		case "consistency":
			readConsistency(&in, &r.Consistency)
		default:
			in.Discard()
		}
	}
	return in.End()
}

// Parse is like [CheckRequest.Parse].
func (r *BatchCheckRequest) Parse(body []byte) error {
	if r.read(body) != nil {
		return parseMessage(body, &openfgav1.BatchCheckRequest{}, r.FromProto)
	}
	return nil
}

// read is Parse for bodies that can be read by hand. It fails for all others.
func (r *BatchCheckRequest) read(body []byte) error {
	*r = BatchCheckRequest{Checks: r.Checks[:0]}
	var in jsonread.Reader
	in.Reset(body)
	in.BorrowText()
	for in.Object(); in.Field(); {
		switch string(in.Name()) {
		case "store_id":
			readString(&in, &r.StoreID)
		case "checks":
			if !in.Null() {
				readBatchItems(&in, &r.Checks)
			}
		case "authorization_model_id":
			readString(&in, &r.ModelID)
		case "consistency":
			readConsistency(&in, &r.Consistency)
		default:
			in.Discard()
		}
	}
	return in.End()
}

func readBatchItems(in *jsonread.Reader, to *[]BatchItem) {
	for in.Array(); in.Item(); {
		*to = append(*to, BatchItem{})
		item := &(*to)[len(*to)-1]
		for in.Object(); in.Field(); {
			switch string(in.Name()) {
			case "tuple_key":
				item.HasKey = readKey(in, &item.Key)
			case "contextual_tuples":
				readContextual(in, &item.Tuples)
			case "context":
				readContext(in, &item.Context)
			case "correlation_id":
				readString(in, &item.CorrelationID)
			default:
				in.Discard()
			}
		}
	}
}

// Parse is like [CheckRequest.Parse].
func (r *ListObjectsRequest) Parse(body []byte) error {
	if r.read(body) != nil {
		return parseMessage(body, &openfgav1.ListObjectsRequest{}, r.FromProto)
	}
	return nil
}

// read is Parse for bodies that can be read by hand. It fails for all others.
func (r *ListObjectsRequest) read(body []byte) error {
	*r = ListObjectsRequest{}
	var in jsonread.Reader
	in.Reset(body)
	in.ShareText()
	for in.Object(); in.Field(); {
		switch string(in.Name()) {
		case "store_id":
			readString(&in, &r.StoreID)
		case "authorization_model_id":
			readString(&in, &r.ModelID)
		case "type":
			readString(&in, &r.Type)
		case "relation":
			readString(&in, &r.Relation)
		case "user":
			readString(&in, &r.User)
		case "contextual_tuples":
			readContextual(&in, &r.Tuples)
		case "context":
			readContext(&in, &r.Context)
		case "consistency":
			readConsistency(&in, &r.Consistency)
		default:
			in.Discard()
		}
	}
	return in.End()
}

// Parse is like [CheckRequest.Parse].
func (r *ListUsersRequest) Parse(body []byte) error {
	if r.read(body) != nil {
		return parseMessage(body, &openfgav1.ListUsersRequest{}, r.FromProto)
	}
	return nil
}

// read is Parse for bodies that can be read by hand. It fails for all others.
func (r *ListUsersRequest) read(body []byte) error {
	*r = ListUsersRequest{}
	var in jsonread.Reader
	in.Reset(body)
	in.ShareText()
	for in.Object(); in.Field(); {
		switch string(in.Name()) {
		case "store_id":
			readString(&in, &r.StoreID)
		case "authorization_model_id":
			readString(&in, &r.ModelID)
		case "object":
			if r.HasObject = !in.Null(); r.HasObject {
				readPair(&in, "id", &r.Object.Type, &r.Object.ID)
			}
		case "relation":
			readString(&in, &r.Relation)
		case "user_filters":
			if !in.Null() {
				for in.Array(); in.Item(); {
					var f UserFilter
					readPair(&in, "relation", &f.Type, &f.Relation)
					r.Filters = append(r.Filters, f)
				}
			}
		case "contextual_tuples":
			if !in.Null() {
				readTuples(&in, &r.Tuples)
			}
		case "context":
			readContext(&in, &r.Context)
		case "consistency":
			readConsistency(&in, &r.Consistency)
		default:
			in.Discard()
		}
	}
	return in.End()
}

// Parse is like [CheckRequest.Parse]. Each string of r is a copy, since the
// tuples are stored and outlive the body.
func (r *WriteRequest) Parse(body []byte) error {
	if r.read(body) != nil {
		return parseMessage(body, &openfgav1.WriteRequest{}, r.FromProto)
	}
	return nil
}

// read is Parse for bodies that can be read by hand. It fails for all others.
func (r *WriteRequest) read(body []byte) error {
	*r = WriteRequest{}
	var in jsonread.Reader
	in.Reset(body)
	in.BorrowText()
	for in.Object(); in.Field(); {
		switch string(in.Name()) {
		case "store_id":
			readOwn(&in, &r.StoreID)
		case "writes":
			if r.HasWrites = !in.Null(); r.HasWrites {
				readWrites(&in, r)
			}
		case "deletes":
			if r.HasDeletes = !in.Null(); r.HasDeletes {
				readDeletes(&in, r)
			}
		case "authorization_model_id":
			readOwn(&in, &r.ModelID)
		default:
			in.Discard()
		}
	}
	return in.End()
}

func readWrites(in *jsonread.Reader, to *WriteRequest) {
	for in.Object(); in.Field(); {
		switch string(in.Name()) {
		case "tuple_keys":
			if !in.Null() {
				readTuples(in, &to.Writes)
			}
		case "on_duplicate":
			readOwn(in, &to.OnDuplicate)
		default:
			in.Discard()
		}
	}
}

func readDeletes(in *jsonread.Reader, to *WriteRequest) {
	for in.Object(); in.Field(); {
		switch string(in.Name()) {
		case "tuple_keys":
			if !in.Null() {
				for in.Array(); in.Item(); {
					var t Tuple
					readTuple(in, &t, false)
					to.Deletes = append(to.Deletes, t.Key)
				}
			}
		case "on_missing":
			readOwn(in, &to.OnMissing)
		default:
			in.Discard()
		}
	}
}

// Parse reads the request's JSON form. Its errors are [*SyntaxError] or wrap
// [ErrDepth].
func (r *ReadRequest) Parse(body []byte) error {
	return parseMessage(body, &openfgav1.ReadRequest{}, r.FromProto)
}

// Parse is like [ReadRequest.Parse].
func (r *ExpandRequest) Parse(body []byte) error {
	return parseMessage(body, &openfgav1.ExpandRequest{}, r.FromProto)
}
