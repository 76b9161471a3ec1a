package permify

import (
	"context"
	"errors"

	"google.golang.org/protobuf/encoding/protojson"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// bundleKind is the kind of the documents that hold bundles, by name.
const bundleKind = "permify.bundle"

// WriteBundle is Bundle.Write. A bundle that is there is replaced.
func (s *service) WriteBundle(ctx context.Context, r *basev1.BundleWriteRequest) (*basev1.BundleWriteResponse, error) {
	if err := checkTenant("BundleWriteRequest", r.TenantId); err != nil {
		return nil, err
	}
	if n := len(r.Bundles); n < 1 || n > BundlesMax {
		return nil, itemCount("BundleWriteRequest.Bundles", 1, BundlesMax)
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	var w ostiary.WriteRequest
	out := &basev1.BundleWriteResponse{}
	seen := map[string]bool{}
	for i, b := range r.Bundles {
		if err := checkBundle(b); err != nil {
			return nil, within(err, "BundleWriteRequest.Bundles", i)
		}
		if seen[b.Name] {
			return nil, coded(basev1.ErrorCode_ERROR_CODE_ALREADY_EXIST)
		}
		seen[b.Name] = true
		body, err := protojson.Marshal(b)
		if err != nil {
			return nil, translated(err)
		}
		if len(body) > BundleBytesMax {
			return nil, within(invalid("invalid DataBundle: the bound BundleBytesMax is %d", BundleBytesMax), "BundleWriteRequest.Bundles", i)
		}
		w.Documents = append(w.Documents, ostiary.Document{Kind: bundleKind, Key: b.Name, Body: body})
		out.Names = append(out.Names, b.Name)
	}
	if _, err := store.Write(ctx, w); err != nil {
		return nil, translated(err)
	}
	return out, nil
}

// checkBundle checks what can be known of a bundle before it is run: its name,
// that no line stands twice, and that every line has a form and known arguments.
func checkBundle(b *basev1.DataBundle) error {
	if b.GetName() == "" || len(b.Name) > 256 {
		return invalid("invalid DataBundle.Name: value length must be between 1 and 256 bytes, inclusive")
	}
	known := map[string]string{}
	for _, a := range b.Arguments {
		known[a] = "x"
	}
	for _, op := range b.Operations {
		lines := [][]string{op.GetRelationshipsWrite(), op.GetRelationshipsDelete(), op.GetAttributesWrite(), op.GetAttributesDelete()}
		for _, l := range lines {
			seen := map[string]bool{}
			for _, text := range l {
				if seen[text] {
					return coded(basev1.ErrorCode_ERROR_CODE_ALREADY_EXIST)
				}
				seen[text] = true
			}
		}
		for i, l := range lines {
			for _, text := range l {
				if err := checkLine(text, i < 2, known); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkLine fills a line with any arguments, to see that it has a form.
func checkLine(text string, isTuple bool, known map[string]string) error {
	var err error
	if isTuple {
		_, err = parseTuple(text, known)
	} else {
		_, _, _, err = splitAttribute(text, known)
	}
	return err
}

func (s *service) bundle(ctx context.Context, store *ostiary.Store, name string) (*basev1.DataBundle, error) {
	d, err := store.Document(ctx, ostiary.DocumentKey{Kind: bundleKind, Key: name})
	if errors.Is(err, ostiary.ErrNoDocument) || name == "" {
		return nil, coded(basev1.ErrorCode_ERROR_CODE_BUNDLE_NOT_FOUND)
	}
	if err != nil {
		return nil, translated(err)
	}
	b := &basev1.DataBundle{}
	if err := protojson.Unmarshal(d.Body, b); err != nil {
		return nil, translated(err)
	}
	return b, nil
}

// ReadBundle is Bundle.Read.
func (s *service) ReadBundle(ctx context.Context, r *basev1.BundleReadRequest) (*basev1.BundleReadResponse, error) {
	if err := checkTenant("BundleReadRequest", r.TenantId); err != nil {
		return nil, err
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	b, err := s.bundle(ctx, store, r.Name)
	if err != nil {
		return nil, err
	}
	return &basev1.BundleReadResponse{Bundle: b}, nil
}

// DeleteBundle is Bundle.Delete.
func (s *service) DeleteBundle(ctx context.Context, r *basev1.BundleDeleteRequest) (*basev1.BundleDeleteResponse, error) {
	if err := checkTenant("BundleDeleteRequest", r.TenantId); err != nil {
		return nil, err
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	if _, err := s.bundle(ctx, store, r.Name); err != nil {
		return nil, err
	}
	if _, err := store.Write(ctx, ostiary.WriteRequest{RemoveDocuments: []ostiary.DocumentKey{{Kind: bundleKind, Key: r.Name}}}); err != nil {
		return nil, translated(err)
	}
	return &basev1.BundleDeleteResponse{Name: r.Name}, nil
}

// RunBundle is Data.RunBundle. What the bundle says with its arguments is held
// against the schema as any other write, and happens in one. Where its
// operations touch a tuple or attribute more than once, the last one counts.
func (s *service) RunBundle(ctx context.Context, r *basev1.BundleRunRequest) (*basev1.BundleRunResponse, error) {
	if err := checkTenant("BundleRunRequest", r.TenantId); err != nil {
		return nil, err
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	b, err := s.bundle(ctx, store, r.Name)
	if err != nil {
		return nil, err
	}
	for _, name := range b.Arguments {
		if _, ok := r.Arguments[name]; !ok {
			return nil, coded(basev1.ErrorCode_ERROR_CODE_MISSING_ARGUMENT)
		}
	}
	info, compiled, err := store.Compiled(ctx, "")
	if err != nil {
		return nil, translated(err)
	}
	run := &bundleRun{schema: compiled, args: r.Arguments, tuples: map[rel.Key]bool{}, attributes: map[rel.Attribute]*string{}}
	if err := run.operations(b.Operations); err != nil {
		return nil, err
	}
	w := run.write()
	if len(w.Add)+len(w.Remove)+len(w.SetAttributes)+len(w.RemoveAttributes) > WriteMax {
		return nil, coded(basev1.ErrorCode_ERROR_CODE_MAX_DATA_PER_WRITE_EXCEEDED)
	}
	w.SchemaID = info.ID
	token, err := store.Write(ctx, w)
	if err != nil {
		return nil, s.refused(ctx, store, &change{version: info.ID, tuples: w.Add}, err)
	}
	return &basev1.BundleRunResponse{SnapToken: string(token)}, nil
}

// bundleRun gathers what a bundle's operations come to.
type bundleRun struct {
	schema     *schema.Schema
	args       map[string]string
	tuples     map[rel.Key]bool // true: written, false: deleted
	attributes map[rel.Attribute]*string
	order      []rel.Key
	names      []rel.Attribute
}

func (b *bundleRun) operations(ops []*basev1.Operation) error {
	for _, op := range ops {
		for _, text := range op.GetRelationshipsWrite() {
			if err := b.tuple(text, true); err != nil {
				return err
			}
		}
		for _, text := range op.GetRelationshipsDelete() {
			if err := b.tuple(text, false); err != nil {
				return err
			}
		}
		for _, text := range op.GetAttributesWrite() {
			if err := b.attribute(text, true); err != nil {
				return err
			}
		}
		for _, text := range op.GetAttributesDelete() {
			if err := b.attribute(text, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bundleRun) tuple(text string, written bool) error {
	t, err := parseTuple(text, b.args)
	if err != nil {
		return err
	}
	if written {
		if code := refusedTuple(b.schema, &t); code != 0 {
			return coded(code)
		}
	}
	k := t.Key()
	if _, again := b.tuples[k]; !again {
		b.order = append(b.order, k)
	}
	b.tuples[k] = written
	return nil
}

func (b *bundleRun) attribute(text string, written bool) error {
	a, typ, err := parseAttribute(text, b.args)
	if err != nil {
		return err
	}
	value := a.Value
	a.Value = ""
	if written {
		want, err := attributeType(b.schema, a.Object.Type, a.Name)
		if err != nil {
			return err
		}
		if want.String() != typ.String() {
			return coded(basev1.ErrorCode_ERROR_CODE_ATTRIBUTE_TYPE_MISMATCH)
		}
	}
	if _, again := b.attributes[a]; !again {
		b.names = append(b.names, a)
	}
	if b.attributes[a] = nil; written {
		b.attributes[a] = &value
	}
	return nil
}

func (b *bundleRun) write() ostiary.WriteRequest {
	w := ostiary.WriteRequest{OnDuplicate: ostiary.Ignore, OnMissing: ostiary.Ignore}
	for _, k := range b.order {
		if b.tuples[k] {
			w.Add = append(w.Add, rel.Tuple{Object: k.Object, Relation: k.Relation, Subject: k.Subject})
		} else {
			w.Remove = append(w.Remove, k)
		}
	}
	for _, a := range b.names {
		if value := b.attributes[a]; value != nil {
			a.Value = *value
			w.SetAttributes = append(w.SetAttributes, a)
		} else {
			w.RemoveAttributes = append(w.RemoveAttributes, a)
		}
	}
	return w
}
