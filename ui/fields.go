package ui

import (
	"net/url"
	"slices"

	"github.com/stint-tasks/stint/ui/internal/refuse"
)

// formFields are the names of the fields of a form: what is sent without one that it always has, or
// with another one, is no form of these pages, and is refused. So no field is passed over.
type formFields struct{ always, perhaps []string }

// The fields of the form in which somebody says how tasks are to wait, and of what was read from
// it. Empty ones leave things as they are.
const (
	fieldStart    = "start"    // "now", or how long from the preview on
	fieldStartAt  = "start-at" // a time as browsers send it, in UTC
	fieldExact    = "exact"    // the time that came of either
	fieldPriority = "set-priority"
	fieldTries    = "set-max-tries"
	fieldKey      = "set-key"
	fieldNoKey    = "no-key"
	fieldPacked   = "packed-key"
)

// waitingTyped are the fields that somebody fills in, and waitingRead those of what was read.
func waitingTyped() []string {
	return []string{fieldStart, fieldStartAt, fieldPriority, fieldTries, fieldKey}
}

func waitingRead() []string {
	return []string{fieldStart, fieldExact, fieldPriority, fieldTries, fieldPacked}
}

// The fields of the form with a new task, and of the task that was read from it.
const (
	fieldNewID       = "new-id"
	fieldNewAction   = "new-action"
	fieldNewKey      = "new-key"
	fieldNewBody     = "new-body"
	fieldNewPriority = "new-priority"
	fieldNewTries    = "new-max-tries"
	fieldNewCost     = "new-cost"
	fieldNewDeadline = "new-deadline" // a time as browsers send it, in UTC
	fieldNewAfter    = "new-after"    // IDs, one per line
	fieldNewHeaders  = "new-headers"  // name=value, one per line
	fieldSameBody    = "same-body"    // that of the task that is copied
	fieldNewWhen     = "new-when"     // a list of conditions in JSON
	fieldAnyOf       = "any-of"       // one of them is enough
	fieldNewTask     = "new-task"
)

// insertTyped are those that somebody fills in.
func insertTyped() []string {
	return []string{
		fieldNewID, fieldNewAction, fieldNewKey, fieldNewBody, fieldNewPriority, fieldNewTries,
		fieldNewCost, fieldNewDeadline, fieldNewAfter, fieldNewHeaders, fieldStart, fieldStartAt,
		fieldNewWhen,
	}
}

// The fields of the form in which somebody says when a schedule occurs, and of a new one.
const (
	fieldNewName = "new-name"
	fieldSpec    = "spec"
	fieldZone    = "zone"
	fieldJitter  = "jitter"
	fieldCatchUp = "catch-up"
	fieldWindow  = "window"
	fieldOverlap = "overlap"
	fieldExpire  = "expire"
)

func timingTyped() []string {
	return []string{fieldSpec, fieldZone, fieldJitter, fieldCatchUp, fieldWindow, fieldOverlap}
}

// scheduleTyped are those of the form with a new schedule, besides when it occurs.
func scheduleTyped() []string {
	return []string{fieldNewName, fieldNewAction, fieldNewKey, fieldNewBody}
}

// fieldWeight is the weight of a key.
const fieldWeight = "weight"

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
	case k.name == "insert":
		f.perhaps = []string{"task"}
		if form.Has(fieldNewAction) {
			f.always = append(append(f.always, "at"), insertTyped()...)
			f.perhaps = append(f.perhaps, fieldSameBody, fieldAnyOf)
		}
		return f
	case k.name == "new-schedule":
		typed := append(scheduleTyped(), timingTyped()...)
		if slices.ContainsFunc(typed, form.Has) {
			f.always = append(append(f.always, "at"), typed...)
			f.perhaps = []string{fieldExpire}
		}
		return f
	case k.name == "schedule":
		f.always = append(f.always, "what", "schedule")
		if form.Has(fieldSpec) {
			f.always = append(append(f.always, "at", "seen"), timingTyped()...)
			f.perhaps = []string{fieldExpire}
		}
		return f
	case !k.isOfTasks():
		f.always = append(f.always, targetFields(form)...)
		if k.name == "weigh" && form.Has(fieldWeight) {
			f.always = append(f.always, "at", fieldWeight)
		}
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
	case k.name == "insert":
		return formFields{[]string{"do", "at", "back", fieldNewTask}, []string{"task"}}
	case !k.isOfTasks():
		f.always = append(f.always, targetFields(form)...)
	default:
		f.always = append(f.always, "task", "states", "others")
		f.perhaps = []string{"filter"}
	}
	switch k.name {
	case "limit":
		f.always = append(append(f.always, "seen", "told", "fair-group"), limitNumbers()...)
		f.perhaps = []string{"fair", "ordered", "by-cost"}
	case "trigger":
		f.always = append(f.always, "last", "since", "seen")
	case "weigh":
		f.always = append(f.always, fieldWeight)
	case "resume", "delete-schedule":
		f.always = append(f.always, "seen")
	case "new-schedule":
		f.always = append(append(f.always, fieldNewTask), timingTyped()...)
		f.perhaps = []string{fieldExpire}
	case "schedule":
		f.always = append(append(f.always, "seen"), timingTyped()...)
		f.perhaps = []string{fieldExpire}
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
		return refuse.BadFields(unknown, missing, twice)
	}
	for name, known := range map[string][]string{
		"of": {"selected", "all"}, "what": {"action", "key", "schedule"},
		"fair": {"true"}, "ordered": {"true"}, "by-cost": {"true"}, fieldNoKey: {"true"},
		fieldSameBody: {"true"}, fieldExpire: {"true"}, fieldAnyOf: {"true"},
	} {
		if form.Has(name) && !slices.Contains(known, form.Get(name)) {
			return refuse.BadValue("form", name, form.Get(name))
		}
	}
	return nil
}

// targetFields are the names of the fields of a form about a target.
func targetFields(form url.Values) []string {
	switch what := form.Get("what"); {
	case what == "schedule":
		return []string{"what", "schedule"}
	case what == "key" && form.Has("typed"):
		return []string{"what", "action", "typed"}
	case what == "key":
		return []string{"what", "action", "key"}
	}
	return []string{"what", "action"}
}
