"""Calls a service by gRPC with the grpcio and protobuf of a distribution, without generated code.

The messages are made at run time from a set of descriptors: `buf build -o stint.binpb`, or
`protoc --include_imports -o stint.binpb`, writes one from api/proto/stint/v1. Where a generator is at
hand, its stubs do the same.
"""

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

# google/rpc/status.proto: how gRPC carries the details of errors.
_STATUS = descriptor_pb2.FileDescriptorProto(
    name="google/rpc/status.proto", package="google.rpc", syntax="proto3",
    dependency=["google/protobuf/any.proto"])
_STATUS.message_type.add(name="Status").field.extend([
    descriptor_pb2.FieldDescriptorProto(name="code", number=1, type=5, label=1),
    descriptor_pb2.FieldDescriptorProto(name="message", number=2, type=9, label=1),
    descriptor_pb2.FieldDescriptorProto(
        name="details", number=3, type=11, label=3, type_name=".google.protobuf.Any"),
])


class Stint:
    """The messages and the verbs of stint.v1 as attributes, such as Task and InsertTasks."""

    def __init__(self, channel, descriptors):
        """Takes a channel of grpc, and the bytes of a FileDescriptorSet."""
        files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
        self._pool = descriptor_pool.DescriptorPool()
        for file in files:  # each after those that it imports
            self._pool.Add(file)
        self._pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
        self._pool.Add(_STATUS)
        for file in files:
            if file.package != "stint.v1":
                continue
            for message in file.message_type:
                setattr(self, message.name, self._message(f"stint.v1.{message.name}"))
            for service in file.service:
                for method in service.method:
                    setattr(self, method.name, self._verb(channel, service.name, method))

    def _message(self, name):
        descriptor = self._pool.FindMessageTypeByName(name)
        try:
            return message_factory.GetMessageClass(descriptor)
        except AttributeError:  # protobuf before 4.22
            return message_factory.MessageFactory(self._pool).GetPrototype(descriptor)

    def _verb(self, channel, service, method):
        call = channel.stream_stream if method.client_streaming else channel.unary_unary
        return call(
            f"/stint.v1.{service}/{method.name}",
            request_serializer=self._message(method.input_type[1:]).SerializeToString,
            response_deserializer=self._message(method.output_type[1:]).FromString)

    def detail(self, error):
        """Returns the ErrorDetail of a grpc.RpcError, or None."""
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                status = self._message("google.rpc.Status").FromString(value)
                for packed in status.details:
                    if packed.type_url.endswith("/stint.v1.ErrorDetail"):
                        return self.ErrorDetail.FromString(packed.value)
        return None
