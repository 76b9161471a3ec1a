package identity_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/ostiary/ostiary"
	"github.com/ostiary/ostiary/authz"
	"github.com/ostiary/ostiary/internal/identity"
	"github.com/ostiary/ostiary/internal/identity/settings"
	"github.com/ostiary/ostiary/internal/identity/token"
	"github.com/ostiary/ostiary/storage/memory"
)

// refused are the methods that look at their arguments, or at the memory, before they
// read the store, with their errors.
var refused = []string{
	"CheckSecrets: <nil>", "Flush: <nil>", // there are no users
	"Enter: <nil>", // it asks the request
	"SetDomainConfig: Invalid domain specific configuration: The value of group a specified in the config should be a dictionary of options.",
	"UpdateDomainConfig: Invalid domain specific configuration: Group a is not supported for domain specific configurations.",
	"Validate: Failed to validate token", // it has expired
	"CreateEC2: Could not find project: a.",
	"DeleteDomainConfig: Invalid domain specific configuration: Group a is not supported for domain specific configurations.",
	"DomainConfig: Invalid domain specific configuration: Group a is not supported for domain specific configurations.",
}

// TestClosed calls every method of a service that gets a context. Each
// must fail after the engine was closed.
func TestClosed(t *testing.T) {
	driver := memory.New()
	t.Cleanup(func() { driver.Close() })
	e, err := ostiary.Open(t.Context(), ostiary.Options{Driver: driver, SecretKey: &[32]byte{1}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := e.CreateStore(t.Context(), ostiary.CreateStoreRequest{Name: "keystone"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := identity.Open(t.Context(), store, settings.Deployment{Rounds: 4})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := identity.Open(t.Context(), store, settings.Deployment{}); !errors.Is(err, authz.ErrClosed) {
		t.Errorf("Open: %v, want ErrClosed", err)
	}
	calls := 0
	v := reflect.ValueOf(s)
	for i := range v.NumMethod() {
		name, f := v.Type().Method(i).Name, v.Method(i)
		last := f.Type().NumOut() - 1
		if f.Type().NumIn() == 0 || f.Type().In(0) != reflect.TypeFor[context.Context]() || last < 0 || f.Type().Out(last) != reflect.TypeFor[error]() {
			continue
		}
		calls++
		in := []reflect.Value{reflect.ValueOf(t.Context())}
		for j := 1; j < f.Type().NumIn() && !(f.Type().IsVariadic() && j == f.Type().NumIn()-1); j++ {
			in = append(in, argument(f.Type().In(j), 4))
		}
		out := f.Call(in)
		if err, _ := out[last].Interface().(error); !errors.Is(err, authz.ErrClosed) && !slices.Contains(refused, fmt.Sprint(name, ": ", err)) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
	if calls < 50 {
		t.Errorf("only %d methods", calls)
	}
}

// argument returns an argument of a type: "a" for a text, and lists with one element.
// Fields and pointers have such values, too, down to some depth. A token is one of a
// login by password, and JSON is an empty object.
func argument(t reflect.Type, depth int) reflect.Value {
	if t == reflect.TypeFor[*identity.Token]() {
		return reflect.ValueOf(&identity.Token{User: &identity.Record{Kind: identity.User, ID: "a"}, Scope: identity.Scope{ProjectID: "a"},
			Payload: &token.Payload{UserID: "a", ProjectID: "a", Methods: []string{"password"}, AuditIDs: []string{"a"}, Expires: time.Now().Add(time.Hour)}})
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return reflect.ValueOf(json.RawMessage("{}"))
	}
	x := reflect.New(t).Elem()
	if depth == 0 {
		return x
	}
	switch t.Kind() {
	case reflect.String:
		x.SetString("a")
	case reflect.Pointer:
		x.Set(reflect.New(t.Elem()))
		x.Elem().Set(argument(t.Elem(), depth-1))
	case reflect.Slice:
		x.Set(reflect.Append(x, argument(t.Elem(), depth-1)))
	case reflect.Func:
		x.Set(reflect.MakeFunc(t, func([]reflect.Value) (out []reflect.Value) {
			for i := range t.NumOut() {
				out = append(out, reflect.Zero(t.Out(i)))
			}
			return out
		}))
	case reflect.Struct:
		for i := range t.NumField() {
			if t.Field(i).IsExported() {
				x.Field(i).Set(argument(t.Field(i).Type, depth-1))
			}
		}
	}
	return x
}
