package ui

import (
	"log/slog"
	"net/url"
	"strconv"

	"github.com/stint-tasks/stint"
)

// A made change is what a request has changed: the address of the page that tells of it, and what
// is logged.
type made struct {
	told url.Values
	what []slog.Attr
}

// toldMax is how long the address of the page may become by the names of tasks. Proxies take
// some 4 KiB of headers.
const toldMax = 2500

// name adds tasks to the address of the page that tells of a change, as far as there is room.
func (m *made) name(as string, ids []stint.TaskID) {
	for _, id := range ids {
		if len(m.told.Encode())+len(url.QueryEscape(string(id))) > toldMax {
			return
		}
		m.told.Add(as, string(id))
	}
}

func formInt(values url.Values, name string) int {
	const most = 1_000_000_000
	n, err := strconv.Atoi(values.Get(name))
	if err != nil || n < 0 || n > most {
		return 0
	}
	return n
}
