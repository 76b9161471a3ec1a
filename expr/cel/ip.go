package cel

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

var ipType = cel.ObjectType("IPAddress")

// ip is a CEL value of type ipaddress: an IPv4 or IPv6 address.
type ip struct{ addr netip.Addr }

// parseIP reads an address. An IPv4 address that is mapped to IPv6
// (::ffff:10.1.2.3) becomes the IPv4 address. Otherwise it would not match the
// IPv4 ranges that contain it.
func parseIP(s string) (ip, error) {
	addr, err := netip.ParseAddr(s)
	return ip{addr.Unmap()}, err
}

func (a ip) ConvertToNative(t reflect.Type) (any, error) {
	if t == reflect.TypeFor[netip.Addr]() {
		return a.addr, nil
	}
	return nil, fmt.Errorf("cannot convert an ipaddress to %v", t)
}

func (a ip) ConvertToType(t ref.Type) ref.Val {
	switch t.TypeName() {
	case types.StringType.TypeName():
		return types.String(a.addr.String())
	case ipType.TypeName():
		return a
	case types.TypeType.TypeName(): // the function type
		return ipType
	}
	return types.NewErr("cannot convert an ipaddress to %s", t.TypeName())
}

func (a ip) Equal(other ref.Val) ref.Val {
	o, ok := other.(ip)
	return types.Bool(ok && o.addr == a.addr)
}

func (a ip) Type() ref.Type { return ipType }
func (a ip) Value() any     { return a.addr }

// inCIDR declares the method ipaddress.in_cidr(string) and the conversion
// ipaddress(string).
func inCIDR() cel.EnvOption {
	return cel.Lib(ipLibrary{})
}

// inCIDROverload is the name of the one form of in_cidr.
const inCIDROverload = "ipaddress_in_cidr"

type ipLibrary struct{}

func (ipLibrary) CompileOptions() []cel.EnvOption {
	return []cel.EnvOption{
		cel.Function("in_cidr", cel.MemberOverload(inCIDROverload,
			[]*cel.Type{ipType, cel.StringType}, cel.BoolType, cel.BinaryBinding(contains))),
		cel.Function("ipaddress", cel.Overload("string_to_ipaddress",
			[]*cel.Type{cel.StringType}, ipType, cel.UnaryBinding(func(v ref.Val) ref.Val {
				s, ok := v.(types.String)
				if !ok {
					return types.MaybeNoSuchOverloadErr(v)
				}
				a, err := parseIP(string(s))
				if err != nil {
					return types.WrapErr(err)
				}
				return a
			}))),
	}
}

func (ipLibrary) ProgramOptions() []cel.ProgramOption { return nil }

// contains implements in_cidr: it reports whether the range r contains the
// address l.
func contains(l, r ref.Val) ref.Val {
	a, ok := l.(ip)
	if !ok {
		return types.MaybeNoSuchOverloadErr(l)
	}
	s, ok := r.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(r)
	}
	prefix, err := parseRange(string(s))
	if err != nil {
		return types.WrapErr(errors.Join(errors.New("not a CIDR range, for example 10.0.0.0/8"), err))
	}
	return types.Bool(prefix.Contains(a.addr))
}

// mappedBits is the length of the prefix ::ffff:0:0/96, which all IPv4 addresses have that
// are mapped to IPv6.
const mappedBits = 96

// parseRange reads a range of addresses. A range of mapped IPv4 addresses
// (::ffff:10.0.0.0/104) becomes the IPv4 range (10.0.0.0/8), as addresses do in [parseIP].
// A larger range of IPv6, such as ::/0, contains no IPv4 address, as in OpenFGA.
func parseRange(s string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(s)
	if err == nil && prefix.Addr().Is4In6() && prefix.Bits() >= mappedBits {
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mappedBits)
	}
	return prefix, err
}
