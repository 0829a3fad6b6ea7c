package ui

import (
	"net/url"
	"slices"
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// formFields are the names of the fields of a form: what is sent without one that it always has, or
// with another one, is no form of these pages, and is refused. So no field is passed over.
type formFields struct{ always, perhaps []string }

// waitingTyped are the fields of the form in which somebody says how tasks are to wait, and
// waitingRead those of what was read from it.
func waitingTyped() []string {
	return []string{fieldStart, fieldStartAt, fieldPriority, fieldTries, fieldKey}
}

func waitingRead() []string {
	return []string{fieldStart, fieldExact, fieldPriority, fieldTries, fieldPacked}
}

// limitNumbers are the fields with the numbers of limits.
func limitNumbers() []string {
	return []string{
		"concurrency", "per-key", "rate", "rate-per", "burst", "rate-key", "rate-key-per",
		"burst-key",
	}
}

// askedFields are the fields of a form that asks what a change would do.
func askedFields(k *kind, form url.Values) formFields {
	f := formFields{always: []string{"do", "back"}}
	switch {
	case k.name == "answer":
		f.always = append(f.always, "task")
		return f
	case !k.isOfTasks():
		f.always = append(f.always, targetFields(form)...)
		return f
	case form.Has("of"): // of a list, in which nothing may be selected
		f.always, f.perhaps = append(f.always, "of", "filter"), []string{"task"}
	default:
		f.always = append(f.always, "task")
	}
	switch {
	case k.name != "change":
	case form.Has(fieldStartAt), form.Has(fieldKey), form.Has(fieldNoKey):
		f.always = append(append(f.always, "at"), waitingTyped()...)
		f.perhaps = append(f.perhaps, fieldNoKey)
	case slices.ContainsFunc(waitingRead(), form.Has):
		f.always = append(f.always, waitingRead()...)
	}
	return f
}

// agreedFields are the fields of a form that agrees to a change.
func agreedFields(k *kind, form url.Values) formFields {
	f := formFields{always: []string{"do", "at", "back", "reason"}}
	switch {
	case k.name == "answer":
		f.always = append(f.always, "task", "result", "answer-key")
		f.perhaps = []string{"code"} // nobody may have chosen one
		return f
	case !k.isOfTasks():
		f.always = append(f.always, targetFields(form)...)
	default:
		f.always, f.perhaps = append(f.always, "task", "states"), []string{"filter"}
	}
	switch k.name {
	case "limit":
		f.always = append(append(f.always, "seen", "fair-group"), limitNumbers()...)
		f.perhaps = []string{"fair", "ordered"}
	case "trigger":
		f.always = append(f.always, "last", "since")
	case "run", "change":
		f.always = append(f.always, waitingRead()...)
	}
	return f
}

// check refuses a form with other fields.
func (f formFields) check(form url.Values) error {
	var unknown, missing, twice []string
	for name, values := range form {
		switch {
		case !slices.Contains(f.always, name) && !slices.Contains(f.perhaps, name):
			unknown = append(unknown, name)
		case len(values) > 1 && name != "task":
			twice = append(twice, name)
		}
	}
	for _, name := range f.always {
		if !form.Has(name) {
			missing = append(missing, name)
		}
	}
	if len(unknown)+len(missing)+len(twice) > 0 {
		return badFields(unknown, missing, twice)
	}
	for name, known := range map[string][]string{
		"of": {"selected", "all"}, "what": {"action", "key", "schedule"},
		"fair": {"true"}, "ordered": {"true"}, fieldNoKey: {"true"},
	} {
		if form.Has(name) && !slices.Contains(known, form.Get(name)) {
			return badValue("form", name, form.Get(name))
		}
	}
	return nil
}

// badFields is the refusal of a form whose fields are not those of a form of these pages.
func badFields(unknown, missing, twice []string) error {
	text := "The form is not one of these pages. "
	for _, wrong := range []struct {
		what  string
		names []string
	}{
		{"It has fields that are not known here: ", unknown},
		{"It lacks the fields: ", missing},
		{"It has these fields more than once: ", twice},
	} {
		if len(wrong.names) > 0 {
			text += wrong.what + namesOf(wrong.names) + ". "
		}
	}
	return refuse.NotUnderstood(text + "Nothing was changed. Load the page anew.")
}

// badValue is the refusal of a form or an address with a value that a field never has.
func badValue(of, name, value string) error {
	const longest = 100
	if len(value) > longest {
		value = strings.ToValidUTF8(value[:longest], "") + "…"
	}
	return refuse.NotUnderstood("The field " + display.Text(name) + " of the " + of +
		" cannot be “" + display.Text(value) + "”.")
}

// namesOf names some fields.
func namesOf(names []string) string {
	const most, longest = 20, 40
	slices.Sort(names)
	said := make([]string, 0, most)
	for _, name := range names[:min(len(names), most)] {
		if len(name) > longest {
			name = strings.ToValidUTF8(name[:longest], "") + "…"
		}
		said = append(said, display.Text(name))
	}
	if len(names) > most {
		said = append(said, "and others")
	}
	return strings.Join(said, ", ")
}

// checkQuery refuses an address with parameters that a list does not take: what it passed over
// would show other tasks than somebody asked for.
func checkQuery(query url.Values, several string, names ...string) error {
	var unknown, twice []string
	for name, values := range query {
		switch {
		case !slices.Contains(names, name):
			unknown = append(unknown, name)
		case len(values) > 1 && name != several:
			twice = append(twice, name)
		}
	}
	text := ""
	if len(unknown) > 0 {
		text = "The address has parameters that are not known here: " + namesOf(unknown) + ". "
	}
	if len(twice) > 0 {
		text += "The address has these parameters more than once: " + namesOf(twice) + "."
	}
	if text == "" {
		return nil
	}
	return refuse.NotUnderstood(strings.TrimSpace(text))
}

// checkTaskQuery refuses the address of a list of tasks, or a filter, that says what it never does.
func checkTaskQuery(query url.Values) error {
	err := checkQuery(query, "state", "state", "action", "prefix", "key", "header", "actor", "age",
		"order", "size", "after")
	if err != nil {
		return err
	}
	known := map[string][]string{"order": {"", orderNewest, orderStore}, "age": nil, "size": {""}}
	for _, age := range ages() {
		known["age"] = append(known["age"], age.Value)
	}
	for _, size := range pageSizes() {
		known["size"] = append(known["size"], numberOf(size))
	}
	for name, values := range known {
		if query.Has(name) && !slices.Contains(values, query.Get(name)) {
			return badValue("address", name, query.Get(name))
		}
	}
	for _, state := range query["state"] {
		if state != "" && !slices.Contains(show.States(), stint.State(state)) {
			return badValue("address", "state", state)
		}
	}
	if header := query.Get("header"); header != "" && !strings.Contains(header, "=") {
		return badValue("address", "header", header)
	}
	return nil
}
