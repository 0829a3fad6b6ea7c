package tasktree_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/cmd/stint/internal/tasktree"
)

func TestParse_KnowsConditions(t *testing.T) {
	t.Parallel()
	p := plan(t, `
- {name: a, action: x}
- name: b
  action: x
  value: {$result: a}
  when: [{after: a, states: [aborted, skipped]}, {after: c}]
- {name: c, action: x, when_any: [{after: a, results: [heads, "1"]}]}
`)
	if want := []stint.Condition{
		{After: "t/a", States: []stint.State{stint.StateAborted, stint.StateSkipped}},
		{After: "t/c"},
	}; !reflect.DeepEqual(p.Tasks[1].When, want) || p.Tasks[1].After != nil {
		t.Errorf("when = %+v, want %+v", p.Tasks[1].When, want)
	}
	if want := []stint.Condition{
		{After: "t/a", Results: []string{"heads", "1"}},
	}; !reflect.DeepEqual(p.Tasks[2].WhenAny, want) {
		t.Errorf("when_any = %+v, want %+v", p.Tasks[2].WhenAny, want)
	}
}

func TestParse_RefusesBadConditions(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"[{name: a, action: x, when: {after: b}}]":                    "a list of conditions",
		"[{name: a, action: x, when: [b]}]":                           "expected a condition",
		"[{name: a, action: x, when: [{states: [aborted]}]}]":         `missing field "after"`,
		"[{name: a, action: x, when: [{after: a, of: b}]}]":           `unknown field "of"`,
		"[{name: a, action: x, when: [{after: a, states: aborted}]}]": "expected a list of texts",
		"[{name: a, action: x, when_any: [{after: b}]}]":              `no task is named "b"`,
		"[{name: a, action: x, when: [{after: b}]}, " +
			"{name: b, action: x, when_any: [{after: a}]}]": "tasks wait for one another",
	} {
		if _, err := tasktree.Parse([]byte(file)); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%s) = %v, want %q", file, err, want)
		}
	}
}
