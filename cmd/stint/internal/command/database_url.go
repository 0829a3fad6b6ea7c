package command

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/stint-tasks/stint/internal/display"
)

// variableOfURL is the variable of the environment that named the URL.
func variableOfURL() string {
	if os.Getenv(urlVariable) == "" {
		return urlFileVariable
	}
	return urlVariable
}

// environmentURL returns the URL that the environment names, empty if it names none.
func environmentURL() (string, error) {
	url, path := os.Getenv(urlVariable), os.Getenv(urlFileVariable)
	switch {
	case path == "":
		return url, nil
	case url != "":
		return "", fmt.Errorf("%s and %s are both set: unset one of them, or give --database-url",
			urlVariable, urlFileVariable)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user has named it
	if err != nil {
		return "", fmt.Errorf("%s: %w", urlFileVariable, err)
	}
	switch url = strings.TrimSpace(string(text)); {
	case url == "":
		return "", fmt.Errorf("%s: %s is empty", urlFileVariable, path)
	case !isDatabaseURL(url):
		return "", fmt.Errorf("%s: invalid URL %s in %s: %s", urlFileVariable, shownURL(url), path,
			wantURL)
	}
	return url, nil
}

const wantURL = "must have the form postgres://user@host/database"

// isDatabaseURL reports whether a text has one of the forms that pgx knows: a URL, or keywords with
// values.
func isDatabaseURL(text string) bool {
	return regexp.MustCompile(`^(postgres(ql)?://|\s*\w+\s*=)`).MatchString(text)
}

// shownURL is a database URL, or a topology, as a word of a command line, or dots if it may hold a
// password.
func shownURL(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || strings.Contains(text, "password") {
		return "..."
	}
	_, secret := parsed.User.Password()
	if secret || parsed.User == nil && strings.Contains(text, "@") { // URLs within a topology
		return "..."
	}
	return display.Quote(text)
}
