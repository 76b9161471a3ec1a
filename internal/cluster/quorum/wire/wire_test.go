package wire

import "testing"

// TestWire: programs from before the service had a .proto file speak with this one.
func TestWire(t *testing.T) {
	t.Parallel()
	service := File_ostiary_join_v1_join_proto.Services().Get(0)
	m := service.Methods().Get(0)
	if Join_Join_FullMethodName != "/ostiary.join.v1.Join/Join" || service.Methods().Len() != 1 || m.IsStreamingClient() || m.IsStreamingServer() ||
		m.Input().FullName() != "google.protobuf.BytesValue" || m.Output().FullName() != "google.protobuf.BytesValue" {
		t.Errorf("the service is %v", service)
	}
}
