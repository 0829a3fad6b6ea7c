module github.com/stint-tasks/stint/api/internal/protoc-gen-openapi

go 1.26.0

require google.golang.org/protobuf v1.36.12
