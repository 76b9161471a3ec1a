package differential

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	openfgav1 "github.com/openfga/api/proto/openfga/v1"
	"google.golang.org/protobuf/types/known/structpb"
)

// addresses and ranges are the forms of the same few networks.
var (
	addresses = []string{"192.168.1.77", "::ffff:192.168.1.77", "::ffff:c0a8:14d", "192.168.2.1", "0.0.0.0", "255.255.255.255", "::", "::1", "::192.168.1.77",
		"2001:db8::1", "::ffff:0:0", "fe80::1", "fe80::1%eth0", "::ffff:192.168.1.77%eth0", "::fffe:192.168.1.77", "64:ff9b::192.168.1.77", "x"}
	ranges = []string{"192.168.1.0/24", "::ffff:192.168.1.0/120", "::ffff:c0a8:100/120", "::ffff:192.168.1.77/120", "192.168.1.77/24", "::ffff:192.168.1.77/128", "192.168.1.77/32",
		"0.0.0.0/0", "::/0", "::/96", "::ffff:0:0/96", "::ffff:1.2.3.4/96", "::ffff:0:0/95", "::ffff:0:0/80", "::ffff:192.168.0.0/112", "::192.168.1.0/120", "2001:db8::/32",
		"fe80::/10", "fe80::%eth0/10", "::ffff:192.168.1.0/129", "::ffff:192.168.1.0/24", "192.168.1.0/33", "192.168.1.0", "192.168.1/24", "192.168.1.0/024", "10.0.0.0/8 ", ""}
)

// drawRange draws an address and a range near it, in one of the forms of IPv4 and IPv6.
func drawRange(r *rand.Rand) (address, network string) {
	four := [4]byte{10, byte(r.IntN(2)), byte(r.IntN(4)), byte(r.IntN(256))}
	a := netip.AddrFrom4(four)
	if r.IntN(2) == 0 {
		a = netip.AddrFrom16(a.As16())
	}
	four[1+r.IntN(3)] ^= 1 << r.IntN(8)
	n := netip.AddrFrom4(four)
	bits := r.IntN(33)
	if r.IntN(2) == 0 {
		n = netip.AddrFrom16(n.As16())
		bits = 80 + r.IntN(49)
	}
	return a.String(), netip.PrefixFrom(n, bits).String()
}

// TestRanges asks whether ranges contain addresses, and whether addresses are equal, in all
// forms of IPv4 addresses in IPv6.
func TestRanges(t *testing.T) {
	ours, err := Ours(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := Theirs()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	answers := map[string]int{}
	for _, source := range []string{"v.in_cidr(n)", "!v.in_cidr(n)", "[n, '10.0.0.0/31'].exists(x, v.in_cidr(x))", "v == ipaddress(n)", "string(v) == n"} {
		w := conditionWorld(parameter{&openfgav1.ConditionParamTypeRef{TypeName: openfgav1.ConditionParamTypeRef_TYPE_NAME_IPADDRESS}, source})
		w.Model.Conditions["cond"].Parameters["n"] = &openfgav1.ConditionParamTypeRef{TypeName: openfgav1.ConditionParamTypeRef_TYPE_NAME_STRING}
		at, err := theirs.Load(t.Context(), w)
		of, err2 := ours.Load(t.Context(), w)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("%s: theirs: %v, ours: %v", source, err, err2)
		}
		if err != nil {
			continue // neither has this function
		}
		ask := func(address, network string) {
			asked := *w
			asked.Context = &structpb.Struct{Fields: map[string]*structpb.Value{"v": structpb.NewStringValue(address), "n": structpb.NewStringValue(network)}}
			q := Question{Kind: Check, Object: "doc:plain", Relation: "viewer", User: "user:1"}
			a, b := theirs.Ask(t.Context(), at, &asked, q), ours.Ask(t.Context(), of, &asked, q)
			answers[fmt.Sprint(uint32(a.Code), a.Allowed)]++
			if !a.Equal(b) {
				t.Errorf("%s with %s and %s: theirs %v, ours %v", source, address, network, a, b)
			}
		}
		for _, address := range addresses {
			for _, network := range ranges {
				ask(address, network)
			}
			for _, other := range addresses {
				ask(address, other)
			}
		}
		r := rand.New(rand.NewPCG(1, 2))
		for range 2000 {
			ask(drawRange(r))
		}
	}
	t.Logf("answers: %v", answers)
}
