package permify

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/rel"
)

// Checks, bulk checks and writes are the most frequent calls. A hand-written
// reader decodes them if their JSON has the plain form that clients send. It
// rejects everything else (escapes in names, null, a context, ...), and the
// general reader decodes that. So the hand-written reader accepts less than the
// general one, but never gives a different result. FuzzFastJSON tests that.

// readers recycles JSON readers.
var readers = sync.Pool{New: func() any { return new(jsonread.Reader) }}

// readPlain reads a body with a hand-written reader. It returns false if the
// body does not have the plain form; what read stored is then incomplete.
func readPlain(body []byte, read func(*jsonread.Reader)) bool {
	r := readers.Get().(*jsonread.Reader)
	defer readers.Put(r)
	r.Reset(body)
	read(r)
	return r.End() == nil
}

// checkEndpoint serves Permission.Check.
func (s *service) checkEndpoint() endpoint[checkRequest, decision] {
	return endpoint[checkRequest, decision]{
		decode: decodeCheck,
		call:   func(ctx context.Context, q checkRequest) (decision, error) { return s.check(ctx, &q) },
		encode: func(d decision) ([]byte, error) { return d.appendJSON(make([]byte, 0, 96)), nil },
	}
}

func decodeCheck(body []byte, p door.Params) (checkRequest, error) {
	var q checkRequest
	if readPlain(body, q.readJSON) {
		q.tenant = p.At(0)
		return q, nil
	}
	return decodeAs(body, p, newCheckRequest)
}

// appendJSON appends the decision's JSON to b.
func (d decision) appendJSON(b []byte) []byte {
	if d.allowed {
		b = append(b, `{"can":"CHECK_RESULT_ALLOWED","metadata":{"check_count":`...)
	} else {
		b = append(b, `{"can":"CHECK_RESULT_DENIED","metadata":{"check_count":`...)
	}
	return append(strconv.AppendInt(b, int64(d.count), 10), "}}"...)
}

// appendJSON appends the result's JSON to b.
func (r *bulkResult) appendJSON(b []byte) []byte {
	b = r.decision.appendJSON(b)
	if r.err != nil {
		b = appendText(append(b[:len(b)-2], `,"error":`...), r.err.Error())
		b = append(b, "}}"...)
	}
	return b
}

// readJSON reads a check in its plain form.
func (q *checkRequest) readJSON(r *jsonread.Reader) {
	const metadata, entity, subject = 1, 2, 4
	seen := 0
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "metadata":
			readMetadata(r, &q.version, &q.snapToken, &q.depth)
			seen |= metadata
		case "entity":
			readEntity(r, &q.entity, "", nil)
			seen |= entity
		case "permission":
			q.permission = r.String()
		case "subject":
			readSubject(r, &q.subject, "", nil)
			seen |= subject
		case "page_size": // not a field of a check; ignored, as the original does
			r.Skip()
		default:
			skipTenant(r)
		}
	}
	requirePlain(r, seen == metadata|entity|subject)
}

// skipTenant ignores the field tenant_id, because the tenant comes from the
// path. Any other field is unknown.
func skipTenant(r *jsonread.Reader) {
	if string(r.Name()) == "tenant_id" {
		_ = r.String()
	} else {
		r.Unknown()
	}
}

// requirePlain fails if a request is not in plain form.
func requirePlain(r *jsonread.Reader, plain bool) {
	if !plain {
		r.Fail("not in plain form")
	}
}

// readMetadata reads the metadata of a request.
func readMetadata(r *jsonread.Reader, version, snap *string, depth *int32) {
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "schema_version":
			*version = r.String()
		case "snap_token":
			*snap = r.String()
		case "depth":
			*depth = int32(r.Int(0, 1<<31-1))
		default:
			r.Unknown()
		}
	}
}

// readEntity reads an entity. Hint is a likely type: an equal type shares its
// memory. If alike is not nil it notes where the id is.
func readEntity(r *jsonread.Reader, o *rel.Object, hint string, alike *jsonread.Alike) {
	readReference(r, &o.Type, &o.ID, nil, hint, alike)
}

// readSubject is like readEntity, for a subject.
func readSubject(r *jsonread.Reader, s *rel.Subject, hint string, alike *jsonread.Alike) {
	readReference(r, &s.Type, &s.ID, &s.Relation, hint, alike)
}

