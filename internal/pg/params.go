package pg

import "time"

// Moment returns a time as the parameter of a statement: null for the zero time.
func Moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// NonZero returns a value as the parameter of a statement: null for the zero value.
func NonZero[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// OrZero returns a column that may be null: the zero value if it is.
func OrZero[T any](value *T) T {
	var zero T
	if value == nil {
		return zero
	}
	return *value
}
