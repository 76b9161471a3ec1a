package permify

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ostiary/ostiary/door/permify/basev1"
)

// The types below implement the generated gRPC servers. They only forward to
// service, which implements all calls. Each is a type of its own, because
// several services have a method with the same name.
type (
	permissionServer struct {
		basev1.UnimplementedPermissionServer
		s *service
	}
	schemaServer struct {
		basev1.UnimplementedSchemaServer
		s *service
	}
	dataServer struct {
		basev1.UnimplementedDataServer
		s *service
	}
	bundleServer struct {
		basev1.UnimplementedBundleServer
		s *service
	}
	tenancyServer struct {
		basev1.UnimplementedTenancyServer
		s *service
	}
	watchServer struct {
		basev1.UnimplementedWatchServer
		s *service
	}
)

func (p permissionServer) Check(ctx context.Context, r *basev1.PermissionCheckRequest) (*basev1.PermissionCheckResponse, error) {
	return p.s.Check(ctx, r)
}

func (p permissionServer) BulkCheck(ctx context.Context, r *basev1.PermissionBulkCheckRequest) (*basev1.PermissionBulkCheckResponse, error) {
	return p.s.BulkCheck(ctx, r)
}

func (p permissionServer) Expand(ctx context.Context, r *basev1.PermissionExpandRequest) (*basev1.PermissionExpandResponse, error) {
	return p.s.Expand(ctx, r)
}

func (p permissionServer) LookupEntity(ctx context.Context, r *basev1.PermissionLookupEntityRequest) (*basev1.PermissionLookupEntityResponse, error) {
	return p.s.LookupEntity(ctx, r)
}

func (p permissionServer) LookupEntityStream(r *basev1.PermissionLookupEntityRequest, stream grpc.ServerStreamingServer[basev1.PermissionLookupEntityStreamResponse]) error {
	return p.s.LookupEntityStream(stream.Context(), r, stream.Send)
}

func (p permissionServer) LookupSubject(ctx context.Context, r *basev1.PermissionLookupSubjectRequest) (*basev1.PermissionLookupSubjectResponse, error) {
	return p.s.LookupSubject(ctx, r)
}

func (p permissionServer) SubjectPermission(ctx context.Context, r *basev1.PermissionSubjectPermissionRequest) (*basev1.PermissionSubjectPermissionResponse, error) {
	return p.s.SubjectPermission(ctx, r)
}

func (p schemaServer) Write(ctx context.Context, r *basev1.SchemaWriteRequest) (*basev1.SchemaWriteResponse, error) {
	return p.s.WriteSchema(ctx, r)
}

func (p schemaServer) PartialWrite(ctx context.Context, r *basev1.SchemaPartialWriteRequest) (*basev1.SchemaPartialWriteResponse, error) {
	return p.s.PartialWrite(ctx, r)
}

func (p schemaServer) Read(ctx context.Context, r *basev1.SchemaReadRequest) (*basev1.SchemaReadResponse, error) {
	return p.s.ReadSchema(ctx, r)
}

func (p schemaServer) List(ctx context.Context, r *basev1.SchemaListRequest) (*basev1.SchemaListResponse, error) {
	return p.s.ListSchemas(ctx, r)
}

func (p dataServer) Write(ctx context.Context, r *basev1.DataWriteRequest) (*basev1.DataWriteResponse, error) {
	return p.s.Write(ctx, r)
}

func (p dataServer) WriteRelationships(ctx context.Context, r *basev1.RelationshipWriteRequest) (*basev1.RelationshipWriteResponse, error) {
	return p.s.WriteRelationships(ctx, r)
}

func (p dataServer) ReadRelationships(ctx context.Context, r *basev1.RelationshipReadRequest) (*basev1.RelationshipReadResponse, error) {
	return p.s.ReadRelationships(ctx, r)
}

func (p dataServer) ReadAttributes(ctx context.Context, r *basev1.AttributeReadRequest) (*basev1.AttributeReadResponse, error) {
	return p.s.ReadAttributes(ctx, r)
}

func (p dataServer) Delete(ctx context.Context, r *basev1.DataDeleteRequest) (*basev1.DataDeleteResponse, error) {
	return p.s.Delete(ctx, r)
}

func (p dataServer) DeleteRelationships(ctx context.Context, r *basev1.RelationshipDeleteRequest) (*basev1.RelationshipDeleteResponse, error) {
	return p.s.DeleteRelationships(ctx, r)
}

func (p dataServer) RunBundle(ctx context.Context, r *basev1.BundleRunRequest) (*basev1.BundleRunResponse, error) {
	return p.s.RunBundle(ctx, r)
}

func (p bundleServer) Write(ctx context.Context, r *basev1.BundleWriteRequest) (*basev1.BundleWriteResponse, error) {
	return p.s.WriteBundle(ctx, r)
}

func (p bundleServer) Read(ctx context.Context, r *basev1.BundleReadRequest) (*basev1.BundleReadResponse, error) {
	return p.s.ReadBundle(ctx, r)
}

func (p bundleServer) Delete(ctx context.Context, r *basev1.BundleDeleteRequest) (*basev1.BundleDeleteResponse, error) {
	return p.s.DeleteBundle(ctx, r)
}

func (p tenancyServer) Create(ctx context.Context, r *basev1.TenantCreateRequest) (*basev1.TenantCreateResponse, error) {
	return p.s.CreateTenant(ctx, r)
}

func (p tenancyServer) Delete(ctx context.Context, r *basev1.TenantDeleteRequest) (*basev1.TenantDeleteResponse, error) {
	return p.s.DeleteTenant(ctx, r)
}

func (p tenancyServer) List(ctx context.Context, r *basev1.TenantListRequest) (*basev1.TenantListResponse, error) {
	return p.s.ListTenants(ctx, r)
}

func (w watchServer) Watch(r *basev1.WatchRequest, stream grpc.ServerStreamingServer[basev1.WatchResponse]) error {
	return w.s.Watch(stream.Context(), r, stream.Send)
}
