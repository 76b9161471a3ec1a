package language

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ostiary/ostiary/schema"
)

// TestConditionEnds checks where the check of the text before it is parsed sees the end
// of a condition: a definition must not begin in it, and may after it.
func TestConditionEnds(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`x == 1`, `x == "}"`, `x == '}'`, `x == "\"}"`, `"\"}" == x`, `'\'}' == x`, `x == r"\"`, `x == R"\"`, `x == r'\'`, `x == R'\'`, `x == b"\"}"`,
		`r"\" == x`, `x == "r" && "\"}" == x`, `x == """}"}"""`, "x == '''\n}'}\n'''", "x == \"\"\"\n\\\"\"\"}\n\"\"\"", `x == r"""\"""`, `x == "open`, `x == "\\"`, `x == "" && x == "}"`, `x == '"}'`,
	} {
		if err := prescanDSL([]byte("condition c(x: string) {\n"+body+"\ndefine a: b\n"), SourceBytesMax); !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: the condition ends too early: %v", body, err)
		}
		if err := prescanDSL([]byte("condition c(x: string) {\n"+body+"\n}\ndefine a: b\n"), SourceBytesMax); err != nil {
			t.Errorf("%s: the condition does not end: %v", body, err)
		}
	}
}

// TestProtocolBounds checks the values of the protocol's bounds.
func TestProtocolBounds(t *testing.T) {
	t.Parallel()
	got := []int{typeNameRunesMax, nameRunesMax, expressionBytesMax, relationNameBytesMax, objectBytesMax, parametersMax, genericTypesMax, fileNameRunesMax}
	if want := []int{254, 50, 512, 50, 256, 25, 5, 100}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestBoundValues checks the values of the bounds of the package, which its documentation
// and its callers name.
func TestBoundValues(t *testing.T) {
	t.Parallel()
	got := []int{SourceBytesMax, Bounds{}.ModelBytesMax(), lineBytesMax, conditionBytesMax, conditionsMax, nestingMax, nestingWeightMax, jsonNestingMax, filesMax, TypeDepthMax, syntaxErrorsMax}
	if want := []int{524_288, 262_144, 65_536, 3_072, 25, 25, 20_000, 500, 200, 5, 20}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestDeepRewrite checks that the error of a rewrite that is too deep names its
// relation.
func TestDeepRewrite(t *testing.T) {
	t.Parallel()
	const n = schema.RewriteDepthMax + 1
	_, _, err := ParseJSON([]byte(`{"schema_version":"1.1","type_definitions":[{"type":"doc","relations":{"b":` +
		strings.Repeat(`{"union":{"child":[`, n) + `{"this":{}}` + strings.Repeat(`]}}`, n) + `}}]}`))
	if !errors.Is(err, ErrBound) || !strings.Contains(err.Error(), "doc#b: ") {
		t.Error(err)
	}
}
