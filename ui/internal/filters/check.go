package filters

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/refuse"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// Check refuses the address of a list of tasks, or a filter, that says what it never does.
func Check(query url.Values) error {
	err := CheckNames(query, "state", append(columns(), "state", "action", "prefix", "key",
		"header", "actor", "body", "message", "age", "order", "size", "after")...)
	if err != nil {
		return err
	}
	known := map[string][]string{"order": {"", orderNewest, orderStore}, "age": nil, "size": {""}}
	for _, column := range columns() {
		known[column] = []string{"", "true"}
	}
	for _, age := range ages() {
		known["age"] = append(known["age"], age.Value)
	}
	for _, size := range pageSizes() {
		known["size"] = append(known["size"], strconv.Itoa(size))
	}
	for name, values := range known {
		if query.Has(name) && !slices.Contains(values, query.Get(name)) {
			return refuse.BadValue("address", name, query.Get(name))
		}
	}
	for _, state := range query["state"] {
		if state != "" && !slices.Contains(show.States(), stint.State(state)) {
			return refuse.BadValue("address", "state", state)
		}
	}
	if header := query.Get("header"); header != "" && !strings.Contains(header, "=") {
		return refuse.BadValue("address", "header", header)
	}
	return nil
}

// CheckNames refuses an address with parameters that a list does not take: what it passed over
// would show other tasks than somebody asked for.
func CheckNames(query url.Values, several string, names ...string) error {
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
		text = "The address has parameters that are not known here: " +
			refuse.NamesOf(unknown) + ". "
	}
	if len(twice) > 0 {
		text += "The address has these parameters more than once: " + refuse.NamesOf(twice) + "."
	}
	if text == "" {
		return nil
	}
	return refuse.NotUnderstood(strings.TrimSpace(text))
}

// IsText reports whether parameters are what the verbs of the store take.
func IsText(query url.Values) bool {
	for _, values := range query {
		for _, value := range values {
			if !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
				return false
			}
		}
	}
	return true
}
