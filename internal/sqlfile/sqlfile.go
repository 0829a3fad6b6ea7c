// Package sqlfile reads statements from files of SQL, one to a file.
package sqlfile

import "strings"

// Statement returns the statement of a file. It drops all lines of comment but the first line,
// which names the statement: it shows in pg_stat_activity and in traces. A comment behind code
// stays as well.
func Statement(file string) string {
	var kept []string
	for i, line := range strings.Split(strings.TrimSpace(file), "\n") {
		if i == 0 || !strings.HasPrefix(strings.TrimLeft(line, " "), "--") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}
