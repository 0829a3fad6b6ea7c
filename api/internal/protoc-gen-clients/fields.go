package main

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A field of a type. Expressions of Python are about given, which has the field, or m, a message.
type field struct {
	name     string // in the message
	number   int    // there
	doc      string
	required bool // it has no default

	pyType, pyDefault, pyFrom, pyTo string
	// Behind the message: what else the field puts into it.
	pyAlso string

	tsType string
	// What puts it into a message, and takes it out.
	tsField string
}

// isContent says that a field is bytes or text, of which a message has one.
func isContent(f *protogen.Field) bool { return f.Oneof != nil && !f.Oneof.Desc.IsSynthetic() }

// describe returns what becomes of a field: one, or those that are special.
func describe(s *shape, of *protogen.Field, required bool, types types) ([]field, error) {
	name := string(of.Desc.Name())
	special := specials()[s.message+"."+name]
	plain := field{
		name: name, number: int(of.Desc.Number()), doc: prose(of.Comments), required: required,
	}
	var err error
	switch {
	case isContent(of):
		plain.doc = prose(of.Oneof.Comments)
		content(&plain, s, string(of.Oneof.Fields[1].Desc.Name()))
	case of.Desc.IsMap():
		pairs(&plain, s)
	case types[of.Message] != nil:
		message(&plain, s, types[of.Message], of.Desc.IsList())
	case of.Desc.IsList() && of.Desc.Kind() == protoreflect.StringKind:
		texts(&plain, s)
	default:
		err = scalar(&plain, s, of)
	}
	if of.Desc.HasOptionalKeyword() {
		plain.tsField = "f.always(" + plain.tsField + ")"
		plain.tsType += " | null"
		plain.pyType, plain.pyDefault = "Optional["+plain.pyType+"]", "None"
		plain.pyFrom = "from_optional(" + plain.pyFrom + ")"
	}
	if required {
		plain.pyDefault = ""
	}
	if len(special) == 0 {
		if err != nil {
			return nil, err
		}
		special = []field{{}}
	}
	var found []field
	for _, instead := range special {
		made := plain.with(instead)
		if slices.Contains(s.secret, name) {
			made.pyDefault = withoutRepr(made.pyDefault)
		}
		found = append(found, made)
	}
	return found, nil
}

// with returns a field in which what another one has takes the place of its own.
func (f field) with(other field) field {
	for _, each := range []struct {
		of   *string
		with string
	}{
		{&f.name, other.name},
		{&f.doc, other.doc},
		{&f.pyType, other.pyType},
		{&f.pyDefault, other.pyDefault},
		{&f.pyFrom, other.pyFrom},
		{&f.pyTo, other.pyTo},
		{&f.tsType, other.tsType},
		{&f.tsField, other.tsField},
	} {
		if each.with != "" {
			*each.of = each.with
		}
	}
	return f
}

func scalar(to *field, s *shape, of *protogen.Field) error {
	get := func(otherwise string) string {
		return fmt.Sprintf("m.get(%q, %s)", to.name, otherwise)
	}
	to.pyFrom = "given." + pyName(to.name)
	if of.Desc.IsList() {
		return fmt.Errorf("%s: no type is for a list of these", of.Desc.FullName())
	}
	switch of.Desc.Kind() {
	case protoreflect.StringKind:
		to.pyType, to.pyDefault, to.pyTo = "str", `""`, get(`""`)
		to.tsType, to.tsField = "string", "f.text"
		if s.given && slices.Contains(forPeople(), to.name) {
			to.pyFrom, to.tsField = "told("+to.pyFrom+")", "f.status"
		}
	case protoreflect.BoolKind:
		to.pyType, to.pyDefault, to.pyTo = "bool", "False", get("False")
		to.tsType, to.tsField = "boolean", "f.flag"
	case protoreflect.Int32Kind:
		to.pyType, to.pyDefault, to.pyTo = "int", "0", get("0")
		to.tsType, to.tsField = "number", "f.number"
	case protoreflect.Int64Kind: // a text in JSON
		to.pyType, to.pyDefault, to.pyTo = "int", "0", "int("+get("0")+")"
		to.tsType, to.tsField = "number", "f.number"
	case protoreflect.DoubleKind:
		to.pyType, to.pyDefault, to.pyTo = "float", "0.0", "float("+get("0")+")"
		to.tsType, to.tsField = "number", "f.number"
	case protoreflect.MessageKind:
		return timed(to, s, of)
	default:
		return fmt.Errorf("%s: no type is for its kind", of.Desc.FullName())
	}
	return nil
}

