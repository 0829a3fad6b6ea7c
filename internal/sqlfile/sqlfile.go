// Package sqlfile turns a file of SQL into the statement to send: with the parts that it shares
// with others, without its comments, and with the names of PostgreSQL's functions in full.
// internal/pg, internal/doctor and the command read their statements by it.
package sqlfile

import (
	"embed"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Statement returns the statement of a file, with the parts that it includes. It drops all lines of
// comment but the first line, which names the statement: it shows in pg_stat_activity and in
// traces. A comment behind code stays as well. If there is no such part, the text says so, which
// the server refuses to run.
func Statement(file string) string {
	whole, err := Whole(file)
	if err != nil {
		return err.Error()
	}
	var kept []string
	for i, line := range strings.Split(strings.TrimSpace(whole), "\n") {
		if i == 0 || !strings.HasPrefix(strings.TrimLeft(line, " "), "--") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// Split cuts a file into its statements, by the lines that name them. It has none if the file does
// not begin with a name.
func Split(file string) map[string]string {
	texts := map[string]string{}
	name, from, at := "", 0, 0
	for line := range strings.Lines(file) {
		if next := nameIn(line); next != "" {
			if name != "" {
				texts[name] = file[from:at]
			}
			name, from = next, at
		} else if at == 0 {
			return nil
		}
		at += len(line)
	}
	if name != "" {
		texts[name] = file[from:]
	}
	return texts
}

// nameIn returns the name of the statement that begins with a line, or "" if none does.
func nameIn(line string) string {
	name, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- name: ")
	if !found || strings.Contains(name, " ") {
		return ""
	}
	return name
}

//go:embed parts/*.sql
var parts embed.FS

// A part is text that several statements share. A comment in a file stands for it, and says what
// stands for the words in braces:
//
//	-- include span_of_key: table=ready; key=named.key; columns=ready.lo, ready.hi
//
// The list goes on in the next line behind a semicolon or an AND that ends one.
var includePattern = regexp.MustCompile(
	`(?m)^( *)-- include (\w+)(?:: ((?:.+(?:;| AND)\n *--)*.+))?$`)

// goesOnPattern finds where a list of words goes on in the next line.
var goesOnPattern = regexp.MustCompile(`(;| AND)\n *-- *`)

// Whole puts the parts that a file includes into its text, as far in as the comments that stand for
// them. A part may include others.
func Whole(file string) (string, error) {
	var failed error
	text := includePattern.ReplaceAllStringFunc(file, func(line string) string {
		match := includePattern.FindStringSubmatch(line)
		part, err := readPart(match[2], match[3])
		if err != nil {
			failed = err
		}
		return match[1] + strings.ReplaceAll(part, "\n", "\n"+match[1])
	})
	return text, failed
}

// readPart returns a part without its comment, with words for those in braces.
func readPart(name, words string) (string, error) {
	text, err := parts.ReadFile("parts/" + name + ".sql")
	if err != nil {
		return "", err
	}
	var body []string
	for line := range strings.Lines(string(text)) {
		if len(body) > 0 || !strings.HasPrefix(line, "--") {
			body = append(body, line)
		}
	}
	part := strings.TrimSuffix(strings.Join(body, ""), "\n")
	words = goesOnPattern.ReplaceAllString(words, "$1 ")
	for given := range strings.SplitSeq(words, "; ") {
		if word, is, ok := strings.Cut(given, "="); ok {
			part = strings.ReplaceAll(part, "{"+word+"}", is)
		}
	}
	if missing := wordPattern.FindString(part); missing != "" {
		return "", fmt.Errorf("the part %s is included without %s", name, missing)
	}
	return Whole(part)
}

var wordPattern = regexp.MustCompile(`\{\w+\}`)

// A variant of a statement does less, for a case that is common. Comments in the file say which
// variants there are, and in what they differ:
//
//	-- variants: own_few, own_singly
//	-- unless own_few, own_singly     what follows, up to end, is not in these
//	-- end
//	-- in own_singly: SELECT 1        is in this one only
const variants = "\n-- variants: "

var (
	unlessPattern = regexp.MustCompile(`(?ms)^ *-- unless ([^\n]+)\n(.*?)^ *-- end\n`)
	inPattern     = regexp.MustCompile(`(?m)^( *)-- in (\w+): (.*)$`)
)

// Variants returns the names of the variants of a statement.
func Variants(statement string) []string {
	_, behind, found := strings.Cut(statement, variants)
	if !found {
		return nil
	}
	names, _, _ := strings.Cut(behind, "\n")
	return strings.Split(names, ", ")
}

// Variant returns the text of a variant of a statement.
func Variant(statement, name string) string {
	text := unlessPattern.ReplaceAllStringFunc(statement, func(part string) string {
		match := unlessPattern.FindStringSubmatch(part)
		if slices.Contains(strings.Split(match[1], ", "), name) {
			return ""
		}
		return match[2]
	})
	return inPattern.ReplaceAllStringFunc(text, func(line string) string {
		match := inPattern.FindStringSubmatch(line)
		if match[2] != name {
			return line
		}
		return match[1] + match[3]
	})
}

// These find the functions and types that a statement names without a schema. A function is a name
// in lower case before a parenthesis. A name that belongs to the grammar is none; nor is unnest of
// several arrays, for which the grammar takes PostgreSQL's own.
var (
	callPattern   = regexp.MustCompile(`[\w.]+\(`)
	unnestPattern = regexp.MustCompile(`\bunnest\(([^(),]+)\)`)
	typePattern   = regexp.MustCompile(`::(text|bytea|jsonb|timestamptz|regclass|oid)\b`)
)

// isGrammar reports whether a name looks like that of a function, and belongs to the grammar.
func isGrammar(name string) bool {
	switch name {
	case "coalesce", "greatest", "least", "nullif", "unnest":
		return true
	}
	return false
}

// InFull puts the schema before the functions and types of a statement. The driver prepares
// statements before the transaction that sets the path, and so under the caller's path: somebody's
// function of the same name, whose arguments fit better, could make that fail, and somebody's type
// could check the parameters. InFull does this for all statements, so that none can forget it, and
// each stays easy to read.
func InFull(text string) string {
	text = callPattern.ReplaceAllStringFunc(text, func(call string) string {
		switch name := strings.TrimSuffix(call, "("); {
		case strings.ContainsAny(name, ".ABCDEFGHIJKLMNOPQRSTUVWXYZ"):
			return call
		case isGrammar(name):
			return call
		}
		return "pg_catalog." + call
	})
	text = unnestPattern.ReplaceAllString(text, "pg_catalog.unnest($1)")
	return typePattern.ReplaceAllString(text, "::pg_catalog.$1")
}
