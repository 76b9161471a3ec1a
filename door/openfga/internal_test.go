package openfga

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/door"
	"github.com/ostiary/ostiary/door/openfga/internal/wire"
	"github.com/ostiary/ostiary/door/openfga/language"
	"github.com/ostiary/ostiary/expr"
	"github.com/ostiary/ostiary/expr/cel"
	"github.com/ostiary/ostiary/internal/tool/jsonread"
	"github.com/ostiary/ostiary/rel"
	"github.com/ostiary/ostiary/schema"
	"github.com/ostiary/ostiary/storage"
)

const testModel = `model
  schema 1.1
type user
type group
  relations
    define member: [user, group#member]
type document
  relations
    define viewer: [user, user:*, group#member]
`

// testService returns a service with a new store that has testModel.
func testService(t testing.TB, eo ostiary.Options, o Options) (*service, *ostiary.Store) {
	t.Helper()
	eo.Conditions = Conditions{Inner: cel.New(cel.Options{})}
	e, err := ostiary.Open(t.Context(), eo)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	st, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := language.ParseDSL([]byte(testModel))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := st.WriteSchema(t.Context(), authz.SchemaSource{Model: m, Dialect: language.LanguageDSL, Source: []byte(testModel)}); err != nil {
		t.Fatal(err)
	}
	return &service{engine: e, o: o.withDefaults()}, st
}

func addTuples(t testing.TB, st *ostiary.Store, texts ...string) {
	t.Helper()
	var w authz.WriteRequest
	for _, s := range texts {
		tuple, err := rel.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		w.Add = append(w.Add, tuple)
	}
	if _, err := st.Write(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

// wantCode fails the test if err does not have the code.
func wantCode(t testing.TB, err error, want codes.Code) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want code %d", want)
	}
	var f *failure
	if !errors.As(err, &f) || f.code != want {
		t.Fatalf("%v (%T), want code %d", err, err, want)
	}
}

// pieces are the parts of random names: every byte that a rule is about, characters
// of 2 to 4 bytes, and lengths at bounds.
func pieces() []string {
	return []string{"", "a", "b1", ":", "#", "@", "*", " ", "\t", "\n", "\v", "\f", "\r", "\u0085", "\u00a0", "é", "漢", "😀", "\x7f", "-", "_", "01ARZ3NDEKTSV4RRFFQ69G5FAV",
		"01arz3ndektsv4rrffq69g5fav", "01ARZ3NDEKTSV4RRFFQ69G5FAI", strings.Repeat("x", 36), strings.Repeat("x", 50), strings.Repeat("x", 254), strings.Repeat("é", 128), strings.Repeat("x", 256), strings.Repeat("x", 511)}
}

type maker struct{ *rand.Rand }

func (m maker) text() string {
	p := pieces()
	s := ""
	for range 1 + m.IntN(3) {
		s += p[m.IntN(len(p))]
	}
	return s
}

// good usually returns s, and sometimes a random text: with few errors, all rules
// are reached.
func (m maker) good(s string) string {
	if m.IntN(8) == 0 {
		return m.text()
	}
	return s
}

func (m maker) key() wire.Key {
	return wire.Key{User: m.good("user:a"), Relation: m.good("viewer"), Object: m.good("document:1")}
}

func (m maker) id() string { return m.good("01ARZ3NDEKTSV4RRFFQ69G5FAV") }

func (m maker) tuples() (out []wire.Tuple) {
	n := m.IntN(3)
	if m.IntN(10) == 0 {
		n = 99 + m.IntN(3)
	}
	for range n {
		t := wire.Tuple{Key: m.key()}
		if m.IntN(3) == 0 {
			t.Condition = &wire.Condition{Name: m.good("cond")}
		}
		out = append(out, t)
	}
	return out
}

func (m maker) consistency() int32 { return []int32{0, 100, 200, 7, -1}[m.IntN(5)*m.IntN(2)] }

