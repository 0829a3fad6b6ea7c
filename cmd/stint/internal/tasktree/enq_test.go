package tasktree_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stint-tasks/stint/cmd/stint/internal/tasktree"
)

// ofQuickstart are the files of enq's quick start, word for word, and the same tasks in Stint's own
// form.
var ofQuickstart = map[string]string{
	"task.json": `- {name: 1/mytask, action: process-user-data, value: [{uid: 1234}]}`,
	"tree.json": `
- {name: 1/save, action: save-user-data, value: [{uid: 1234}]}
- {name: 1/email, action: process-user-data, value: [{$result: 1/save}]}
`,
	"tree2.json": `
- {name: 1/save, action: save-user-data, value: [{uid: 1234}]}
- {name: 2/save, action: save-user-data, value: [{uid: 1234}]}
- {name: 1/email, action: process-user-data, value: [{$result: 1/save}, {$result: 2/save}]}
`,
}

func TestParse_ReadsTheQuickStartOfEnq(t *testing.T) {
	t.Parallel()
	for name, own := range ofQuickstart {
		file, err := os.ReadFile(filepath.Join("testdata", "enq", name))
		if err != nil {
			t.Fatal(err)
		}
		wantSame(t, string(file), own)
	}
}

// The page shows the same tasks in both forms.
func TestParse_ReadsTheFilesOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "guides", "enq.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?ms)^```(?:yaml|json)\n(.*?)^```$").FindAllStringSubmatch(
		string(page), -1)
	if len(shown) != 2 {
		t.Fatalf("the page shows %d files, want 2", len(shown))
	}
	own, enq := plan(t, shown[0][1]), plan(t, shown[1][1])
	if len(own.Tasks) != 2 || !slices.Equal(enq.Names, []string{"1/save", "1/email"}) {
		t.Fatalf("the page shows %q and %q", own.Names, enq.Names)
	}
	for i, task := range enq.Tasks {
		body := strings.ReplaceAll(string(task.Body), "t/1/", "t/")
		if task.Action != own.Tasks[i].Action || body != string(own.Tasks[i].Body) ||
			len(task.After) != len(own.Tasks[i].After) {
			t.Errorf("the forms differ:\n%+v\n%+v", task, own.Tasks[i])
		}
	}
}

// wantSame checks that two files make the same tasks.
func wantSame(t *testing.T, enq, own string) {
	t.Helper()
	got, want := plan(t, enq), plan(t, own)
	if !reflect.DeepEqual(got.Names, want.Names) || !reflect.DeepEqual(got.Tasks, want.Tasks) {
		t.Errorf("%s\n got %q %+v\nwant %q %+v", enq, got.Names, got.Tasks, want.Names, want.Tasks)
	}
}

// ofEnq is a file in enq's form with one task, which has these arguments.
func ofEnq(args string) string {
	return `[{"task_id": {"shard": "1", "id": "a"}, "method": "x", "args": ` + args + `}]`
}

const taskB = `{"task_id": {"shard": "1", "id": "b"}, "method": "y"}`

func TestParse_ReadsTheFormOfEnq(t *testing.T) {
	t.Parallel()
	for enq, own := range map[string]string{
		`[` + taskB + `]`: `[{name: 1/b, action: y, value: []}]`,
		ofEnq(`[]`):       `[{name: 1/a, action: x, value: []}]`,
		"- {task_id: {shard: '1', id: a/b}, method: x}": `[{name: 1/a/b, action: x, value: []}]`,
		// A result may be used again, before its task comes, and by several tasks.
		strings.TrimSuffix(ofEnq(`[
			{"type": "TASKREF", "task_id": {"shard": "1", "id": "b"}},
			{"type": "VALUE", "value_json": "[1, {\"b\": null}]"},
			{"type": "TASKREF", "task_id": {"id": "b", "shard": "1"}}]`), "]") + `, {
			"args": [{"task_id": {"shard": "1", "id": "b"}, "type": "TASKREF"}],
			"method": "z", "task_id": {"shard": "2", "id": "a"}
		}, ` + taskB + `]`: `
- {name: 1/a, action: x, value: [{$result: 1/b}, [1, {b: null}], {$result: 1/b}]}
- {name: 2/a, action: z, value: [{$result: 1/b}]}
- {name: 1/b, action: y, value: []}
`,
	} {
		wantSame(t, enq, own)
	}
}

