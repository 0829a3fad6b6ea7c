package calendar

import (
	"fmt"
	"strings"
	"time"
)

// zoneBytesMax is more than any name of the IANA database has.
const zoneBytesMax = 64

// Zone returns the zone of a name, which means the same on every machine that knows it: files
// beside those of the IANA database, such as localtime, do not.
func Zone(name string) (*time.Location, error) {
	first, _, _ := strings.Cut(name, "/")
	switch first {
	case "Local", "localtime", "posixrules":
		return nil, fmt.Errorf("%s differs from machine to machine: name a zone, such as UTC "+
			"or Europe/Berlin", first)
	case "posix", "right":
		return nil, fmt.Errorf("%.60q is not known on every machine: write it without %s/",
			name, first)
	}
	if !isZoneName(name) {
		return nil, fmt.Errorf("%.60q is no name of the IANA database, such as UTC or "+
			"Europe/Berlin (of a fixed offset it is such as Etc/GMT-2, two hours ahead of UTC)",
			name)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("%.60q is not known here: %w (names are spelled as in "+
			"Europe/Berlin; a Go program that imports time/tzdata brings the zones along)", name,
			err)
	}
	return zone, nil
}

// isZoneName reports whether a text is made as names of zones are.
func isZoneName(name string) bool {
	if len(name) > zoneBytesMax {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		letters := strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"+
			"0123456789_+-")
		if part == "" || letters != "" || !isLetter(part[0]) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
