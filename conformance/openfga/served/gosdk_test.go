package served

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"testing"

	openfga "github.com/openfga/go-sdk"
	"github.com/openfga/go-sdk/client"
)

// TestGoSDK plays the flow with the official Go SDK. The flows of the other
// SDKs, in testdata, are the same, step by step.
func TestGoSDK(t *testing.T) {
	t.Parallel()
	f := &goFlow{T: t}
	var err error
	if f.c, err = client.NewSdkClient(&client.ClientConfiguration{ApiUrl: server(t).URL("")}); err != nil {
		t.Fatal(err)
	}
	f.store()
	f.model()
	f.write()
	f.checks()
	f.batch()
	f.lists()
	f.read()
	f.assertions()
	f.refusals()
	f.remove()
}

type goFlow struct {
	*testing.T
	c           *client.OpenFgaClient
	id, modelID string
}

func tuple(user, relation, object string) client.ClientTupleKey {
	return client.ClientTupleKey{User: user, Relation: relation, Object: object}
}

// story is what is written: anne sees the roadmap through a group and a
// folder, bob owns it, carl sees it in hours, dan is blocked.
func story() []client.ClientTupleKey {
	carl := tuple("user:carl", "viewer", "document:roadmap")
	carl.Condition = &openfga.RelationshipCondition{Name: "in_hours", Context: &map[string]any{"from": 9, "until": 17}}
	return []client.ClientTupleKey{
		tuple("user:anne", "member", "group:eng"),
		tuple("group:eng#member", "viewer", "folder:plans"),
		tuple("folder:plans", "parent", "document:roadmap"),
		tuple("user:bob", "owner", "document:roadmap"),
		carl,
		tuple("user:dan", "owner", "document:secret"),
		tuple("user:dan", "blocked", "document:secret"),
	}
}

func (f *goFlow) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *goFlow) store() {
	made, err := f.c.CreateStore(f.Context()).Body(client.ClientCreateStoreRequest{Name: "go flow"}).Execute()
	f.must(err)
	f.id = made.Id
	f.must(f.c.SetStoreId(f.id))
	list, err := f.c.ListStores(f.Context()).Options(client.ClientListStoresOptions{Name: openfga.PtrString("go flow")}).Execute()
	f.must(err)
	if !slices.ContainsFunc(list.Stores, func(s openfga.Store) bool { return s.Id == f.id && s.Name == "go flow" }) {
		f.Errorf("the store is not listed: %v", list.Stores)
	}
	got, err := f.c.GetStore(f.Context()).Execute()
	f.must(err)
	if got.Name != "go flow" || !got.CreatedAt.Equal(made.CreatedAt) {
		f.Errorf("the store is %+v", got)
	}
}

func (f *goFlow) model() {
	text, err := os.ReadFile("testdata/model.json")
	f.must(err)
	var body client.ClientWriteAuthorizationModelRequest
	f.must(json.Unmarshal(text, &body))
	for range 2 {
		written, err := f.c.WriteAuthorizationModel(f.Context()).Body(body).Execute()
		f.must(err)
		f.modelID = written.AuthorizationModelId
	}
	f.must(f.c.SetAuthorizationModelId(f.modelID))
	one, err := f.c.ReadAuthorizationModel(f.Context()).Execute()
	f.must(err)
	if one.AuthorizationModel == nil || len(one.AuthorizationModel.TypeDefinitions) != 4 || one.AuthorizationModel.Conditions == nil {
		f.Errorf("the model is %+v", one.AuthorizationModel)
	}
	latest, err := f.c.ReadLatestAuthorizationModel(f.Context()).Execute()
	f.must(err)
	if latest.AuthorizationModel.Id != f.modelID {
		f.Errorf("the latest model is %s", latest.AuthorizationModel.Id)
	}
	all, err := f.c.ReadAuthorizationModels(f.Context()).Execute()
	f.must(err)
	if len(all.AuthorizationModels) != 2 || all.AuthorizationModels[0].Id != f.modelID {
		f.Errorf("models: %+v", all.AuthorizationModels)
	}
}

func (f *goFlow) write() {
	tuples := story()
	_, err := f.c.Write(f.Context()).Body(client.ClientWriteRequest{Writes: tuples[:5]}).Execute()
	f.must(err)
	_, err = f.c.WriteTuples(f.Context()).Body(tuples[5:]).Execute()
	f.must(err)
}

