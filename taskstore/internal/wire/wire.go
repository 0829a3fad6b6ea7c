// Package wire has the JSON that the service of the task store and its clients send each other.
package wire

import "encoding/json"

// BodyBytesMax is how large a request may be: room for as much data as a request may have, though
// JSON may need several bytes for one.
const BodyBytesMax = 32 << 20

// A Task is a task as the service shows it.
type Task struct {
	ID       int64  `json:"id"`
	Group    string `json:"group"`
	Data     string `json:"data"`
	TimeSpec int64  `json:"timespec"`
	OwnerID  int64  `json:"ownerid"`
}

// An Update is the body of POST /update.
type Update struct {
	ClientID int64    `json:"clientid"`
	Adds     []Add    `json:"adds,omitempty"`
	Updates  []Change `json:"updates,omitempty"`
	Deletes  []int64  `json:"deletes,omitempty"`
	Depends  []int64  `json:"depends,omitempty"`
}

// An Add is a task to add.
type Add struct {
	ID       json.RawMessage `json:"id,omitempty"` // ignored
	Group    string          `json:"group"`
	Data     string          `json:"data,omitempty"`
	TimeSpec int64           `json:"timespec,omitempty"`
}

// A Change is a task to update.
type Change struct {
	ID       int64  `json:"id"`
	Data     string `json:"data,omitempty"`
	TimeSpec int64  `json:"timespec,omitempty"`
}

// A Claim is the body of POST /claim. Duration is in milliseconds.
type Claim struct {
	ClientID int64   `json:"clientid"`
	Group    string  `json:"group"`
	Duration int64   `json:"duration"`
	Depends  []int64 `json:"depends,omitempty"`
}

// An Answer is what the service answers to a POST, and to every request that fails.
type Answer struct {
	Tasks []Task `json:"tasks"` // never null
	Error *Error `json:"error"` // null after a success
}

// An Error says why a request failed. Lists that are empty are left out.
type Error struct {
	Changes []int64  `json:"changes,omitempty"`
	Deletes []int64  `json:"deletes,omitempty"`
	Depends []int64  `json:"depends,omitempty"`
	Owned   []int64  `json:"owned,omitempty"`
	Bugs    []string `json:"bugs,omitempty"`
}