// TestFormsAreTheRules compares the rules in rules.go with the messages' own rules.
func TestFormsAreTheRules(t *testing.T) {
	t.Parallel()
	m := maker{rand.New(rand.NewPCG(1, 2))}
	ok, refused := 0, 0
	compare := func(name string, fast bool, message interface{ ValidateAll() error }, request any) {
		err := message.ValidateAll()
		if fast != (err == nil) {
			t.Errorf("%s: accepted by rules.go: %v; the message's rules: %v: %+v", name, fast, err, request)
		}
		if err == nil {
			ok++
		} else {
			refused++
		}
	}
	for range 1500 {
		check := wire.CheckRequest{StoreID: m.id(), ModelID: m.good(""), HasKey: m.IntN(10) > 0, Key: m.key(), Tuples: m.tuples(), Consistency: m.consistency()}
		compare("check", validCheck(&check), checkMessage(&check), check)
		batch := wire.BatchCheckRequest{StoreID: m.id(), ModelID: m.good(""), Consistency: m.consistency()}
		for range m.IntN(3) {
			batch.Checks = append(batch.Checks, wire.BatchItem{CorrelationID: m.good("c"), HasKey: m.IntN(10) > 0, Key: m.key(), Tuples: m.tuples()})
		}
		compare("batch", validBatch(&batch), batchMessage(&batch), batch)
		objects := wire.ListObjectsRequest{StoreID: m.id(), ModelID: m.good(""), Type: m.good("document"), Relation: m.good("viewer"), User: m.good("user:a"), Tuples: m.tuples(), Consistency: m.consistency()}
		compare("objects", validListObjects(&objects), objectsMessage(&objects), objects)
		compare("streamed", validListObjects(&objects), streamedMessage(&objects), objects)
		users := wire.ListUsersRequest{StoreID: m.id(), ModelID: m.good(""), HasObject: m.IntN(10) > 0, Object: wire.Object{Type: m.good("document"), ID: m.good("1")}, Relation: m.good("viewer"), Tuples: m.tuples(), Consistency: m.consistency()}
		for range []int{1, 1, 1, 0, 2}[m.IntN(5)] {
			users.Filters = append(users.Filters, wire.UserFilter{Type: m.good("user"), Relation: m.good("")})
		}
		compare("users", validListUsers(&users), usersMessage(&users), users)
		write := wire.WriteRequest{StoreID: m.id(), ModelID: m.good(""), HasWrites: m.IntN(4) > 0, Writes: m.tuples(), HasDeletes: m.IntN(4) == 0}
		if !write.HasWrites {
			write.Writes = nil
		}
		if write.HasDeletes {
			for range m.IntN(3) {
				write.Deletes = append(write.Deletes, m.key())
			}
		}
		compare("write", validWrite(&write), writeMessage(&write), write)
	}
	if ok < 500 || refused < 500 {
		t.Errorf("%d fit, %d do not: too few to prove much", ok, refused)
	}
}

// FuzzWord compares the functions on single fields with the rules.
func FuzzWord(f *testing.F) {
	for _, p := range pieces() {
		f.Add(p, p+"a")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		a, b = strings.ToValidUTF8(a, "?"), strings.ToValidUTF8(b, "?")
		in := wire.CheckRequest{StoreID: "01ARZ3NDEKTSV4RRFFQ69G5FAV", HasKey: true, Key: wire.Key{User: a, Relation: b, Object: a}}
		if validCheck(&in) != (checkMessage(&in).ValidateAll() == nil) {
			t.Errorf("%q %q", a, b)
		}
		c := wire.BatchItem{CorrelationID: a, HasKey: true, Key: wire.Key{User: "user:a", Relation: "r", Object: "o:1"}}
		batch := wire.BatchCheckRequest{StoreID: in.StoreID, Checks: []wire.BatchItem{c}}
		if validBatch(&batch) != (batchMessage(&batch).ValidateAll() == nil) {
			t.Errorf("correlation %q", a)
		}
	})
}

