package permify

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	ostiary "github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/internal/permifypb"
	"github.com/ostiary/ostiary/schema"
)

// schemaPage is the page size of schema lists if the request sets none.
const schemaPage = 50

// createdLayout is the format of a schema's creation time.
const createdLayout = "2006-01-02 15:04:05 -0700 MST"

// WriteSchema implements Schema.Write.
func (s *service) WriteSchema(ctx context.Context, r *permifypb.SchemaWriteRequest) (*permifypb.SchemaWriteResponse, error) {
	store, err := s.validTenant(ctx, "SchemaWriteRequest", r.TenantId)
	if err != nil {
		return nil, err
	}
	version, err := writeSchema(ctx, store, r.Schema)
	if err != nil {
		return nil, err
	}
	return &permifypb.SchemaWriteResponse{SchemaVersion: version}, nil
}

// parseFactor is the memory that the parser may need, as a multiple of the size of
// the text.
const parseFactor = 64

// writeSchema stores a schema and returns its version.
func writeSchema(ctx context.Context, store *ostiary.Store, text string) (string, error) {
	var parsed *language.Schema
	var model *schema.Model
	err := store.Compilation(ctx, len(text)*parseFactor, func() (err error) {
		if parsed, err = language.Parse(text); err == nil {
			model, err = parsed.Model()
		}
		return err
	})
	if err != nil {
		return "", translateError(err)
	}
	info, _, err := store.WriteSchema(ctx, authz.SchemaSource{Model: model, Dialect: language.Dialect, Source: []byte(text)})
	if err != nil {
		return "", translateError(withPosition(parsed, err))
	}
	return info.ID, nil
}

// withPosition adds to a compiler's error its position in the schema's text.
// Other errors stay unchanged.
func withPosition(s *language.Schema, err error) error {
	var e *schema.Error
	if !errors.As(err, &e) {
		return err
	}
	if r := s.Rule(e.Condition); r != nil {
		position, text := positionInRule(r, e.Text)
		return &language.Error{Position: position, Text: text, Kind: e}
	}
	position := language.Position{Line: 1, Column: 1}
	if t := s.Entity(e.Type); t != nil {
		position = t.Position
		if st := t.Statement(e.Relation); st != nil {
			position = st.Position
		}
	}
	return &language.Error{Position: position, Text: e.Text, Kind: e}
}

// celPosition matches the start of an error of the CEL library: line and
// column, from 1, and the text.
var celPosition = regexp.MustCompile(`<input>:(\d+):(\d+): ([^\n]*)`)

// positionInRule splits an error of the CEL library into its text and its
// position in the schema. Without a position it returns the start of the rule's
// body.
func positionInRule(r *language.Rule, text string) (language.Position, string) {
	start := r.BodyPosition
	m := celPosition.FindStringSubmatch(text)
	if m == nil {
		return start, strings.TrimPrefix(text, expr.ErrCompile.Error()+": ")
	}
	line, errLine := strconv.Atoi(m[1])
	column, errColumn := strconv.Atoi(m[2])
	if errLine != nil || errColumn != nil {
		return start, m[3]
	}
	if line == 1 {
		return language.Position{Line: start.Line, Column: start.Column + column - 1}, m[3]
	}
	return language.Position{Line: start.Line + line - 1, Column: column}, m[3]
}

// schemaSource returns a schema as it was written in Permify's language. It
// fails with Unimplemented if the schema was written in another language.
func schemaSource(ctx context.Context, store *ostiary.Store, version string) (*language.Schema, *ostiary.Schema, error) {
	stored, err := store.Schema(ctx, version)
	if err != nil {
		return nil, nil, translateError(err)
	}
	if stored.Dialect != language.Dialect {
		return nil, nil, &failure{code: codes.Unimplemented, message: "the schema was written in another language (" + stored.Dialect + ")"}
	}
	parsed, err := language.Parse(string(stored.Source))
	if err != nil {
		return nil, nil, translateError(err)
	}
	return parsed, stored, nil
}

