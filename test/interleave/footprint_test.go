package interleave_test

import (
	"maps"
	"regexp"
	"strings"
	"sync"
)

// A footprint is what a statement has to do with others, by table.
type footprint struct {
	// reads are what it may read, asks what it may lock or change, and names where it may insert
	// rows under names that others may choose as well: as its text says. (Other rows are inserted
	// by whoever has deleted others, which are locked.)
	reads, asks, names tables
	// locks are what it has locked and changed, and writes what it may have written in all: as it
	// turned out. Until then they are as asks.
	locks, writes tables
	// ends says that the statement ends a transaction, of which the others are those of all
	// statements.
	ends bool
	// all says that it has to do with everything.
	all bool
}

type tables map[string]bool

// What is no table, but stands among them: as locked.sql calls it.
const (
	advisory = "(advisory)"
	shared   = "(shared)"
	written  = "(written)"
)

// meets reports whether the order of two statements of different sessions can make a difference. A
// statement does not notice what another one has read, or has written and not committed, unless it
// asks for the lock of a row that the other one has locked, or inserts what the other one may have
// inserted.
func (f footprint) meets(g footprint) bool {
	switch {
	case f.all || g.all:
		return true
	case f.ends && g.ends:
		return false
	case f.ends:
		return overlap(f.writes, g.reads) || overlap(f.locks, g.asks) || overlap(f.names, g.names)
	case g.ends:
		return g.meets(f)
	}
	return overlap(f.locks, g.asks) || overlap(f.asks, g.locks) || overlap(f.names, g.names)
}

func overlap(a, b tables) bool {
	for table := range a {
		if b[table] {
			return true
		}
	}
	return false
}

// as returns the footprint of a statement that has been executed, of whose transaction is known
// what it has locked so far.
func (f footprint) as(locked tables) footprint {
	if f.ends || f.all {
		return f
	}
	locks := tables{}
	for table := range locked {
		if f.asks[table] || table == shared && f.asks[advisory] {
			locks[table] = true
		}
	}
	if f.locks = locks; !locked[written] {
		f.writes = tables{}
	}
	return f
}

// add adds the footprint of a further statement of a transaction.
func (f footprint) add(g footprint) {
	maps.Copy(f.names, g.names)
	maps.Copy(f.locks, g.locks)
	maps.Copy(f.writes, g.writes)
}

func noFootprint() footprint {
	return footprint{
		reads: tables{}, asks: tables{}, names: tables{}, locks: tables{}, writes: tables{},
	}
}

var (
	comments   = regexp.MustCompile(`--[^\n]*`)
	tableNames = regexp.MustCompile(`"stint"\."?(\w+)`)
	changing   = regexp.MustCompile(
		`(?i)(INSERT INTO|UPDATE|DELETE FROM|COPY) "stint"\."?(\w+)`)
	rowLocks  = regexp.MustCompile(`FOR (?:NO KEY UPDATE|UPDATE|KEY SHARE|SHARE)\b`)
	viewsRead = map[string][]string{
		"task_states": {"tasks", "finished", "leased", "leases", "ready", "scheduled", "blocked"},
		"holders":     {"slots", "limits", "tasks", "finished"},
	}
	movedRows = tables{
		"settling": true, "leases": true, "leased": true, "finished": true, "ready": true,
		"scheduled": true, "blocked": true, "joined": true,
	}
	footprints sync.Map // by the text of the statement
)

// footprintOf is the footprint of a statement that is yet to be executed.
func footprintOf(text string) footprint {
	if known, ok := footprints.Load(text); ok {
		return known.(footprint)
	}
	f := noFootprint()
	if title(text) == "finish_task" { // one statement, which runs those of the function
		text = finishTask
	}
	bare := comments.ReplaceAllString(text, "")
	for _, found := range tableNames.FindAllStringSubmatch(bare, -1) {
		f.reads[found[1]] = true
		for _, table := range viewsRead[found[1]] {
			f.reads[table] = true
		}
	}
	for _, found := range changing.FindAllStringSubmatch(bare, -1) {
		table, inserts := found[2], false
		switch strings.ToUpper(found[1]) {
		case "INSERT INTO", "COPY":
			inserts = true
		}
		f.writes[table] = true
		if inserts && !movedRows[table] {
			f.names[table] = true
		}
		if !inserts || strings.Contains(bare, "ON CONFLICT") {
			f.asks[table] = true
		}
	}
	for _, found := range rowLocks.FindAllStringIndex(bare, -1) {
		for _, of := range tableNames.FindAllStringSubmatch(enclosing(bare, found[0]), -1) {
			f.asks[of[1]] = true
		}
	}
	if strings.Contains(bare, "advisory") {
		f.asks[advisory] = true
	}
	f.locks = maps.Clone(f.asks)
	switch {
	case strings.Contains(bare, "advisory_xact_lock_shared"):
		delete(f.locks, advisory)
		f.locks[shared] = true
	case f.asks[advisory]:
		f.asks[shared] = true
	}
	footprints.Store(text, f)
	return f
}

// enclosing is the text from the parenthesis that is open at a place up to there.
func enclosing(text string, place int) string {
	for i, depth := place-1, 0; i >= 0; i-- {
		switch text[i] {
		case ')':
			depth++
		case '(':
			if depth--; depth < 0 {
				return text[i:place]
			}
		}
	}
	return text[:place]
}

// isEnd reports whether a statement ends a transaction.
func isEnd(statement string) bool {
	return strings.EqualFold(statement, "commit") || strings.EqualFold(statement, "rollback")
}