// readReference reads an entity or a subject. If relation is nil, a relation is
// an unknown field.
func readReference(r *jsonread.Reader, typ, id, relation *string, hint string, alike *jsonread.Alike) {
	for r.Object(); r.Field(); {
		switch name := r.Name(); {
		case string(name) == "type":
			*typ = r.StringLike(hint)
		case string(name) == "id":
			*id = r.String()
			alike.Note(r)
		case string(name) == "relation" && relation != nil:
			*relation = optionalRelation(r.String())
		default:
			r.Unknown()
		}
	}
}

// bulkCheckCall is the state of one bulk check over REST. Its memory is
// recycled.
type bulkCheckCall struct {
	bulkCheckRequest
	// results are the results of the items, in their order.
	results []bulkResult
	// out is the buffer of the response.
	out []byte
}

// bulkCheckCalls recycles bulkCheckCalls.
var bulkCheckCalls = sync.Pool{New: func() any { return new(bulkCheckCall) }}

// free recycles the call. It clears all references of the call first.
func (c *bulkCheckCall) free() {
	clear(c.items)
	clear(c.results)
	clear(c.requests)
	c.bulkCheckRequest = bulkCheckRequest{items: c.items[:0], requests: c.requests[:0]}
	bulkCheckCalls.Put(c)
}

// bulkCheckEndpoint serves Permission.BulkCheck.
func (s *service) bulkCheckEndpoint() endpoint[*bulkCheckCall, *bulkCheckCall] {
	return endpoint[*bulkCheckCall, *bulkCheckCall]{
		decode: decodeBulkCheck,
		call: func(ctx context.Context, c *bulkCheckCall) (_ *bulkCheckCall, err error) {
			c.results, err = s.bulkCheck(ctx, &c.bulkCheckRequest, c.results[:0])
			return c, err
		},
		encode: (*bulkCheckCall).encode,
		free:   (*bulkCheckCall).free,
	}
}

func decodeBulkCheck(body []byte, p door.Params) (*bulkCheckCall, error) {
	c := bulkCheckCalls.Get().(*bulkCheckCall)
	if readPlain(body, c.readJSON) {
		c.tenant = p.At(0)
		return c, nil
	}
	var err error
	if c.bulkCheckRequest, err = decodeAs(body, p, newBulkCheckRequest); err != nil {
		c.free()
		return nil, err
	}
	return c, nil
}

// encode returns the results as JSON. The bytes are valid until free.
func (c *bulkCheckCall) encode() ([]byte, error) {
	out := append(c.out[:0], `{"results":[`...)
	for i := range c.results {
		if i > 0 {
			out = append(out, ',')
		}
		out = c.results[i].appendJSON(out)
	}
	c.out = append(out, "]}"...)
	return c.out, nil
}

// readJSON reads a bulk check in its plain form. Its strings share the memory
// of the body.
func (b *bulkCheckRequest) readJSON(r *jsonread.Reader) {
	r.ShareText()
	metadata := false
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "metadata":
			readMetadata(r, &b.version, &b.snapToken, &b.depth)
			metadata = true
		case "items":
			items := tripleReader{relationField: "permission"}
			for r.Array(); r.Item(); {
				if len(b.items) > bulkItemsMax {
					r.Fail("too many items")
					return
				}
				b.items = append(b.items, items.next(r))
			}
		default:
			skipTenant(r)
		}
	}
	requirePlain(r, metadata)
}

// tripleReader reads the items of a bulk check, or the tuples of a write. Both
// are an entity, a subject, and a permission or relation. Neighbors in a list
// often differ only in their ids; [jsonread.Alike] reads such an item faster.
type tripleReader struct {
	// relationField is the name of the field that holds the permission or
	// relation.
	relationField string
	// last is the previous item.
	last authz.Question
	// alike is the text of the previous item, without its ids.
	alike jsonread.Alike
	// subjectFirst is true if the subject preceded the entity in last.
	subjectFirst bool
}

// next reads the next item.
func (t *tripleReader) next(r *jsonread.Reader) authz.Question {
	if entity, subject, ok := r.Again(&t.alike); ok {
		if t.subjectFirst {
			entity, subject = subject, entity
		}
		t.last.Object.ID, t.last.Subject.ID = entity, subject
		return t.last
	}
	t.alike.Begin(r)
	t.last = t.read(r)
	t.alike.End(r)
	return t.last
}

