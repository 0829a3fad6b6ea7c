//go:build unix && !linux

package faults

// kinds are none: the faults use what only Linux has.
func kinds() []Fault { return nil }
