// Command protoc-gen-clients writes the types of the clients for Python and TypeScript, and what
// converts them to and from the JSON of messages. buf generate runs it: a field is said once, in
// its message.
package main

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	protogen.Options{}.Run(func(plugin *protogen.Plugin) error {
		plugin.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		all, err := read(plugin)
		if err != nil {
			return err
		}
		for name, text := range map[string]string{
			"python/stint/tasks.py":      pythonFile(all),
			"typescript/src/tasks.ts":    typesFile(all),
			"typescript/src/messages.ts": messagesFile(all),
		} {
			if _, err := plugin.NewGeneratedFile(name, "").Write([]byte(text)); err != nil {
				return err
			}
		}
		return nil
	})
}

// types are the shapes of messages.
type types map[*protogen.Message]*shape

// read returns the types with what their messages say.
func read(plugin *protogen.Plugin) ([]*shape, error) {
	messages := map[string]*protogen.Message{}
	for _, file := range plugin.Files {
		if !file.Generate {
			continue
		}
		for _, message := range file.Messages {
			messages[string(message.Desc.Name())] = message
		}
	}
	all, known := shapes(), types{}
	for _, s := range all {
		message := messages[s.message]
		if message == nil {
			return nil, fmt.Errorf("there is no message %s", s.message)
		}
		known[message] = s
		s.doc = prose(message.Comments)
		for i, of := range ordered(s, message) {
			made, err := describe(s, of, i < s.required, known)
			if err != nil {
				return nil, err
			}
			s.fields = append(s.fields, made...)
		}
	}
	return all, nil
}

// ordered returns the fields of a message that a type has: one of each oneof, and new ones last,
// since in Python arguments may go by their places.
func ordered(s *shape, message *protogen.Message) []*protogen.Field {
	fields := slices.DeleteFunc(slices.Clone(message.Fields), func(f *protogen.Field) bool {
		return slices.Contains(s.without, string(f.Desc.Name())) || isContent(f) &&
			f.Oneof.Fields[0] != f
	})
	place := func(f *protogen.Field) int {
		at := slices.Index(s.first, string(f.Desc.Name()))
		if at < 0 {
			return len(s.first) + int(f.Desc.Number())
		}
		return at
	}
	slices.SortStableFunc(fields, func(a, b *protogen.Field) int { return place(a) - place(b) })
	return fields
}
