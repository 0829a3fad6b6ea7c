// Package jsonpath says whether a text of JSON has what a path of PostgreSQL's jsonpath names, in
// its lax mode. Whatever [Parse] takes means the same to jsonb_path_exists and jsonb_path_match,
// which a test compares.
//
// The server is not asked, since PostgreSQL 15 has no test whether bytes are JSON, and one body
// that is none would fail the statement, and with it the caller's transaction. No library is used:
// those for RFC 9535 do not know these conditions, and all read a value into memory, where a body
// of 64 MiB may take a gigabyte. Here a value is a part of the text, and no path takes more time
// than its length times that of the text: so there are no variables, no methods, no comparison of
// two paths, and no $ within a filter.
package jsonpath

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"
)

// BytesMax is how long a path may be.
const BytesMax = 512

// A Path is what [Parse] has read.
type Path struct {
	steps []step    // that lead to what must be there, if there is no condition
	holds condition // nil for a mere path
}

// Matches reports whether a text is JSON that has something at the path, or for which the condition
// holds. Other texts do not match, and neither does JSON that is more than 10,000 levels deep.
func (p *Path) Matches(text []byte) bool {
	if !utf8.Valid(text) || !json.Valid(text) {
		return false
	}
	root := trim(text)
	if p.holds != nil {
		return p.holds(root) == isTrue
	}
	return has(p.steps, root)
}

// A truth is that of SQL.
type truth int

const (
	isFalse truth = iota
	isUnknown
	isTrue
)

// A condition is one of a value.
type condition func(value []byte) truth

// A step leads from a value to others: it yields each until that returns false, and then returns
// false, too.
type step func(value []byte, yield func([]byte) bool) bool

// walk yields what steps lead to.
func walk(steps []step, value []byte, yield func([]byte) bool) bool {
	if len(steps) == 0 {
		return yield(value)
	}
	return steps[0](value, func(next []byte) bool { return walk(steps[1:], next, yield) })
}

func has(steps []step, value []byte) bool {
	return !walk(steps, value, func([]byte) bool { return false })
}

// unwrapped yields the elements of an array, or another value itself.
func unwrapped(value []byte, yield func([]byte) bool) bool {
	if value[0] == '[' {
		return elements(value, yield)
	}
	return yield(value)
}

// member leads to the member of an object, or of each object in an array.
func member(name string) step {
	return func(value []byte, yield func([]byte) bool) bool {
		return unwrapped(value, func(object []byte) bool {
			if found := memberOf(object, name); found != nil {
				return yield(found)
			}
			return true
		})
	}
}

// element leads to an element of an array. Another value is an array of itself.
func element(index int) step {
	return func(value []byte, yield func([]byte) bool) bool {
		at := -1
		return unwrapped(value, func(element []byte) bool {
			at++
			return at != index || yield(element)
		})
	}
}

// filter leads to a value, or to the elements of an array, for which a condition holds.
func filter(holds condition) step {
	return func(value []byte, yield func([]byte) bool) bool {
		return unwrapped(value, func(value []byte) bool {
			return holds(value) != isTrue || yield(value)
		})
	}
}

func and(a, b condition) condition {
	return func(value []byte) truth {
		left := a(value)
		if left == isFalse {
			return left
		}
		return min(left, b(value))
	}
}

func or(a, b condition) condition {
	return func(value []byte) truth {
		left := a(value)
		if left == isTrue {
			return left
		}
		return max(left, b(value))
	}
}

func not(a condition) condition {
	return func(value []byte) truth { return isTrue - a(value) }
}

func exists(steps []step) condition {
	return func(value []byte) truth {
		if has(steps, value) {
			return isTrue
		}
		return isFalse
	}
}

// some holds if a condition holds for something that steps lead to, or for an element of it.
func some(steps []step, holds condition) condition {
	return func(value []byte) truth {
		found := isFalse
		walk(steps, value, func(value []byte) bool {
			return unwrapped(value, func(value []byte) bool {
				found = max(found, holds(value))
				return found != isTrue
			})
		})
		return found
	}
}

// begins holds for texts with a beginning.
func begins(with string) condition {
	return func(value []byte) truth {
		switch {
		case value[0] != '"':
			return isUnknown
		case strings.HasPrefix(textOf(value), with):
			return isTrue
		}
		return isFalse
	}
}

// compared holds for values that compare with a scalar in one of some ways: -1, 0 or 1.
func compared(with []byte, ways []int) condition {
	return func(value []byte) truth {
		order, alike := compare(value, with)
		switch {
		case !alike && kindOf(value) != 'n' && kindOf(with) != 'n':
			return isUnknown
		case !alike && len(ways) == 2 && !slices.Contains(ways, 0): // null is not another value
			return isTrue
		case alike && slices.Contains(ways, order):
			return isTrue
		}
		return isFalse
	}
}

// compare compares two scalars of one kind.
func compare(a, b []byte) (order int, alike bool) {
	kind := kindOf(a)
	if kind != kindOf(b) {
		return 0, false
	}
	switch kind {
	case 'n':
		return 0, true
	case 't':
		return cmp.Compare(a[0], b[0]), true // f is less than t, as false is than true
	case '"':
		return strings.Compare(textOf(a), textOf(b)), true
	case '0':
		return numberOf(a).compare(numberOf(b)), true
	}
	return 0, false
}