// PartialWrite implements Schema.PartialWrite: it edits the text of a schema
// and stores the result as a new version.
func (s *service) PartialWrite(ctx context.Context, r *permifypb.SchemaPartialWriteRequest) (*permifypb.SchemaPartialWriteResponse, error) {
	if err := checkTenant("SchemaPartialWriteRequest", r.TenantId); err != nil {
		return nil, err
	}
	if r.Metadata == nil {
		return nil, requiredError("SchemaPartialWriteRequest.Metadata")
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	parsed, _, err := schemaSource(ctx, store, r.Metadata.SchemaVersion)
	if err != nil {
		return nil, err
	}
	var edits []language.Edit
	for _, entity := range slices.Sorted(maps.Keys(r.Partials)) {
		p := r.Partials[entity]
		edits = append(edits, language.Edit{Entity: entity, Write: p.GetWrite(), Update: p.GetUpdate(), Delete: p.GetDelete()})
	}
	text, err := parsed.Apply(edits)
	switch {
	case errors.Is(err, language.ErrNoEntity):
		return nil, codeError(permifypb.ErrorCode_ERROR_CODE_ENTITY_DEFINITION_NOT_FOUND)
	case errors.Is(err, language.ErrNoStatement):
		return nil, codeError(permifypb.ErrorCode_ERROR_CODE_ENTITY_STATEMENT_NOT_FOUND)
	case errors.Is(err, language.ErrDuplicate):
		return nil, codeError(permifypb.ErrorCode_ERROR_CODE_ALREADY_EXIST)
	case err != nil:
		return nil, translateError(err)
	}
	version, err := writeSchema(ctx, store, text)
	if err != nil {
		return nil, err
	}
	return &permifypb.SchemaPartialWriteResponse{SchemaVersion: version}, nil
}

// ReadSchema implements Schema.Read.
func (s *service) ReadSchema(ctx context.Context, r *permifypb.SchemaReadRequest) (*permifypb.SchemaReadResponse, error) {
	if err := checkTenant("SchemaReadRequest", r.TenantId); err != nil {
		return nil, err
	}
	if r.Metadata == nil {
		return nil, requiredError("SchemaReadRequest.Metadata")
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	parsed, stored, err := schemaSource(ctx, store, r.Metadata.SchemaVersion)
	if err != nil {
		return nil, err
	}
	definition, err := Definition(parsed, stored.Compiled)
	if err != nil {
		return nil, translateError(err)
	}
	return &permifypb.SchemaReadResponse{Schema: definition}, nil
}

// ListSchemas implements Schema.List, newest first.
func (s *service) ListSchemas(ctx context.Context, r *permifypb.SchemaListRequest) (*permifypb.SchemaListResponse, error) {
	store, err := s.validTenant(ctx, "SchemaListRequest", r.TenantId)
	if err != nil {
		return nil, err
	}
	key := tokenKey("schemas", r.TenantId)
	start, err := parsePosition(r.ContinuousToken, key)
	if err != nil {
		return nil, err
	}
	all, err := store.Schemas(ctx)
	if err != nil {
		return nil, translateError(err)
	}
	out := &permifypb.SchemaListResponse{}
	if len(all) > 0 {
		out.Head = all[0].ID
	}
	if start.last != "" { // versions written since the first page are not shown
		i := slices.IndexFunc(all, func(x authz.SchemaInfo) bool { return x.ID == start.last })
		if i < 0 {
			return nil, codeError(permifypb.ErrorCode_ERROR_CODE_INVALID_CONTINUOUS_TOKEN)
		}
		all = all[i+1:]
	}
	n := min(len(all), pageSize(r.PageSize, schemaPage))
	for _, info := range all[:n] {
		out.Schemas = append(out.Schemas, &permifypb.SchemaList{Version: info.ID, CreatedAt: info.Created.UTC().Truncate(time.Second).Format(createdLayout)})
	}
	if n < len(all) {
		out.ContinuousToken = (&position{last: all[n-1].ID}).token(key)
	}
	return out, nil
}
