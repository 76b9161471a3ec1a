package openfga

import (
	"context"
	"errors"
	"slices"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/schema"
)

func (s *service) writeModel(ctx context.Context, c *headers, in *openfgav1.WriteAuthorizationModelRequest) (*openfgav1.WriteAuthorizationModelResponse, error) {
	if err := shallow(in); err != nil {
		return nil, err
	}
	st, err := s.storeOf(ctx, c, in)
	if err != nil {
		return nil, err
	}
	m := &openfgav1.AuthorizationModel{
		SchemaVersion: in.GetSchemaVersion(), TypeDefinitions: in.GetTypeDefinitions(), Conditions: in.GetConditions(),
	}
	src, err := s.source(m)
	if err != nil {
		return nil, err
	}
	info, token, err := st.WriteSchema(ctx, src)
	if err != nil {
		return nil, translateError(err)
	}
	c.token = token
	return &openfgav1.WriteAuthorizationModelResponse{AuthorizationModelId: info.ID}, nil
}

// shallow refuses a model that nests too deep, before its rules run: the text of
// their errors grows with each level.
func shallow(in *openfgav1.WriteAuthorizationModelRequest) error {
	for _, d := range in.GetTypeDefinitions() {
		for name, r := range d.GetRelations() {
			if !depthWithin(r, schema.RewriteDepthMax) {
				return failf(codeInvalidModel, "%s#%s: rewrite deeper than %d operators", clip(d.GetType()), clip(name), schema.RewriteDepthMax)
			}
		}
	}
	for name, c := range in.GetConditions() {
		for _, p := range c.GetParameters() {
			if !typesWithin(p, language.TypeDepthMax) {
				return failf(codeInvalidModel, "condition %s: more than %d nested types", clip(name), language.TypeDepthMax)
			}
		}
	}
	return nil
}

// typesWithin reports whether a type has at most depthMax types inside each other.
func typesWithin(t *openfgav1.ConditionParamTypeRef, depthMax int) bool {
	if depthMax == 0 {
		return false
	}
	for _, g := range t.GetGenericTypes() {
		if !typesWithin(g, depthMax-1) {
			return false
		}
	}
	return true
}

// source translates a model. The source keeps its JSON, for reading it back.
func (s *service) source(m *openfgav1.AuthorizationModel) (src authz.SchemaSource, err error) {
	if n := len(m.GetTypeDefinitions()); n > s.o.Model.TypesMax() {
		return src, failf(codeEntityLimit, "The number of type definitions in an authorization model exceeds the allowed limit of %d", s.o.Model.TypesMax())
	}
	if n := proto.Size(m); n > s.o.Model.ModelBytesMax() {
		return src, failf(codeEntityLimit, "model exceeds size limit: %d bytes vs %d bytes", n, s.o.Model.ModelBytesMax())
	}
	model, text, err := translate(s.o.Model, m)
	if err != nil {
		return src, failf(codeInvalidModel, "%v", err)
	}
	if usesInline(model) {
		if !s.o.InlineExpressions {
			return src, failf(codeValidation, "$expression requires the %q experimental feature flag", "inline_expressions")
		}
		addInline(model)
	}
	return authz.SchemaSource{Model: model, Dialect: language.LanguageJSON, Source: text}, nil
}

func (s *service) readModel(ctx context.Context, c *headers, in *openfgav1.ReadAuthorizationModelRequest) (*openfgav1.ReadAuthorizationModelResponse, error) {
	st, err := s.storeOf(ctx, c, in)
	if err != nil {
		if toFailure(err).code == codeStoreNotFound {
			return nil, noModel(in.GetStoreId(), in.GetId())
		}
		return nil, err
	}
	m, err := model(ctx, st, in.GetId())
	if err != nil {
		return nil, err
	}
	return &openfgav1.ReadAuthorizationModelResponse{AuthorizationModel: m}, nil
}

// model reads a model back: as it was written if it was written in JSON, else
// translated from the schema.
func model(ctx context.Context, st *ostiary.Store, id string) (*openfgav1.AuthorizationModel, error) {
	sc, err := st.Schema(ctx, id)
	if errors.Is(err, authz.ErrNoSchema) {
		return nil, noModel(st.ID().String(), id)
	}
	if err != nil {
		return nil, translateError(err)
	}
	var m *openfgav1.AuthorizationModel
	if sc.Dialect == language.LanguageJSON {
		m, err = readMessage(sc.Source)
	} else {
		m, err = Message(sc.Model)
	}
	if err != nil {
		return nil, failf(codeInvalidModel, "model %s cannot be expressed in this protocol: %v", id, err)
	}
	m.Id = sc.ID
	return m, nil
}

func (s *service) readModels(ctx context.Context, c *headers, in *openfgav1.ReadAuthorizationModelsRequest) (*openfgav1.ReadAuthorizationModelsResponse, error) {
	st, err := s.storeOf(ctx, c, in)
	if err != nil {
		return nil, err
	}
	list, err := st.Schemas(ctx)
	if err != nil {
		return nil, translateError(err)
	}
	// Models of a namespace were written through another door.
	list = slices.DeleteFunc(list, func(i authz.SchemaInfo) bool { return i.Namespace != "" })
	if token := in.GetContinuationToken(); token != "" {
		last, err := openToken(modelsToken, token, in.GetStoreId())
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list, func(i authz.SchemaInfo) bool { return i.ID == string(last) })
		if i < 0 {
			return nil, badContinuation()
		}
		list = list[i+1:]
	}
	out := &openfgav1.ReadAuthorizationModelsResponse{AuthorizationModels: []*openfgav1.AuthorizationModel{}}
	if limit := pageSize(in.GetPageSize().GetValue()); len(list) > limit {
		list = list[:limit]
		out.ContinuationToken = sealToken(modelsToken, []byte(list[limit-1].ID), in.GetStoreId())
	}
	for _, info := range list {
		m, err := model(ctx, st, info.ID)
		if err != nil {
			return nil, err
		}
		out.AuthorizationModels = append(out.AuthorizationModels, m)
	}
	return out, nil
}
