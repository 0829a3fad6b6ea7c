package doctor

import (
	"cmp"
	"strings"
)

// encodings say how the server reads texts.
type encodings struct {
	// Database is the encoding in which it keeps them, Connection the one in which a connection
	// like this one begins to read them.
	Database, Connection string
	Overrides            []string // who reads them in another one, and which
}

// encodingFindings are about encodings in which a text may become another one. Reported is that in
// which this connection reads texts, if it is known.
func encodingFindings(e encodings, reported string) []Finding {
	var findings []Finding
	if e.Database != "UTF8" {
		findings = append(findings, found(SeverityError, "encoding", "the database is in %s, "+
			"which may not be able to store all texts, so stores refuse it: make one by CREATE "+
			"DATABASE ... ENCODING 'UTF8' TEMPLATE template0", e.Database))
	}
	const harm = "stores set it for their transactions, at the cost of a round trip for each, " +
		"but releases before this one, and other programs that send UTF-8 all the same, as all " +
		"in Go do, store other letters than they were given, and do not find their IDs again"
	if e.Connection == "UTF8" {
		e.Connection = cmp.Or(reported, e.Connection)
	}
	if e.Connection != "UTF8" {
		findings = append(findings, found(SeverityWarning, "encoding", "client_encoding of a "+
			"connection like this one is %s, by the role, the database, the server or the URL: "+
			"%s; set it to UTF8, or reset it", e.Connection, harm))
	}
	if len(e.Overrides) > 0 {
		findings = append(findings, found(SeverityWarning, "encoding", "%s, by a setting of the "+
			"role or the database: %s; ALTER ROLE ... RESET client_encoding, or ALTER DATABASE",
			strings.Join(e.Overrides, ", "), harm))
	}
	return findings
}
