package permify

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/jsonread"
	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/eval"
	"github.com/ostiary/ostiary/rel"
)

// The hot calls read their JSON by hand. What is not in the plain form that
// clients send (escapes in names, null, a context, …) is left to the general
// reader: a hand-written one only ever says less than that, never another thing.

// readers keeps JSON readers for reuse.
var readers = sync.Pool{New: func() any { return new(jsonread.Reader) }}

// parse reads a body by hand; false where it is for the general reader.
func parse(body []byte, read func(*jsonread.Reader)) bool {
	r := readers.Get().(*jsonread.Reader)
	defer readers.Put(r)
	r.Reset(body)
	read(r)
	return r.End() == nil
}

func (s *service) checkEndpoint() endpoint[question, decision] {
	return endpoint[question, decision]{
		decode: decodeCheck,
		call:   func(ctx context.Context, q question) (decision, error) { return s.check(ctx, &q) },
		encode: func(d decision) ([]byte, error) { return d.append(make([]byte, 0, 96)), nil },
	}
}

func decodeCheck(body []byte, p door.Params) (question, error) {
	var q question
	if parse(body, q.read) {
		q.tenant = p.At(0)
		return q, nil
	}
	return decodeAs(body, p, checkQuestion)
}

// append adds a decision's JSON.
func (d decision) append(b []byte) []byte {
	if d.allowed {
		b = append(b, `{"can":"CHECK_RESULT_ALLOWED","metadata":{"check_count":`...)
	} else {
		b = append(b, `{"can":"CHECK_RESULT_DENIED","metadata":{"check_count":`...)
	}
	return append(strconv.AppendInt(b, int64(d.count), 10), "}}"...)
}

func (v *verdict) append(b []byte) []byte {
	b = v.decision.append(b)
	if v.why != nil {
		b = appendText(append(b[:len(b)-2], `,"error":`...), v.why.Error())
		b = append(b, "}}"...)
	}
	return b
}

// read reads a check in its plain form.
func (q *question) read(r *jsonread.Reader) {
	seen := 0
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "metadata":
			readMetadata(r, &q.version, &q.snap, &q.depth)
			seen |= 1
		case "entity":
			readEntity(r, &q.entity, "", nil)
			seen |= 2
		case "permission":
			q.permission = r.String()
		case "subject":
			readSubject(r, &q.subject, "", nil)
			seen |= 4
		case "page_size": // not of this call, as the original sees it
			r.Skip()
		case "tenant_id": // the path's counts
			_ = r.String()
		default:
			r.Unknown()
		}
	}
	if seen != 7 {
		r.Fail("not in plain form")
	}
}

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

// readEntity reads an entity; like is a type that it may well have.
func readEntity(r *jsonread.Reader, o *rel.Object, like string, alike *jsonread.Alike) {
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "type":
			o.Type = r.StringLike(like)
		case "id":
			o.ID = r.String()
			alike.Note(r)
		default:
			r.Unknown()
		}
	}
}

func readSubject(r *jsonread.Reader, s *rel.Subject, like string, alike *jsonread.Alike) {
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "type":
			s.Type = r.StringLike(like)
		case "id":
			s.ID = r.String()
			alike.Note(r)
		case "relation":
			s.Relation = plain(r.String())
		default:
			r.Unknown()
		}
	}
}

// bulkCall is a bulk check under way, with memory that the next one uses again.
type bulkCall struct {
	bulk
	verdicts []verdict
	out      []byte
}

// bulkCalls keeps bulk checks for reuse.
var bulkCalls = sync.Pool{New: func() any { return new(bulkCall) }}

// free gives the memory back, without what it held.
func (c *bulkCall) free() {
	clear(c.items)
	clear(c.verdicts)
	c.bulk = bulk{items: c.items[:0]}
	bulkCalls.Put(c)
}

func (s *service) bulkCheckEndpoint() endpoint[*bulkCall, *bulkCall] {
	return endpoint[*bulkCall, *bulkCall]{
		decode: decodeBulkCheck,
		call: func(ctx context.Context, c *bulkCall) (_ *bulkCall, err error) {
			c.verdicts, err = s.bulkCheck(ctx, &c.bulk, c.verdicts[:0])
			return c, err
		},
		encode: (*bulkCall).encode,
		free:   (*bulkCall).free,
	}
}

func decodeBulkCheck(body []byte, p door.Params) (*bulkCall, error) {
	c := bulkCalls.Get().(*bulkCall)
	if parse(body, c.read) {
		c.tenant = p.At(0)
		return c, nil
	}
	var err error
	if c.bulk, err = decodeAs(body, p, bulkQuestions); err != nil {
		c.free()
		return nil, err
	}
	return c, nil
}

