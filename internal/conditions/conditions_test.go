package conditions_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/conditions"
)

func TestRead_KnowsAllFields(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]stint.Condition{
		`null`: nil,
		`[]`:   {},
		`[{"after": "a"}, {"after": "b", "states": ["aborted", "completed"], "results": ["y"]}]`: {
			{After: "a"}, {
				After: "b", States: []stint.State{stint.StateAborted, stint.StateCompleted},
				Results: []string{"y"},
			},
		},
	} {
		got, err := conditions.Read([]byte(text))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
}

func TestRead_SaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		``:                                      "must be JSON: unexpected end",
		`[{"after": "a"}`:                       "must be JSON: unexpected end",
		`[{"after": "a"}] x`:                    "must be JSON: invalid character",
		`{"after": "a"}`:                        "must be a list of objects",
		`["a"]`:                                 "must be a list of objects",
		`[{"of": "a"}]`:                         "must be a list of objects",
		`[{"states": []}]`:                      "after of a condition must be the ID",
		`[null]`:                                "after of a condition must be the ID",
		`[{"after": "a", "states": ["ready"]}]`: `"completed", "aborted" or "skipped", not "ready"`,
		`[{"after": "a", "states": ["aborted"], "results": ["yes"]}]`: `add "completed"`,
		`[{"after": "a"}, {"after": "a", "states": ["aborted"]}]`:     `"a" is named twice`,
		results(33, 1):  "results of a condition must be at most 32",
		results(1, 256): "must have at most 255 bytes each",
	} {
		if got, err := conditions.Read([]byte(text)); err == nil ||
			!strings.Contains(err.Error(), why) {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
	}
}

// results is a list with a condition about so many results of so many bytes.
func results(n, bytes int) string {
	all := strings.Repeat(`, "`+strings.Repeat("a", bytes)+`"`, n)
	return `[{"after": "a", "results": [` + all[2:] + `]}]`
}

// What is read is what the store takes.
func TestRead_HasTheLimitsOfTheStore(t *testing.T) {
	t.Parallel()
	next := func(n, bytes int) error {
		all := slices.Repeat([]string{strings.Repeat("a", bytes)}, n)
		_, err := stint.Schedule{Name: "s", Spec: "@hourly", Tasks: []stint.Task{
			{ID: "a", Action: "x"},
			{ID: "b", Action: "x", When: []stint.Condition{{After: "a", Results: all}}},
		}}.Next(time.Unix(0, 0), 1)
		return err
	}
	for _, size := range [][2]int{{32, 255}, {33, 255}, {32, 256}} {
		_, err := conditions.Read([]byte(results(size[0], size[1])))
		if store := next(size[0], size[1]); (err == nil) != (store == nil) {
			t.Errorf("%d results of %d bytes: %v; the store says %v", size[0], size[1], err, store)
		}
	}
}
