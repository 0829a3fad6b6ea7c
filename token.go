package stint

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/stint-tasks/stint/internal/numbering"
	"github.com/stint-tasks/stint/internal/pg"
)

// A Token is the performance token of one fetch of one task. Whoever holds the newest token of a
// task owns it; every verb of an owner checks it (R8). It is new at every fetch and cannot be
// guessed.
//
// It is a UUID of version 8: 60 random bits that the tasks of one fetch share, mixed with the
// task's ID, so that the token is good for no other; the task's key, by which a return finds its
// rows without a search; and four hints for the return. Callers should not take it apart.
type Token uuid.UUID

// claim is the part of a token that is new at every fetch.
type claim int64

// newClaim makes a claim from random bits, in the form of the first half of a UUID of version 8.
func newClaim() (claim, error) {
	random, err := uuid.NewRandom()
	if err != nil {
		return 0, fmt.Errorf("make a token: %w", err)
	}
	return Claim{Number: binary.BigEndian.Uint64(random[:8])}.claim(), nil
}

// performance takes the token of a task apart. One that this package did not make, or that was made
// for another task, gives a performance that never existed.
func (t Token) performance(id TaskID) performance {
	key, number := numbering.Of(t, string(id))
	return performance{key, claim(number)}
}

func newToken(c claim, key int64, id TaskID, h numbering.Hints) Token {
	return numbering.New(int64(c), key, string(id), h)
}

// ParseToken reads a token in the form that [Token.String] writes.
func ParseToken(text string) (Token, error) {
	id, err := uuid.Parse(text)
	if err != nil {
		return Token{}, fmt.Errorf("parse token: %w", argumentError("token", "must be a UUID"))
	}
	return Token(id), nil
}

// String returns the token in the usual form of a UUID. It gives control over the task: keep it out
// of logs.
func (t Token) String() string { return uuid.UUID(t).String() }

// MarshalText writes the token as [Token.String] does.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the token as [ParseToken] does.
func (t *Token) UnmarshalText(text []byte) error {
	parsed, err := ParseToken(string(text))
	if err != nil {
		return err
	}
	*t = parsed
	return nil
}

// LogValue hides the token from [slog].
func (t Token) LogValue() slog.Value { return slog.StringValue("hidden") }

// performance is what the token of the task stands for.
func (t *OwnedTask) performance() performance { return t.Token.performance(t.ID) }

// A Claim names a fetch before it takes place, so that a caller whose answer was lost, on the
// way through a service for example, can repeat the call, and learns of every task that it was
// given. [Remote.ClaimTasks] says how.
type Claim struct {
	// Number is random, and new for each fetch: [NewClaim] makes it. It becomes a part of the
	// tokens, so keep it out of logs.
	Number uint64

	// Session is the Session of the [RemoteActor] that owns the tasks, or 0 if it is none.
	Session int64

	// Repeated says that the caller has made the call before, and got no answer. The claim is then
	// remembered for ten minutes, also when the tasks have ended: a call before that is delivered
	// late gets [ErrClaimSpent], instead of tasks that nobody waits for.
	Repeated bool
}

// NewClaim makes a claim for a fetch to an actor with this session.
func NewClaim(session int64) (Claim, error) {
	random, err := uuid.NewRandom()
	if err != nil {
		return Claim{}, fmt.Errorf("new claim: %w", err)
	}
	return Claim{Number: binary.BigEndian.Uint64(random[:8]), Session: session}, nil
}

// isSet reports whether the caller has chosen a claim.
func (c Claim) isSet() bool { return c.Number != 0 }

// claim is the claim in the tables, in the form of the first half of a UUID of version 8.
func (c Claim) claim() claim { return claim(numbering.Claim(c.Number)) }

const (
	// spanTasksMax is how many tasks a span stands for at most, so that an OwnTasks call of a usual
	// size takes a whole span.
	spanTasksMax = 1000
	// spansWanted is how many spans an insert makes at least, if it can, so that this many owners
	// find one each.
	spansWanted = 16
)

