package safely_test

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/internal/safely"
)

// hostile is what nobody can print: its text panics with itself.
type hostile struct{}

func (h hostile) Error() string { panic(h) }

// leaving ends the goroutine that prints it.
type leaving struct{}

func (leaving) String() string {
	runtime.Goexit()
	return ""
}

func TestEach_MakesAllCallsWhateverTheyDo(t *testing.T) {
	t.Parallel()
	var called []int
	failure := safely.Each(8, func(i int) {
		called = append(called, i)
		switch i {
		case 1:
			panic("ouch")
		case 2:
			runtime.Goexit()
		case 3:
			panic(hostile{})
		case 4:
			panic(leaving{})
		case 5:
			var none *error
			_ = (*none).Error()
		case 7:
			panic(errors.New("the last one"))
		}
	})
	if !slices.Equal(called, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("called %v", called)
	}
	if failure == nil || failure.What != "ouch" ||
		!strings.Contains(failure.Error(), "safely_test.go") {
		t.Errorf("failure = %v, want the first, with its stack", failure)
	}
	if failure := safely.Each(0, nil); failure != nil {
		t.Errorf("of no calls: %v", failure)
	}
}

func TestCall_SaysHowItFailed(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]func(){
		"":                         func() {},
		"it called runtime.Goexit": func() { runtime.Goexit() },
		"panic: ouch\n":            func() { panic("ouch") },
		"panic: a safely_test.hostile, which panics when it is printed\n": func() {
			panic(hostile{})
		},
		"panic: panic called with nil": func() { panic(nil) },
	} {
		failure := safely.Call(f)
		if got := ""; failure != nil {
			got = failure.Error()
			if !strings.HasPrefix(got, want) || want == "" {
				t.Errorf("failure = %q, want %q", got, want)
			}
		} else if want != got {
			t.Errorf("no failure, want %q", want)
		}
	}
}

func TestIsEndless_FindsWhatHoldsItself(t *testing.T) {
	t.Parallel()
	type holder struct {
		Next  any
		other *holder
	}
	array, object := make([]any, 2), map[string]any{}
	array[0], array[1], object["self"] = array, array, object
	loop := &holder{Next: "end"}
	loop.other = loop
	for name, test := range map[string]struct {
		value any
		want  bool
	}{
		"slice": {array, true}, "map": {object, true}, "within": {holder{Next: object}, true},
		"pointer": {&holder{Next: array}, true}, "key": {map[any]int{&object: 1}, false},
		"long": {make([]int, 20_000), true},
		"nil":  {nil, false}, "nil pointer": {(*holder)(nil), false}, "text": {"text", false},
		"finite": {[]any{map[string]any{"a": holder{Next: []int{1}}}}, false},

		"pointers that are not followed": {loop, false}, "error": {hostile{}, false},
	} {
		if got := safely.IsEndless(test.value); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	failure := safely.Call(func() { panic(object) })
	if want := "a map[string]interface {}, which is endless"; failure.What != want {
		t.Errorf("failure = %q, want %q", failure.What, want)
	}
}
