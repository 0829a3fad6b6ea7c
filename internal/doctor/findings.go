package doctor

import (
	"cmp"
	_ "embed" // for the objects
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/display"
	"github.com/stint-tasks/stint/migrations"
)

// A Severity says how bad a finding is.
type Severity string

// An error is something that must not be, a warning is something to act upon, a note is something
// to know.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
	SeverityNote    Severity = "note"
)

func (s Severity) rank() int {
	return slices.Index([]Severity{SeverityError, SeverityWarning, SeverityNote}, s)
}

// A Finding is something that is wrong, or worth knowing.
type Finding struct {
	Severity Severity `json:"severity"`
	Topic    string   `json:"topic"`
	// ID is set if it is about one task.
	ID   stint.TaskID `json:"id,omitempty"`
	Text string       `json:"text"`
}

func found(s Severity, topic, format string, args ...any) Finding {
	return Finding{Severity: s, Topic: topic, Text: fmt.Sprintf(format, args...)}
}

func unseen(topic, message string) Finding {
	s, what := SeverityNote, topic
	if topic == "consistency" {
		s, what = SeverityWarning, "whether the tables agree"
	}
	return found(s, topic, "%s could not be looked at: %s", what, message)
}

func inconsistent(inconsistencies []stint.Inconsistency) []Finding {
	findings := make([]Finding, len(inconsistencies))
	for i, inconsistency := range inconsistencies {
		findings[i] = found(SeverityError, "consistency", "%s; if nobody has changed the tables "+
			"by hand, it is a bug of stint: please report it", inconsistency)
		findings[i].ID = inconsistency.ID
	}
	return findings
}

// A server is what check_server tells.
type server struct {
	Version     int
	VersionText string
	Standby     bool
	Connections int64
	SeesAll     bool
	Role        string
}

// settingNames are the settings that serverFindings and others look at.
func settingNames() []string {
	return []string{
		"autovacuum", "autovacuum_freeze_max_age", "autovacuum_multixact_freeze_max_age", "fsync",
		"full_page_writes", "idle_in_transaction_session_timeout", "max_connections",
		"reserved_connections", "superuser_reserved_connections", "synchronous_commit",
		"synchronous_standby_names", "track_counts", "wal_writer_delay", "zero_damaged_pages",
	}
}

// number returns the value of a setting that is a number, 0 if the server does not have it.
func number(settings map[string]string, name string) int64 {
	n, _ := strconv.ParseInt(settings[name], 10, 64)
	return n
}

func serverFindings(s server, settings map[string]string) []Finding {
	const versionMin = 150000
	var findings []Finding
	add := func(s Severity, topic, format string, args ...any) {
		findings = append(findings, found(s, topic, format, args...))
	}
	if s.Version < versionMin {
		add(SeverityError, "server", "the server is PostgreSQL %s, stint needs 15 or newer: "+
			"upgrade it", s.VersionText)
	}
	if s.Standby {
		add(SeverityNote, "server", "this is a hot standby, which lacks the unlogged table "+
			"settling and knows nothing of sessions and vacuum: whether the tables agree, and "+
			"much else, was not looked at; run stint check on the primary")
	}
	if !s.SeesAll {
		add(SeverityNote, "vacuum", "what the transactions of other roles hold up could not be "+
			"looked at; to see it: GRANT pg_read_all_stats TO %s",
			pgx.Identifier{s.Role}.Sanitize())
	}
	usable := number(settings, "max_connections") - number(settings, "reserved_connections") -
		number(settings, "superuser_reserved_connections")
	if usable > 0 && s.Connections*10 >= usable*9 {
		add(SeverityWarning, "connections", "%s of %s connections are taken: make pools smaller, "+
			"or raise max_connections", display.Number(s.Connections), display.Number(usable))
	}
	return append(findings, settingFindings(settings)...)
}