func TestParse_ReadsTheValuesOfEnq(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"eyJ1aWQiOjEyMzR9":                   `{"uid":1234}`,
		"eyJ1aWQiOiAxMjM0fQo=":               `{"uid":1234}`, // as echo without -n writes it
		"eyJ1aWQi\nOiAxMjM0\nfQo=\n":         `{"uid":1234}`,
		"eyJ1aWQi OiAxMjM0 fQo=":             `{"uid":1234}`, // lines that YAML has joined
		`{"uid": 1234}`:                      `{"uid":1234}`,
		"\t[ 1.50, 1e400, \"\\u00e9<&\" ]\n": `[1.50,1e400,"\u00e9<&"]`,
		`{"b": 1, "a": 2}`:                   `{"b":1,"a":2}`,
		// Text that could be base64, too, but of bytes that are no JSON.
		"1234": "1234", "true": "true", "null": "null", "12345678": "12345678",
		// Base64 of JSON that looks like none.
		"bnVsbA==": "null", "MTI=": "12", "MTIz": "123", "IiI=": `""`,
		base64.StdEncoding.EncodeToString([]byte(`"😀 é"`)): `"😀 é"`,
	} {
		file := ofEnq(`[{"type": "VALUE", "value_json": ` + strconv.QuoteToASCII(text) + `}]`)
		if got := string(plan(t, file).Tasks[0].Body); got != "["+want+"]" {
			t.Errorf("%q: body = %s, want it to hold %s", text, got, want)
		}
	}
}

// enqMistakes are files in enq's form that are no trees, and what is said of them.
var enqMistakes = []struct{ file, want string }{
	{"[{args: []}]", "line 1, column 2: missing field \"task_id\"\n" +
		"line 1, column 2: missing field \"method\""},
	{
		"[" + taskB + ",\n" + taskB + "]",
		`line 2, column 13: name "1/b" is already used at line 1`,
	},
	{
		"- method: y\n  method: y\n  max_retries: 3\n  task_id: {shard: '1', id: a}",
		"line 2, column 3: duplicate field \"method\"\n" +
			"line 3, column 3: unknown field \"max_retries\"",
	},
	// Both forms.
	{
		"- name: a\n  action: x\n  args: [1]",
		"line 3, column 3: field \"args\" does not go with field \"name\" at line 1: all tasks " +
			"of a file have either name, action and value, or task_id, method and args",
	},
	{
		"[" + taskB + ",\n{after: [], action: x}]",
		"line 2, column 13: field \"action\" does not go with field \"task_id\" at line 1: all " +
			"tasks of a file have either name, action and value, or task_id, method and args",
	},
	{"[" + taskB + ",\n  1]", `line 2, column 3: expected a task, got "1"`},
	{"[" + taskB + ",\n  {after: [1/b]}]", "line 2, column 4: unknown field \"after\"\n" +
		"line 2, column 3: missing field \"task_id\"\nline 2, column 3: missing field \"method\""},
	// Of a task_id.
	{
		"- method: x\n  task_id: 1/a",
		`line 2, column 12: expected a shard and an id, got "1/a"`,
	},
	{
		"- method: x\n  task_id: {shard: 1, di: a}",
		"line 2, column 20: expected text, got \"1\"\nline 2, column 23: unknown field \"di\"\n" +
			"line 2, column 12: missing field \"id\"",
	},
	{
		"- method: x\n  task_id: {shard: a/b, id: ''}",
		"line 2, column 20: shard \"a/b\" has a slash\nline 2, column 29: empty text",
	},
	// Of arguments.
	{ofEnq("{}"), "line 1, column 64: expected a list of arguments, got a mapping"},
	{ofEnq(`["a"]`), `line 1, column 65: expected an argument, got "a"`},
	{ofEnq(`[{}]`), `line 1, column 65: missing field "type"`},
	{
		ofEnq(`[{"type": "taskref"}]`),
		`line 1, column 74: expected VALUE or TASKREF, got "taskref"`,
	},
	{ofEnq(`[{"type": 1}]`), `line 1, column 74: expected text, got "1"`},
	{
		ofEnq(`[{"type": "VALUE"}]`),
		"line 1, column 65: a VALUE needs value_json alone, a TASKREF task_id alone",
	},
	{
		ofEnq(`[{"type": "TASKREF", "value_json": "1"}]`),
		"line 1, column 65: a VALUE needs value_json alone, a TASKREF task_id alone",
	},
	{
		ofEnq(`[{"type": "VALUE", "value_json": "1", "task_id": {}}]`),
		"line 1, column 65: a VALUE needs value_json alone, a TASKREF task_id alone",
	},
	{
		ofEnq(`[{"type": "TASKREF", "value_json": "1", "task_id": {"shard": "1", "id": "a"}}]`),
		"line 1, column 65: a VALUE needs value_json alone, a TASKREF task_id alone",
	},
	{
		ofEnq(`[{"type": "VALUE", "value": 1, "value_json": "1", "value_json": "1"}]`),
		"line 1, column 83: unknown field \"value\"\nline 1, column 114: duplicate field " +
			`"value_json"`,
	},
	// Of values.
	{
		ofEnq(`[{"type": "VALUE", "value_json": {"uid": 1}}]`),
		"line 1, column 97: expected text, got a mapping",
	},
	{ofEnq(`[{"type": "VALUE", "value_json": ""}]`), "line 1, column 97: empty text"},
	{
		ofEnq(`[{"type": "VALUE", "value_json": "{uid: 1}"}]`),
		`line 1, column 97: expected JSON, or JSON in base64, got "{uid: 1}"`,
	},
	{
		ofEnq(`[{"type": "VALUE", "value_json": "e3VpZDogMX0="}]`),
		`line 1, column 97: expected JSON in base64, got "{uid: 1}" in base64`,
	},
	{
		ofEnq(`[{"type": "VALUE", "value_json": "Iv8i"}]`),
		`line 1, column 97: expected JSON in base64, got "\"\xff\"" in base64`,
	},
	{
		ofEnq(`[{"type": "VALUE", "value_json": "[1e400, {\"a\": {\"\\u0024result\": 1}}]"}]`),
		"line 1, column 97: value_json has the key \"$result\"; a TASKREF stands for a result",
	},
	// Of references.
	{
		ofEnq(`[{"type": "TASKREF", "task_id": {"shard": "2", "id": "a"}}]`),
		`line 1, column 96: no task is named "2/a"`,
	},
	{
		ofEnq(`[{"type": "TASKREF", "task_id": {"id": "a", "shard": "1"}}]`),
		`line 1, column 96: tasks wait for one another: "1/a" -> "1/a"`,
	},
	{
		`[{"task_id": {"shard": "1", "id": "a"}, "method": "x", "args": [
{"type": "TASKREF", "task_id": {"shard": "1", "id": "b"}}]},
{"task_id": {"shard": "1", "id": "b"}, "method": "y", "args": [
{"type": "TASKREF", "task_id": {"shard": "1", "id": "a"}}]}]`,
		`line 4, column 32: tasks wait for one another: "1/a" -> "1/b" -> "1/a"`,
	},
}

