package command

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/stint-tasks/stint/internal/display"
)

const wantURL = "must have the form postgres://user@host/database"

// isDatabaseURL reports whether a text has one of the forms that pgx knows: a URL, or keywords with
// values.
func isDatabaseURL(text string) bool {
	return regexp.MustCompile(`^(postgres(ql)?://|\s*\w+\s*=)`).MatchString(text)
}

// shownURL is a database URL as a word of a command line, or dots if it may hold a password.
func shownURL(text string) string {
	parsed, err := url.Parse(text)
	if err != nil || strings.Contains(text, "password") {
		return "..."
	}
	if _, secret := parsed.User.Password(); secret {
		return "..."
	}
	return display.Quote(text)
}
