package wire

import (
	"unsafe"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/proto"
)

// view makes a reader whose strings are views of the body.
func view(body []byte) reader {
	return reader{s: unsafe.String(unsafe.SliceData(body), len(body))}
}

// done ends a reading: nothing may follow the message. An empty body is an
// empty message, and whoever gets an error gets nothing else.
func (r *reader) done(body []byte, like proto.Message) error {
	r.end()
	if r.err == nil {
		return nil
	}
	return explained(body, r.err, like)
}

// begin enters the message; false if the body or the message is empty.
func (r *reader) begin() bool {
	if r.peek() == 0 && r.i == len(r.s) {
		return false
	}
	return r.open('{')
}

// Parse reads the request's JSON form, forgetting what r held but keeping its
// memory. Its errors are *SyntaxError or wrap ErrDepth; r is then of no use.
func (r *CheckRequest) Parse(body []byte) error {
	*r = CheckRequest{Tuples: r.Tuples[:0]}
	in := view(body)
	for seen, more := fields(0), in.begin(); more; more = in.more('}') {
		switch in.name() {
		case "store_id":
			in.string(&seen, 1, &r.StoreID)
		case "tuple_key":
			in.key(&seen, 1<<1, &r.HasKey, &r.Key)
		case "contextual_tuples":
			in.contextual(&seen, 1<<2, &r.Tuples)
		case "authorization_model_id":
			in.string(&seen, 1<<3, &r.ModelID)
		case "trace":
			if in.once(&seen, 1<<4) {
				r.Trace = in.bool()
			}
		case "context":
			in.context(&seen, 1<<5, &r.Context)
		case "consistency":
			in.consistency(&seen, 1<<6, &r.Consistency)
		default:
			in.skip()
		}
	}
	return in.done(body, (*openfgav1.CheckRequest)(nil))
}

// Parse is CheckRequest's.
func (r *BatchCheckRequest) Parse(body []byte) error {
	*r = BatchCheckRequest{Checks: r.Checks[:0]}
	in := view(body)
	for seen, more := fields(0), in.begin(); more; more = in.more('}') {
		switch in.name() {
		case "store_id":
			in.string(&seen, 1, &r.StoreID)
		case "checks":
			if in.once(&seen, 1<<1) {
				in.checks(&r.Checks)
			}
		case "authorization_model_id":
			in.string(&seen, 1<<2, &r.ModelID)
		case "consistency":
			in.consistency(&seen, 1<<3, &r.Consistency)
		default:
			in.skip()
		}
	}
	return in.done(body, (*openfgav1.BatchCheckRequest)(nil))
}

func (r *reader) checks(to *[]BatchItem) {
	for more := r.open('['); more; more = r.more(']') {
		*to = append(*to, BatchItem{})
		item := &(*to)[len(*to)-1]
		for seen, more := fields(0), r.open('{'); more; more = r.more('}') {
			switch r.name() {
			case "tuple_key":
				r.key(&seen, 1, &item.HasKey, &item.Key)
			case "contextual_tuples":
				r.contextual(&seen, 1<<1, &item.Tuples)
			case "context":
				r.context(&seen, 1<<2, &item.Context)
			case "correlation_id":
				r.string(&seen, 1<<3, &item.CorrelationID)
			default:
				r.skip()
			}
		}
	}
}

// Parse is CheckRequest's.
func (r *ListObjectsRequest) Parse(body []byte) error {
	*r = ListObjectsRequest{}
	in := reader{s: string(body)}
	for seen, more := fields(0), in.begin(); more; more = in.more('}') {
		switch in.name() {
		case "store_id":
			in.string(&seen, 1, &r.StoreID)
		case "authorization_model_id":
			in.string(&seen, 1<<1, &r.ModelID)
		case "type":
			in.string(&seen, 1<<2, &r.Type)
		case "relation":
			in.string(&seen, 1<<3, &r.Relation)
		case "user":
			in.string(&seen, 1<<4, &r.User)
		case "contextual_tuples":
			in.contextual(&seen, 1<<5, &r.Tuples)
		case "context":
			in.context(&seen, 1<<6, &r.Context)
		case "consistency":
			in.consistency(&seen, 1<<7, &r.Consistency)
		default:
			in.skip()
		}
	}
	return in.done(body, (*openfgav1.ListObjectsRequest)(nil))
}

