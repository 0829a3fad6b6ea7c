package main

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lots are the files to count, by name, in lots of about the same size.
type lots [][]string

// findLots finds the Go files in a directory and below.
func findLots(dir string) (lots, error) {
	const lotBytes = 256 << 10
	var found lots
	size := int64(lotBytes) // of the last lot: the first file begins one
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || !strings.HasSuffix(name, ".go") {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if size >= lotBytes {
			found, size = append(found, nil), 0
		}
		found[len(found)-1] = append(found[len(found)-1], name)
		size += info.Size()
		return nil
	})
	return found, err
}

func (l lots) files() int {
	n := 0
	for _, lot := range l {
		n += len(lot)
	}
	return n
}

// counts are how often words come.
type counts map[string]int64

// addFiles counts the words of files in a directory. A word is letters, digits and underscores in a
// row that do not begin with a digit, so every identifier is one.
func (c counts) addFiles(dir string, names []string) error {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name)) //nolint:gosec // it is what to read
		if err != nil {
			return err
		}
		between := func(r rune) bool { return !unicode.In(r, unicode.L, unicode.Nd) && r != '_' }
		for word := range strings.FieldsFuncSeq(strings.ToValidUTF8(string(text), " "), between) {
			if first, _ := utf8.DecodeRuneInString(word); !unicode.IsDigit(first) {
				c[word]++
			}
		}
	}
	return nil
}

func (c counts) add(others counts) {
	for word, n := range others {
		c[word] += n
	}
}

// compare puts frequent words first.
func (c counts) compare(a, b string) int {
	return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a, b))
}