// settingFindings are about settings that may lose committed changes, keep vacuum from running, or
// let others wait for a process that is gone.
func settingFindings(settings map[string]string) []Finding {
	var findings []Finding
	add := func(s Severity, name, format string, args ...any) {
		text := fmt.Sprintf("%s is %s: ", name, settings[name]) + fmt.Sprintf(format, args...)
		findings = append(findings, Finding{Severity: s, Topic: "settings", Text: text})
	}
	isOff := func(name string) bool { return settings[name] == "off" }
	// Neon's storage keeps commits by itself, and gives itself out for a standby of this name.
	if isOff("fsync") && settings["synchronous_standby_names"] != "walproposer" {
		add(SeverityError, "fsync", "a crash of the host may destroy the database; turn it on")
	}
	if isOff("full_page_writes") {
		add(SeverityWarning, "full_page_writes", "a crash of the host may destroy pages, unless "+
			"the file system writes them whole; turn it on")
	}
	if settings["zero_damaged_pages"] == "on" {
		add(SeverityError, "zero_damaged_pages", "tasks on damaged pages vanish without a word; "+
			"turn it off")
	}
	switch settings["synchronous_commit"] {
	case "off":
		const delays = 3 // is how long the server may take to write a commit
		add(SeverityWarning, "synchronous_commit", "a crash of the server loses the calls of the "+
			"last %v, though they have returned; turn it on unless tasks are cheap to repeat",
			delays*time.Duration(number(settings, "wal_writer_delay"))*time.Millisecond)
	case "local":
		if settings["synchronous_standby_names"] != "" {
			add(SeverityWarning, "synchronous_commit", "calls return before a synchronous "+
				"standby has them, and a failover may lose them; turn it on")
		}
	}
	if name := "idle_in_transaction_session_timeout"; settings[name] == "0" {
		add(SeverityNote, name, "a process that is stopped, or whose host is lost, in a "+
			"transaction of its own keeps what that has locked for as long as its connection "+
			"seems to live, which is two hours with the usual TCP keepalives; set it, for "+
			"example to a minute")
	}
	for _, name := range []string{"autovacuum", "track_counts"} {
		if isOff(name) {
			add(SeverityWarning, name, "nothing removes dead rows, and fetches become slow; "+
				"turn it on")
		}
	}
	return findings
}

func overrideFindings(roles []string) []Finding {
	var findings []Finding
	for _, role := range roles {
		findings = append(findings, found(SeverityNote, "settings", "synchronous_commit is off "+
			"for %s, by a setting of the role or the database: if it uses stint, a crash of "+
			"the server loses its last calls, though they have returned", role))
	}
	return findings
}

//go:embed objects.txt
var objectsText string

// expectedObjects are what the migrations make.
func expectedObjects() []string { return strings.Split(strings.TrimSpace(objectsText), "\n") }

// An object is a part of the schema.
type object struct {
	Name  string
	Valid bool
}

func objectFindings(schema string, expected []string, objects []object) []Finding {
	var findings []Finding
	valid := map[string]bool{}
	for _, o := range objects {
		valid[o.Name] = o.Valid
		if name, ok := strings.CutPrefix(o.Name, "unlogged table "); ok &&
			slices.Contains(expected, "table "+name) {
			valid["table "+name] = true
			findings = append(findings, found(SeverityError, "schema", "the table %q is unlogged, "+
				"so a crash of the server empties it: ALTER TABLE %s SET LOGGED", name,
				pgx.Identifier{schema, name}.Sanitize()))
		}
	}
	for _, name := range expected {
		isValid, isThere := valid[name]
		kind, bare, _ := strings.Cut(name, " ")
		if !isThere && strings.HasPrefix(name, "unlogged ") {
			isValid, isThere = valid[strings.TrimPrefix(name, "unlogged ")]
		}
		relation, _, _ := strings.Cut(bare, ".")
		switch {
		case !isThere && kind == "column" && !isRelation(valid, relation): // its table is missing
		case !isThere:
			findings = append(findings, found(SeverityError, "schema", "%s is missing from the "+
				"schema %q: make it anew, as the file in migrations/versions has it", name, schema))
		case !isValid && kind == "index":
			findings = append(findings, found(SeverityError, "schema", "%s is invalid, so nothing "+
				"goes along it: REINDEX INDEX CONCURRENTLY %s", name,
				pgx.Identifier{schema, bare}.Sanitize()))
		case !isValid:
			findings = append(findings, found(SeverityWarning, "schema", "%s was never validated",
				name))
		}
	}
	return findings
}

func isRelation(objects map[string]bool, name string) bool {
	kinds := []string{"table ", "unlogged table ", "view "}
	return slices.ContainsFunc(kinds, func(kind string) bool {
		_, ok := objects[kind+name]
		return ok
	})
}

