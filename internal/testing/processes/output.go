// Package processes makes directories of programs for tests, and collects what processes write, for
// tests that read it meanwhile.
package processes

import (
	"bytes"
	"sync"
)

// A Buffer may be written and read at once. The zero value is empty.
type Buffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(p)
}

// String is all that was written so far.
func (b *Buffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}
