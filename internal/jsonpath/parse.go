package jsonpath

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Parse reads a path, such as $.lines[*] ? (@.price > 100).name, or a condition, such as
// $.customer.id == 7 && exists($.paid). The error says what is wrong, and where.
func Parse(text string) (*Path, error) {
	if len(text) > BytesMax {
		return nil, fmt.Errorf("%d bytes exceed the limit of %d", len(text), BytesMax)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("must be valid UTF-8")
	}
	p := &parser{rest: text, root: "$"}
	if steps, err := p.path(); err == nil && p.peek() == "" {
		return &Path{steps: steps}, nil
	}
	p = &parser{rest: text, root: "$"}
	holds, err := p.any()
	if err == nil && p.peek() != "" {
		err = p.wants("&&, || or its end")
	}
	if err != nil {
		return nil, err
	}
	return &Path{holds: holds}, nil
}

// tokens are what paths consist of. Other characters are tokens of their own, which nothing takes.
var tokens = regexp.MustCompile(
	`^(?s:"(?:[^"\\]|\\.)*"|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|` +
		`[\pL_][\pL\p{Nd}_]*|&&|\|\||[=!<>]=|<>|.)`)

// A parser reads a path from its beginning.
type parser struct {
	rest string
	root string // what paths begin with: $, or @ within a filter
}

// peek returns the next token; empty at the end.
func (p *parser) peek() string {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n\f")
	return tokens.FindString(p.rest)
}

func (p *parser) take() {
	token := p.peek()
	p.rest = p.rest[len(token):]
}

// takes takes the next token if it is the one given.
func (p *parser) takes(token string) bool {
	if p.peek() != token {
		return false
	}
	p.take()
	return true
}

func (p *parser) must(token string) error {
	if !p.takes(token) {
		return p.wants(token)
	}
	return nil
}

// wants says what should be where something else is.
func (p *parser) wants(what string) error {
	if p.peek() == "" {
		return fmt.Errorf("must not end without %s", what)
	}
	return fmt.Errorf("must have %s at %.30q", what, p.rest)
}

// any reads conditions of which one must hold.
func (p *parser) any() (condition, error) {
	holds, err := p.all()
	for err == nil && p.takes("||") {
		var next condition
		if next, err = p.all(); err == nil {
			holds = or(holds, next)
		}
	}
	return holds, err
}

// all reads conditions that must all hold.
func (p *parser) all() (condition, error) {
	holds, err := p.one()
	for err == nil && p.takes("&&") {
		var next condition
		if next, err = p.one(); err == nil {
			holds = and(holds, next)
		}
	}
	return holds, err
}

func (p *parser) one() (condition, error) {
	switch {
	case p.takes("!"):
		holds, err := p.enclosed()
		return not(holds), err
	case p.peek() == "(" || p.peek() == "exists":
		return p.enclosed()
	}
	steps, err := p.path()
	if err != nil {
		return nil, err
	}
	return p.comparison(steps)
}

// enclosed reads a condition in parentheses, or whether a path exists.
func (p *parser) enclosed() (holds condition, err error) {
	isPath := p.takes("exists")
	if err := p.must("("); err != nil {
		return nil, err
	}
	if isPath {
		var steps []step
		steps, err = p.path()
		holds = exists(steps)
	} else {
		holds, err = p.any()
	}
	if err != nil {
		return nil, err
	}
	return holds, p.must(")")
}

// comparison reads what some of the values must be that steps lead to.
func (p *parser) comparison(steps []step) (condition, error) {
	ways := map[string][]int{
		"==": {0}, "!=": {-1, 1}, "<>": {-1, 1}, "<": {-1}, "<=": {-1, 0}, ">": {1}, ">=": {0, 1},
	}[p.peek()]
	switch {
	case ways != nil:
		p.take()
		with, err := p.scalar()
		return some(steps, compared(with, ways)), err
	case p.takes("starts"):
		if err := p.must("with"); err != nil {
			return nil, err
		}
		with, err := p.text()
		return some(steps, begins(with)), err
	}
	return nil, p.wants("a comparison, such as == 7 or starts with \"a\",")
}

// path reads where values are.
func (p *parser) path() (steps []step, err error) {
	if !p.takes(p.root) {
		return nil, p.wants("a path that begins with " + p.root)
	}
	for err == nil {
		var next step
		switch {
		case p.takes("."):
			next, err = p.name()
		case p.takes("["):
			next, err = p.index()
		case p.takes("?"):
			next, err = p.filter()
		default:
			return steps, nil
		}
		steps = append(steps, next)
	}
	return nil, err
}

func (p *parser) name() (step, error) {
	if name := p.peek(); isWord(name) {
		p.take()
		return member(name), nil
	}
	if !strings.HasPrefix(p.peek(), `"`) {
		return nil, p.wants(`a name, in quotes if it has other characters than letters, digits ` +
			`and _,`)
	}
	name, err := p.text()
	return member(name), err
}

func isWord(token string) bool {
	first, _ := utf8.DecodeRuneInString(token)
	return first == '_' || unicode.IsLetter(first)
}

func (p *parser) index() (step, error) {
	if p.takes("*") {
		return unwrapped, p.must("]")
	}
	index, err := strconv.ParseUint(p.peek(), 10, 31)
	if err != nil {
		return nil, p.wants("* or a number")
	}
	p.take()
	return element(int(index)), p.must("]")
}

func (p *parser) filter() (step, error) {
	if err := p.must("("); err != nil {
		return nil, err
	}
	root := p.root
	p.root = "@"
	holds, err := p.any()
	p.root = root
	if err != nil {
		return nil, err
	}
	return filter(holds), p.must(")")
}

// text reads a string.
func (p *parser) text() (text string, err error) {
	err = json.Unmarshal([]byte(p.peek()), &text)
	if err != nil || strings.ContainsAny(text, "\x00\uFFFD") || p.peek()[0] != '"' {
		return "", p.wants("a string of JSON")
	}
	p.take()
	return text, nil
}

// scalar reads a string, a number, true, false or null.
func (p *parser) scalar() ([]byte, error) {
	token := p.peek()
	if strings.HasPrefix(token, `"`) {
		_, err := p.text()
		return []byte(token), err
	}
	if !json.Valid([]byte(token)) {
		return nil, p.wants("a string, a number, true, false or null")
	}
	p.take()
	return []byte(token), nil
}
