package jsonpath

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
)

// Values are parts of a valid text of JSON, without space around them.

const space = " \t\r\n"

func trim(text []byte) []byte { return bytes.Trim(text, space) }

// kindOf tells scalars by 'n', 't', '"' and '0', and objects and arrays by their first byte.
func kindOf(value []byte) byte {
	switch c := value[0]; c {
	case 'n', '"', '{', '[':
		return c
	case 't', 'f':
		return 't'
	}
	return '0'
}

// skip returns how long the value is that text begins with.
func skip(text []byte) int {
	switch text[0] {
	case '"':
		return skipText(text)
	case '{', '[':
		depth := 0
		for i := 0; i < len(text); i++ {
			switch text[i] {
			case '"':
				i += skipText(text[i:]) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	if end := bytes.IndexAny(text, ","+space); end >= 0 {
		return end
	}
	return len(text)
}

// skipText returns how long the string is that text begins with.
func skipText(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}

// elements yields the elements of an array.
func elements(array []byte, yield func([]byte) bool) bool {
	for rest := trim(array[1 : len(array)-1]); len(rest) > 0; {
		end := skip(rest)
		if !yield(rest[:end]) {
			return false
		}
		rest = after(rest[end:])
	}
	return true
}

// memberOf returns a member of an object, the last if there are several of the name; nil if there
// is none.
func memberOf(object []byte, name string) (found []byte) {
	if object[0] != '{' {
		return nil
	}
	for rest := trim(object[1 : len(object)-1]); len(rest) > 0; {
		end := skipText(rest)
		isIt := says(rest[:end], name)
		rest = after(rest[end:])
		end = skip(rest)
		if isIt {
			found = rest[:end]
		}
		rest = after(rest[end:])
	}
	return found
}

// after leaves out the comma or colon that text begins with, and the space around it.
func after(text []byte) []byte {
	text = bytes.TrimLeft(text, space)
	if len(text) == 0 {
		return text
	}
	return bytes.TrimLeft(text[1:], space)
}

// says reports whether a string says something.
func says(value []byte, text string) bool {
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1:len(value)-1]) == text
	}
	return textOf(value) == text
}

// textOf returns what a string says.
func textOf(value []byte) string {
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1])
	}
	var text string
	_ = json.Unmarshal(value, &text) // which is valid
	return text
}

// A number is 0.digits * 10^exponent, and its digits neither begin nor end with 0.
type number struct {
	below    bool // less than 0
	digits   string
	exponent int
}

// exponentMax is more than a text can be long, so that the sum of two is no overflow.
const exponentMax = 1 << 30

func numberOf(value []byte) number {
	text, below := strings.CutPrefix(string(value), "-")
	exponent := 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		n, err := strconv.Atoi(text[at+1:])
		switch {
		case err == nil:
			exponent = min(max(n, -exponentMax), exponentMax)
		case text[at+1] == '-':
			exponent = -exponentMax
		default:
			exponent = exponentMax
		}
		text = text[:at]
	}
	whole, part, _ := strings.Cut(text, ".")
	exponent += len(whole)
	digits := strings.TrimLeft(whole+part, "0")
	exponent -= len(whole) + len(part) - len(digits)
	if digits = strings.TrimRight(digits, "0"); digits == "" {
		return number{}
	}
	return number{below, digits, exponent}
}

func (n number) sign() int {
	switch {
	case n.digits == "":
		return 0
	case n.below:
		return -1
	}
	return 1
}

func (n number) compare(other number) int {
	if order := cmp.Compare(n.sign(), other.sign()); order != 0 {
		return order
	}
	order := cmp.Or(cmp.Compare(n.exponent, other.exponent),
		strings.Compare(n.digits, other.digits))
	if n.below {
		return -order
	}
	return order
}
