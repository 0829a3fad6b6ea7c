package pg

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"
)

// yearMax is the last year whose times all programs can read.
const yearMax = 9999

// IsStorable reports whether a time can be kept: the zero time, or one of the years 1 to 9999.
func IsStorable(t time.Time) bool {
	return t.IsZero() || t.Year() >= 1 && t.Year() <= yearMax
}

// FirstMoment is before all other times.
func FirstMoment() pgtype.Timestamptz {
	return pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
}

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

// Storable makes any text one that can be stored: it replaces NUL and bytes that are not UTF-8, and
// cuts what is longer than most bytes.
func Storable(text string, most int) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	text = strings.ReplaceAll(text, "\x00", string(utf8.RuneError))
	if len(text) <= most {
		return text
	}
	for !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