// Parse is CheckRequest's.
func (r *ListUsersRequest) Parse(body []byte) error {
	*r = ListUsersRequest{}
	in := reader{s: string(body)}
	for seen, more := fields(0), in.begin(); more; more = in.more('}') {
		switch in.name() {
		case "store_id":
			in.string(&seen, 1, &r.StoreID)
		case "authorization_model_id":
			in.string(&seen, 1<<1, &r.ModelID)
		case "object":
			if in.once(&seen, 1<<2) {
				r.HasObject = true
				in.pair("id", &r.Object.Type, &r.Object.ID)
			}
		case "relation":
			in.string(&seen, 1<<3, &r.Relation)
		case "user_filters":
			if in.once(&seen, 1<<4) {
				for more := in.open('['); more; more = in.more(']') {
					var f UserFilter
					in.pair("relation", &f.Type, &f.Relation)
					r.Filters = append(r.Filters, f)
				}
			}
		case "contextual_tuples":
			if in.once(&seen, 1<<5) {
				in.tuples(&r.Tuples)
			}
		case "context":
			in.context(&seen, 1<<6, &r.Context)
		case "consistency":
			in.consistency(&seen, 1<<7, &r.Consistency)
		default:
			in.skip()
		}
	}
	return in.done(body, (*openfgav1.ListUsersRequest)(nil))
}

// Parse is CheckRequest's.
func (r *WriteRequest) Parse(body []byte) error {
	*r = WriteRequest{}
	in := view(body)
	in.own = true // its names are kept one by one
	for seen, more := fields(0), in.begin(); more; more = in.more('}') {
		switch in.name() {
		case "store_id":
			in.string(&seen, 1, &r.StoreID)
		case "writes":
			if in.once(&seen, 1<<1) {
				r.HasWrites = true
				in.writes(r)
			}
		case "deletes":
			if in.once(&seen, 1<<2) {
				r.HasDeletes = true
				in.deletes(r)
			}
		case "authorization_model_id":
			in.string(&seen, 1<<3, &r.ModelID)
		default:
			in.skip()
		}
	}
	return in.done(body, (*openfgav1.WriteRequest)(nil))
}

func (r *reader) writes(to *WriteRequest) {
	for seen, more := fields(0), r.open('{'); more; more = r.more('}') {
		switch r.name() {
		case "tuple_keys":
			if r.once(&seen, 1) {
				r.tuples(&to.Writes)
			}
		case "on_duplicate":
			r.string(&seen, 1<<1, &to.OnDuplicate)
		default:
			r.skip()
		}
	}
}

func (r *reader) deletes(to *WriteRequest) {
	for seen, more := fields(0), r.open('{'); more; more = r.more('}') {
		switch r.name() {
		case "tuple_keys":
			if r.once(&seen, 1) {
				for more := r.open('['); more; more = r.more(']') {
					var k Key
					r.members(&k)
					to.Deletes = append(to.Deletes, k)
				}
			}
		case "on_missing":
			r.string(&seen, 1<<1, &to.OnMissing)
		default:
			r.skip()
		}
	}
}

// Parse is CheckRequest's.
func (r *ReadRequest) Parse(body []byte) error {
	*r = ReadRequest{}
	in := reader{s: string(body)}
	for seen, more := fields(0), in.begin(); more; more = in.more('}') {
		switch in.name() {
		case "store_id":
			in.string(&seen, 1, &r.StoreID)
		case "tuple_key":
			in.key(&seen, 1<<1, &r.HasKey, &r.Key)
		case "page_size":
			if in.once(&seen, 1<<2) {
				r.HasPageSize, r.PageSize = true, in.int32()
			}
		case "continuation_token":
			in.string(&seen, 1<<3, &r.Token)
		case "consistency":
			in.consistency(&seen, 1<<4, &r.Consistency)
		default:
			in.skip()
		}
	}
	return in.done(body, (*openfgav1.ReadRequest)(nil))
}

// Parse is CheckRequest's.
func (r *ExpandRequest) Parse(body []byte) error {
	*r = ExpandRequest{}
	in := reader{s: string(body)}
	for seen, more := fields(0), in.begin(); more; more = in.more('}') {
		switch in.name() {
		case "store_id":
			in.string(&seen, 1, &r.StoreID)
		case "tuple_key":
			if in.once(&seen, 1<<1) {
				r.HasKey = true
				in.relationObject(r)
			}
		case "authorization_model_id":
			in.string(&seen, 1<<2, &r.ModelID)
		case "consistency":
			in.consistency(&seen, 1<<3, &r.Consistency)
		case "contextual_tuples":
			in.contextual(&seen, 1<<4, &r.Tuples)
		default:
			in.skip()
		}
	}
	return in.done(body, (*openfgav1.ExpandRequest)(nil))
}