// A function is one of those that migrations.Functions makes.
type function struct {
	Name    string
	Version int32
}

// functionVersion is the version of a function that this release has.
func functionVersion(name string) (version int32) {
	text, err := migrations.Functions(migrations.DefaultSchema)
	if err != nil {
		return 0 // cannot be: the file is embedded
	}
	// It is where check_functions looks for it, too.
	_, behind, _ := strings.Cut(text, "$"+name+"$\n-- Version ")
	if _, err := fmt.Sscan(behind, &version); err != nil {
		return 0 // cannot be either
	}
	return version
}

func functionFindings(installed []function) []Finding {
	var findings []Finding
	for _, one := range installed {
		if newest := functionVersion(one.Name); one.Version < newest {
			findings = append(findings, found(SeverityWarning, "schema", "the function %s is of "+
				"version %d, and this release has version %d: bring it up to date with: "+
				"stint migrate functions", one.Name, one.Version, newest))
		}
	}
	return findings
}

// A horizon is how old the oldest transaction and multixact are in a table or a database.
type horizon struct {
	Name                     string
	Transactions, Multixacts int64
}

// horizonFindings are about transaction and multixact IDs that vacuum does not free in time. Vacuum
// begins to insist at the ages in the settings, and the server stops at about two thousand million.
func horizonFindings(kind string, h horizon, settings map[string]string) []Finding {
	const tooOld = 1_600_000_000
	var findings []Finding
	for _, n := range []struct {
		what, setting string
		age           int64
	}{
		{"transaction", "autovacuum_freeze_max_age", h.Transactions},
		{"multixact", "autovacuum_multixact_freeze_max_age", h.Multixacts},
	} {
		old := min(number(settings, n.setting)*3/2, tooOld)
		if old == 0 || n.age < old {
			continue
		}
		s := SeverityWarning
		if n.age >= tooOld {
			s = SeverityError
		}
		findings = append(findings, found(s, "wraparound", "the oldest %s in the %s %q is %s "+
			"old, and at 2,147,000,000 the server stops: end what holds vacuum up, then VACUUM "+
			"(FREEZE)", n.what, kind, h.Name, display.Count(n.age, n.what)))
	}
	return findings
}

// A table is what check_tables tells.
type table struct {
	horizon
	Live, Dead int64
	// Vacuumed is how long ago the table was vacuumed; nil for never.
	Vacuumed  *time.Duration
	VacuumOff bool
}

// queueTables are the tables whose rows live for seconds, so that dead rows gather.
func queueTables() []string {
	return []string{"ready", "leased", "leases", "scheduled", "blocked"}
}

// prunedTables are the tables that grow while dead rows are not removed as fast as tasks are
// pruned.
func prunedTables() []string {
	return []string{"tasks", "finished", "edges", "joined", "deadlines"}
}

func tableFindings(schema string, t table) []Finding {
	// A healthy autovacuum comes once a minute. Until then dead rows are nothing unusual.
	const deadMany, deadTooMany, vacuumedLately = 10_000, 1_000_000, 5 * time.Minute
	var findings []Finding
	name := pgx.Identifier{schema, t.Name}.Sanitize()
	if t.VacuumOff {
		findings = append(findings, found(SeverityWarning, "vacuum", "autovacuum is off for the "+
			"table %q: ALTER TABLE %s RESET (autovacuum_enabled)", t.Name, name))
	}
	harm, many := "which slows fetches", int64(deadMany)
	switch {
	case slices.Contains(prunedTables(), t.Name):
		harm, many = "and grows by them", deadTooMany
	case !slices.Contains(queueTables(), t.Name):
		return findings
	}
	if t.Dead < many || t.Dead < t.Live {
		return findings
	}
	s, vacuumed := SeverityNote, "it was never vacuumed"
	if t.Vacuumed != nil {
		vacuumed = fmt.Sprintf("it was vacuumed %s ago", display.Span(*t.Vacuumed))
		if *t.Vacuumed > vacuumedLately {
			s = SeverityWarning
		}
	}
	if t.Dead >= deadTooMany {
		s = SeverityWarning
	}
	return append(findings, found(s, "vacuum", "the table %q has %s dead rows to %s live ones, "+
		"%s; %s: end old transactions, see that autovacuum runs, or VACUUM %s",
		t.Name, display.Number(t.Dead), display.Number(t.Live), harm, vacuumed, name))
}

