// Command generate compiles the .proto files of a folder into Go code: those of this
// repository's packages permifypb and wire. It uses the generators of the versions in its
// go.mod, and no installed compiler.
// It is a separate module, so that the server does not depend on the
// generators. Run it with "make proto".
//
// With -check it writes nothing, and fails if the generated code is out of
// date.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	_ "google.golang.org/genproto/googleapis/api/expr/v1alpha1"
)

func main() {
	check := flag.Bool("check", false, "write nothing, and fail if the generated code is out of date")
	dir := flag.String("dir", "..", "folder of the generated code, which contains proto/")
	flag.Parse()
	if err := run(*dir, *check); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(dir string, check bool) error {
	request, err := compile(filepath.Join(dir, "proto"))
	if err != nil {
		return err
	}
	for _, tool := range []string{"google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc"} {
		response, err := plugin(tool, request)
		if err != nil {
			return err
		}
		for _, f := range response.GetFile() {
			path := filepath.Join(dir, filepath.Base(f.GetName()))
			if err := put(path, []byte(f.GetContent()), check); err != nil {
				return err
			}
		}
	}
	return nil
}

// put writes a file, or compares it if check is true.
func put(path string, content []byte, check bool) error {
	if !check {
		return os.WriteFile(path, content, 0o644)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(old, content) {
		return fmt.Errorf("%s is out of date: run make proto", path)
	}
	return nil
}

// compile reads the .proto files and returns the request for the generators.
func compile(root string) (*pluginpb.CodeGeneratorRequest, error) {
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.CompositeResolver{
			&protocompile.SourceResolver{ImportPaths: []string{root}},
			protocompile.ResolverFunc(linked),
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := protoFiles(root)
	if err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(context.Background(), files...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: files, Parameter: proto.String("paths=source_relative")}
	seen := map[string]bool{}
	for _, f := range compiled {
		add(request, seen, f)
	}
	return request, nil
}

// protoFiles returns the paths of the .proto files below root, in order.
func protoFiles(root string) (files []string, err error) {
	err = fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".proto") {
			files = append(files, path)
		}
		return err
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no .proto file in %s", root)
	}
	return files, err
}

// linked finds a file that is compiled into this program.
func linked(path string) (protocompile.SearchResult, error) {
	d, err := protoregistry.GlobalFiles.FindFileByPath(path)
	if err != nil {
		return protocompile.SearchResult{}, err
	}
	return protocompile.SearchResult{Desc: d}, nil
}

// add adds a file to the request, after the files that it imports.
func add(request *pluginpb.CodeGeneratorRequest, seen map[string]bool, f protoreflect.FileDescriptor) {
	if seen[f.Path()] {
		return
	}
	seen[f.Path()] = true
	for i := range f.Imports().Len() {
		add(request, seen, f.Imports().Get(i).FileDescriptor)
	}
	var d *descriptorpb.FileDescriptorProto
	if result, ok := f.(linker.Result); ok {
		d = result.FileDescriptorProto()
	} else {
		d = protodesc.ToFileDescriptorProto(f)
	}
	request.ProtoFile = append(request.ProtoFile, d)
}

// plugin runs a generator.
func plugin(tool string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	in, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "run", tool)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tool, err)
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(out, response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response, nil
}
