package replay

import (
	"fmt"
	"strings"
)

// values are the columns of a row as text, without those that are null.
type values map[string]string

// A change is a line that the slot has of a transaction: it begins, it ends, or a row of a table
// changes.
type change struct {
	kind  string // BEGIN, COMMIT, INSERT, UPDATE, DELETE, TRUNCATE
	table string // without its schema
	old   values // of UPDATE, what identified the row, if that changed; of DELETE, the same
	new   values
	stamp string // of COMMIT
}

// followed are the tables of which the rows are kept.
//
//nolint:gochecknoglobals // never changes
var followed = map[string]bool{
	"tasks": true, "blocked": true, "scheduled": true, "ready": true, "leased": true,
	"finished": true, "leases": true, "edges": true, "limits": true,
	"spent": true,
}

// unknown is the value of a large column that an UPDATE has not changed.
const unknown = "unchanged-toast-datum"

// parseChange reads a line of the output plugin test_decoding. Of another schema, and of tables of
// which nothing is kept, it returns a change without a table.
func parseChange(line, schema string) (change, error) {
	switch {
	case strings.HasPrefix(line, "BEGIN"):
		return change{kind: "BEGIN"}, nil
	case strings.HasPrefix(line, "COMMIT"):
		_, at, _ := strings.Cut(line, "(at ")
		return change{kind: "COMMIT", stamp: strings.TrimSuffix(at, ")")}, nil
	}
	rest, found := strings.CutPrefix(line, "table ")
	if !found {
		return change{}, nil // a message that somebody has written into the WAL
	}
	of, rest, err := name(rest, '.')
	if err != nil {
		return change{}, err
	}
	var c change
	if c.table, rest, err = name(rest, ':'); err != nil {
		return change{}, err
	}
	if of != schema || !followed[c.table] {
		return change{}, nil
	}
	c.kind, rest, _ = strings.Cut(strings.TrimPrefix(rest, " "), ":")
	rest = strings.TrimPrefix(rest, " ")
	if rest == "(no-tuple-data)" || c.kind == "TRUNCATE" {
		return c, nil
	}
	if old, ok := strings.CutPrefix(rest, "old-key: "); ok {
		if c.old, rest, err = columns(old); err != nil {
			return change{}, err
		}
		rest = strings.TrimPrefix(rest, "new-tuple: ")
	}
	if c.new, _, err = columns(rest); err != nil {
		return change{}, err
	}
	if c.kind == "DELETE" {
		c.old, c.new = c.new, nil
	}
	return c, nil
}

// name reads an identifier, quoted or not, up to the byte behind it.
func name(text string, end byte) (read, rest string, err error) {
	if strings.HasPrefix(text, `"`) {
		read, rest, err = quoted(text, '"')
		if err == nil && (rest == "" || rest[0] != end) {
			err = fmt.Errorf("%q has no %q behind a name", text, end)
		}
		if err != nil {
			return "", "", err
		}
		return read, rest[1:], nil
	}
	at := strings.IndexByte(text, end)
	if at < 0 {
		return "", "", fmt.Errorf("%q has no %q behind a name", text, end)
	}
	return text[:at], text[at+1:], nil
}

// columns reads columns, each as name[type]:value, up to the end or to a word that is no column.
func columns(text string) (all values, rest string, err error) {
	all = values{}
	for text != "" && !strings.HasPrefix(text, "new-tuple: ") {
		var column, value string
		if column, text, err = name(text, '['); err != nil {
			return nil, "", err
		}
		at := strings.Index(text, "]:") // behind the type, which may be an array
		if at < 0 {
			return nil, "", fmt.Errorf("the column %s has no value", column)
		}
		text = text[at+2:]
		isNull := false
		switch {
		case strings.HasPrefix(text, "'"):
			if value, text, err = quoted(text, '\''); err != nil {
				return nil, "", err
			}
		case strings.HasPrefix(text, "B'"): // bits
			if value, text, err = quoted(text[1:], '\''); err != nil {
				return nil, "", err
			}
		default:
			value, text, _ = strings.Cut(text, " ")
			text = " " + text
			isNull = value == "null"
		}
		text = strings.TrimPrefix(text, " ")
		if !isNull {
			all[column] = value
		}
	}
	return all, text, nil
}

// quoted reads a text between quotes, in which a quote is doubled.
func quoted(text string, quote byte) (read, rest string, err error) {
	for at := 1; at < len(text); at++ {
		if text[at] != quote {
			continue
		}
		if at+1 < len(text) && text[at+1] == quote {
			at++
			continue
		}
		one := string(quote)
		return strings.ReplaceAll(text[1:at], one+one, one), text[at+1:], nil
	}
	return "", "", fmt.Errorf("a quote is not closed in %.40q", text)
}
