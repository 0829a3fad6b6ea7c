// Package names judges the names of actions and keys that people type: what in a name can only be a
// slip, and whether anything in a store has the name, or one that is nearly the same.
package names

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Slip says what in a name can only be a slip, such as "it begins with a blank": blanks at its
// ends, and anywhere control characters, characters that nobody sees, and blanks that are not the
// usual one. It is empty if there is nothing. Programs may use such names; people do not mean them.
func Slip(name string) string {
	first, _ := utf8.DecodeRuneInString(name)
	last, _ := utf8.DecodeLastRuneInString(name)
	switch {
	case isBlank(first):
		return "it begins with a blank"
	case isBlank(last):
		return "it ends with a blank"
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case unicode.IsControl(r), unicode.In(r, unicode.Zl, unicode.Zp):
			return fmt.Sprintf("it has a control character, %U", r)
		case isUnseen(r) && !joins(runes, i):
			return fmt.Sprintf("it has an invisible character, %U", r)
		case isBlank(r) && r != ' ' && r != ideographicSpace:
			return fmt.Sprintf("it has an unusual blank, %U", r)
		}
	}
	return ""
}

const (
	ideographicSpace = '\u3000'
	brailleBlank     = '\u2800'
)

func isBlank(r rune) bool { return unicode.IsSpace(r) || r == brailleBlank }

// isUnseen reports whether nothing is shown of a character.
func isUnseen(r rune) bool {
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point,
		unicode.Variation_Selector)
}

// joins reports whether a character is one of those that change how their neighbours are written,
// where it has such neighbours: in an emoji, or within a word of Persian or Hindi.
func joins(name []rune, at int) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	written := func(i int) bool {
		return i >= 0 && i < len(name) && name[i] > unicode.MaxASCII &&
			!unicode.In(name[i], unicode.Cf, unicode.Zs)
	}
	switch r := name[at]; {
	case r == nonJoiner, r == joiner:
		return written(at-1) && written(at+1)
	case unicode.Is(unicode.Variation_Selector, r):
		return written(at - 1)
	}
	return false
}

// Near returns the known name that somebody may have meant who typed another one; empty if none is
// near. Names are near that differ in blanks at their ends, in what nobody sees, in capitals, or by
// a letter or two: one that is missing, too many, another one, or in the place of its neighbour. A
// name is not near one from which it differs in digits only: these are other names on purpose.
func Near(name string, known []string) string {
	const short, long = 3, 8 // names at least that long may have one or two letters wrong
	typed := plain(name)
	nearest, least := "", len(name)+1
	for _, other := range known {
		meant := plain(other)
		most := 0
		switch n := min(len(typed), len(meant)); {
		case n >= long:
			most = 2
		case n >= short:
			most = 1
		}
		if other == name || len(typed)-len(meant) > most || len(meant)-len(typed) > most {
			continue
		}
		wrong := distance(typed, meant)
		if wrong > most || wrong > 0 && withoutDigits(typed) == withoutDigits(meant) {
			continue
		}
		if wrong < least || wrong == least && other < nearest {
			nearest, least = other, wrong
		}
	}
	return nearest
}

// plain is a name without capitals, without blanks at its ends, and without what nobody sees.
func plain(name string) []rune {
	return []rune(strings.ToLower(strings.TrimFunc(strings.Map(func(r rune) rune {
		if isUnseen(r) || unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, name), isBlank)))
}

func withoutDigits(name []rune) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, string(name))
}

// distance is how many letters are to be inserted, deleted, replaced, or swapped with their
// neighbours, each once at most, to make one name of the other.
func distance(a, b []rune) int {
	before, above := make([]int, len(b)+1), make([]int, len(b)+1) // the two rows above
	for j := range above {
		above[j] = j
	}
	for i := range a {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, above[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}