func TestParse_SaysWhereTheFormOfEnqIsWrong(t *testing.T) {
	t.Parallel()
	for _, test := range enqMistakes {
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

// A value is read in the same way whether it is in base64 or not, and comes out as it went in.
func FuzzParse_ReadsTheValuesOfEnq(f *testing.F) {
	for _, value := range []string{
		`{"uid": 1234}`, `"a"`, "1234", "true", "eyJ1aWQiOjEyMzR9", `{"$result": "1/b"}`, "",
		"\xff",
	} {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		valid := utf8.Valid(value) && json.Valid(value)
		inBase64 := base64.StdEncoding.EncodeToString(value)
		for _, text := range []string{string(value), inBase64} {
			if !utf8.ValidString(text) {
				continue
			}
			quoted := strconv.QuoteToASCII(text)
			tree, err := tasktree.Parse([]byte(ofEnq(
				`[{"type": "VALUE", "value_json": ` + quoted + `}]`)))
			if err != nil {
				if valid && !refersToResult(t, value) {
					t.Errorf("%q: %v", text, err)
				}
				continue
			}
			body := tree.Plan("t").Tasks[0].Body
			if !json.Valid(body) {
				t.Errorf("%q: body %q is no JSON", text, body)
			}
			if valid && (string(body) != "["+compact(t, value)+"]" || refersToResult(t, value)) {
				t.Errorf("%q: body %q", text, body)
			}
		}
	})
}

func compact(t *testing.T, text []byte) string {
	t.Helper()
	var compacted bytes.Buffer
	if err := json.Compact(&compacted, text); err != nil {
		t.Fatal(err)
	}
	return compacted.String()
}

// refersToResult looks for the key in JSON as Go writes it.
func refersToResult(t *testing.T, text []byte) bool {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	written, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(written, []byte(`"$result":`))
}

func ExampleParse_enq() {
	tree, err := tasktree.Parse([]byte(`[{
    "task_id": {"shard": "1", "id": "save"}, "method": "save-user-data",
    "args": [{"type": "VALUE", "value_json": "eyJ1aWQiOjEyMzR9"}]
}, {
    "task_id": {"shard": "1", "id": "email"}, "method": "send-mail",
    "args": [{"type": "TASKREF", "task_id": {"shard": "1", "id": "save"}}]
}]`))
	if err != nil {
		panic(err)
	}
	for _, task := range tree.Plan("export/7").Tasks {
		fmt.Printf("%s: %s %s, after %q\n", task.ID, task.Action, task.Body, task.After)
	}
	// Output:
	// export/7/1/save: save-user-data [{"uid":1234}], after []
	// export/7/1/email: send-mail [{"$result":"export/7/1/save"}], after ["export/7/1/save"]
}
