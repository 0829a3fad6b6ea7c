// Package headers checks the headers of tasks, and writes them as tables and messages hold them.
package headers

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The limits. A fetch brings the headers of all of its tasks, however many these are: together
// they have no more than the short bodies that it brings.
const (
	PairsMax     = 16
	NameBytesMax = 64
	BytesMax     = 2 << 10 // of all names and values
)

// Check says what is wrong with headers, and whether they are too large; an empty text if nothing
// is.
func Check(headers map[string]string) (problem string, isTooLarge bool) {
	if len(headers) > PairsMax {
		return fmt.Sprintf("%d exceed the limit of %d", len(headers), PairsMax), true
	}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		switch {
		case !IsName(name):
			return fmt.Sprintf("must have names of 1 to %d of the characters a-z, 0-9 and -, "+
				"not %.80q", NameBytesMax, name), false
		case !utf8.ValidString(value):
			return fmt.Sprintf("must be valid UTF-8, as %q is not", name), false
		case strings.IndexByte(value, 0) >= 0:
			return fmt.Sprintf("must not contain a NUL byte, as %q does", name), false
		}
	}
	if bytes := Size(headers); bytes > BytesMax {
		return fmt.Sprintf("%d bytes of names and values exceed the limit of %d", bytes, BytesMax),
			true
	}
	return "", false
}

// IsName reports whether a header can have a name.
func IsName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-':
		default:
			return false
		}
	}
	return 0 < len(name) && len(name) <= NameBytesMax
}

// Size is how many bytes the names and values have.
func Size(headers map[string]string) (bytes int) {
	for name, value := range headers {
		bytes += len(name) + len(value)
	}
	return bytes
}

// Encode returns headers as the parameter of a statement: an object of JSON, nil for none.
func Encode(headers map[string]string) *string {
	if len(headers) == 0 {
		return nil
	}
	encoded, err := json.Marshal(headers)
	if err != nil {
		return nil // which no map of texts is
	}
	text := string(encoded)
	return &text
}

// Decode undoes [Encode]; an empty text stands for none.
func Decode(text string) (headers map[string]string, err error) {
	if text == "" {
		return nil, nil //nolint:nilnil // as the comment says
	}
	if err := json.Unmarshal([]byte(text), &headers); err != nil {
		return nil, fmt.Errorf("read headers: %w", err)
	}
	return headers, nil
}

// Merge returns headers together with more: with none of these if headers has one of their names,
// since they belong together, and else with those that are allowed and for which there is room, the
// shortest first. It changes neither map.
func Merge(headers, more map[string]string) map[string]string {
	for name := range more {
		if _, has := headers[name]; has {
			return headers
		}
	}
	shortest := slices.SortedFunc(maps.Keys(more), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a)+len(more[a]), len(b)+len(more[b])), cmp.Compare(a, b))
	})
	merged := maps.Clone(headers)
	for _, name := range shortest {
		if merged == nil {
			merged = map[string]string{}
		}
		merged[name] = more[name]
		if problem, _ := Check(merged); problem != "" {
			delete(merged, name)
		}
	}
	return merged
}
