package permify

import (
	"context"
	"errors"

	"google.golang.org/protobuf/encoding/protojson"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
)

// bundleKind is the kind of the documents that hold bundles. Their key is the
// bundle's name.
const bundleKind = "permify.bundle"

// WriteBundle implements Bundle.Write. It replaces bundles of the same name.
func (s *service) WriteBundle(ctx context.Context, r *permifypb.BundleWriteRequest) (*permifypb.BundleWriteResponse, error) {
	if err := checkTenant("BundleWriteRequest", r.TenantId); err != nil {
		return nil, err
	}
	if n := len(r.Bundles); n < 1 || n > bundlesMax {
		return nil, itemCountError("BundleWriteRequest.Bundles", 1, bundlesMax)
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	var w authz.WriteRequest
	out := &permifypb.BundleWriteResponse{}
	seen := map[string]bool{}
	for i, b := range r.Bundles {
		if err := checkBundle(b); err != nil {
			return nil, itemError(err, "BundleWriteRequest.Bundles", i)
		}
		if seen[b.Name] {
			return nil, codeError(permifypb.ErrorCode_ERROR_CODE_ALREADY_EXIST)
		}
		seen[b.Name] = true
		body, err := protojson.Marshal(b)
		if err != nil {
			return nil, translateError(err)
		}
		if len(body) > bundleBytesMax {
			return nil, itemError(invalidArgument("invalid DataBundle: the bound BundleBytesMax is %d", bundleBytesMax), "BundleWriteRequest.Bundles", i)
		}
		w.Documents = append(w.Documents, authz.Document{Kind: bundleKind, Key: b.Name, Body: body})
		out.Names = append(out.Names, b.Name)
	}
	if _, err := store.Write(ctx, w); err != nil {
		return nil, translateError(err)
	}
	return out, nil
}

// checkBundle checks what does not depend on the arguments' values: the name,
// that no line occurs twice, and that every line is well-formed and uses only
// declared arguments.
func checkBundle(b *permifypb.DataBundle) error {
	if b.GetName() == "" || len(b.Name) > 256 {
		return invalidArgument("invalid DataBundle.Name: value length must be between 1 and 256 bytes, inclusive")
	}
	samples := map[string]string{} // a valid value for each argument
	for _, a := range b.Arguments {
		samples[a] = "x"
	}
	for _, op := range b.Operations {
		lines := [][]string{op.GetRelationshipsWrite(), op.GetRelationshipsDelete(), op.GetAttributesWrite(), op.GetAttributesDelete()}
		for _, l := range lines {
			seen := map[string]bool{}
			for _, text := range l {
				if seen[text] {
					return codeError(permifypb.ErrorCode_ERROR_CODE_ALREADY_EXIST)
				}
				seen[text] = true
			}
		}
		for i, l := range lines {
			for _, text := range l {
				if err := checkLine(text, i < 2, samples); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkLine parses a line with sample arguments.
func checkLine(text string, isTuple bool, samples map[string]string) error {
	var err error
	if isTuple {
		_, err = parseTuple(text, samples)
	} else {
		_, _, _, err = splitAttribute(text, samples)
	}
	return err
}

// tenantBundle returns a tenant's store and a bundle in it. message names the
// request in validation errors. It fails with BUNDLE_NOT_FOUND if there is no
// such bundle.
func (s *service) tenantBundle(ctx context.Context, message, tenant, name string) (*ostiary.Store, *permifypb.DataBundle, error) {
	store, err := s.validTenant(ctx, message, tenant)
	if err != nil {
		return nil, nil, err
	}
	d, err := store.Document(ctx, authz.DocumentKey{Kind: bundleKind, Key: name})
	if errors.Is(err, authz.ErrNoDocument) || name == "" {
		return nil, nil, codeError(permifypb.ErrorCode_ERROR_CODE_BUNDLE_NOT_FOUND)
	}
	if err != nil {
		return nil, nil, translateError(err)
	}
	b := &permifypb.DataBundle{}
	if err := protojson.Unmarshal(d.Body, b); err != nil {
		return nil, nil, translateError(err)
	}
	return store, b, nil
}

// ReadBundle implements Bundle.Read.
func (s *service) ReadBundle(ctx context.Context, r *permifypb.BundleReadRequest) (*permifypb.BundleReadResponse, error) {
	_, b, err := s.tenantBundle(ctx, "BundleReadRequest", r.TenantId, r.Name)
	if err != nil {
		return nil, err
	}
	return &permifypb.BundleReadResponse{Bundle: b}, nil
}

// DeleteBundle implements Bundle.Delete.
func (s *service) DeleteBundle(ctx context.Context, r *permifypb.BundleDeleteRequest) (*permifypb.BundleDeleteResponse, error) {
	store, _, err := s.tenantBundle(ctx, "BundleDeleteRequest", r.TenantId, r.Name)
	if err != nil {
		return nil, err
	}
	if _, err := store.Write(ctx, authz.WriteRequest{RemoveDocuments: []authz.DocumentKey{{Kind: bundleKind, Key: r.Name}}}); err != nil {
		return nil, translateError(err)
	}
	return &permifypb.BundleDeleteResponse{Name: r.Name}, nil
}

// RunBundle implements Data.RunBundle: it fills in the arguments and applies
// all operations in one write, which the schema must admit. If the operations
// touch a tuple or attribute more than once, the last operation counts.
func (s *service) RunBundle(ctx context.Context, r *permifypb.BundleRunRequest) (*permifypb.BundleRunResponse, error) {
	store, b, err := s.tenantBundle(ctx, "BundleRunRequest", r.TenantId, r.Name)
	if err != nil {
		return nil, err
	}
	for _, name := range b.Arguments {
		if _, ok := r.Arguments[name]; !ok {
			return nil, codeError(permifypb.ErrorCode_ERROR_CODE_MISSING_ARGUMENT)
		}
	}
	info, compiled, err := store.Compiled(ctx, "")
	if err != nil {
		return nil, translateError(err)
	}
	run := &bundleRun{schema: compiled, args: r.Arguments, tuples: map[rel.Key]bool{}, attributes: map[rel.Attribute]*string{}}
	if err := run.operations(b.Operations); err != nil {
		return nil, err
	}
	w := run.write()
	if len(w.Add)+len(w.Remove)+len(w.SetAttributes)+len(w.RemoveAttributes) > writeMax {
		return nil, codeError(permifypb.ErrorCode_ERROR_CODE_MAX_DATA_PER_WRITE_EXCEEDED)
	}
	w.SchemaID = info.ID
	token, err := store.Write(ctx, w)
	if err != nil {
		return nil, s.explainRefusal(ctx, store, &writeRequest{version: info.ID, tuples: w.Add}, err)
	}
	return &permifypb.BundleRunResponse{SnapToken: string(token)}, nil
}

// bundleRun collects the effect of a bundle's operations.
type bundleRun struct {
	schema *schema.Schema
	// args are the values of the arguments, by name.
	args map[string]string
	// tuples is true for a written tuple and false for a deleted one.
	tuples map[rel.Key]bool
	// attributes maps an attribute, without its value, to its new value; nil
	// deletes it.
	attributes map[rel.Attribute]*string
	// tupleOrder and attributeOrder hold the keys of the maps in the order of
	// their first operation.
	tupleOrder     []rel.Key
	attributeOrder []rel.Attribute
}

// operations applies the operations in their order.
func (b *bundleRun) operations(ops []*permifypb.Operation) error {
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

// tuple applies one line about a tuple.
func (b *bundleRun) tuple(text string, written bool) error {
	t, err := parseTuple(text, b.args)
	if err != nil {
		return err
	}
	if written {
		if code := refusalCode(b.schema, &t); code != 0 {
			return codeError(code)
		}
	}
	k := t.Key()
	if _, again := b.tuples[k]; !again {
		b.tupleOrder = append(b.tupleOrder, k)
	}
	b.tuples[k] = written
	return nil
}

// attribute applies one line about an attribute.
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
			return codeError(permifypb.ErrorCode_ERROR_CODE_ATTRIBUTE_TYPE_MISMATCH)
		}
	}
	if _, again := b.attributes[a]; !again {
		b.attributeOrder = append(b.attributeOrder, a)
	}
	if b.attributes[a] = nil; written {
		b.attributes[a] = &value
	}
	return nil
}

// write returns the write that has the collected effect.
func (b *bundleRun) write() authz.WriteRequest {
	w := authz.WriteRequest{OnDuplicate: authz.Ignore, OnMissing: authz.Ignore}
	for _, k := range b.tupleOrder {
		if b.tuples[k] {
			w.Add = append(w.Add, rel.Tuple{Object: k.Object, Relation: k.Relation, Subject: k.Subject})
		} else {
			w.Remove = append(w.Remove, k)
		}
	}
	for _, a := range b.attributeOrder {
		if value := b.attributes[a]; value != nil {
			a.Value = *value
			w.SetAttributes = append(w.SetAttributes, a)
		} else {
			w.RemoveAttributes = append(w.RemoveAttributes, a)
		}
	}
	return w
}