func (f *goFlow) checks() {
	at := func(hour int) *map[string]any { return &map[string]any{"hour": hour} }
	for _, q := range []struct {
		ask  client.ClientCheckRequest
		want bool
	}{
		{client.ClientCheckRequest{User: "user:anne", Relation: "viewer", Object: "document:roadmap"}, true},
		{client.ClientCheckRequest{User: "user:bob", Relation: "viewer", Object: "document:roadmap"}, true},
		{client.ClientCheckRequest{User: "user:dan", Relation: "viewer", Object: "document:secret"}, false},
		{client.ClientCheckRequest{User: "user:carl", Relation: "viewer", Object: "document:roadmap", Context: at(10)}, true},
		{client.ClientCheckRequest{User: "user:carl", Relation: "viewer", Object: "document:roadmap", Context: at(20)}, false},
		{client.ClientCheckRequest{User: "user:eve", Relation: "viewer", Object: "document:roadmap"}, false},
		{client.ClientCheckRequest{User: "user:eve", Relation: "viewer", Object: "document:roadmap",
			ContextualTuples: []client.ClientContextualTupleKey{tuple("user:eve", "member", "group:eng")}}, true},
		{client.ClientCheckRequest{User: "group:eng#member", Relation: "viewer", Object: "document:roadmap"}, true},
	} {
		got, err := f.c.Check(f.Context()).Body(q.ask).Options(client.ClientCheckOptions{Consistency: openfga.CONSISTENCYPREFERENCE_HIGHER_CONSISTENCY.Ptr()}).Execute()
		f.must(err)
		if got.GetAllowed() != q.want {
			f.Errorf("%+v: %v", q.ask, got.GetAllowed())
		}
	}
}

func (f *goFlow) batch() {
	item := func(id, user, object string) client.ClientBatchCheckItem {
		return client.ClientBatchCheckItem{CorrelationId: id, User: user, Relation: "viewer", Object: object}
	}
	carl := item("carl", "user:carl", "document:roadmap")
	carl.Context = &map[string]any{"hour": 10}
	got, err := f.c.BatchCheck(f.Context()).Body(client.ClientBatchCheckRequest{Checks: []client.ClientBatchCheckItem{
		item("anne", "user:anne", "document:roadmap"), item("dan", "user:dan", "document:secret"), carl, item("lost", "user:carl", "document:roadmap"),
	}}).Execute()
	f.must(err)
	result := got.GetResult()
	if anne, dan, carl := result["anne"], result["dan"], result["carl"]; !anne.GetAllowed() || dan.GetAllowed() || !carl.GetAllowed() {
		f.Errorf("batch: %+v", result)
	}
	lost := result["lost"]
	if e := lost.GetError(); e.GetInputError() != openfga.ERRORCODE_VALIDATION_ERROR || e.GetMessage() == "" {
		f.Errorf("a check without its context: %+v", lost)
	}
	single, err := f.c.ClientBatchCheck(f.Context()).Body(client.ClientBatchCheckClientBody{
		{User: "user:anne", Relation: "viewer", Object: "document:roadmap"}, {User: "user:dan", Relation: "viewer", Object: "document:secret"},
	}).Execute()
	f.must(err)
	if len(*single) != 2 {
		f.Errorf("client batch: %+v", single)
	}
}

func (f *goFlow) lists() {
	objects, err := f.c.ListObjects(f.Context()).Body(client.ClientListObjectsRequest{User: "user:anne", Relation: "viewer", Type: "document"}).Execute()
	f.must(err)
	if !slices.Equal(objects.Objects, []string{"document:roadmap"}) {
		f.Errorf("objects: %v", objects.Objects)
	}
	stream, err := f.c.StreamedListObjects(f.Context()).Body(client.ClientStreamedListObjectsRequest{User: "user:bob", Relation: "viewer", Type: "document"}).Execute()
	f.must(err)
	var streamed []string
	for o := range stream.Objects {
		streamed = append(streamed, o.Object)
	}
	f.must(<-stream.Errors)
	stream.Close()
	if !slices.Equal(streamed, []string{"document:roadmap"}) {
		f.Errorf("streamed: %v", streamed)
	}
	users, err := f.c.ListUsers(f.Context()).Body(client.ClientListUsersRequest{
		Object: openfga.FgaObject{Type: "document", Id: "roadmap"}, Relation: "viewer",
		UserFilters: []openfga.UserTypeFilter{{Type: "user"}}, Context: &map[string]any{"hour": 10},
	}).Execute()
	f.must(err)
	var ids []string
	for _, u := range users.Users {
		ids = append(ids, u.Object.Id)
	}
	slices.Sort(ids)
	if !slices.Equal(ids, []string{"anne", "bob", "carl"}) {
		f.Errorf("users: %v", ids)
	}
	relations, err := f.c.ListRelations(f.Context()).Body(client.ClientListRelationsRequest{
		User: "user:bob", Object: "document:roadmap", Relations: []string{"owner", "viewer", "blocked"}}).Execute()
	f.must(err)
	slices.Sort(relations.Relations)
	if !slices.Equal(relations.Relations, []string{"owner", "viewer"}) {
		f.Errorf("relations: %v", relations.Relations)
	}
	tree, err := f.c.Expand(f.Context()).Body(client.ClientExpandRequest{Relation: "viewer", Object: "document:roadmap"}).Execute()
	f.must(err)
	if root := tree.GetTree().Root; root == nil || root.Name != "document:roadmap#viewer" || root.Difference == nil || root.Difference.Base.Union == nil {
		f.Errorf("tree: %+v", root)
	}
}

