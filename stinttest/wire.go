package stinttest

import (
	"cmp"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// A wire is a connection of a process with the server, which breaks when the process dies.
type wire struct {
	net.Conn

	process *Process

	// What is sent belongs to the goroutine that writes: the statements by their names, and those
	// of the request under way.
	prepared   map[string]string
	statements []string

	// What is received belongs to the goroutine that reads: bytes of messages that have not been
	// looked at, and of those that can be read.
	received, readable []byte
	chunk              [8 << 10]byte

	mutex sync.Mutex
	// sent and answered are how many requests were, the first of them to connect. The answer of
	// the request lost is; 0: none.
	sent, answered, lost int
}

// The first bytes of messages.
const (
	startup       = 0 // no type: the length, which is short
	parse         = 'P'
	bind          = 'B'
	describing    = 'D'
	execute       = 'E'
	closes        = 'C'
	functionCall  = 'F'
	query         = 'Q'
	syncs         = 'S'
	backendKey    = 'K'
	copyIn        = 'G'
	readyForQuery = 'Z'

	headerBytes = 5
)

// Write sends messages, which are complete, one request after another.
func (w *wire) Write(text []byte) (int, error) {
	if w.process.isDead() {
		return 0, errDied
	}
	if len(text) > 0 && text[0] == startup {
		return len(text), w.request(text)
	}
	from := 0
	for at := 0; at < len(text); {
		message, err := firstMessage(text[at:])
		if err != nil {
			return from, err
		}
		at += len(message)
		ends, err := w.note(message)
		if err == nil && ends {
			err = w.request(text[from:at])
			from = at
		}
		if err != nil {
			return 0, err
		}
	}
	_, err := w.Conn.Write(text[from:]) // a part of a request, such as of a COPY
	return len(text), err
}

func firstMessage(text []byte) ([]byte, error) {
	if n := messageSize(text); n > 0 {
		return text[:n], nil
	}
	return nil, errors.New("the driver sends messages in pieces, which TryEveryCrash cannot read")
}

// messageSize is the size of the first message of a text, or 0 if it is not complete.
func messageSize(text []byte) int {
	if len(text) < headerBytes {
		return 0
	}
	n := 1 + int(binary.BigEndian.Uint32(text[1:]))
	if n > len(text) {
		return 0
	}
	return n
}

// note takes note of a message, and reports whether it ends a request.
func (w *wire) note(message []byte) (ends bool, err error) {
	body := message[headerBytes:]
	switch message[0] {
	case parse:
		var m pgproto3.Parse
		err = m.Decode(body)
		w.prepared[m.Name] = m.Query
	case bind:
		var m pgproto3.Bind
		err = m.Decode(body)
		w.statements = append(w.statements, w.prepared[m.PreparedStatement])
	case query:
		var m pgproto3.Query
		err = m.Decode(body)
		w.statements = append(w.statements, m.String)
		return true, err
	case functionCall: // such as of a large object
		w.statements = append(w.statements, "a function")
		return true, nil
	case syncs:
		return true, nil
	}
	return false, err
}

// request sends what ends a request, unless the process dies before.
func (w *wire) request(text []byte) error {
	statements := w.statements
	w.statements = nil
	fate := spoken
	// A request without statements only prepares some.
	if len(statements) > 0 && !isBackground(statements) {
		fate = w.process.say(described(statements))
	}
	if fate == unheard {
		return errDied
	}
	w.mutex.Lock()
	w.sent++
	if fate == unanswered {
		w.lost = w.sent
	}
	w.mutex.Unlock()
	_, err := w.Conn.Write(text)
	return err
}

// Read returns what the server says.
func (w *wire) Read(into []byte) (int, error) {
	for len(w.readable) == 0 {
		message, err := w.receive()
		if err == nil && w.process.isDead() {
			err = errDied
		}
		if err == nil {
			w.readable, err = w.heard(message)
		}
		if err != nil {
			return 0, err
		}
	}
	n := copy(into, w.readable)
	w.readable = w.readable[n:]
	return n, nil
}

// receive returns the next message.
func (w *wire) receive() ([]byte, error) {
	for {
		if n := messageSize(w.received); n > 0 {
			message := w.received[:n:n]
			w.received = w.received[n:]
			return message, nil
		}
		n, err := w.Conn.Read(w.chunk[:])
		w.received = append(w.received, w.chunk[:n]...)
		if n == 0 && err != nil {
			if w.process.isDead() {
				err = errDied
			}
			return nil, err
		}
	}
}

// heard returns what the process hears of a message. At the end of an answer that is lost it dies;
// of that it hears only that it may send the rows of a COPY.
func (w *wire) heard(message []byte) ([]byte, error) {
	w.mutex.Lock()
	isLost := w.lost == w.answered+1
	if message[0] == readyForQuery {
		w.answered++
	}
	w.mutex.Unlock()
	switch kind := message[0]; {
	case kind == backendKey:
		w.process.connected(int64(binary.BigEndian.Uint32(message[headerBytes:])))
	case isLost && kind == readyForQuery:
		w.process.die()
		return nil, errDied
	case isLost && kind != copyIn:
		return nil, nil
	}
	return message, nil
}

// isBackground reports whether a store makes a request by itself, at any time, perhaps in a
// transaction with settings.
func isBackground(statements []string) bool {
	found := false
	for _, statement := range statements {
		switch name := firstWords(statement); {
		case name == "note_tries", name == "still_owned":
			found = true
		case name == "set_planner", name == "commit", strings.HasPrefix(name, "begin"):
		default:
			return false
		}
	}
	return found
}

// described says what the statements of a request are: the longest is what it is made for, others
// may begin and end its transaction.
func described(statements []string) string {
	longest := slices.MaxFunc(statements, func(a, b string) int {
		return cmp.Compare(len(a), len(b))
	})
	name := "the statement " + strconv.Quote(firstWords(longest))
	if more := len(statements) - 1; more > 0 {
		name += " with " + strconv.Itoa(more) + " more"
	}
	return name
}

// firstWords returns the name that a statement has in its first line, or its beginning.
func firstWords(statement string) string {
	const most = 60
	first, _, _ := strings.Cut(statement, "\n")
	if name, ok := strings.CutPrefix(first, "-- name: "); ok {
		return name
	}
	text := strings.Join(strings.Fields(statement), " ")
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
