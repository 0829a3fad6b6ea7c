package names_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/names"
)

// Names as people write them, in whatever script, have no slip in them.
func TestSlip_FindsNothingInNamesThatAreMeant(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "mail", "send mail", "mail/7", "a=b", "stint.External", "größe", "отчёт", "報告",
		"報告\u3000送信",          // the blank of its script
		"نامه\u200cها",        // a plural in Persian, which is written with a non-joiner
		"क्\u200dष",           // a form of letters in Hindi
		"👩\u200d💻", "❤\ufe0f", // one emoji each
		"\xff", // which others refuse
	} {
		if slip := names.Slip(name); slip != "" {
			t.Errorf("%q: %s", name, slip)
		}
	}
}

func TestSlip_SaysWhatItIs(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		" ":              "it begins with a blank",
		" mail":          "it begins with a blank",
		"\u2800mail":     "it begins with a blank",
		"mail\r\n":       "it ends with a blank",
		"mail\u3000":     "it ends with a blank",
		"ma\til":         "it has a control character, U+0009",
		"ma\u0085il":     "it has a control character, U+0085",
		"ma\u2028il":     "it has a control character, U+2028",
		"send\u00a0mail": "it has an unusual blank, U+00A0",
		"mail\u200b":     "it has an invisible character, U+200B",
		"\ufeffmail":     "it has an invisible character, U+FEFF",
		"ma\u202eil":     "it has an invisible character, U+202E",
		"ma\u200dil":     "it has an invisible character, U+200D",
		"mail\ufe0f":     "it has an invisible character, U+FE0F",
		"نامه\u200c":     "it has an invisible character, U+200C",
		"mail\u3164":     "it has an invisible character, U+3164",
		"mail\U000e0041": "it has an invisible character, U+E0041",
	} {
		if slip := names.Slip(name); slip != want {
			t.Errorf("%q: %q, want %q", name, slip, want)
		}
	}
}

func TestNear_FindsTheNameThatWasMeant(t *testing.T) {
	t.Parallel()
	known := []string{
		"mail", "render", "newsletter", "customer-7", "resize-v1", "a", "report", "Export", "größe",
	}
	for name, want := range map[string]string{
		"mial": "mail", "mai": "mail", "maill": "mail", "mall": "mail", "MAIL": "mail",
		" mail": "mail", "m\u200bail": "mail", "mail\n": "mail", " a": "a", "A": "a",
		"newslettre": "newsletter", "newsletr": "newsletter", "reprot": "report",
		"export": "Export", "große": "größe",
		// Others, perhaps on purpose.
		"b": "", "ab": "", "made": "", "email-all": "", "reporting": "", "mail": "",
		"customer-8": "", "customer-77": "", "resize-v2": "", "": "",
	} {
		if near := names.Near(name, known); near != want {
			t.Errorf("%q: %q, want %q", name, near, want)
		}
	}
	if near := names.Near("mai", []string{"max", "mat"}); near != "mat" {
		t.Errorf("of two that are as near it is %q", near)
	}
}

// A key that only the second of several stores has is known, and found near a slip.
func TestUnknownKeys_AreLookedForInAllStores(t *testing.T) {
	t.Parallel()
	several := names.Several{keyed{keys: []string{"other"}}, keyed{keys: []string{"customer"}}}
	for key, want := range map[string][]names.Unknown{
		"customer": nil, "other": nil,
		"custommer": {{Name: "custommer", Of: "mail", Near: "customer"}},
	} {
		got, err := names.UnknownKeys(t.Context(), several, "mail", key)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v", key, got, err, want)
		}
	}
}

// A keyed store has a task of each key, and nothing else that keys are looked for in.
type keyed struct {
	names.Store
	keys []string
}

func (k keyed) ListTasks(context.Context, stint.Filter) (page stint.TaskPage, _ error) {
	for _, key := range k.keys {
		page.Tasks = append(page.Tasks, stint.TaskInfo{Key: key})
	}
	return page, nil
}

func (keyed) ListLimits(context.Context, ...string) (none []stint.ActionLimits, _ error) {
	return none, nil
}

func (keyed) ListSchedules(context.Context, ...string) (none []stint.ScheduleInfo, _ error) {
	return none, nil
}