func (f *goFlow) read() {
	var tuples []openfga.Tuple
	token := ""
	for pages := 0; ; pages++ {
		page, err := f.c.Read(f.Context()).Body(client.ClientReadRequest{}).Options(
			client.ClientReadOptions{PageSize: openfga.PtrInt32(3), ContinuationToken: &token}).Execute()
		f.must(err)
		tuples = append(tuples, page.Tuples...)
		if token = page.ContinuationToken; token == "" || pages > 10 {
			break
		}
	}
	if len(tuples) != 7 {
		f.Errorf("%d tuples", len(tuples))
	}
	one, err := f.c.Read(f.Context()).Body(client.ClientReadRequest{User: openfga.PtrString("user:carl"), Object: openfga.PtrString("document:")}).Execute()
	f.must(err)
	if len(one.Tuples) != 1 || one.Tuples[0].Key.Condition.GetName() != "in_hours" || (*one.Tuples[0].Key.Condition.Context)["from"] != float64(9) {
		f.Errorf("by user: %+v", one.Tuples)
	}
	var changes []openfga.TupleChange
	token = ""
	for range 5 {
		page, err := f.c.ReadChanges(f.Context()).Body(client.ClientReadChangesRequest{Type: "document"}).Options(
			client.ClientReadChangesOptions{PageSize: openfga.PtrInt32(2), ContinuationToken: &token}).Execute()
		f.must(err)
		changes, token = append(changes, page.Changes...), page.GetContinuationToken()
	}
	if len(changes) != 5 || changes[0].TupleKey.User != "folder:plans" || changes[0].Operation != openfga.TUPLEOPERATION_WRITE {
		f.Errorf("changes: %+v", changes)
	}
}

func (f *goFlow) assertions() {
	asserted := client.ClientWriteAssertionsRequest{
		{User: "user:anne", Relation: "viewer", Object: "document:roadmap", Expectation: true},
		{User: "user:eve", Relation: "viewer", Object: "document:roadmap", Expectation: true,
			ContextualTuples: []client.ClientContextualTupleKey{tuple("user:eve", "member", "group:eng")}},
	}
	_, err := f.c.WriteAssertions(f.Context()).Body(asserted).Execute()
	f.must(err)
	got, err := f.c.ReadAssertions(f.Context()).Execute()
	f.must(err)
	list := got.GetAssertions()
	if len(list) != 2 || list[0].TupleKey.User != "user:anne" || !list[0].Expectation || len(list[1].GetContextualTuples()) != 1 {
		f.Errorf("assertions: %+v", list)
	}
}

// refusals are errors, which the SDK distinguishes by status and code.
func (f *goFlow) refusals() {
	refused := func(what string, err error, status int, code openfga.ErrorCode) {
		f.Helper()
		var e openfga.FgaApiValidationError
		if !errors.As(err, &e) || e.ResponseStatusCode() != status || e.ResponseCode() != code {
			f.Errorf("%s: %T %v", what, err, err)
		}
	}
	_, err := f.c.Check(f.Context()).Body(client.ClientCheckRequest{User: "user:carl", Relation: "viewer", Object: "document:roadmap"}).Execute()
	refused("a check without its context", err, http.StatusBadRequest, openfga.ERRORCODE_VALIDATION_ERROR)
	_, err = f.c.Check(f.Context()).Body(client.ClientCheckRequest{User: "user:carl", Relation: "nonsense", Object: "document:roadmap"}).Execute()
	refused("an unknown relation", err, http.StatusBadRequest, openfga.ERRORCODE_VALIDATION_ERROR)
	_, err = f.c.WriteTuples(f.Context()).Body(story()[:1]).Execute()
	refused("a tuple that is there", err, http.StatusBadRequest, openfga.ERRORCODE_WRITE_FAILED_DUE_TO_INVALID_INPUT)
	_, err = f.c.Write(f.Context()).Body(client.ClientWriteRequest{Writes: story()[:1]}).Options(client.ClientWriteOptions{
		Conflict: client.ClientWriteConflictOptions{OnDuplicateWrites: client.CLIENT_WRITE_REQUEST_ON_DUPLICATE_WRITES_IGNORE}}).Execute()
	f.must(err)
}

func (f *goFlow) remove() {
	_, err := f.c.DeleteTuples(f.Context()).Body([]client.ClientTupleKeyWithoutCondition{{User: "user:anne", Relation: "member", Object: "group:eng"}}).Execute()
	f.must(err)
	got, err := f.c.Check(f.Context()).Body(client.ClientCheckRequest{User: "user:anne", Relation: "viewer", Object: "document:roadmap"}).Execute()
	f.must(err)
	if got.GetAllowed() {
		f.Error("anne still sees the roadmap")
	}
	_, err = f.c.DeleteStore(f.Context()).Execute()
	f.must(err)
	_, err = f.c.GetStore(f.Context()).Execute()
	var gone openfga.FgaApiNotFoundError
	if !errors.As(err, &gone) || gone.ResponseStatusCode() != http.StatusNotFound || gone.ResponseCode() != openfga.NOTFOUNDERRORCODE_STORE_ID_NOT_FOUND {
		f.Errorf("a store that is gone: %T %v", err, err)
	}
}
