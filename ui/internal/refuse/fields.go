package refuse

import (
	"slices"
	"strings"

	"github.com/stint-tasks/stint/internal/display"
)

// BadFields is the refusal of a form whose fields are not those of a form of these pages.
func BadFields(unknown, missing, twice []string) error {
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
			text += wrong.what + NamesOf(wrong.names) + ". "
		}
	}
	return NotUnderstood(text + "Nothing was changed. Load the page anew.")
}

// BadValue is the refusal of a form or an address with a value that a field never has.
func BadValue(of, name, value string) error {
	const longest = 100
	if len(value) > longest {
		value = strings.ToValidUTF8(value[:longest], "") + "…"
	}
	return NotUnderstood("The field " + display.Text(name) + " of the " + of +
		" cannot be “" + display.Text(value) + "”.")
}

// NamesOf names some fields.
func NamesOf(names []string) string {
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
