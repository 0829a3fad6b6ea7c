package command

import "testing"

// A hint repeats the address of the database, but never a password.
func TestShownURL_HidesPasswords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://owner@db.example/app":                  "'postgres://owner@db.example/app'",
		"host=db.example user=owner":                       "'host=db.example user=owner'",
		"postgres://owner:secret@db.example/app":           "...",
		"postgres://db.example/app?user=o&password=secret": "...",
		"host=db.example user=owner password=secret":       "...",
		"postgres://owner:sec%ret@db.example:port/app app": "...",
		"static:1=postgres://o:secret@h/d":                 "...",
		"static:1=postgres://h/d,2=postgres://o:secret@h/": "...",
		"static:1=host=h user=o password=secret":           "...",
		"pattern:postgres://o:secret@h/{shard}":            "...",
		"pattern:postgres://h/{shard}":                     "'pattern:postgres://h/{shard}'",
		"file:/etc/stint/shards":                           "'file:/etc/stint/shards'",
	} {
		if got := shownURL(text); got != want {
			t.Errorf("shownURL(%q) = %s, want %s", text, got, want)
		}
	}
}
