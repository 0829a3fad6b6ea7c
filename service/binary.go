package service

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/stint-tasks/stint"
)

// itemsMax is how many items the lists of a request may have together. A task without a field takes
// two bytes of a request and a hundred times as many here, so the size of a request alone bounds
// little. No verb takes more than 100,000 items.
const itemsMax = 200_000

// longBytes is the size from which on texts in lists within lists, and entries of maps, are not
// counted: they take a few times as many bytes here, so the size of a request bounds them.
const longBytes = 16

// boundedBinary is the binary form of messages, whose lists are counted before they are read. A
// field that a message does not have is refused: without it, the filter of a newer client would
// pick other tasks.
type boundedBinary struct{}

func (boundedBinary) Name() string { return "proto" }

func (boundedBinary) Marshal(message any) ([]byte, error) {
	return boundedBinary{}.MarshalAppend(nil, message)
}

// MarshalAppend is for connect, which has a buffer already.
func (boundedBinary) MarshalAppend(to []byte, message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is not a message", message)
	}
	return proto.MarshalOptions{}.MarshalAppend(to, m)
}

func (boundedBinary) Unmarshal(data []byte, message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is not a message", message)
	}
	items := 0
	for rest := data; len(rest) > 0; items++ {
		_, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if items > itemsMax {
			return errItems()
		}
		rest = rest[n:]
	}
	if _, err := nestedItems(data, m.ProtoReflect().Descriptor(), 0, true); err != nil {
		return err
	}
	return proto.Unmarshal(data, m)
}

// nestedItems adds to a number of items those of the lists and maps within the fields of a message,
// such as the names of predecessors and the conditions of tasks, of which an empty one takes two
// bytes as well, but no long texts. Those of the outermost lists are counted already.
func nestedItems(
	data []byte, of protoreflect.MessageDescriptor, items int, outermost bool,
) (int, error) {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return items, protowire.ParseError(n)
		}
		value := data[n:]
		if n = protowire.ConsumeFieldValue(number, kind, value); n < 0 {
			return items, protowire.ParseError(n)
		}
		data = value[n:]
		field := of.Fields().ByNumber(number)
		if field == nil {
			return items, fmt.Errorf("%s has no field %d here: upgrade the service before its "+
				"clients", of.FullName(), number)
		}
		isMessage := field.IsList() && field.Message() != nil
		isItem := isMessage || field.Cardinality() == protoreflect.Repeated && n < longBytes
		if isItem && !outermost {
			items++
		}
		if items > itemsMax {
			return items, errItems()
		}
		if field.Message() == nil || kind != protowire.BytesType {
			continue
		}
		inside, _ := protowire.ConsumeBytes(value[:n])
		var err error
		if items, err = nestedItems(inside, field.Message(), items, false); err != nil {
			return items, err
		}
	}
	return items, nil
}

func errItems() error {
	return fmt.Errorf("%w: the lists of the request have more than %d items", stint.ErrTooLarge,
		itemsMax)
}
