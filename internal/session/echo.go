package session

import (
	"strings"
	"sync"
)

// echoes are the messages of which the session has told in its process already, and which its
// connection has yet to hear.
type echoes struct {
	mutex sync.Mutex
	due   map[echo]int
}

type echo struct {
	process uint32 // of the connection that sends it
	payload string
}

// echoesMax is how many echoes are waited for at most. If the connection was lost, they never come.
const echoesMax = 10_000

// expect notes that messages are sent.
func (e *echoes) expect(process uint32, payloads []string) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.due == nil || len(e.due) > echoesMax {
		e.due = map[echo]int{}
	}
	for _, payload := range payloads {
		e.due[echo{process, payload}]++
	}
}

// reset forgets what was expected: a new connection hears nothing of it.
func (e *echoes) reset() {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	clear(e.due)
}

// takes reports whether a message was expected. It is not expected again.
func (e *echoes) takes(process uint32, payload string) bool {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	of := echo{process, payload}
	due, ok := e.due[of]
	if due > 1 {
		e.due[of]--
	} else {
		delete(e.due, of)
	}
	return ok
}

// Tell tells those in this process of messages, by topic. It returns how many of them the session
// is to hear of, if they come from others.
func (s *Session) Tell(topics, payloads []string) (heard int64) {
	if s == nil {
		return 0
	}
	s.mutex.Lock()
	for _, topic := range topics {
		if _, listens := s.topics[topic]; listens {
			heard++
		}
	}
	s.mutex.Unlock()
	for _, payload := range payloads {
		kind, rest, _ := strings.Cut(payload, " ")
		s.Told(kind, rest)
	}
	return heard
}

// Expect has the session pass over messages that a connection of its process sends.
func (s *Session) Expect(process uint32, payloads []string) {
	if s != nil {
		s.echoes.expect(process, payloads)
	}
}

// Unsent says that such messages were not sent.
func (s *Session) Unsent(process uint32, payloads []string) {
	if s == nil {
		return
	}
	for _, payload := range payloads {
		s.echoes.takes(process, payload)
	}
}
