package safely

import (
	"fmt"
	"reflect"
)

// IsEndless reports whether package fmt would find no end of a value, such as a map that holds
// itself: no recover helps against the overflow of the stack. Values that are very deep or large
// count as endless, too.
func IsEndless(value any) bool {
	switch value.(type) {
	case error, fmt.Stringer, string, []byte:
		return false // what they do in their methods is their own
	}
	const deepest, most = 100, 10_000
	v, left := reflect.ValueOf(value), most
	if v.Kind() == reflect.Pointer { // fmt follows only the outermost
		v = v.Elem()
	}
	return isEndless(v, deepest, &left)
}

func isEndless(value reflect.Value, depth int, left *int) bool {
	if *left--; depth == 0 || *left < 0 {
		return true
	}
	within := func(inner reflect.Value) bool { return isEndless(inner, depth-1, left) }
	switch value.Kind() {
	case reflect.Interface:
		return within(value.Elem())
	case reflect.Map:
		for of := value.MapRange(); of.Next(); {
			if within(of.Key()) || within(of.Value()) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range value.Len() {
			if within(value.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if within(value.Field(i)) {
				return true
			}
		}
	default: // has nothing within that is printed
	}
	return false
}
