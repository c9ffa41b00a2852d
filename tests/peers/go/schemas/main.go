// A service in Go that shares a registry with others: franz-go's client over every path that it knows, on its own
// schemas, with all three kinds, references and contexts.
//
//	schemas REGISTRY PREFIX
//
// Prints one line for each thing that it found, in order.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

type tea struct {
	Leaves int `json:"leaves"`
}

func must[T any](found T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return found
}

func code(err error) int {
	var refused *sr.ResponseError
	if errors.As(err, &refused) {
		return refused.ErrorCode
	}
	return 0
}

func say(what string, found any) {
	fmt.Println(what, string(must(json.Marshal(found))))
}

func main() {
	url, prefix := os.Args[1], os.Args[2]
	ctx := context.Background()
	client := must(sr.NewClient(sr.URLs(url)))
	say("types", len(must(client.SupportedTypes(ctx))))

	avro := func(fields string) sr.Schema {
		return sr.Schema{Schema: `{"type":"record","name":"Tea","fields":[` + fields + `]}`}
	}
	leaves := `{"name":"leaves","type":"int"}`
	one := must(client.CreateSchema(ctx, prefix+"-avro", avro(leaves)))
	say("version", one.Version)
	say("same", must(client.LookupSchema(ctx, prefix+"-avro", avro(leaves))).ID == one.ID)
	say("text", must(client.SchemaTextByID(ctx, one.ID)))
	wide := avro(leaves + `,{"name":"sugar","type":"int"}`)
	result := must(client.CheckCompatibility(sr.WithParams(ctx, sr.Verbose), prefix+"-avro", 1, wide))
	say("compatible", []any{result.Is, len(result.Messages) > 0})
	_, err := client.CreateSchema(ctx, prefix+"-avro", wide)
	say("incompatible", code(err)/100)
	for _, each := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatNone}, prefix+"-avro") {
		must(0, each.Err)
	}
	say("level", client.Compatibility(ctx, prefix+"-avro")[0].Level.String())
	must(client.CreateSchema(ctx, prefix+"-avro", wide))
	say("versions", must(client.SubjectVersions(ctx, prefix+"-avro")))

	part := sr.Schema{Type: sr.TypeProtobuf, Schema: `syntax = "proto3"; package p; message Leaf { string name = 1; }`}
	must(client.CreateSchema(ctx, prefix+"-leaf", part))
	whole := sr.Schema{
		Type:       sr.TypeProtobuf,
		Schema:     `syntax = "proto3"; package p; import "leaf.proto"; message A {} message Tea { repeated Leaf leaves = 1; }`,
		References: []sr.SchemaReference{{Name: "leaf.proto", Subject: prefix + "-leaf", Version: 1}},
	}
	made := must(client.CreateSchema(ctx, prefix+"-proto", whole))
	say("referring", len(must(client.SchemaReferences(ctx, prefix+"-leaf", 1))))
	say("protected", code(client.DeleteSchema(ctx, prefix+"-leaf", 1, sr.SoftDelete)))
	say("usages", len(must(client.SchemaUsagesByID(ctx, made.ID))))

	kind := sr.Schema{Type: sr.TypeJSON, Schema: `{"type":"object","properties":{"leaves":{"type":"integer"}}}`}
	stored := must(client.CreateSchema(ctx, prefix+"-json", kind))
	var serde sr.Serde
	serde.Register(stored.ID, tea{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	say("value", serde.MustEncode(tea{3}))

	own := must(sr.NewClient(sr.URLs(url), sr.DefaultSchemaContext("."+prefix)))
	say("context", must(own.CreateSchema(ctx, "s", kind)).ID)
	say("listed", len(must(own.Subjects(ctx))))

	for _, each := range client.SetMode(ctx, sr.ModeImport, prefix+"-import") {
		must(0, each.Err)
	}
	say("imported", must(client.CreateSchemaWithIDAndVersion(ctx, prefix+"-import", avro(`{"name":"f_`+prefix+`","type":"int"}`), 123456, 7)).Version)
	client.ResetMode(ctx, prefix+"-import")

	say("deleted", must(client.DeleteSubject(ctx, prefix+"-avro", sr.SoftDelete)))
	_, err = client.SubjectVersions(ctx, prefix+"-avro")
	say("gone", code(err))
	say("hidden", must(client.SubjectVersions(sr.WithParams(ctx, sr.ShowDeleted), prefix+"-avro")))
	say("forgotten", must(client.DeleteSubject(ctx, prefix+"-avro", sr.HardDelete)))
}
