package pg

import "reflect"

// IsMissing reports whether a transaction was forgotten: it is nil, a pointer that is nil, or an
// empty struct or one around such a transaction, such as the zero value of a library's own type.
func IsMissing(tx any) bool { return tx == nil || isMissing(reflect.ValueOf(tx)) }

func isMissing(tx reflect.Value) bool {
	switch tx.Kind() {
	case reflect.Pointer, reflect.Interface:
		return tx.IsNil() || isMissing(tx.Elem())
	case reflect.Map, reflect.Func, reflect.Chan, reflect.Slice:
		return tx.IsNil()
	case reflect.Struct:
		if tx.IsZero() && tx.Type().Size() > 0 {
			return true
		}
		for i := range tx.NumField() { // what a struct embeds has its methods
			if field := tx.Field(i); tx.Type().Field(i).Anonymous &&
				field.Kind() == reflect.Interface && !field.IsNil() && isMissing(field) {
				return true
			}
		}
	default:
	}
	return false
}
