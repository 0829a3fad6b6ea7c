package service

import (
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// strictJSON is JSON with the names of the proto files, in which a field that a message does not
// have is refused: max_trys would otherwise insert a task with the default of max_tries.
type strictJSON struct{ name string }

// strictCodecs returns the codecs of the names by which Connect knows JSON.
func strictCodecs() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(strictJSON{"json"}), connect.WithCodec(strictJSON{"json; charset=utf-8"}))
}

func (s strictJSON) Name() string { return s.name }

func (strictJSON) Marshal(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", message)
	}
	return protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
}

func (strictJSON) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message", message)
	}
	switch {
	case len(data) == 0:
		return nil // as an empty object
	case itemsOf(data) > itemsMax:
		return errItems()
	}
	return protojson.Unmarshal(data, m)
}

// itemsOf counts the objects and the items of lists of texts in JSON: what is outside of strings.
func itemsOf(text []byte) int {
	items, quoted, escaped := 0, false, false
	for _, c := range text {
		switch {
		case escaped:
			escaped = false
		case quoted && c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == ','):
			items++
		}
	}
	return items
}
