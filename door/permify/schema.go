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
	"github.com/ostiary/ostiary/door/permify/basev1"
	"github.com/ostiary/ostiary/door/permify/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/schema"
)

// schemaPage is the page of schema lists where none is asked for.
const schemaPage = 50

// createdLayout is how a schema's time is written.
const createdLayout = "2006-01-02 15:04:05 -0700 MST"

// WriteSchema is Schema.Write.
func (s *service) WriteSchema(ctx context.Context, r *basev1.SchemaWriteRequest) (*basev1.SchemaWriteResponse, error) {
	if err := checkTenant("SchemaWriteRequest", r.TenantId); err != nil {
		return nil, err
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	version, err := writeSchema(ctx, store, r.Schema)
	if err != nil {
		return nil, err
	}
	return &basev1.SchemaWriteResponse{SchemaVersion: version}, nil
}

func writeSchema(ctx context.Context, store *ostiary.Store, text string) (string, error) {
	parsed, err := language.Parse(text)
	if err != nil {
		return "", translated(err)
	}
	model, err := parsed.Model()
	if err != nil {
		return "", translated(err)
	}
	info, _, err := store.WriteSchema(ctx, ostiary.SchemaSource{Model: model, Dialect: language.Dialect, Source: []byte(text)})
	if err != nil {
		return "", translated(located(parsed, err))
	}
	return info.ID, nil
}

// located puts the place in the text before what the compiler says.
func located(s *language.Schema, err error) error {
	var e *schema.Error
	if !errors.As(err, &e) {
		return err
	}
	if r := s.Rule(e.Condition); r != nil {
		at, text := withinRule(r, e.Text)
		return &language.Error{Position: at, Text: text, Kind: e}
	}
	at := language.Position{Line: 1, Column: 1}
	if t := s.Entity(e.Type); t != nil {
		at = t.Position
		if st := t.Statement(e.Relation); st != nil {
			at = st.Position
		}
	}
	return &language.Error{Position: at, Text: e.Text, Kind: e}
}

// celPlace is how the expression library says where: line, column (from 1) and
// text, with a drawing below.
var celPlace = regexp.MustCompile(`<input>:(\d+):(\d+): ([^\n]*)`)

// withinRule turns a place in a rule's expression into one in the schema.
func withinRule(r *language.Rule, text string) (language.Position, string) {
	at := r.BodyPosition
	m := celPlace.FindStringSubmatch(text)
	if m == nil {
		return at, strings.TrimPrefix(text, expr.ErrCompile.Error()+": ")
	}
	line, errLine := strconv.Atoi(m[1])
	column, errColumn := strconv.Atoi(m[2])
	if errLine != nil || errColumn != nil {
		return at, m[3]
	}
	if line == 1 {
		return language.Position{Line: at.Line, Column: at.Column + column - 1}, m[3]
	}
	return language.Position{Line: at.Line + line - 1, Column: column}, m[3]
}

// source returns a schema as it was written in this language. One of another
// language is refused by name.
func source(ctx context.Context, store *ostiary.Store, version string) (*language.Schema, *ostiary.Schema, error) {
	stored, err := store.Schema(ctx, version)
	if err != nil {
		return nil, nil, translated(err)
	}
	if stored.Dialect != language.Dialect {
		return nil, nil, &failure{code: codes.Unimplemented, message: "the schema was written in another language (" + stored.Dialect + ")"}
	}
	parsed, err := language.Parse(string(stored.Source))
	if err != nil {
		return nil, nil, translated(err)
	}
	return parsed, stored, nil
}

// PartialWrite is the call of that name: it edits a schema's text.
func (s *service) PartialWrite(ctx context.Context, r *basev1.SchemaPartialWriteRequest) (*basev1.SchemaPartialWriteResponse, error) {
	if err := checkTenant("SchemaPartialWriteRequest", r.TenantId); err != nil {
		return nil, err
	}
	if r.Metadata == nil {
		return nil, required("SchemaPartialWriteRequest.Metadata")
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	parsed, _, err := source(ctx, store, r.Metadata.SchemaVersion)
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
		return nil, coded(basev1.ErrorCode_ERROR_CODE_ENTITY_DEFINITION_NOT_FOUND)
	case errors.Is(err, language.ErrNoStatement):
		return nil, coded(basev1.ErrorCode_ERROR_CODE_ENTITY_STATEMENT_NOT_FOUND)
	case errors.Is(err, language.ErrDuplicate):
		return nil, coded(basev1.ErrorCode_ERROR_CODE_ALREADY_EXIST)
	case err != nil:
		return nil, translated(err)
	}
	version, err := writeSchema(ctx, store, text)
	if err != nil {
		return nil, err
	}
	return &basev1.SchemaPartialWriteResponse{SchemaVersion: version}, nil
}

// ReadSchema is Schema.Read.
func (s *service) ReadSchema(ctx context.Context, r *basev1.SchemaReadRequest) (*basev1.SchemaReadResponse, error) {
	if err := checkTenant("SchemaReadRequest", r.TenantId); err != nil {
		return nil, err
	}
	if r.Metadata == nil {
		return nil, required("SchemaReadRequest.Metadata")
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	parsed, stored, err := source(ctx, store, r.Metadata.SchemaVersion)
	if err != nil {
		return nil, err
	}
	definition, err := Definition(parsed, stored.Compiled)
	if err != nil {
		return nil, translated(err)
	}
	return &basev1.SchemaReadResponse{Schema: definition}, nil
}

// ListSchemas is Schema.List, newest first.
func (s *service) ListSchemas(ctx context.Context, r *basev1.SchemaListRequest) (*basev1.SchemaListResponse, error) {
	if err := checkTenant("SchemaListRequest", r.TenantId); err != nil {
		return nil, err
	}
	store, err := s.store(ctx, r.TenantId)
	if err != nil {
		return nil, err
	}
	key := tokenKey("schemas", r.TenantId)
	at, err := readToken(r.ContinuousToken, key)
	if err != nil {
		return nil, err
	}
	all, err := store.Schemas(ctx)
	if err != nil {
		return nil, translated(err)
	}
	out := &basev1.SchemaListResponse{}
	if len(all) > 0 {
		out.Head = all[0].ID
	}
	if at.last != "" { // newer ones are above what the first page showed
		i := slices.IndexFunc(all, func(x ostiary.SchemaInfo) bool { return x.ID == at.last })
		if i < 0 {
			return nil, coded(basev1.ErrorCode_ERROR_CODE_INVALID_CONTINUOUS_TOKEN)
		}
		all = all[i+1:]
	}
	n := min(len(all), page(r.PageSize, schemaPage))
	for _, info := range all[:n] {
		out.Schemas = append(out.Schemas, &basev1.SchemaList{Version: info.ID, CreatedAt: info.Created.UTC().Truncate(time.Second).Format(createdLayout)})
	}
	if n < len(all) {
		out.ContinuousToken = (&place{last: all[n-1].ID}).text(key)
	}
	return out, nil
}
