package password

import (
	"strings"
	"testing"
)

// TestPattern compares patterns with what Python's re.match returns.
func TestPattern(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		pattern  string
		match    string // passwords that match, separated by blanks
		mismatch string
	}{
		{`^(?=.*\d)(?=.*[a-zA-Z]).{7,}$`, "abcdef1 1234567a", "abcdefg 1234567 abc1 a1"},
		{`(?!.*pass)(?=.*[)(\]])[a-z(\])]+\Z`, "a) (b ]", "pass) abc A)"},
		{`^(?!(abc|xyz))(?=[^]a]).+$`, "b bc", "abcd xyzw ]x ax"},
		{`a|bc`, "a ax bc", "xa cb"},
		{``, "x anything", ""},
		{`(?=a(b|c)d)a.{2,}`, "abd acdx", "abc aed"},
		{`^\^$`, "^", "^^ x"},
		{`(?=[])])[])]+`, ") ] )]", "a"}, // a bracket at the beginning of a class is literal
		{`(?=[^])])[a-z]+`, "a", ") ]"},
		{`(?=[a)])[a)]x`, "ax )x", "bx"},
		{`(?=[]a)])x?[)a]`, "a )", "x]"},
		{`(?=\)x)\)x`, ")x", "x"},
		{`(?=[a])[ab]+`, "a ab", "b ba"}, // a class of one character
		{`(?=[^a])[ab]+`, "b ba", "a ab"},
		{`(?=(a)(b))ab(?:c)`, "abc", "ab"},
		{`\\Z`, "\\Z", "x"}, // an escaped backslash and a letter
	} {
		p, err := ParsePattern(x.pattern)
		if err != nil {
			t.Errorf("%s: %v", x.pattern, err)
			continue
		}
		for _, s := range strings.Fields(x.match) {
			if !p.Match(s) {
				t.Errorf("%s does not match %s", x.pattern, s)
			}
		}
		for _, s := range strings.Fields(x.mismatch) {
			if p.Match(s) {
				t.Errorf("%s matches %s", x.pattern, s)
			}
		}
	}
}

func TestPatternErrors(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		`(?=abc`:                               "expected a closing parenthesis",
		`(?=[)]`:                               "expected a closing parenthesis",
		`(?=[])`:                               "expected a closing parenthesis",
		`(?=[^])`:                              "expected a closing parenthesis",
		`.(?=abc)`:                             "lookaheads at its beginning only",
		`(.)\1`:                                "invalid pattern",
		`(?=a)(?=(`:                            "expected a closing parenthesis",
		`[`:                                    "invalid pattern",
		`(?=*)a`:                               `invalid pattern "*"`, // in a lookahead only
		`(?!a{2,1})a`:                          `invalid pattern "a{2,1}"`,
		`a)(b`:                                 "invalid pattern",
		`a\`:                                   "invalid pattern",
		strings.Repeat("a", patternBytesMax+1): "expected at most 4096",
	} {
		if _, err := ParsePattern(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: got %v, want %q", pattern, err, want)
		}
	}
	if _, err := ParsePattern(strings.Repeat("a", patternBytesMax)); err != nil {
		t.Error(err)
	}
}

func FuzzPattern(f *testing.F) {
	for _, s := range []string{`^(?=.*\d)(?!x).{7,}$`, `(?=[^]])`, `(?=\`, `(?!)`} {
		f.Add(s, "abc123")
	}
	f.Fuzz(func(t *testing.T, pattern, password string) {
		p, err := ParsePattern(pattern)
		if err != nil {
			return
		}
		// The negation of a pattern matches what the pattern does not.
		if n, err := ParsePattern("(?!" + pattern + ")"); err == nil && len(p.parts) == 1 && !strings.HasPrefix(pattern, "^") && n.Match(password) == p.Match(password) {
			t.Errorf("%q and its negation have the same result for %q", pattern, password)
		}
	})
}