func timed(to *field, s *shape, of *protogen.Field) error {
	take := "to_duration"
	switch name := of.Message.Desc.FullName(); {
	case name == "google.protobuf.Timestamp":
		to.pyType, to.pyDefault = "Optional[datetime]", "None"
		to.pyFrom = "from_time(" + to.pyFrom + ")"
		to.tsType, to.tsField = "Date | null", "f.time"
		take = "to_time"
	case name != "google.protobuf.Duration":
		return fmt.Errorf("%s: no type is for its message", of.Desc.FullName())
	case s.given && !to.required:
		to.pyType, to.pyDefault = "Optional[Duration]", "None"
		to.tsType, to.tsField = "Duration | null", "f.span"
		take = "to_span"
	case s.given:
		to.pyType = "Duration"
		to.tsType, to.tsField = "Duration", "f.duration"
	default:
		to.pyType, to.pyDefault = "timedelta", "timedelta()"
		to.tsType, to.tsField = "Duration", "f.duration"
	}
	if take != "to_time" {
		to.pyFrom = "from_duration(" + to.pyFrom + ")"
	}
	to.pyTo = fmt.Sprintf("%s(m.get(%q))", take, to.name)
	return nil
}

func content(to *field, s *shape, text string) {
	to.pyType, to.pyDefault, to.tsType = "Optional[bytes]", "None", "Uint8Array | null"
	if s.given {
		to.pyType, to.tsType = "Optional[Content]", "Content | null"
	}
	to.pyAlso = fmt.Sprintf("from_content(given.%s, %q, %q)", to.name, to.name, text)
	to.pyTo = fmt.Sprintf("to_content(m, %q, %q)", to.name, text)
	to.tsField = fmt.Sprintf("f.content(%q, %q)", to.name, text)
}

func pairs(to *field, s *shape) {
	to.pyType, to.pyDefault = "Dict[str, str]", "field(default_factory=dict)"
	if s.given {
		to.pyType = "Mapping[str, str]"
	}
	to.pyFrom = "dict(given." + pyName(to.name) + ")"
	to.pyTo = fmt.Sprintf("dict(m.get(%q, {}))", to.name)
	to.tsType, to.tsField = "Record<string, string>", "f.pairs"
}

func texts(to *field, s *shape) {
	to.pyType, to.pyDefault = "Sequence[str]", "()"
	to.pyFrom = "names(given." + pyName(to.name) + ")"
	to.pyTo = fmt.Sprintf("m.get(%q, [])", to.name)
	if s.frozen {
		to.pyTo = fmt.Sprintf("tuple(m.get(%q, ()))", to.name)
	}
	to.tsType, to.tsField = "string[]", "f.texts"
	if s.given {
		to.tsType = "Some<string>"
	}
}

func message(to *field, s, inner *shape, several bool) {
	class, convert, given := inner.name, pyFunction(inner.name), "given."+pyName(to.name)
	arguments := fields(inner)
	if s.given && inner.finish != "" {
		arguments += ", f." + inner.finish
	}
	switch {
	case several:
		to.pyType, to.pyDefault = "Sequence["+class+"]", "()"
		to.pyFrom = fmt.Sprintf("several(from_%s, %s, %s)", convert, given, class)
		to.pyTo = fmt.Sprintf("[to_%s(each) for each in m.get(%q, ())]", convert, to.name)
		to.tsType, to.tsField = class+"[]", "f.many("+arguments+")"
		if s.given {
			to.tsType = "Some<" + class + ">"
		}
	case s.given || slices.Contains(s.nullable, to.name):
		to.pyType, to.pyDefault = "Optional["+class+"]", "None"
		to.pyFrom = fmt.Sprintf("%s and from_%s(%s)", given, convert, given)
		to.pyTo = fmt.Sprintf("to_%s(m[%q]) if %q in m else None", convert, to.name, to.name)
		to.tsType, to.tsField = class+" | null", "f.nested("+arguments+")"
		if to.required {
			to.pyType, to.pyFrom = class, fmt.Sprintf("from_%s(%s)", convert, given)
			to.tsType = class
		}
	default:
		to.pyType, to.pyDefault = class, "field(default_factory="+class+")"
		to.pyTo = fmt.Sprintf("to_%s(m.get(%q, {}))", convert, to.name)
		to.tsType, to.tsField = class, "f.whole("+arguments+")"
	}
}
