// Package tokens keeps bearer tokens in a file: their hashes and the names of the principals that
// they stand for, one token a line. The file does not contain the tokens themselves. A principal
// may have several tokens, so that a new one can be fetched before an old one is removed.
package tokens

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// Prefix begins every token, so that tools that look for secrets find it.
	Prefix = "stint_"

	secretBytes   = 32
	idDigits      = 12
	nameBytesMax  = 255
	hashAlgorithm = "sha256:"
	fileMode      = 0o600
)

// ErrUnknown reports that a file has no token with an ID.
var ErrUnknown = errors.New("there is no such token")

// An Entry is what a file says about a token.
type Entry struct {
	ID   string // the beginning of the hash
	Name string // of the principal
	Made time.Time

	hash [sha256.Size]byte
}

// Tokens are the entries of a file, by their hashes.
type Tokens map[[sha256.Size]byte]Entry

// Name returns the name of the principal that a token stands for. The token is looked up by its
// hash: how long that takes says nothing about tokens, since their hashes cannot be chosen.
func (t Tokens) Name(token string) (name string, ok bool) {
	entry, ok := t[sha256.Sum256([]byte(token))]
	return entry.Name, ok
}

// Parse reads the text of a file. Empty lines, and those that begin with #, mean nothing.
func Parse(text []byte) (Tokens, error) {
	entries, err := parse(text)
	tokens := make(Tokens, len(entries))
	for _, entry := range entries {
		tokens[entry.hash] = entry
	}
	return tokens, err
}

func parse(text []byte) ([]Entry, error) {
	var entries []Entry
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		entry, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("tokens, line %d: %w", number, err)
		}
		entries = append(entries, entry)
	}
	return entries, lines.Err()
}

func parseLine(line string) (Entry, error) {
	const fields = 3
	parts := strings.Fields(line)
	if len(parts) != fields {
		return Entry{}, errors.New("must be a name, a hash and a time")
	}
	digits, ok := strings.CutPrefix(parts[1], hashAlgorithm)
	hash, err := hex.DecodeString(digits)
	if !ok || err != nil || len(hash) != sha256.Size {
		return Entry{}, fmt.Errorf("the hash must be %s and %d hexadecimal digits", hashAlgorithm,
			hex.EncodedLen(sha256.Size))
	}
	made, err := time.Parse(time.RFC3339, parts[2])
	if err != nil {
		return Entry{}, err
	}
	return Entry{
		ID: digits[:idDigits], Name: parts[0], Made: made, hash: [sha256.Size]byte(hash),
	}, nil
}

// New makes a random token for a principal, and adds its hash to a file, which it creates if there
// is none. The token is in the result and nowhere else. The name is 1 to 255 bytes without spaces.
func New(path, name string) (token string, err error) {
	if name == "" || len(name) > nameBytesMax || name[0] == '#' ||
		strings.ContainsFunc(name, func(r rune) bool {
			return unicode.IsSpace(r) || !unicode.IsPrint(r)
		}) {
		return "", fmt.Errorf("invalid name %.80q: must be 1 to %d bytes, without spaces, and "+
			"not begin with #", name, nameBytesMax)
	}
	text, _, err := read(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	token = Prefix + base64.RawURLEncoding.EncodeToString(secret)
	hash := sha256.Sum256([]byte(token))
	line := fmt.Sprintf("%s %s%x %s\n", name, hashAlgorithm, hash, now().UTC().Format(time.RFC3339))
	return token, add(path, text, line)
}

// add appends a line to a file that had this text. Nothing but the end of the file is written, at
// once, so others may write to it at the same time.
func add(path string, text []byte, line string) error {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line
	}
	const mode = os.O_APPEND | os.O_CREATE | os.O_WRONLY
	file, err := os.OpenFile(path, mode, fileMode) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	_, err = file.WriteString(line)
	return errors.Join(err, file.Sync(), file.Close())
}

// List returns the entries of a file, in its order.
func List(path string) ([]Entry, error) {
	_, entries, err := read(path)
	return entries, err
}

// read returns the text of a file and its entries. A reader may see the beginning of a line that is
// being written: such a line has no end, and is read again until it is whole, or does not grow.
func read(path string) (text []byte, entries []Entry, err error) {
	const (
		pause    = 10 * time.Millisecond
		attempts = 100
	)
	size := 0
	for waited := 0; waited < attempts; waited++ {
		text, err = os.ReadFile(path) //nolint:gosec // the operator names the file
		if err != nil {
			return nil, nil, err
		}
		entries, err = parse(text)
		if err == nil || len(text) == 0 || text[len(text)-1] == '\n' {
			break
		}
		if len(text) > size {
			size, waited = len(text), 0
		}
		<-time.After(pause)
	}
	return text, entries, err
}

// Remove makes a comment of the line of the token with an ID: the token is no longer valid. A line
// at the end of the file says when that was; the rest of the file stays as it is. Without such a
// token, the error is [ErrUnknown].
func Remove(path, id string) (err error) {
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	// In place: another file might have an owner or a mode with which the service cannot read it,
	// and would go on with the token. And no more than one character: no other line moves, so
	// others may write to the file at the same time, and a crash leaves no half of a line.
	file, err := os.OpenFile(path, os.O_WRONLY, fileMode) //nolint:gosec // as above
	if err != nil {
		return err
	}
	name, offset := "", int64(0)
	for line := range bytes.Lines(text) {
		entry, invalid := parseLine(strings.TrimSpace(string(line)))
		if invalid == nil && entry.ID == id && !strings.HasPrefix(entry.Name, "#") {
			_, size := utf8.DecodeRune(line)
			_, failed := file.WriteAt(bytes.Repeat([]byte("#"), size), offset)
			name, err = entry.Name, errors.Join(err, failed)
		}
		offset += int64(len(line))
	}
	err = errors.Join(err, file.Sync(), file.Close())
	switch {
	case err != nil:
		return err
	case name == "":
		return fmt.Errorf("%w: %q", ErrUnknown, id)
	}
	// The file is longer now: its time may be that of the change before, as far as it is known.
	return add(path, text, fmt.Sprintf("# removed %s of %s %s\n", id, name,
		now().UTC().Format(time.RFC3339)))
}

// now is the time of this process.
func now() time.Time { return time.Now() } //nolint:forbidigo // as the comment says
