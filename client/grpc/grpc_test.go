//go:build unix

package grpc_test

import (
	"os"
	process "os/exec"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/wire"
)

// A program that has gRPC from another toolchain, and the descriptors of the messages, calls the
// service: grpcio of Python, whose core is in C++.
func TestGRPC_IsSpokenWithOtherToolchains(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	python := ""
	for _, program := range []string{"python3", "/usr/bin/python3"} {
		err := process.CommandContext(t.Context(), program, "-c",
			"import grpc, google.protobuf").Run()
		if err == nil {
			python = program
			break
		}
	}
	if python == "" {
		testrun.Missing(t, "there is no Python with grpcio and protobuf here: "+
			"apt-get install python3-grpcio python3-protobuf")
	}
	descriptors := filepath.Join(t.TempDir(), "stint.binpb")
	if err := os.WriteFile(descriptors, descriptorSet(t), 0o600); err != nil {
		t.Fatal(err)
	}
	server := strings.TrimPrefix(startService(t), "http://")
	cmd := process.CommandContext(t.Context(), python, "test_stubs.py", "-v")
	cmd.Env = append(os.Environ(), "STINT_SERVER="+server, "STINT_DESCRIPTORS="+descriptors,
		"PYTHONDONTWRITEBYTECODE=1")
	output, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "Ran 3 tests") {
		t.Errorf("%s test_stubs.py = %v\n%s", python, err, output)
	}
}

// descriptorSet is what buf build -o writes: the files of the service, each after those that it
// imports.
func descriptorSet(t *testing.T) []byte {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	seen := map[string]bool{}
	var add func(file protoreflect.FileDescriptor)
	add = func(file protoreflect.FileDescriptor) {
		if seen[file.Path()] {
			return
		}
		seen[file.Path()] = true
		imports := file.Imports()
		for i := range imports.Len() {
			add(imports.Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(file))
	}
	for _, service := range wire.Services() {
		add(service.ParentFile())
	}
	packed, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}