// A span is tasks with consecutive keys: those from lo to hi.
type span struct{ lo, hi int64 }

// singles are spans of one task each.
func singles(keys []int64) []span {
	spans := make([]span, len(keys))
	for i, key := range keys {
		spans[i] = span{key, key}
	}
	return spans
}

// bounds returns spans as the parameters of a statement.
func bounds(spans []span) (lo, hi []int64) {
	lo, hi = make([]int64, len(spans)), make([]int64, len(spans))
	for i, span := range spans {
		lo[i], hi[i] = span.lo, span.hi
	}
	return lo, hi
}

// A performance is what a token stands for: one fetch of one task.
type performance struct {
	key   int64
	claim claim
}

func performancesOf(owned []OwnedTask) []performance {
	performances := make([]performance, len(owned))
	for i := range owned {
		performances[i] = owned[i].performance()
	}
	return performances
}

// keysAndClaims returns performances as the parameters of a statement.
func keysAndClaims(performances []performance) (keys, claims []int64) {
	keys, claims = make([]int64, len(performances)), make([]int64, len(performances))
	for i, p := range performances {
		keys[i], claims[i] = p.key, int64(p.claim)
	}
	return keys, claims
}

// readPerformances reads rows of a key and a claim each into a set.
func readPerformances(set map[performance]bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		clear(set) // drops what an attempt that was undone had read
		for rows.Next() {
			var p performance
			if err := rows.Scan(&p.key, &p.claim); err != nil {
				return err
			}
			set[p] = true
		}
		return rows.Err()
	}
}

func comparePerformances(a, b performance) int {
	return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.claim, b.claim))
}

// follows reports whether the performance at place i of a sorted list is of the same fetch as
// the one before it, and of the task with the next key. A task that comes with two tokens follows
// none, and none follows it.
func follows(performances []performance, i int) bool {
	if i == 0 {
		return false
	}
	before, p := performances[i-1], performances[i]
	return p.claim == before.claim && p.key == before.key+1 &&
		(i < 2 || performances[i-2].key != before.key) &&
		(i+1 == len(performances) || performances[i+1].key != p.key)
}

// An ownedSpan is tasks with consecutive keys that were fetched under one claim.
type ownedSpan struct {
	span
	claim claim
}

// ownedSpans sorts performances and joins those with consecutive keys.
func ownedSpans(performances []performance) []ownedSpan {
	performances = slices.Clone(performances)
	slices.SortFunc(performances, comparePerformances)
	performances = slices.Compact(performances)
	var spans []ownedSpan
	for i, p := range performances {
		if n := len(spans); n > 0 && follows(performances, i) {
			spans[n-1].hi = p.key
		} else {
			spans = append(spans, ownedSpan{span{p.key, p.key}, p.claim})
		}
	}
	return spans
}

// readOwnedSpans reads rows of a span, its claim and whether it has to be asked for again, into a
// set of the performances that need not be asked for again.
func readOwnedSpans(set map[performance]bool, repeat *bool) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		clear(set) // drops what an attempt that was undone had read
		*repeat = false
		for rows.Next() {
			var s ownedSpan
			var unsure bool
			if err := rows.Scan(&s.lo, &s.hi, &s.claim, &unsure); err != nil {
				return err
			}
			*repeat = *repeat || unsure
			for key := s.lo; key <= s.hi && !unsure; key++ {
				set[performance{key, s.claim}] = true
			}
		}
		return rows.Err()
	}
}

// splitLeased cuts spans out of the rows of leased that they share with other tasks. The spans are
// sorted by lo.
func splitLeased(spans []span) pg.Step {
	disjoint := make([]span, 0, len(spans))
	for _, next := range spans { // a task comes twice if it comes with two tokens
		if n := len(disjoint); n == 0 || next.lo > disjoint[n-1].hi {
			disjoint = append(disjoint, next)
		}
	}
	lo, hi := bounds(disjoint)
	return pg.Step{Name: "split_leased", Args: []any{lo, hi}}
}

func sharesRow(task OwnedTask) bool { return numbering.HintsOf(task.Token).Shares }
