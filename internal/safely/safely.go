// Package safely calls the user's code, which may panic or end its goroutine, and returns how it
// failed. The store, the worker, the service and its client call loggers, metrics, tracers and
// callbacks by it. It also keeps the end of what such code writes.
package safely

import (
	"fmt"
	"runtime/debug"
)

// A CallError is how a call has failed, in texts: what was panicked with is not touched again.
type CallError struct {
	// What was panicked with.
	What string
	// Stack is that of the panic, empty if there was none.
	Stack string
}

func (f *CallError) Error() string {
	if f.Stack == "" {
		return f.What
	}
	return fmt.Sprintf("panic: %s\n\n%s", f.What, f.Stack)
}

// Recovered returns a value that was recovered as a CallError. It is called by the function that
// recovers, which has the stack of the panic.
func Recovered(value any) *CallError {
	return &CallError{What: text(value), Stack: string(debug.Stack())}
}

// text is what a value says of itself, or of what kind it is if its methods panic.
func text(value any) (said string) {
	defer func() {
		if recover() != nil {
			said = fmt.Sprintf("a %T, which panics when it is printed", value)
		}
	}()
	if IsEndless(value) {
		return fmt.Sprintf("a %T, which is endless", value)
	}
	return fmt.Sprint(value)
}

// Each calls f with the numbers from 0 to n-1, one after another, in another goroutine, and returns
// when all calls have ended. A call that panics or ends its goroutine keeps no other from being
// made. Each returns how the first of them failed, or nil.
func Each(n int, f func(i int)) *CallError {
	var first *CallError
	for next := 0; next < n; {
		failures := make(chan *CallError, 1)
		go func() {
			failure := &CallError{What: "it called runtime.Goexit"}
			defer func() { failures <- failure }()
			defer func() { // to print what was recovered may end the goroutine
				if value := recover(); value != nil {
					failure = Recovered(value)
				}
			}()
			for next < n {
				next++
				f(next - 1)
			}
			failure = nil
		}()
		if failure := <-failures; first == nil {
			first = failure
		}
	}
	return first
}

// Call calls f as [Each] does.
func Call(f func()) *CallError { return Each(1, func(int) { f() }) }
