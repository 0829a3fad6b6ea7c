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
	if len(data) == 0 {
		return nil // as an empty object
	}
	return protojson.Unmarshal(data, m)
}