// encode returns the verdicts as JSON. The bytes are valid until free.
func (c *bulkCall) encode() ([]byte, error) {
	out := append(c.out[:0], `{"results":[`...)
	for i := range c.verdicts {
		if i > 0 {
			out = append(out, ',')
		}
		out = c.verdicts[i].append(out)
	}
	c.out = append(out, "]}"...)
	return c.out, nil
}

// read reads a bulk check in its plain form.
func (b *bulk) read(r *jsonread.Reader) {
	r.ShareText() // no item is kept
	metadata := false
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "metadata":
			readMetadata(r, &b.version, &b.snap, &b.depth)
			metadata = true
		case "items":
			items := triples{relation: "permission"}
			for r.Array(); r.Item(); {
				if len(b.items) > BulkItemsMax {
					r.Fail("too many items")
					return
				}
				b.items = append(b.items, items.next(r))
			}
		case "tenant_id":
			_ = r.String()
		default:
			r.Unknown()
		}
	}
	if !metadata {
		r.Fail("not in plain form")
	}
}

// triples reads the items of a bulk check or the tuples of a write, which differ
// in how the relation's field is named. They mostly resemble each other.
type triples struct {
	relation     string // the field's name
	last         eval.Question
	alike        jsonread.Alike
	subjectFirst bool // of last
}

func (t *triples) next(r *jsonread.Reader) eval.Question {
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

func (t *triples) read(r *jsonread.Reader) (q eval.Question) {
	const entity, subject = 1, 2
	seen := 0
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "entity":
			readEntity(r, &q.Object, t.last.Object.Type, &t.alike)
			t.subjectFirst = seen&subject != 0
			seen |= entity
		case t.relation:
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

func (s *service) writeEndpoint() endpoint[change, string] {
	return endpoint[change, string]{
		decode: decodeWrite,
		call:   func(ctx context.Context, c change) (string, error) { return s.write(ctx, &c) },
		encode: func(token string) ([]byte, error) {
			return append(appendText([]byte(`{"snap_token":`), token), '}'), nil
		},
	}
}

func decodeWrite(body []byte, p door.Params) (change, error) {
	var c change
	if parse(body, c.read) {
		c.tenant = p.At(0)
		return c, nil
	}
	return decodeAs(body, p, dataChange)
}

// read reads a write of tuples alone in its plain form.
func (c *change) read(r *jsonread.Reader) {
	metadata := false
	for r.Object(); r.Field(); {
		switch string(r.Name()) {
		case "metadata":
			var snap string
			var depth int32
			readMetadata(r, &c.version, &snap, &depth) // the two others are ignored as unknown
			metadata = true
		case "tuples":
			tuples := triples{relation: "relation"}
			for r.Array(); r.Item(); {
				if len(c.tuples) > WriteMax {
					r.Fail("too many tuples")
					return
				}
				t := tuples.next(r)
				c.tuples = append(c.tuples, rel.Tuple{Object: t.Object, Relation: t.Relation, Subject: t.Subject})
			}
		case "attributes":
			for r.Array(); r.Item(); {
				r.Fail("attributes are read by the general reader")
			}
		case "tenant_id":
			_ = r.String()
		default:
			r.Unknown()
		}
	}
	if !metadata {
		r.Fail("not in plain form")
	}
}

func (s *service) lookupEntityEndpoint() endpoint[*basev1.PermissionLookupEntityRequest, *basev1.PermissionLookupEntityResponse] {
	return endpoint[*basev1.PermissionLookupEntityRequest, *basev1.PermissionLookupEntityResponse]{
		decode: decodeMessage[basev1.PermissionLookupEntityRequest], call: s.LookupEntity, encode: encodeEntities}
}

// encodeEntities returns the JSON of a lookup of entities.
func encodeEntities(out *basev1.PermissionLookupEntityResponse) ([]byte, error) {
	body := append(make([]byte, 0, 64+24*len(out.EntityIds)), `{"entity_ids":`...)
	body = appendTexts(body, out.EntityIds)
	body = appendText(append(body, `,"continuous_token":`...), out.ContinuousToken)
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

func (s *service) lookupSubjectEndpoint() endpoint[*basev1.PermissionLookupSubjectRequest, *basev1.PermissionLookupSubjectResponse] {
	return endpoint[*basev1.PermissionLookupSubjectRequest, *basev1.PermissionLookupSubjectResponse]{
		decode: decodeMessage[basev1.PermissionLookupSubjectRequest], call: s.LookupSubject, encode: encodeSubjects}
}

// encodeSubjects returns the JSON of a lookup of subjects.
func encodeSubjects(out *basev1.PermissionLookupSubjectResponse) ([]byte, error) {
	body := append(make([]byte, 0, 64+24*len(out.SubjectIds)), `{"subject_ids":`...)
	body = appendTexts(body, out.SubjectIds)
	body = appendText(append(body, `,"continuous_token":`...), out.ContinuousToken)
	return append(body, '}'), nil
}

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
