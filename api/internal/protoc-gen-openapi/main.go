// Command protoc-gen-openapi writes openapi.json, the description of services for those who call
// them by JSON over HTTP, as Connect maps it: each method is a POST of a JSON object. buf generate
// runs it: descriptors in Go have no comments, which are most of the description.
package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	protogen.Options{}.Run(func(plugin *protogen.Plugin) error {
		plugin.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		d := newDocument()
		for _, file := range plugin.Files {
			if !file.Generate {
				continue
			}
			for _, service := range file.Services {
				if err := d.addService(service); err != nil {
					return err
				}
			}
		}
		text, err := json.MarshalIndent(d, "", "  ")
		if err != nil {
			return err
		}
		_, err = plugin.NewGeneratedFile("openapi.json", "").Write(append(text, '\n'))
		return err
	})
}

// A node is an object of JSON. Its keys are sorted when it is written.
type node = map[string]any

// A document is what is written, in the order in which people read it.
type document struct {
	OpenAPI    string            `json:"openapi"`
	Info       node              `json:"info"`
	Security   []map[string]list `json:"security"`
	Tags       []node            `json:"tags"`
	Paths      node              `json:"paths"`
	Components components        `json:"components"`
}

type list []string

type components struct {
	SecuritySchemes node `json:"securitySchemes"`
	Responses       node `json:"responses"`
	Schemas         node `json:"schemas"`
}

const about = `Tasks in PostgreSQL: their producers, owners and observers.

Each call is a POST of a JSON object, which may be empty: {}. A field that a request does not ` +
	`know is refused. A field with its default value (0, "", false, an empty list) may be left ` +
	`out, and is left out of answers. Integers of 64 bits are strings, since many readers of ` +
	`JSON would round them; requests may have numbers. The same calls are there by gRPC and ` +
	`gRPC-Web.`

func newDocument() *document {
	return &document{
		OpenAPI: "3.1.0",
		Info:    node{"title": "Stint", "version": "v1", "description": about},
		// The second one is empty: a service may let everybody in.
		Security: []map[string]list{{"bearer": {}}, {}},
		Paths:    node{},
		Components: components{
			SecuritySchemes: node{"bearer": node{"type": "http", "scheme": "bearer"}},
			Responses: node{"Error": node{
				"description": "The call has failed.", "content": content("connect.Error"),
			}},
			Schemas: node{"connect.Error": errorSchema()},
		},
	}
}

// errorSchema is how Connect writes errors.
func errorSchema() node {
	text := func(description string) node {
		return node{"type": "string", "description": description}
	}
	code := text("What kind of error it is, by the names of gRPC.")
	code["enum"] = list{
		"canceled", "unknown", "invalid_argument", "deadline_exceeded", "not_found",
		"already_exists", "permission_denied", "resource_exhausted", "failed_precondition",
		"aborted", "out_of_range", "unimplemented", "internal", "unavailable", "data_loss",
		"unauthenticated",
	}
	return node{
		"type": "object", "required": list{"code"},
		"properties": node{
			"code":    code,
			"message": text("What is wrong, for people."),
			"details": node{
				"type": "array", "description": "At most one, a stint.v1.ErrorDetail.",
				"items": node{
					"type": "object", "required": list{"type", "value"},
					"properties": node{
						"type":  text("The name of the message."),
						"value": text("The message in binary, in base64 without padding."),
						"debug": node{
							"type": "object",
							"description": "The message as JSON, with names in lowerCamelCase: " +
								"predecessorState for predecessor_state.",
						},
					},
				},
			},
		},
	}
}

// addService adds the methods of a service. A stream is no POST of one object.
func (d *document) addService(service *protogen.Service) error {
	name := string(service.Desc.FullName())
	var streams list
	for _, method := range service.Methods {
		if method.Desc.IsStreamingClient() || method.Desc.IsStreamingServer() {
			streams = append(streams, method.GoName)
			continue
		}
		if err := d.addMethod(name, method); err != nil {
			return err
		}
	}
	description := prose(service.Comments)
	if len(streams) > 0 {
		description += "\n\nLeft out here, since they are streams: " +
			strings.Join(streams, ", ") + "."
	}
	d.Tags = append(d.Tags, node{"name": name, "description": description})
	return nil
}

