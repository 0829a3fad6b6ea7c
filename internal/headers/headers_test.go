package headers_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/headers"
)

// Proves G233.
func TestCheck(t *testing.T) {
	t.Parallel()
	many := func(n int) map[string]string {
		all := map[string]string{}
		for i := range n {
			all[fmt.Sprint("n", i)] = ""
		}
		return all
	}
	of := func(name, value string) map[string]string { return map[string]string{name: value} }
	for name, test := range map[string]struct {
		headers  map[string]string
		problem  string
		tooLarge bool
	}{
		"none":        {nil, "", false},
		"16":          {many(16), "", false},
		"17":          {many(17), "17 exceed the limit of 16", true},
		"2048 bytes":  {of("name", strings.Repeat("v", 2044)), "", false},
		"2049 bytes":  {of("name", strings.Repeat("v", 2045)), "2049 bytes", true},
		"64 bytes":    {of(strings.Repeat("n", 64), ""), "", false},
		"65 bytes":    {of(strings.Repeat("n", 65), ""), "names of 1 to 64", false},
		"all letters": {of("abcdefghijklmnopqrstuvwxyz-0123456789", "é"), "", false},
		"capitals":    {of("Name", ""), `not "Name"`, false},
		"underscore":  {of("a_b", ""), `not "a_b"`, false},
		"no name":     {of("", ""), `not ""`, false},
		"NUL":         {of("name", "\x00"), "must not contain a NUL byte", false},
		"no UTF-8":    {of("name", "\xff"), "must be valid UTF-8", false},
	} {
		problem, tooLarge := headers.Check(test.headers)
		if tooLarge != test.tooLarge || !strings.Contains(problem, test.problem) ||
			(problem == "") != (test.problem == "") {
			t.Errorf("%s: %q, %v, want %q, %v", name, problem, tooLarge, test.problem,
				test.tooLarge)
		}
	}
}

// Proves G233.
func TestMerge_AddsAllOrWhatFits(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("v", 1500)
	for name, test := range map[string]struct{ given, more, want map[string]string }{
		"nothing": {nil, nil, nil},
		"to none": {nil, map[string]string{"a": "1"}, map[string]string{"a": "1"}},
		"to others": {
			map[string]string{"b": "2"},
			map[string]string{"a": "1"},
			map[string]string{"a": "1", "b": "2"},
		},
		"one is there": { // the others belong to it
			map[string]string{"traceparent": "own"},
			map[string]string{"traceparent": "x", "tracestate": "x"},
			map[string]string{"traceparent": "own"},
		},
		"the short one fits": {
			map[string]string{"b": long},
			map[string]string{"a": long, "z": "1"},
			map[string]string{"b": long, "z": "1"},
		},
		"one is not allowed": {
			nil, map[string]string{"A": "1", "a": "\x00", "b": "2"}, map[string]string{"b": "2"},
		},
	} {
		before := maps.Clone(test.given)
		if got := headers.Merge(test.given, test.more); !maps.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if !maps.Equal(test.given, before) {
			t.Errorf("%s: the map has changed to %q", name, test.given)
		}
	}
}

func TestEncode_IsUndoneByDecode(t *testing.T) {
	t.Parallel()
	for _, of := range []map[string]string{
		nil, {"a": ""}, {"a": "\"\\\n<&>\u2028\x01é", "b": "{}"},
	} {
		text := ""
		if encoded := headers.Encode(of); encoded != nil {
			text = *encoded
		}
		if got, err := headers.Decode(text); err != nil || !maps.Equal(got, of) {
			t.Errorf("%q becomes %q and %q, %v", of, text, got, err)
		}
	}
	if _, err := headers.Decode("[]"); err == nil {
		t.Error("a list is decoded")
	}
}

// What is read from a row is what was written, or an error.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{"", "{}", "null", `{"a":"b"}`, `{"a":1}`, `{"a":"\ud800"}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		read, err := headers.Decode(text)
		if err != nil || len(read) == 0 {
			return
		}
		again, err := headers.Decode(*headers.Encode(read))
		problem, _ := headers.Check(read)
		if problem == "" && (err != nil || !maps.Equal(again, read)) {
			t.Errorf("%q is read as %q, and then as %q, %v", text, read, again, err)
		}
	})
}