// read reads an item field by field.
func (t *tripleReader) read(r *jsonread.Reader) (q authz.Question) {
	const entity, subject = 1, 2
	seen := 0
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "entity":
			readEntity(r, &q.Object, t.last.Object.Type, &t.alike)
			t.subjectFirst = seen&subject != 0
			seen |= entity
		case t.relationField:
			q.Relation = r.StringLike(t.last.Relation)
		case "subject":
			readSubject(r, &q.Subject, t.last.Subject.Type, &t.alike)
			seen |= subject
		default:
			r.Unknown()
		}
	}
	if seen != entity|subject {
		r.Fail("not in plain form")
	}
	return q
}

// writeEndpoint serves Data.Write.
func (s *service) writeEndpoint() endpoint[writeRequest, string] {
	return endpoint[writeRequest, string]{
		decode: decodeWrite,
		call:   func(ctx context.Context, c writeRequest) (string, error) { return s.write(ctx, &c) },
		encode: func(token string) ([]byte, error) {
			return append(appendText([]byte(`{"snap_token":`), token), '}'), nil
		},
	}
}

func decodeWrite(body []byte, p door.Params) (writeRequest, error) {
	var c writeRequest
	if readPlain(body, c.readJSON) {
		c.tenant = p.At(0)
		return c, nil
	}
	return decodeAs(body, p, newWriteRequest)
}

// readJSON reads a write in its plain form, which has no attributes.
func (c *writeRequest) readJSON(r *jsonread.Reader) {
	metadata := false
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "metadata":
			var snapToken string
			var depth int32
			readMetadata(r, &c.version, &snapToken, &depth) // a write has neither; both are ignored
			metadata = true
		case "tuples":
			tuples := tripleReader{relationField: "relation"}
			for r.Array(); r.Item(); {
				if len(c.tuples) > writeMax {
					r.Fail("too many tuples")
					return
				}
				t := tuples.next(r)
				c.tuples = append(c.tuples, rel.Tuple{Object: t.Object, Relation: t.Relation, Subject: t.Subject})
			}
		case "attributes":
			for r.Array(); r.Item(); {
				requirePlain(r, false)
			}
		default:
			skipTenant(r)
		}
	}
	requirePlain(r, metadata)
}

// lookupEntityEndpoint serves Permission.LookupEntity.
func (s *service) lookupEntityEndpoint() endpoint[*permifypb.PermissionLookupEntityRequest, *permifypb.PermissionLookupEntityResponse] {
	return endpoint[*permifypb.PermissionLookupEntityRequest, *permifypb.PermissionLookupEntityResponse]{
		decode: decodeMessage[permifypb.PermissionLookupEntityRequest], call: s.LookupEntity, encode: encodeEntities}
}

// encodeEntities returns the JSON of a lookup of entities.
func encodeEntities(out *permifypb.PermissionLookupEntityResponse) ([]byte, error) {
	body := encodePage(`{"entity_ids":`, out.EntityIds, out.ContinuousToken)
	if out.Permissions != nil {
		body = append(body, `,"permissions":{`...)
		first := true
		for _, name := range slices.Sorted(maps.Keys(out.Permissions)) {
			if !first {
				body = append(body, ',')
			}
			first = false
			body = append(appendText(body, name), `:{"data":`...)
			body = append(appendTexts(body, out.Permissions[name].GetData()), '}')
		}
		body = append(body, '}')
	}
	return append(body, '}'), nil
}

// lookupSubjectEndpoint serves Permission.LookupSubject.
func (s *service) lookupSubjectEndpoint() endpoint[*permifypb.PermissionLookupSubjectRequest, *permifypb.PermissionLookupSubjectResponse] {
	return endpoint[*permifypb.PermissionLookupSubjectRequest, *permifypb.PermissionLookupSubjectResponse]{
		decode: decodeMessage[permifypb.PermissionLookupSubjectRequest], call: s.LookupSubject, encode: encodeSubjects}
}

// encodeSubjects returns the JSON of a lookup of subjects.
func encodeSubjects(out *permifypb.PermissionLookupSubjectResponse) ([]byte, error) {
	return append(encodePage(`{"subject_ids":`, out.SubjectIds, out.ContinuousToken), '}'), nil
}

// encodePage returns the JSON of a page of ids, without the closing brace.
// start is the text before the ids.
func encodePage(start string, ids []string, token string) []byte {
	body := append(make([]byte, 0, 64+24*len(ids)), start...)
	body = appendTexts(body, ids)
	return appendText(append(body, `,"continuous_token":`...), token)
}

// appendTexts appends a JSON array of strings.
func appendTexts(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, t)
	}
	return append(b, ']')
}