// FuzzBody reads bodies as messages. It accepts what encoding/json and protojson
// accept, and reads back what it writes.
func FuzzBody(f *testing.F) {
	for _, s := range []string{``, ` `, `{}`, `null`, `{"name":"a"}`, `{"name":"a","name":"b"}`, `{"name":1}`, `{"name":"a"} x`, `{"type_definitions":[{"type":"user"}]}`,
		`{"typeDefinitions":[{"type":"user"}],"x":[[1]]}`, `{"schema_version":"\ud800"}`, `{"conditions":{"c":{"parameters":{"x":{"type_name":"TYPE_NAME_INT"}}}}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		in := &openfgav1.WriteAuthorizationModelRequest{}
		err := unmarshal(body, in)
		theirs := &openfgav1.WriteAuthorizationModelRequest{}
		want := len(bytes.Trim(body, " \t\r\n")) == 0
		if !want && json.Valid(body) {
			want = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, theirs) == nil && jsonread.Nesting(body, wire.DepthMax) <= wire.DepthMax
		}
		if (err == nil) != want {
			t.Fatalf("%q: %v, want taken: %v", body, err, want)
		}
		if err != nil {
			wantCode(t, err, codeValidation)
			return
		}
		if !proto.Equal(in, theirs) {
			t.Fatalf("%q: %v, want %v", body, in, theirs)
		}
		text, err := marshal(nil, in)
		if err != nil {
			t.Fatal(err)
		}
		again := &openfgav1.WriteAuthorizationModelRequest{}
		if err := unmarshal(text, again); err != nil || !proto.Equal(in, again) {
			t.Fatalf("%q: read back as %v, %v", text, again, err)
		}
	})
}

// TestChangesOfAFilter lists the tuples that a filter removed, one by one and over
// pages, while the past is kept.
func TestChangesOfAFilter(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{}, Options{})
	addTuples(t, st, "document:1#viewer@user:a", "document:2#viewer@user:a", "document:3#viewer@user:b", "group:g#member@user:a")
	if _, err := st.Write(t.Context(), authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{SubjectType: "user", SubjectID: "a"}}}}); err != nil {
		t.Fatal(err)
	}
	addTuples(t, st, "document:4#viewer@user:a")
	for _, at := range []struct {
		typ  string
		want string
	}{
		{"", "+document:1@user:a +document:2@user:a +document:3@user:b +group:g@user:a -document:1@user:a -document:2@user:a -group:g@user:a +document:4@user:a"},
		{"document", "+document:1@user:a +document:2@user:a +document:3@user:b -document:1@user:a -document:2@user:a +document:4@user:a"},
		{"group", "+group:g@user:a -group:g@user:a"},
	} {
		for size := range int32(5) {
			if got := strings.Join(allChanges(t, s, st, at.typ, size+1), " "); got != at.want {
				t.Errorf("type %q, pages of %d:\n%s\nwant\n%s", at.typ, size+1, got, at.want)
			}
		}
	}
}

// TestChangesOfAFilterTooOld checks the error if the past is no longer kept.
func TestChangesOfAFilterTooOld(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{}, Options{})
	addTuples(t, st, "document:1#viewer@user:a")
	if _, err := st.Write(t.Context(), authz.WriteRequest{RemoveMatching: []storage.Filter{{Target: storage.FilterTuples, Tuple: rel.Filter{SubjectType: "user"}}}}); err != nil {
		t.Fatal(err)
	}
	addTuples(t, st, "document:2#viewer@user:a")
	head, err := st.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.Trim(t.Context(), 0, head.Revision); err != nil {
		t.Fatal(err)
	}
	_, err = s.readChanges(t.Context(), &headers{}, &openfgav1.ReadChangesRequest{StoreId: st.ID().String()})
	wantCode(t, err, codePrecondition)
}

func allChanges(t *testing.T, s *service, st *ostiary.Store, typ string, size int32) (out []string) {
	t.Helper()
	in := &openfgav1.ReadChangesRequest{StoreId: st.ID().String(), Type: typ, PageSize: wrapperspb.Int32(size)}
	for range 100 {
		page, err := s.readChanges(t.Context(), &headers{}, in)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.GetChanges()) > int(size) {
			t.Fatalf("a page of %d has %d", size, len(page.GetChanges()))
		}
		if len(page.GetChanges()) == 0 {
			return out
		}
		for _, c := range page.GetChanges() {
			sign := "+"
			if c.GetOperation() == openfgav1.TupleOperation_TUPLE_OPERATION_DELETE {
				sign = "-"
			}
			out = append(out, sign+c.GetTupleKey().GetObject()+"@"+c.GetTupleKey().GetUser())
		}
		in.ContinuationToken = page.GetContinuationToken()
	}
	t.Fatal("the changes never end")
	return nil
}

// TestChangesHorizon checks that younger changes are hidden, and listed later.
func TestChangesHorizon(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(-2 * time.Hour)
	s, st := testService(t, ostiary.Options{Clock: func() time.Time { return now }}, Options{ChangesHorizon: time.Hour})
	addTuples(t, st, "document:1#viewer@user:a")
	now = now.Add(2 * time.Hour)
	addTuples(t, st, "document:2#viewer@user:a")
	if got := allChanges(t, s, st, "", 10); fmt.Sprint(got) != "[+document:1@user:a]" {
		t.Error(got)
	}
	s.o.ChangesHorizon = 0
	if got := allChanges(t, s, st, "", 1); fmt.Sprint(got) != "[+document:1@user:a +document:2@user:a]" {
		t.Error(got)
	}
	out, err := s.readChanges(t.Context(), &headers{}, &openfgav1.ReadChangesRequest{StoreId: st.ID().String(), StartTime: timestamppb.New(now.Add(-time.Hour))})
	if err != nil || len(out.GetChanges()) != 1 || out.GetChanges()[0].GetTupleKey().GetObject() != "document:2" {
		t.Error(out, err)
	}
}

// TestOtherModels reads a model that was written in the DSL. A model that the
// protocol cannot express is an error, and a model of a namespace is not listed.
func TestOtherModels(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{}, Options{})
	id := st.ID().String()
	models, err := s.readModels(t.Context(), &headers{}, &openfgav1.ReadAuthorizationModelsRequest{StoreId: id})
	if err != nil || len(models.GetAuthorizationModels()) != 1 {
		t.Fatal(models, err)
	}
	dsl := models.GetAuthorizationModels()[0]
	want, _, err := language.ParseDSL([]byte(testModel))
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := translate(language.Bounds{}, dsl); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %v", got, err)
	}
	spaced := &schema.Model{Namespace: "space", Types: []schema.TypeDef{{Name: "user"}}}
	if _, _, err := st.WriteSchema(t.Context(), authz.SchemaSource{Model: spaced}); err != nil {
		t.Fatal(err)
	}
	if again, err := s.readModels(t.Context(), &headers{}, &openfgav1.ReadAuthorizationModelsRequest{StoreId: id}); err != nil || len(again.GetAuthorizationModels()) != 1 {
		t.Error(again, err)
	}
	foreign := &schema.Model{Types: []schema.TypeDef{{Name: "user", Attributes: []schema.AttributeDef{{Name: "age"}}}}}
	foreign.Types[0].Attributes[0].Type.Kind = 3
	info, _, err := st.WriteSchema(t.Context(), authz.SchemaSource{Model: foreign})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.readModel(t.Context(), &headers{}, &openfgav1.ReadAuthorizationModelRequest{StoreId: id, Id: info.ID})
	wantCode(t, err, codeInvalidModel)
}

// TestCallersEnd checks that every call distinguishes a canceled request from an
// expired deadline.
func TestCallersEnd(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{}, Options{})
	addTuples(t, st, "document:1#viewer@user:a")
	id := st.ID().String()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer stop()
	for name, f := range map[string]func(context.Context) error{
		"list objects": func(ctx context.Context) error {
			_, err := s.listObjects(ctx, &headers{}, &wire.ListObjectsRequest{StoreID: id, Type: "document", Relation: "viewer", User: "user:a"})
			return err
		},
		"list users": func(ctx context.Context) error {
			_, err := s.listUsers(ctx, &headers{}, &wire.ListUsersRequest{StoreID: id, HasObject: true, Object: wire.Object{Type: "document", ID: "1"}, Relation: "viewer", Filters: []wire.UserFilter{{Type: "user"}}})
			return err
		},
		"stream": func(ctx context.Context) error {
			return s.streamObjects(ctx, &headers{}, &wire.ListObjectsRequest{StoreID: id, Type: "document", Relation: "viewer", User: "user:a"}, func([]string) error { return nil })
		},
		"changes": func(ctx context.Context) error {
			_, err := s.readChanges(ctx, &headers{}, &openfgav1.ReadChangesRequest{StoreId: id})
			return err
		},
		"stores": func(ctx context.Context) error {
			_, err := s.listStores(ctx, &headers{}, &openfgav1.ListStoresRequest{})
			return err
		},
		"write": func(ctx context.Context) error {
			return s.write(ctx, &headers{}, &wire.WriteRequest{StoreID: id, HasWrites: true, Writes: []wire.Tuple{{Key: wire.Key{User: "user:b", Relation: "viewer", Object: "document:1"}}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantCode(t, f(gone), codeCancelled)
			wantCode(t, f(late), codeDeadline)
		})
	}
}

// TestRefusals checks the protocol's errors for requests that the server refuses.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for reason, want := range map[door.Reason]struct {
		status int
		name   string
	}{
		door.NoCredentials: {401, "bearer_token_missing"}, door.BadCredentials: {401, "unauthenticated"},
		door.TooLarge: {413, "resource_exhausted"}, door.TooMany: {422, "throttled_timeout_error"},
		door.TimedOut: {500, "deadline_exceeded"}, door.ShuttingDown: {503, "unavailable"},
		door.Failed: {500, "internal_error"}, door.BadPath: {404, "undefined_endpoint"},
		door.ForeignPage: {403, "forbidden"}, door.ForeignName: {403, "forbidden"}, door.Forbidden: {403, "forbidden"}, door.BadReason: {400, "validation_error"}, 0: {500, "internal_error"},
	} {
		if form := refusalFailure(&door.Refusal{Reason: reason}).httpError(); form.status != want.status || form.name != want.name {
			t.Errorf("reason %d: %d %s, want %d %s", reason, form.status, form.name, want.status, want.name)
		}
	}
}

// TestUnavailable checks the errors after which a client should repeat its
// request: 503 over HTTP and UNAVAILABLE with a delay over gRPC. A deadline of the
// server is none of them and names its bound.
func TestUnavailable(t *testing.T) {
	t.Parallel()
	late := &door.Refusal{Reason: door.TimedOut, Bound: "RequestTimeout", Time: 3 * time.Second}
	for _, err := range []error{
		&authz.Error{Op: "check", Kind: authz.ErrFuture, Err: fmt.Errorf("%w: revision 7, the newest is 5", authz.ErrFuture)},
		&authz.Error{Op: "check", Kind: authz.ErrClosed},
		&authz.Error{Op: "check", Kind: authz.ErrLoading, Err: late},
	} {
		f := toFailure(err)
		form, s := f.httpError(), f.GRPCStatus()
		if form.status != 503 || form.name != "unavailable" || s.Code() != codes.Unavailable || len(s.Details()) != 1 {
			t.Errorf("%v: %+v, %v", err, form, s)
		}
	}
	form := toFailure(&authz.Error{Op: "check", Kind: authz.ErrCanceled, Err: late}).httpError()
	if form.status != 500 || form.name != "deadline_exceeded" || !strings.Contains(form.message, "the bound RequestTimeout is 3s") {
		t.Errorf("%+v", form)
	}
	svc, st := testService(t, ostiary.Options{}, Options{})
	if err := svc.engine.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := svc.open(t.Context(), &headers{}, st.ID().String(), "", 0)
	if form := toFailure(translateError(err)).httpError(); form.status != 503 {
		t.Errorf("after Close: %v, %+v", err, form)
	}
}

// TestFailures checks that every kind of the engine's errors has a code with a name
// of the protocol, and that the text of an internal error is not sent.
func TestFailures(t *testing.T) {
	t.Parallel()
	for _, k := range errorKinds() {
		f := toFailure(&authz.Error{Op: "op", Kind: k.kind, Err: errors.New("detail")})
		if form := f.httpError(); form.name == "" || strings.ContainsAny(form.name, "0123456789") || form.status < 400 {
			t.Errorf("%v: %+v", k.kind, form)
		}
	}
	secret := errors.New("the password is in here")
	if f := toFailure(secret); f.code != codeInternal || strings.Contains(f.message, "password") || !errors.Is(f, secret) {
		t.Error(f)
	}
	var reported []error
	s := &service{o: Options{Report: func(err error) { reported = append(reported, err) }}}
	for _, err := range []error{translateError(secret), failf(codeValidation, "x"), translateError(authz.ErrNoStore), translateError(authz.ErrDamaged), nil} {
		if got := s.report(err); got != err {
			t.Errorf("%v is reported and becomes %v", err, got)
		}
	}
	if len(reported) != 2 || reported[0] != secret || !errors.Is(reported[1], authz.ErrDamaged) {
		t.Errorf("reported: %v", reported)
	}
	for c := range codes.Code(17) {
		if form := newFailure(c, "x").httpError(); c != codes.OK && (form.status < 400 || form.name == "") {
			t.Errorf("gRPC code %d: %+v", c, form)
		}
	}
}

// TestListsBeyondAPage checks lists and streams that take several of the engine's
// pages.
func TestListsBeyondAPage(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{Bounds: authz.Bounds{ListItems: 3}}, Options{ListResults: 8})
	id := st.ID().String()
	in := &wire.ListObjectsRequest{StoreID: id, Type: "document", Relation: "viewer", User: "user:a"}
	who := &wire.ListUsersRequest{StoreID: id, HasObject: true, Object: wire.Object{Type: "document", ID: "0"}, Relation: "viewer", Filters: []wire.UserFilter{{Type: "user"}}}
	addTuples(t, st, "document:0#viewer@user:a")
	for n := 1; n <= 10; n++ {
		var c, cu headers
		ids, err := s.listObjects(t.Context(), &c, in)
		if err != nil || len(ids) != min(n, 8) || (c.truncated != "") != (n > 8) {
			t.Errorf("%d objects: %d, truncated %q, %v", n, len(ids), c.truncated, err)
		}
		users, err := s.listUsers(t.Context(), &cu, who)
		if err != nil || len(users) != min(n, 8) || (cu.truncated != "") != (n > 8) {
			t.Errorf("%d users: %d, truncated %q, %v", n, len(users), cu.truncated, err)
		}
		all := map[string]bool{}
		if err := s.streamObjects(t.Context(), &headers{}, in, func(ids []string) error {
			for _, id := range ids {
				all[id] = true
			}
			return nil
		}); err != nil || len(all) != n {
			t.Errorf("%d streamed: %d, %v", n, len(all), err)
		}
		addTuples(t, st, fmt.Sprintf("document:%d#viewer@user:a", n), fmt.Sprintf("document:0#viewer@user:u%d", n))
	}
	stop := errors.New("enough")
	if err := s.streamObjects(t.Context(), &headers{}, in, func([]string) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a stream that its reader ends: %v", err)
	}
}

// TestDeepModels writes models that nest too deep. A message over gRPC may nest
// 10,000 deep; it must be refused before a function recurses into it.
func TestDeepModels(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{}, Options{})
	rewrite := func(depth int) *openfgav1.Userset {
		u := &openfgav1.Userset{Userset: &openfgav1.Userset_This{This: &openfgav1.DirectUserset{}}}
		for range depth - 1 {
			this := &openfgav1.Userset{Userset: &openfgav1.Userset_This{This: &openfgav1.DirectUserset{}}}
			u = &openfgav1.Userset{Userset: &openfgav1.Userset_Union{Union: &openfgav1.Usersets{Child: []*openfgav1.Userset{this, u}}}}
		}
		return u
	}
	param := func(depth int) *openfgav1.ConditionParamTypeRef {
		p := &openfgav1.ConditionParamTypeRef{TypeName: openfgav1.ConditionParamTypeRef_TYPE_NAME_INT}
		for range depth - 1 {
			p = &openfgav1.ConditionParamTypeRef{TypeName: openfgav1.ConditionParamTypeRef_TYPE_NAME_LIST, GenericTypes: []*openfgav1.ConditionParamTypeRef{p}}
		}
		return p
	}
	model := func(rewrites, params int) error {
		_, err := s.writeModel(t.Context(), &headers{}, &openfgav1.WriteAuthorizationModelRequest{
			StoreId: st.ID().String(), SchemaVersion: "1.1",
			TypeDefinitions: []*openfgav1.TypeDefinition{{Type: "user"}, {Type: "document",
				Relations: map[string]*openfgav1.Userset{"viewer": rewrite(rewrites)},
				Metadata: &openfgav1.Metadata{Relations: map[string]*openfgav1.RelationMetadata{
					"viewer": {DirectlyRelatedUserTypes: []*openfgav1.RelationReference{{Type: "user"}}}}}}},
			Conditions: map[string]*openfgav1.Condition{"c": {Name: "c", Expression: "true", Parameters: map[string]*openfgav1.ConditionParamTypeRef{"p": param(params)}}},
		})
		return err
	}
	if err := model(schema.RewriteDepthMax, language.TypeDepthMax); err != nil {
		t.Error(err)
	}
	for _, at := range [][2]int{{schema.RewriteDepthMax + 1, 1}, {9_000, 1}, {1, language.TypeDepthMax + 1}, {1, 9_000}} {
		wantCode(t, model(at[0], at[1]), codeInvalidModel)
	}
}

// TestInlineWithoutItsCompiler checks that in an engine without [Conditions] the
// condition of a tuple with "$expression" is false.
func TestInlineWithoutItsCompiler(t *testing.T) {
	t.Parallel()
	m, _, err := language.ParseDSL([]byte(testModel))
	if err != nil {
		t.Fatal(err)
	}
	m.Types[2].Relations[0].Subjects = []schema.SubjectType{{Type: "user", Condition: language.InlineCondition}}
	addInline(m)
	addInline(m) // once is enough
	if !usesInline(m) || len(m.Conditions) != 1 {
		t.Fatal(m.Conditions)
	}
	text, err := language.FormatJSON(m)
	if err != nil || bytes.Contains(text, []byte(`"name":"$expression"`)) {
		t.Errorf("%s %v", text, err)
	}
	for _, at := range []struct {
		compiler expr.Compiler
		want     bool
	}{{cel.New(cel.Options{}), false}, {Conditions{cel.New(cel.Options{})}, true}} {
		e, err := ostiary.Open(t.Context(), ostiary.Options{Conditions: at.compiler})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		st, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := st.WriteSchema(t.Context(), authz.SchemaSource{Model: m}); err != nil {
			t.Fatal(err)
		}
		addTuples(t, st, `document:1#viewer@user:a with $expression {"expression":"true"}`)
		r, err := st.Check(t.Context(), authz.CheckRequest{Object: rel.Object{Type: "document", ID: "1"}, Relation: "viewer", Subject: rel.Subject{Type: "user", ID: "a"}})
		if err != nil || r.Allowed() != at.want {
			t.Errorf("%T: %v %v", at.compiler, r, err)
		}
	}
}