func (d *document) addMethod(service string, method *protogen.Method) error {
	d.addMessage(method.Input, true)
	d.addMessage(method.Output, false)
	operation := node{
		"operationId": method.GoName,
		"tags":        list{service},
		"requestBody": node{
			"required": true, "content": content(method.Input.Desc.FullName()),
		},
		"responses": node{
			"200": node{
				"description": "The call has succeeded.",
				"content":     content(method.Output.Desc.FullName()),
			},
			"default": node{"$ref": "#/components/responses/Error"},
		},
	}
	describe(operation, prose(method.Comments))
	path := "/" + service + "/" + method.GoName
	for other := range d.Paths {
		if strings.HasSuffix(other, "/"+method.GoName) {
			return fmt.Errorf("%s and %s would have one operationId", other, path)
		}
	}
	d.Paths[path] = node{"post": operation}
	return nil
}

// content is a body of a message.
func content[T ~string](message T) node {
	return node{"application/json": node{"schema": reference(message)}}
}

func reference[T ~string](message T) node {
	return node{"$ref": "#/components/schemas/" + string(message)}
}

// addMessage adds the schema of a message, and of those in it. Messages that a request may have are
// closed, those that only answers have may grow.
func (d *document) addMessage(message *protogen.Message, request bool) {
	name := string(message.Desc.FullName())
	schema, known := d.Components.Schemas[name].(node)
	if known && (!request || schema["additionalProperties"] != nil) {
		return
	}
	properties := node{}
	schema = node{"type": "object", "properties": properties}
	if request {
		schema["additionalProperties"] = false
	}
	d.Components.Schemas[name] = schema
	for _, field := range message.Fields {
		properties[string(field.Desc.Name())] = d.property(field, request)
	}
	description := prose(message.Comments)
	var alternatives []node
	for _, one := range message.Oneofs {
		if one.Desc.IsSynthetic() { // of a field that is optional
			continue
		}
		var names list
		for _, field := range one.Fields {
			names = append(names, string(field.Desc.Name()))
		}
		for i, name := range names {
			for _, other := range names[i+1:] {
				alternatives = append(alternatives, node{
					"not": node{"required": list{name, other}},
				})
			}
		}
		description = strings.TrimSpace(description + "\n\nAt most one of " +
			strings.Join(names, ", ") + ".")
	}
	if len(alternatives) > 0 {
		schema["allOf"] = alternatives
	}
	describe(schema, description)
}

func (d *document) property(field *protogen.Field, request bool) node {
	var schema node
	if field.Desc.IsMap() {
		value := d.value(field.Message.Fields[1], request)
		schema = node{"type": "object", "additionalProperties": value}
	} else {
		schema = d.value(field, request)
	}
	if field.Desc.IsList() {
		schema = node{"type": "array", "items": schema}
	}
	describe(schema, prose(field.Comments))
	return schema
}

// value is the schema of a value of a field, as protojson writes it.
func (d *document) value(field *protogen.Field, request bool) node {
	switch field.Desc.Kind() {
	case protoreflect.StringKind:
		return node{"type": "string"}
	case protoreflect.BytesKind:
		return node{"type": "string", "contentEncoding": "base64"}
	case protoreflect.BoolKind:
		return node{"type": "boolean"}
	case protoreflect.DoubleKind:
		return node{"type": "number", "format": "double"}
	case protoreflect.Int32Kind:
		return node{"type": "integer", "format": "int32"}
	case protoreflect.Int64Kind:
		return node{"type": "string", "format": "int64", "pattern": "^-?[0-9]+$"}
	case protoreflect.Fixed64Kind:
		return node{"type": "string", "format": "uint64", "pattern": "^[0-9]+$"}
	case protoreflect.MessageKind:
	default:
		panic("no schema for " + field.Desc.FullName()) //nolint:forbidigo // buf shows it
	}
	switch name := field.Message.Desc.FullName(); name {
	case "google.protobuf.Duration":
		return node{
			"type": "string", "pattern": `^-?[0-9]+(\.[0-9]{1,9})?s$`, "examples": list{"1.5s"},
		}
	case "google.protobuf.Timestamp":
		return node{"type": "string", "format": "date-time"}
	default:
		d.addMessage(field.Message, request)
		return reference(name)
	}
}

func describe(schema node, description string) {
	if description != "" {
		schema["description"] = description
	}
}

// prose is a comment as text, in which each paragraph is a line.
func prose(comments protogen.CommentSet) string {
	var paragraphs []string
	for _, comment := range []protogen.Comments{comments.Leading, comments.Trailing} {
		for paragraph := range strings.SplitSeq(string(comment), "\n\n") {
			paragraphs = append(paragraphs, strings.Join(strings.Fields(paragraph), " "))
		}
	}
	paragraphs = slices.DeleteFunc(paragraphs, func(p string) bool { return p == "" })
	return strings.Join(paragraphs, "\n\n")
}
