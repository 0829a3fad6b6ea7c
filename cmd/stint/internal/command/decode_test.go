package command

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stint-tasks/stint"
)

// decodeAll reads tasks up to the end or an error.
func decodeAll(r io.Reader) ([]stint.Task, *decoder, error) {
	d := newDecoder(r)
	var tasks []stint.Task
	for {
		task, err := d.next()
		if errors.Is(err, io.EOF) {
			return tasks, d, nil
		}
		if err != nil {
			return tasks, d, err
		}
		tasks = append(tasks, task)
	}
}

func TestDecoder_NamesLineAndColumn(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		`{"action": "act"`:                          "line 1, column 17: unexpected end",
		"{\"action\":\r\n \"act\"\r\n":              "line 2, column 7: unexpected end",
		"{\n\n\"action\": \"é\",\n x}":              "line 4, column 2: invalid character 'x'",
		"{\n\"action\":\n \"act\", \"id\": 7}":      "line 3, column 9: id: must be a string",
		"{\"action\": \"act\"}\n{\n \"id\": \"a\"}": "line 2, column 1: action is missing",
		`{"action": act}`:                           "line 1, column 12: invalid character 'a'",
		`{"action": "é", x}`:                        "line 1, column 17: invalid character 'x'",
		`{"action": "act"} {}`:                      "line 1, column 19: expected an object",
		"{\"action\": \"act\"}\n\n {\"action\":}":   "line 3, column 12: invalid character '}'",
		`  [{"action": "act"}]`:                     "line 1, column 3: expected an object",
		`null`:                                      "line 1, column 1: expected an object",
		"{\"action\": \"a\tb\"}":                    "line 1, column 14: invalid character '\\t'",
		"{\"action\": \"a\xffb\"}":                  "line 1, column 14: not UTF-8",
		` {"id": "a"}`:                              "line 1, column 2: action is missing",
		`{"action": ""}`:                            "line 1, column 1: action is missing",
		`{"action": "a", "actions": 1}`:             `line 1, column 17: unknown field "actions"`,
		`{"action": "a", "Body": 1}`:                `line 1, column 17: unknown field "Body"`,
		`{"action": "a" ,  "action": "b"}`:          `line 1, column 19: duplicate field "action"`,
		`{"action": 1}`:                             "line 1, column 2: action: must be a string",
		`{"id": "", "action": "a"}`:                 "line 1, column 2: id is empty",
		`{"id": 7, "action": "a"}`:                  "line 1, column 2: id: must be a string",
		`{"action": "a", "key": 7}`:                 "line 1, column 17: key: must be a string",
		`{"action": "a", "key": ""}`:                "line 1, column 17: key is empty",
		`{"action": "a", "headers": {"n": 7}}`:      "column 17: headers: must be an object",
		`{"action": "a", "headers": {"n": null}}`:   `column 17: headers: must be an object of`,
		`{"action": "a", "priority": 32768}`:        "column 17: priority: must be a whole number",
		`{"action": "a", "priority": "high"}`:       "column 17: priority: must be a whole number",
		`{"action": "a", "max_tries": 1.5}`:         "column 17: max_tries: must be a whole number",
		`{"action": "a", "post_result": "yes"}`:     "column 17: post_result: must be true or",
		`{"action": "a", "on_abort": "run"}`:        `column 17: on_abort: must be "abort-too" or`,
		`{"action": "a", "not_before": "tomorrow"}`: "column 17: not_before: must be a time",
		`{"action": "a", "deadline": 1700000000}`:   "column 17: deadline: must be a time",
		`{"action": "a", "after": "b"}`:             "column 17: after: must be a list of IDs",
		`{"action": "a", "body_base64": "?"}`:       "column 17: body_base64: must be a string in",
		`{"action": "a", "body_base64": [1]}`:       "column 17: body_base64: must be a string in",
	}
	both := `{"action": "a", "body": 1, "body_base64": "AA=="}`
	tests[both] = "line 1, column 1: body and body_base64 exclude each other"
	for input, want := range tests {
		_, _, err := decodeAll(strings.NewReader(input))
		if !errors.Is(err, errInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", input, err, want)
		}
	}
}

func TestDecoder_KnowsTheLinesOfTasks(t *testing.T) {
	t.Parallel()
	input := "\n{\"action\": \"2\"}\n{\"action\": \"3\"}\n\n \t\n{\"action\": \"6\"}\n\n"
	tasks, d, err := decodeAll(iotest.OneByteReader(strings.NewReader(input)))
	if err != nil || len(tasks) != 3 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	for i, want := range []int{2, 3, 6} {
		if got := d.lineOf(i); got != want {
			t.Errorf("task %d is from line %d, want %d", i, got, want)
		}
	}
}

// An object may be spread over lines, as programs that indent JSON do.
func TestDecoder_ReadsObjectsOfSeveralLines(t *testing.T) {
	t.Parallel()
	input := "{\n  \"action\": \"1\",\n  \"body\": {\n    \"x\": 1\n  }\n}\n" +
		"{\"action\": \"7\"}\n{\"action\": \"8\"}\n\n{\"action\":\r\n\"10\"\r\n}\r\n" +
		"{\"action\": \"13\"}"
	tasks, d, err := decodeAll(iotest.OneByteReader(strings.NewReader(input)))
	if err != nil || len(tasks) != 5 {
		t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	if want := "{\n    \"x\": 1\n  }"; string(tasks[0].Body) != want {
		t.Errorf("the body is %q, want %q", tasks[0].Body, want)
	}
	for i, task := range tasks {
		if got := strconv.Itoa(d.lineOf(i)); got != task.Action {
			t.Errorf("task %d is from line %s, want %s", i, got, task.Action)
		}
	}
}

func TestDecoder_PassesOnWhatReadingFailsWith(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	input := io.MultiReader(strings.NewReader("{\"action\": \"a\"}\n{"), iotest.ErrReader(broken))
	tasks, _, err := decodeAll(input)
	if !errors.Is(err, broken) || len(tasks) != 1 {
		t.Errorf("%d tasks, %v, want 1 and what was broken", len(tasks), err)
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add(`{"id": "a", "action": "act", "body": {"x": [1, null]}, "after": ["b"]}`)
	f.Add(`{"action": "act", "key": "customer 7"}`)
	f.Add(`{"action": "\ud800", "body": "\u0000"`)
	f.Fuzz(func(t *testing.T, input string) {
		tasks, d, err := decodeAll(strings.NewReader(input))
		if err != nil && !errors.Is(err, errInput) {
			t.Errorf("%v", err)
		}
		for i := range tasks {
			if tasks[i].ID == "" || tasks[i].Action == "" {
				t.Errorf("task %d has no ID or no action", i)
			}
			if line := d.lineOf(i); line < 1 || line > d.line {
				t.Errorf("task %d is from line %d of %d", i, line, d.line)
			}
		}
	})
}
