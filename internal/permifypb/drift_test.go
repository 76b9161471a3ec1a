package permifypb

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestDrift compares the names and numbers of all fields and enum values in the
// generated code with the .proto files. "make proto-check" compares every byte,
// but needs the generators.
func TestDrift(t *testing.T) {
	t.Parallel()
	want := map[string]string{}
	files, err := filepath.Glob("proto/base/v1/*.proto")
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		declared(string(text), want)
	}
	got := map[string]string{}
	for _, f := range []protoreflect.FileDescriptor{File_base_v1_model_proto, File_base_v1_service_proto, File_base_v1_errors_proto} {
		messages(f.Messages(), got)
		enums(f.Enums(), got)
	}
	for name, number := range want {
		if got[name] != number {
			t.Errorf("%s is %s in the .proto file, but %q in the code", name, number, got[name])
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is in the code, but not in the .proto file", name)
	}
	if len(want) < 300 {
		t.Errorf("the .proto files have only %d fields and values, expected at least 300", len(want))
	}
}

var (
	opening = regexp.MustCompile(`^(message|enum|oneof|service) (\w+) \{$`)
	field   = regexp.MustCompile(`^.*\b(\w+) = (\d+);$`)
)

// declared reads the fields and enum values of a .proto file. Their names
// include the surrounding messages.
func declared(text string, out map[string]string) {
	var stack []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch m := opening.FindStringSubmatch(line); {
		case m != nil && m[1] == "oneof":
			stack = append(stack, "")
		case m != nil:
			stack = append(stack, m[2])
		case line == "}":
			stack = stack[:len(stack)-1]
		default:
			if m := field.FindStringSubmatch(line); m != nil && len(stack) > 0 {
				var path []string
				for _, s := range stack {
					if s != "" {
						path = append(path, s)
					}
				}
				out[strings.Join(append(path, m[1]), ".")] = m[2]
			}
		}
	}
}

func name(d protoreflect.Descriptor) string {
	return strings.TrimPrefix(string(d.FullName()), "base.v1.")
}

func messages(list protoreflect.MessageDescriptors, out map[string]string) {
	for i := range list.Len() {
		m := list.Get(i)
		if m.IsMapEntry() {
			continue
		}
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			out[name(m)+"."+string(f.Name())] = strconv.Itoa(int(f.Number()))
		}
		messages(m.Messages(), out)
		enums(m.Enums(), out)
	}
}

func enums(list protoreflect.EnumDescriptors, out map[string]string) {
	for i := range list.Len() {
		e := list.Get(i)
		for j := range e.Values().Len() {
			v := e.Values().Get(j)
			out[name(e)+"."+string(v.Name())] = strconv.Itoa(int(v.Number()))
		}
	}
}
