package tuplefile

import (
	"fmt"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	t.Parallel()
	const header = "user_type,user_id,relation,object_type,object_id\n"
	many := strings.Repeat("{\"user\":\"user:a\"}\n", 5000)
	for i, c := range []struct {
		format Format
		text   string
		n      int
		want   string
	}{
		{CSV, header + "a,b,c,d,e\n\na,b,c,d,f\n", 1, "2:1"},
		{CSV, header + "a,b,c,d,e\n\na,b,c,d,f\n", 2, "4:1"},
		{CSV, header + "a,\"b\nb\",c,d,e\na,b,c,d,f\n", 2, "4:1"},
		{CSV, header + "a,b\"b,c,d,e\n", 1, "2:4"},
		{CSV, header, 1, "0:0"},
		{JSONL, "{}\n  {}\n", 2, "2:3"},
		{JSONL, "\n\n{}\n{]\n", 2, "4:2"},
		{JSONL, many + "{}\n", 5001, "5001:1"},
		{JSON, " [\n  {},\n  {\n  }, {}\n]\n", 1, "2:3"},
		{JSON, " [\n  {},\n  {\n  }, {}\n]\n", 2, "3:3"},
		{JSON, " [\n  {},\n  {\n  }, {}\n]\n", 3, "4:6"},
		{JSON, "[]", 1, "0:0"},
		{JSON, "", 1, "0:0"},
		{YAML, "- {}\n-\n  user: x\n", 1, "1:3"},
		{YAML, "- {}\n-\n  user: x\n", 2, "3:3"},
		{YAML, "- {}\n", 2, "0:0"},
		{"", "", 1, "0:0"},
	} {
		line, column := Locate(strings.NewReader(c.text), c.format, c.n)
		if got := fmt.Sprint(line, ":", column); got != c.want {
			t.Errorf("case %d, tuple %d: got %s, expected %s", i, c.n, got, c.want)
		}
	}
}
