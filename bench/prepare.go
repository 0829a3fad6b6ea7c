package main

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// prepared prepares the contenders that need it, and leaves out those that cannot take part, each
// with a line that says why.
func (p plan) prepared(ctx context.Context, all []*measured, progress io.Writer) []*measured {
	absent := map[string]bool{}
	for _, m := range all {
		c := m.contender
		if _, asked := absent[c.name]; asked || c.prepare == nil {
			continue
		}
		err := c.prepare(ctx, p.download)
		absent[c.name] = err != nil
		if err != nil {
			fmt.Fprintf(progress, "%s is left out: %v\n", c.title, err)
		}
	}
	return slices.DeleteFunc(all, func(m *measured) bool { return absent[m.contender.name] })
}
