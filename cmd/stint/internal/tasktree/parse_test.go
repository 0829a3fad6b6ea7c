package tasktree_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/tasktree"
)

func plan(t *testing.T, file string) *tasktree.Plan {
	t.Helper()
	tree, err := tasktree.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return tree.Plan("t")
}

func ExampleParse() {
	tree, err := tasktree.Parse([]byte(`
- name: save
  action: save-user-data
  value: [{uid: 1234}]
- name: email
  action: send-mail
  value: [{$result: save}]
`))
	if err != nil {
		panic(err)
	}
	for _, task := range tree.Plan("export/7").Tasks {
		fmt.Printf("%s: %s %s, after %q\n", task.ID, task.Action, task.Body, task.After)
	}
	// Output:
	// export/7/save: save-user-data [{"uid":1234}], after []
	// export/7/email: send-mail [{"$result":"export/7/save"}], after ["export/7/save"]
}

func ExampleParse_refused() {
	_, err := tasktree.Parse([]byte(`
- name: email
  action: send-mail
  valeu: [{$result: save}]
- name: email
  after: [save]
`))
	fmt.Println(err)
	// Output:
	// line 4, column 3: unknown field "valeu"
	// line 5, column 9: name "email" is already used at line 2
	// line 5, column 3: missing field "action"
}

func TestParse_KnowsAllFields(t *testing.T) {
	t.Parallel()
	p := plan(t, `
- {name: a, action: x, key: k, headers: {tenant: acme}, priority: -5, max_tries: 3,
   on_abort: run-anyway, not_before: 2026-12-31T08:00:00Z, deadline: "2027-01-01T08:00:00.5+01:00"}
- name: b
  action: x
  after: [a, c, a]
  value: {first: {$result: c}, second: [{$result: d}, {$result: c}]}
- {name: c, action: x, on_abort: abort-too}
- {name: d, action: stint.External, answer_key: 0123456789abcdef}
`)
	if !slices.Equal(p.Names, []string{"a", "b", "c", "d"}) || len(p.Tasks) != len(p.Names) {
		t.Errorf("names = %q, %d tasks", p.Names, len(p.Tasks))
	}
	a, b := p.Tasks[0], p.Tasks[1]
	if key := p.Tasks[3].AnswerKey; string(key) != "0123456789abcdef" {
		t.Errorf("the answer key is %q", string(key))
	}
	if a.ID != "t/a" || a.Action != "x" || a.Key != "k" || a.Headers["tenant"] != "acme" ||
		a.Priority != -5 || a.MaxTries != 3 ||
		a.OnAbort != stint.RunAnyway || a.Body != nil || !a.PostResult ||
		!a.NotBefore.Equal(time.Date(2026, 12, 31, 8, 0, 0, 0, time.UTC)) ||
		!a.Deadline.Equal(time.Date(2027, 1, 1, 7, 0, 0, 5e8, time.UTC)) {
		t.Errorf("a = %+v", a)
	}
	const body = `{"first":{"$result":"t/c"},"second":[{"$result":"t/d"},{"$result":"t/c"}]}`
	if string(b.Body) != body || !slices.Equal(b.After, []stint.TaskID{"t/a", "t/c", "t/d"}) {
		t.Errorf("b = %+v, body %s", b, b.Body)
	}
}

func TestPlan_MakesFreshIDs(t *testing.T) {
	t.Parallel()
	tree, err := tasktree.Parse([]byte("[{name: a, action: x}]"))
	if err != nil {
		t.Fatal(err)
	}
	one, other := tree.Plan("").Tasks[0].ID, tree.Plan("").Tasks[0].ID
	if one == other || len(one) != len("00000000-0000-0000-0000-000000000000/a") {
		t.Errorf("IDs = %q, %q", one, other)
	}
}

func TestParse_WritesValuesAsJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ value, want string }{
		{`1234`, `1234`},
		{`123456789012345678901234567890`, `123456789012345678901234567890`},
		{`1.50`, `1.50`},
		{`1e400`, `1e400`},
		{`-0`, `-0`},
		{`0x1F`, `31`},
		{`+7`, `7`},
		{`.5`, `0.5`},
		{`"1234"`, `"1234"`},
		{`true`, `true`},
		{`~`, `null`},
		{``, `null`},
		{`2026-12-31`, `"2026-12-31"`},
		{`<<`, `"<<"`},
		{`a <b> & "c" é`, `"a <b> & \"c\" é"`},
		{"|\n    two\n    lines", `"two\nlines"`},
		{`[]`, `[]`},
		{`{}`, `{}`},
		{`{z: 1, a: {b: [x, ], }, }`, `{"z":1,"a":{"b":["x"]}}`},
		{`["\u00e9\/\ud83d\ude00\\ud83d\\ude00"]`, `["é/😀\\ud83d\\ude00"]`},
		{`{"$results": 1}`, `{"$results":1}`},
	} {
		file := "- name: a\n  action: x\n  value: " + test.value
		if strings.Contains(test.value, `\u`) { // only JSON has pairs
			file = "[{\n\t\"name\": \"a\", \"action\": \"x\",\n\t\"value\": " + test.value + "}]"
		}
		if got := plan(t, file).Tasks[0].Body; string(got) != test.want {
			t.Errorf("%s: body = %s, want %s", test.value, got, test.want)
		}
	}
}

const oneTask = "- name: a\n  action: x\n"

