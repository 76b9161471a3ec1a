package permify

import (
	"context"

	"google.golang.org/grpc"

	"github.com/ostiary/ostiary/internal/permifypb"
)

// The types below implement the generated gRPC servers. They only forward to
// service, which implements all calls. Each is a type of its own, because
// several services have a method with the same name.
type (
	permissionServer struct {
		permifypb.UnimplementedPermissionServer
		s *service
	}
	schemaServer struct {
		permifypb.UnimplementedSchemaServer
		s *service
	}
	dataServer struct {
		permifypb.UnimplementedDataServer
		s *service
	}
	bundleServer struct {
		permifypb.UnimplementedBundleServer
		s *service
	}
	tenancyServer struct {
		permifypb.UnimplementedTenancyServer
		s *service
	}
	watchServer struct {
		permifypb.UnimplementedWatchServer
		s *service
	}
)

func (p permissionServer) Check(ctx context.Context, r *permifypb.PermissionCheckRequest) (*permifypb.PermissionCheckResponse, error) {
	return p.s.Check(ctx, r)
}

func (p permissionServer) BulkCheck(ctx context.Context, r *permifypb.PermissionBulkCheckRequest) (*permifypb.PermissionBulkCheckResponse, error) {
	return p.s.BulkCheck(ctx, r)
}

func (p permissionServer) Expand(ctx context.Context, r *permifypb.PermissionExpandRequest) (*permifypb.PermissionExpandResponse, error) {
	return p.s.Expand(ctx, r)
}

func (p permissionServer) LookupEntity(ctx context.Context, r *permifypb.PermissionLookupEntityRequest) (*permifypb.PermissionLookupEntityResponse, error) {
	return p.s.LookupEntity(ctx, r)
}

func (p permissionServer) LookupEntityStream(r *permifypb.PermissionLookupEntityRequest, stream grpc.ServerStreamingServer[permifypb.PermissionLookupEntityStreamResponse]) error {
	return p.s.LookupEntityStream(stream.Context(), r, stream.Send)
}

func (p permissionServer) LookupSubject(ctx context.Context, r *permifypb.PermissionLookupSubjectRequest) (*permifypb.PermissionLookupSubjectResponse, error) {
	return p.s.LookupSubject(ctx, r)
}

func (p permissionServer) SubjectPermission(ctx context.Context, r *permifypb.PermissionSubjectPermissionRequest) (*permifypb.PermissionSubjectPermissionResponse, error) {
	return p.s.SubjectPermission(ctx, r)
}

func (p schemaServer) Write(ctx context.Context, r *permifypb.SchemaWriteRequest) (*permifypb.SchemaWriteResponse, error) {
	return p.s.WriteSchema(ctx, r)
}

func (p schemaServer) PartialWrite(ctx context.Context, r *permifypb.SchemaPartialWriteRequest) (*permifypb.SchemaPartialWriteResponse, error) {
	return p.s.PartialWrite(ctx, r)
}

func (p schemaServer) Read(ctx context.Context, r *permifypb.SchemaReadRequest) (*permifypb.SchemaReadResponse, error) {
	return p.s.ReadSchema(ctx, r)
}

func (p schemaServer) List(ctx context.Context, r *permifypb.SchemaListRequest) (*permifypb.SchemaListResponse, error) {
	return p.s.ListSchemas(ctx, r)
}

func (p dataServer) Write(ctx context.Context, r *permifypb.DataWriteRequest) (*permifypb.DataWriteResponse, error) {
	return p.s.Write(ctx, r)
}

func (p dataServer) WriteRelationships(ctx context.Context, r *permifypb.RelationshipWriteRequest) (*permifypb.RelationshipWriteResponse, error) {
	return p.s.WriteRelationships(ctx, r)
}

func (p dataServer) ReadRelationships(ctx context.Context, r *permifypb.RelationshipReadRequest) (*permifypb.RelationshipReadResponse, error) {
	return p.s.ReadRelationships(ctx, r)
}

func (p dataServer) ReadAttributes(ctx context.Context, r *permifypb.AttributeReadRequest) (*permifypb.AttributeReadResponse, error) {
	return p.s.ReadAttributes(ctx, r)
}

func (p dataServer) Delete(ctx context.Context, r *permifypb.DataDeleteRequest) (*permifypb.DataDeleteResponse, error) {
	return p.s.Delete(ctx, r)
}

func (p dataServer) DeleteRelationships(ctx context.Context, r *permifypb.RelationshipDeleteRequest) (*permifypb.RelationshipDeleteResponse, error) {
	return p.s.DeleteRelationships(ctx, r)
}

func (p dataServer) RunBundle(ctx context.Context, r *permifypb.BundleRunRequest) (*permifypb.BundleRunResponse, error) {
	return p.s.RunBundle(ctx, r)
}

func (p bundleServer) Write(ctx context.Context, r *permifypb.BundleWriteRequest) (*permifypb.BundleWriteResponse, error) {
	return p.s.WriteBundle(ctx, r)
}

func (p bundleServer) Read(ctx context.Context, r *permifypb.BundleReadRequest) (*permifypb.BundleReadResponse, error) {
	return p.s.ReadBundle(ctx, r)
}

func (p bundleServer) Delete(ctx context.Context, r *permifypb.BundleDeleteRequest) (*permifypb.BundleDeleteResponse, error) {
	return p.s.DeleteBundle(ctx, r)
}

func (p tenancyServer) Create(ctx context.Context, r *permifypb.TenantCreateRequest) (*permifypb.TenantCreateResponse, error) {
	return p.s.CreateTenant(ctx, r)
}

func (p tenancyServer) Delete(ctx context.Context, r *permifypb.TenantDeleteRequest) (*permifypb.TenantDeleteResponse, error) {
	return p.s.DeleteTenant(ctx, r)
}

func (p tenancyServer) List(ctx context.Context, r *permifypb.TenantListRequest) (*permifypb.TenantListResponse, error) {
	return p.s.ListTenants(ctx, r)
}

func (w watchServer) Watch(r *permifypb.WatchRequest, stream grpc.ServerStreamingServer[permifypb.WatchResponse]) error {
	return w.s.Watch(stream.Context(), r, stream.Send)
}
