package top

import "slices"

// A list is where the cursor is among rows that change.
type list struct {
	index int    // Of the row that the cursor is on.
	key   string // What that row is about, if the cursor stays with it.
	top   int    // The first row on the screen.
	order int    // Of the panel's orders.
}

// home is the list with the cursor on its first row, whichever that is.
func (l list) home() list { return list{order: l.order} }

func (l *list) move(rows []row, by int) {
	if len(rows) == 0 {
		return
	}
	l.index = max(min(l.index+by, len(rows)-1), 0)
	l.key = rows[l.index].key
}

// settle finds the row that the cursor was on, and keeps it on a screen of height rows.
func (l *list) settle(rows []row, height int) {
	at := slices.IndexFunc(rows, func(r row) bool { return r.key == l.key })
	if l.key != "" && at >= 0 {
		l.index = at
	}
	l.index = max(min(l.index, len(rows)-1), 0)
	height = max(height, 1)
	l.top = max(min(l.top, l.index, len(rows)-height), l.index-height+1, 0)
}

// selected is the row that the cursor is on.
func (m *model) selected() (row, bool) {
	rows, list := m.rows(), m.lists[m.panel]
	if list.index >= len(rows) {
		return row{}, false
	}
	return rows[list.index], true
}