// mistakes are files that are no trees, and what is said of them.
var mistakes = []struct{ file, want string }{
	{"", "no tasks"},
	{"# nothing", "no tasks"},
	{"[]", "line 1, column 1: no tasks"},
	{"\x01", "line 1, column 1: control characters are not allowed (value: 1)"},
	{oneTask + "  ü: \xff", "line 3, column 6: invalid leading UTF-8 octet (value: 255)"},
	{"name: a", "line 1, column 1: expected a list of tasks, got a mapping"},
	{"- a", `line 1, column 3: expected a task, got "a"`},
	{"[{name: a, action: x}", "line 2, column 1: did not find expected ',' or ']'"},
	{
		"- name: a\n   action: x",
		"line 2, column 10: mapping values are not allowed in this context",
	},
	{
		oneTask + "---\n" + oneTask,
		"line 3, column 1: second document: a file must be one list of tasks",
	},
	{"- {}", "line 1, column 3: missing field \"name\"\n" +
		"line 1, column 3: missing field \"action\""},
	{oneTask + "  bdoy: 1", `line 3, column 3: unknown field "bdoy"`},
	{oneTask + "  name: b", `line 3, column 3: duplicate field "name"`},
	{oneTask + oneTask, `line 3, column 9: name "a" is already used at line 1`},
	{
		"- name: 5\n  action: ''",
		"line 1, column 9: expected text, got \"5\"\nline 2, column 11: empty text",
	},
	{
		"- name: [a]\n  action: \"\\0\"",
		"line 1, column 9: expected text, got a list\nline 2, column 11: text contains a NUL",
	},
	{oneTask + "  after: b", `line 3, column 10: expected a list of names, got "b"`},
	{oneTask + "  after: [a, b]", `line 3, column 14: no task is named "b"`},
	{oneTask + "  value: {b: [{$result: b}]}", `line 3, column 25: no task is named "b"`},
	{oneTask + "  after: [a]", `line 3, column 11: tasks wait for one another: "a" -> "a"`},
	{
		oneTask + "  value: {$result: c}\n- {name: b, action: x, after: [a]}\n" +
			"- {name: c, action: x, after: [b]}",
		`line 4, column 32: tasks wait for one another: "a" -> "b" -> "c" -> "a"`,
	},
	{oneTask + "  value: {$result: [b]}", "line 3, column 20: expected text, got a list"},
	{
		oneTask + "  value: {$result: a, b: 1}",
		"line 3, column 11: $result must be the only key",
	},
	{
		oneTask + "  value: {b: 1, $result: a}",
		"line 3, column 17: $result must be the only key",
	},
	{oneTask + "  value: {b: 1, b: 1}", `line 3, column 17: duplicate key "b"`},
	{oneTask + "  value: {1: 1}", `line 3, column 11: expected a text key, got "1"`},
	{oneTask + "  value: {<<: {}}", `line 3, column 11: expected a text key, got "<<"`},
	{oneTask + "  value: -.inf", `line 3, column 10: "-.inf" cannot be written in JSON`},
	{oneTask + "  value: !!set {a}", "line 3, column 10: unsupported tag !!set"},
	{oneTask + "  value: !mine a", "line 3, column 10: unsupported tag !mine"},
	{oneTask + "  value: [&b 1, *b]", "line 3, column 17: an alias is not supported; write it out"},
	{oneTask + "  priority: 40000", "line 3, column 13: expected a number from -32768 to 32767"},
	{oneTask + "  priority: high", "line 3, column 13: expected a number from -32768 to 32767"},
	{oneTask + "  max_tries: -2", "line 3, column 14: expected a number from -1 to 2147483647"},
	{
		oneTask + "  deadline: soon",
		"line 3, column 13: expected a time such as 2026-12-31T08:00:00Z",
	},
	{oneTask + "  on_abort: run", "line 3, column 13: expected abort-too or run-anyway"},
}

func TestParse_SaysWhereItIsWrong(t *testing.T) {
	t.Parallel()
	for _, test := range mistakes {
		_, err := tasktree.Parse([]byte(test.file))
		if err == nil || err.Error() != test.want {
			t.Errorf("%s\n got %v\nwant %s", test.file, err, test.want)
		}
		var problem *tasktree.Error
		if !errors.As(err, &problem) {
			t.Errorf("%s: got a %T", test.file, err)
		}
	}
}

func TestParse_ShortensALongCycle(t *testing.T) {
	t.Parallel()
	var file strings.Builder
	const n = 2000
	for i := range n {
		fmt.Fprintf(&file, "- {name: n%d, action: x, after: [n%d]}\n", i, (i+1)%n)
	}
	_, err := tasktree.Parse([]byte(file.String()))
	if err == nil || !strings.HasPrefix(err.Error(), "line 2000, column ") ||
		!strings.HasSuffix(err.Error(), `"n1992" -> "n1991" -> (1990 more) -> "n0"`) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("- {name: a, action: x, value: [{$result: b}]}\n- {name: b, action: y}"))
	f.Add([]byte(`[{"name": "a", "action": "x", "value": {"\ud83d\ude00": 1e400}}]`))
	f.Add([]byte(ofEnq(`[{"type": "VALUE", "value_json": "MTI="},
		{"type": "TASKREF", "task_id": {"shard": "1", "id": "a",}}]`)))
	f.Fuzz(func(t *testing.T, file []byte) {
		tree, err := tasktree.Parse(file)
		if err != nil {
			return
		}
		for _, task := range tree.Plan("t").Tasks {
			if task.Body != nil && !json.Valid(task.Body) {
				t.Errorf("body %q is no JSON", task.Body)
			}
		}
	})
}
