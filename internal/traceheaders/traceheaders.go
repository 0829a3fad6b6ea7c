// Package traceheaders is what the package stintotel, which writes the trace of an insert into the
// headers of tasks, and workers, which read it, have in common.
package traceheaders

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
)

// Or returns the propagator that was given or, if that is nil, the global one or, if none was set,
// that of W3C Trace Context.
func Or(given propagation.TextMapPropagator) propagation.TextMapPropagator {
	if given != nil {
		return given
	}
	if global := otel.GetTextMapPropagator(); len(global.Fields()) > 0 { // it was set
		return global
	}
	return propagation.TraceContext{}
}

// A Carrier lets a propagator read and write headers, whose names have no capital letters.
type Carrier map[string]string

// Get returns the value of a header.
func (c Carrier) Get(name string) string { return c[strings.ToLower(name)] }

// Set sets the value of a header.
func (c Carrier) Set(name, value string) { c[strings.ToLower(name)] = value }

// Keys returns the names of the headers.
func (c Carrier) Keys() []string { return slices.Sorted(maps.Keys(c)) }

// ClassOf is what the attribute error.type says of an error: its type, or the one below those that
// package fmt adds a text by.
func ClassOf(err error) string {
	for {
		class := fmt.Sprintf("%T", err)
		if !strings.HasPrefix(class, "*fmt.") { // whose methods do what they should
			return class
		}
		within := errors.Unwrap(err)
		if within == nil {
			return class
		}
		err = within
	}
}