// A holder keeps vacuum from its work, or locks.
type holder struct {
	Kind, Name, Application, Role, State string
	// Since is how long the holder has existed, nil if that is not known.
	Since *time.Duration
	// Transactions is how many have begun since.
	Transactions int64
}

func holderFindings(h holder, settings map[string]string) []Finding {
	const (
		longNote, longWarning = 10 * time.Second, 5 * time.Minute
		manyNote, manyWarning = 10_000, 1_000_000
	)
	s := Severity("")
	switch {
	case h.Since != nil && *h.Since >= longWarning, h.Transactions >= manyWarning,
		h.Kind == "replication slot" && h.State == "inactive":
		s = SeverityWarning
	case h.Since != nil && *h.Since >= longNote, h.Transactions >= manyNote:
		s = SeverityNote
	default:
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s", h.Kind, h.Name)
	for _, said := range []string{h.Application, h.Role, h.State} {
		if said != "" {
			fmt.Fprintf(&text, ", %s", display.Text(said))
		}
	}
	if h.Since != nil {
		fmt.Fprintf(&text, ", has been open for %s", display.Span(*h.Since))
	}
	held := "what it has locked waits for it"
	if h.Transactions > 0 {
		held = "vacuum keeps what died in the last " + display.Count(h.Transactions, "transaction")
	}
	fmt.Fprintf(&text, ": %s; ", held)
	switch h.Kind {
	case "prepared transaction":
		text.WriteString("COMMIT PREPARED or ROLLBACK PREPARED it")
	case "replication slot":
		text.WriteString("drop the slot if nobody reads it, or end what is old on the standby")
	default:
		fmt.Fprintf(&text, "end it, or SELECT pg_terminate_backend(%s)", h.Name)
		if strings.HasPrefix(h.State, "idle in transaction") &&
			number(settings, "idle_in_transaction_session_timeout") == 0 {
			text.WriteString(", and set idle_in_transaction_session_timeout")
		}
	}
	return []Finding{{Severity: s, Topic: "vacuum", Text: text.String()}}
}

// An overdue is a kind of work that was due and that no store has done.
type overdue struct {
	Kind  string
	Tasks int64
	Since time.Duration
}

func overdueFindings(late []overdue) []Finding {
	var findings []Finding
	for _, o := range late {
		what := map[string]string{
			"lease":      "owned though the lease has expired",
			"not before": "scheduled though the time has come",
			"deadline":   "past the deadline and not seen to",
		}[o.Kind]
		findings = append(findings, found(SeverityWarning, "maintenance", "%s %s, for up to %s: "+
			"no store maintains the schema; start a worker, or a store with MaintainAlways",
			display.Count(o.Tasks, "task"), what, display.Span(o.Since)))
	}
	return findings
}

// A goneSession is the session of a process that is gone but still owns tasks.
type goneSession struct {
	// Gone is how long ago somebody noticed; nil if nobody has.
	Gone   *time.Duration
	Actors []string
	Tasks  int64
}

func sessionFindings(gone []goneSession) []Finding {
	const takesOver = 10 * time.Second
	var findings []Finding
	for _, g := range gone {
		actors := make([]string, len(g.Actors))
		for i, actor := range g.Actors {
			actors[i] = strconv.Quote(actor)
		}
		s, noticed := SeverityNote, "nobody has noticed yet"
		if g.Gone != nil {
			noticed = fmt.Sprintf("that was noticed %s ago", display.Span(*g.Gone))
			if *g.Gone > takesOver {
				s = SeverityWarning
			}
		}
		findings = append(findings, found(s, "maintenance", "the process of %s is gone, %s, and "+
			"%s that it owned not handed on: start a store that maintains, or wait until the "+
			"leases expire", strings.Join(actors, ", "), noticed, countAre(g.Tasks)))
	}
	return findings
}

func countAre(n int64) string {
	if n == 1 {
		return "1 task is"
	}
	return display.Number(n) + " tasks are"
}

// pruningFindings are about finished tasks that stay much longer than their retention. Stores prune
// twice a minute at least.
func pruningFindings(behind time.Duration) []Finding {
	const late = 5 * time.Minute
	if behind < late {
		return nil
	}
	return []Finding{found(SeverityWarning, "retention", "finished tasks stay for up to %s longer "+
		"than their retention: no store prunes, or not fast enough. See what the stores log, "+
		"start a worker, or a store with MaintainAlways, or prune now, such as: "+
		"stint prune --completed-after 24h",
		display.Span(behind))}
}

// isOfMaintenance reports whether a finding is about what a store would do that maintains.
func isOfMaintenance(f Finding) bool { return f.Topic == "maintenance" || f.Topic == "schedules" }

// copyFindings are about a copy, in which nothing is handed out.
func copyFindings(why string) []Finding {
	if why == "" {
		return nil
	}
	return []Finding{found(SeverityWarning, "copy", "the database is a copy, so no task is handed "+
		"out and no schedule fires: %s. Abort or delete what is not to be performed here, too, "+
		"and then run: stint adopt", why)}
}

// An unserved action is one that nobody asks for.
type unserved struct {
	Action string
	Tasks  int64
	Oldest time.Duration
	// Asked is how long ago somebody asked for the action; nil for never.
	Asked *time.Duration
}

func unservedFindings(actions []unserved) []Finding {
	const old = 10 * time.Minute
	var findings []Finding
	for _, u := range actions {
		if u.Action == stint.External { // nobody is given these
			continue
		}
		s, asked := SeverityNote, "nobody has asked for it"
		if u.Oldest >= old {
			s = SeverityWarning
		}
		if u.Asked != nil {
			asked = fmt.Sprintf("nobody has asked for it for %s", display.Span(*u.Asked))
		}
		findings = append(findings, found(s, "actions", "%s ready with the action %q, the oldest "+
			"for %s, and %s: start a worker that performs it", countAre(u.Tasks), u.Action,
			display.Span(u.Oldest), asked))
	}
	return findings
}

// A reading is the database's clock, read between two moments of this machine's.
type reading struct {
	before   time.Time
	trip     time.Duration
	database time.Time
}

// sequenceFindings says which sequences would give out again what the tables hold.
func sequenceFindings(behind []string) []Finding {
	var findings []Finding
	for _, name := range behind {
		findings = append(findings, found(SeverityError, "sequences", "the sequence %s is behind "+
			"the tables, as after a switchover by logical replication: inserts fail, or new tasks "+
			"go ahead of old ones; run: stint migrate", name))
	}
	return findings
}

// clockFindings compares the clocks by the reading that took the least time, which is accurate to
// half of that time.
func clockFindings(readings []reading) []Finding {
	const much, tooMuch = time.Second, time.Minute
	var findings []Finding
	for i := range readings[1:] {
		if back := readings[i].database.Sub(readings[i+1].database); back > 0 {
			findings = append(findings, found(SeverityWarning, "clock", "the database's clock "+
				"went back by %v between two readings: let the server's clock be slewed, not set",
				back))
		}
	}
	best := slices.MinFunc(readings, func(a, b reading) int { return cmp.Compare(a.trip, b.trip) })
	ahead := best.database.Sub(best.before.Add(best.trip / 2))
	if ahead.Abs()-best.trip/2 < much {
		return findings
	}
	s, way := SeverityNote, "ahead of"
	if ahead.Abs()-best.trip/2 >= tooMuch {
		s = SeverityWarning
	}
	if ahead < 0 {
		way = "behind"
	}
	return append(findings, found(s, "clock", "the database's clock is %v %s this machine's: "+
		"stint goes by the database's alone, but NotBefore and Deadline that were reckoned here "+
		"are off by that", ahead.Abs().Round(time.Millisecond), way))
}

func poolerFindings(mode pooling) []Finding {
	switch mode {
	case poolingTransaction:
		return []Finding{found(SeverityNote, "pooler", "a pooler gives each transaction on this "+
			"address another connection: stores behind it need PollOnly, wait by polling, and "+
			"their actors are noticed as dead only when leases expire")}
	case poolingSession:
		return []Finding{found(SeverityNote, "pooler", "a pooler stands between this address and "+
			"the server: stores behind it poll, so say PollOnly, and their actors are noticed as "+
			"dead only when leases expire")}
	default:
		return nil
	}
}
