package wire

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/stint-tasks/stint/api/stintv1"
)

// Services returns the services of the package stint.v1, all that there are.
func Services() []protoreflect.ServiceDescriptor {
	var all []protoreflect.ServiceDescriptor
	of := stintv1.File_stint_v1_task_proto.Package()
	protoregistry.GlobalFiles.RangeFilesByPackage(of,
		func(file protoreflect.FileDescriptor) bool {
			for i := range file.Services().Len() {
				all = append(all, file.Services().Get(i))
			}
			return true
		})
	return all
}
