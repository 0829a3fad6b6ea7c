package doctor

import (
	"strings"

	"github.com/jackc/pgx/v5"
)

// A secured table has row level security.
type secured struct {
	Name   string
	Active bool // for the role that asks
	Forced bool // for the owner, too
}

// securityFindings are about tables whose rows are hidden from roles: stores under such roles fail.
func securityFindings(schema string, tables []secured) []Finding {
	var findings []Finding
	add := func(s Severity, whom string, names []string, repair string) {
		if len(names) == 0 {
			return
		}
		quoted := pgx.Identifier{schema, names[0]}.Sanitize()
		findings = append(findings, found(s, "row security", "row level security is enabled on "+
			"%s, and %s: stores fail that see only some of the tasks; for each of them ALTER "+
			"TABLE %s %s", strings.Join(names, ", "), whom, quoted, repair))
	}
	var active, forced, others []string
	for _, table := range tables {
		switch {
		case table.Active:
			active = append(active, table.Name)
		case table.Forced:
			forced = append(forced, table.Name)
		default:
			others = append(others, table.Name)
		}
	}
	const disable = "DISABLE ROW LEVEL SECURITY"
	add(SeverityError, "applies to this role", active, disable+
		", or if the role is the owner NO FORCE ROW LEVEL SECURITY")
	add(SeverityWarning, "applies to all roles but superusers and those with BYPASSRLS", forced,
		disable)
	add(SeverityNote, "applies to all roles but the owner, superusers and those with BYPASSRLS",
		others, disable+", unless no other role works with the tasks")
	return findings
}
