package stinttest

import (
	"bytes"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
)

// A difference is a list of lines, each about a field.
type difference []string

func (d *difference) add(field, got, want string) {
	*d = append(*d, fmt.Sprintf("%s: got %s, want %s", field, got, want))
}

// differences says in which fields a task differs from the wanted one, of those that are wanted and
// that the store tells.
func differences(want stint.Task, got stint.TaskInfo) []string {
	var d difference
	found := reflect.ValueOf(got)
	for field, wanted := range given(want) {
		if is := found.FieldByName(field); is.IsValid() {
			d.compare(field, is.Interface(), wanted)
		}
	}
	return d
}

func (d *difference) compare(field string, got, want any) {
	switch want := want.(type) {
	case []byte:
		got, _ := got.([]byte)
		if got == nil || !bytes.Equal(got, want) {
			same := commonStart(got, want)
			d.add(field, excerpt(got, same), excerpt(want, same))
		}
	case map[string]string:
		got, _ := got.(map[string]string)
		for name, value := range want { // others may have been added
			if found, has := got[name]; !has || found != value {
				d.add(field+"["+name+"]", fmt.Sprintf("%q", found), fmt.Sprintf("%q", value))
			}
		}
	case time.Time:
		got, _ := got.(time.Time)
		d.time(field, got, want)
	default:
		if got != want {
			d.add(field, text(got), text(want))
		}
	}
}

// given are the fields of a task that are not zero, with their values.
func given(task stint.Task) iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		of := reflect.ValueOf(task)
		for i := range of.NumField() {
			value := of.Field(i)
			switch _, body := value.Interface().([]byte); {
			case value.IsZero():
				continue
			case value.Kind() == reflect.Slice && !body, value.Kind() == reflect.Map:
				if value.Len() == 0 {
					continue
				}
			}
			if !yield(of.Type().Field(i).Name, value.Interface()) {
				return
			}
		}
	}
}

// text shows the value of a field.
func text(value any) string {
	switch value := value.(type) {
	case []byte:
		return excerpt(value, 0)
	case time.Time:
		return stamp(value)
	case stint.AnswerKey:
		return "set"
	case []stint.Condition:
		return conditionTexts(value)
	case stint.OnAbort:
		if value == stint.RunAnyway {
			return "RunAnyway"
		}
		return "AbortToo"
	}
	switch reflect.TypeOf(value).Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		return fmt.Sprintf("%q", value)
	default:
		return fmt.Sprint(value)
	}
}

func (d *difference) time(field string, got, want time.Time) {
	// The database keeps microseconds.
	if want.IsZero() || got.Sub(want).Abs() < time.Microsecond {
		return
	}
	if got.IsZero() {
		d.add(field, "none", stamp(want))
		return
	}
	d.add(field, stamp(got), stamp(want))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.999999Z") }

// commonStart returns how many bytes at the beginning of a and b are equal.
func commonStart(a, b []byte) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// excerpt shows a body. If the body is long, it shows the bytes around a place, and the length.
func excerpt(body []byte, place int) string {
	const before, shownMax = 40, 200
	if body == nil {
		return "nil"
	}
	shown, cut := body, ""
	if len(body) > shownMax {
		from := min(max(place-before, 0), len(body)-shownMax)
		shown = body[from : from+shownMax]
		cut = fmt.Sprintf(" (bytes %d to %d of %d)", from, from+shownMax, len(body))
	}
	if !utf8.Valid(body) {
		return fmt.Sprintf("%x%s", shown, cut)
	}
	return fmt.Sprintf("%q%s", strings.ToValidUTF8(string(shown), ""), cut)
}

// sketch shows the fields of a task that are not zero.
func sketch(task stint.Task) string {
	var fields []string
	for field, value := range given(task) {
		fields = append(fields, field+": "+text(value))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
