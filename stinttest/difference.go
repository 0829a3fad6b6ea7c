package stinttest

import (
	"bytes"
	"fmt"
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

// differences says in which fields a task differs from the wanted one.
func differences(want stint.Task, got stint.TaskInfo) []string {
	var d difference
	if want.Action != "" && got.Action != want.Action {
		d.add("Action", fmt.Sprintf("%q", got.Action), fmt.Sprintf("%q", want.Action))
	}
	if want.Key != "" && got.Key != want.Key {
		d.add("Key", fmt.Sprintf("%q", got.Key), fmt.Sprintf("%q", want.Key))
	}
	if want.Body != nil && (got.Body == nil || !bytes.Equal(got.Body, want.Body)) {
		same := commonStart(got.Body, want.Body)
		d.add("Body", excerpt(got.Body, same), excerpt(want.Body, same))
	}
	for name, value := range want.Headers { // others may have been added
		if found, has := got.Headers[name]; !has || found != value {
			d.add("Headers["+name+"]", fmt.Sprintf("%q", found), fmt.Sprintf("%q", value))
		}
	}
	if want.Priority != 0 && got.Priority != want.Priority {
		d.add("Priority", fmt.Sprint(got.Priority), fmt.Sprint(want.Priority))
	}
	if want.MaxTries != 0 && got.MaxTries != want.MaxTries {
		d.add("MaxTries", fmt.Sprint(got.MaxTries), fmt.Sprint(want.MaxTries))
	}
	d.time("NotBefore", got.NotBefore, want.NotBefore)
	d.time("Deadline", got.Deadline, want.Deadline)
	if want.PostResult && !got.PostResult {
		d.add("PostResult", "false", "true")
	}
	if want.OnAbort != stint.AbortToo && got.OnAbort != want.OnAbort {
		d.add("OnAbort", onAbort(got.OnAbort), onAbort(want.OnAbort))
	}
	return d
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

func onAbort(o stint.OnAbort) string {
	if o == stint.RunAnyway {
		return "RunAnyway"
	}
	return "AbortToo"
}

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
	add := func(set bool, field, value string) {
		if set {
			fields = append(fields, field+": "+value)
		}
	}
	add(task.ID != "", "ID", fmt.Sprintf("%q", task.ID))
	add(task.Action != "", "Action", fmt.Sprintf("%q", task.Action))
	add(task.Key != "", "Key", fmt.Sprintf("%q", task.Key))
	add(task.Body != nil, "Body", excerpt(task.Body, 0))
	add(len(task.Headers) > 0, "Headers", fmt.Sprintf("%q", task.Headers))
	add(task.Priority != 0, "Priority", fmt.Sprint(task.Priority))
	add(task.MaxTries != 0, "MaxTries", fmt.Sprint(task.MaxTries))
	add(!task.NotBefore.IsZero(), "NotBefore", stamp(task.NotBefore))
	add(!task.Deadline.IsZero(), "Deadline", stamp(task.Deadline))
	add(task.PostResult, "PostResult", "true")
	add(task.OnAbort != stint.AbortToo, "OnAbort", onAbort(task.OnAbort))
	add(len(task.After) > 0, "After", fmt.Sprintf("%q", task.After))
	add(len(task.ToSignalAfter) > 0, "ToSignalAfter", fmt.Sprintf("%q", task.ToSignalAfter))
	add(len(task.When) > 0, "When", conditionTexts(task.When))
	add(len(task.WhenAny) > 0, "WhenAny", conditionTexts(task.WhenAny))
	return "{" + strings.Join(fields, ", ") + "}"
}