// TestListTime checks that a list which takes longer than Options.ListTime is an
// error.
func TestListTime(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{}, Options{ListTime: 1})
	addTuples(t, st, "document:1#viewer@user:a")
	id := st.ID().String()
	objects := wire.ListObjectsRequest{StoreID: id, Type: "document", Relation: "viewer", User: "user:a"}
	_, err := s.listObjects(t.Context(), &headers{}, &objects)
	wantCode(t, err, codeDeadline)
	wantCode(t, s.streamObjects(t.Context(), &headers{}, &objects, func([]string) error { return nil }), codeDeadline)
	_, err = s.listUsers(t.Context(), &headers{}, &wire.ListUsersRequest{StoreID: id, HasObject: true,
		Object: wire.Object{Type: "document", ID: "1"}, Relation: "viewer", Filters: []wire.UserFilter{{Type: "user"}}})
	wantCode(t, err, codeDeadline)
}

// TestNamespaceTuples checks that the tuples of a namespace can neither be written
// nor deleted, whatever model the request names.
func TestNamespaceTuples(t *testing.T) {
	t.Parallel()
	s, st := testService(t, ostiary.Options{}, Options{})
	id := st.ID().String()
	m, _, err := language.ParseDSL([]byte(testModel))
	if err != nil {
		t.Fatal(err)
	}
	m.Namespace = "space"
	info, _, err := st.WriteSchema(t.Context(), authz.SchemaSource{Model: m})
	if err != nil {
		t.Fatal(err)
	}
	addTuples(t, st, "space/document:1#viewer@space/user:a")
	key := wire.Key{User: "space/user:a", Relation: "viewer", Object: "space/document:1"}
	other := wire.Key{User: "other/user:a", Relation: "viewer", Object: "other/document:1"}
	for _, model := range []string{"", info.ID} {
		wantCode(t, s.write(t.Context(), &headers{}, &wire.WriteRequest{StoreID: id, ModelID: model, HasDeletes: true, Deletes: []wire.Key{key}}), codeValidation)
		wantCode(t, s.write(t.Context(), &headers{}, &wire.WriteRequest{StoreID: id, ModelID: model, HasWrites: true, Writes: []wire.Tuple{{Key: key}}}), codeValidation)
	}
	// A namespace that does not exist has no tuples.
	wantCode(t, s.write(t.Context(), &headers{}, &wire.WriteRequest{StoreID: id, HasDeletes: true, Deletes: []wire.Key{other}}), codeWriteFailed)
	if page, err := st.Read(t.Context(), authz.ReadRequest{}); err != nil || len(page.Tuples) != 1 {
		t.Errorf("%v, %v: expected the tuple of the namespace", page.Tuples, err)
	}
}
